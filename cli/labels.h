// The words of the summary's screen that need an explanation, in one table: heads of columns, names
// of rows, checks. `profiler explain` knows every one of them.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace profiler {

enum class Label : std::size_t {
  kBusy,
  kIdle,
  kGaps,
  kNotRecorded,
  kNotIdleTime,
  kIdleByCause,
  kIdleByGpu,
  kTime,
  kOfIdle,
  kOfSpan,
  kLongest,
  kGpu,
  kSpan,
  kBefore,
  kAfter,
  kTotal,
  kOfKernelTime,
  kCount,
  kMean,
  kMedian,
  kP99,
  kMin,
  kMax,
  kKernel,
  kLaunchLatency,
  kShorterThanLaunch,
  kCopies,
  kBytes,
  kEach,
  kThroughput,
  kApiCalls,
  kSelf,
  kFailed,
  kCodes,
  kNvtxRanges,
  kGpuTime,
  kGpuSum,
  kGpuWaited,
  kLongestGaps,
  kAt,
  kCause,
  kBetween,
  kThread,
  kProcess,
  kEnded,
  kData,
  kCommand,
  kIncomplete,
  kChecks,
  kLaunches,
  kOperations,
  kNothingLost,
  kUnmatched,
  kDropped,
  kUntimed,
  kUnfinished,
  kLate,
  kClockFaults,
  kMalformed,
  kLaunchesWithoutKernel,
  kNvtxUnbalanced,
  kNvtxUnclosed,
  kDuplicates,
  kInDoubt,
  kProfilerOverhead,
  kSimulated,
  kWithheld,
  kLabels
};

std::string label(Label which);

// What a cause means, in a few words, for the table of causes.
struct CauseText {
  std::string_view cause;
  std::string_view text;
};
const CauseText* find_cause_text(std::string_view cause);

// Every label and every cause.
std::vector<std::string_view> screen_labels();

}  // namespace profiler
