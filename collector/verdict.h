// The verdict: what kept the GPU from working, in one word and one sentence.
#pragma once

#include "collector/summary.h"

namespace profiler {

inline constexpr char kGpuBound[] = "GPU-bound";
inline constexpr char kLaunchBound[] = "launch-bound";
inline constexpr char kHostBound[] = "host-bound";
inline constexpr char kSynchronizationBound[] = "synchronization-bound";
inline constexpr char kTransferBound[] = "transfer-bound";
inline constexpr char kOutside[] = "idle before and after";
inline constexpr char kNotReliable[] = "not reliable";
inline constexpr char kNoGpuWork[] = "no GPU work";

// More than half of the run outside the span: what happens within it is not where the time is.
inline constexpr std::uint64_t kOutsidePercent = 50;
// Loading the driver and creating a context take up to a second; nobody can change that.
inline constexpr std::uint64_t kOutsideMinimumNs = 1'000'000'000;

// Reads the numbers of `summary`, not its verdict or findings.
VerdictSummary judge(const Summary& summary);

}  // namespace profiler
