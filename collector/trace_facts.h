// The facts about a run that its events do not tell, as JSON for the trace: written when they are
// known, so that a trace which ends early has the first part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collector/recording.h"
#include "collector/summary.h"

namespace profiler {

// Records of which the trace holds nothing but their number.
struct UntracedCounts {
  std::uint64_t untimed = 0;
  std::uint64_t unfinished = 0;
  std::uint64_t malformed = 0;        // frames
  std::uint64_t dropped = 0;          // those of the holes included
  std::uint64_t nvtx_unbalanced = 0;  // pops without a push, ends without a start
};

struct TraceFacts {
  RunFacts run;
  std::vector<ProcessState> processes;  // `process` counts as the writer's catalog did
  std::vector<CuptiFailureSummary> cupti_failures;
  UntracedCounts untraced;
  std::uint64_t layout_version = 0;  // 0 = no facts were found
  bool is_complete = false;          // those of the end were found
};

// What is known before the program starts: command, times, settings. For TraceWriter::facts, right
// after its preamble.
std::string facts_at_start(const RunFacts& facts);
// What is known when collection has ended.
std::string facts_at_end(const RunFacts& facts, std::span<const ProcessState> processes,
                         std::span<const CuptiFailureSummary> cupti_failures,
                         const UntracedCounts& untraced);

// Takes one of the two; what it does not say stays as it is. Returns false when it is neither.
bool read_facts(std::string_view json, TraceFacts& facts);

}  // namespace profiler
