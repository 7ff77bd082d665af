// Advice: what the numbers of a summary say could be done, by one function per rule.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/summary.h"

namespace profiler {

inline constexpr std::size_t kMostFindings = 5;

// Less than this share of the recorded time, and nobody would notice the win.
inline constexpr std::uint64_t kWorthwhilePercent = 5;
// Fewer gaps than this are setting up, not a loop.
inline constexpr std::uint64_t kLoopGaps = 3;
// The queue is full because the GPU has enough to do; said from one percent on, as a fact.
inline constexpr std::uint64_t kQueueFullPercent = 1;

// Most at stake first, at most kMostFindings; of equals in the order of the rules. Text is UTF-8,
// whole sentences, names shortened. Reads the numbers of `summary`, not its verdict or findings.
std::vector<FindingSummary> find(const Summary& summary);

// The rules' names, in their order.
std::vector<std::string_view> finding_rules();

}  // namespace profiler
