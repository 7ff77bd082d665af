#include "cli/labels.h"

#include <algorithm>

namespace profiler {
namespace {

// In the order of Label.
constexpr auto kTexts = std::to_array<std::string_view>({
    "busy",
    "idle",
    "gaps",
    "not recorded",
    "Not idle time",
    "Idle by cause",
    "Idle by GPU and cause",
    "time",
    "% of idle",
    "% of span",
    "longest",
    "GPU",
    "span",
    "before",
    "after",
    "total",
    "% of kernel time",
    "count",
    "mean",
    "median",
    "p99",
    "min",
    "max",
    "Kernel",
    "Launch latency",
    "shorter than their launch",
    "Copies",
    "bytes",
    "each",
    "throughput",
    "API calls",
    "self",
    "failed",
    "codes",
    "NVTX ranges",
    "GPU time",
    "GPU sum",
    "GPU waited",
    "Longest gaps",
    "at",
    "cause",
    "between",
    "thread",
    "Process",
    "ended",
    "data",
    "command",
    "Incomplete",
    "Checks",
    "launches",
    "operations",
    "nothing lost",
    "unmatched",
    "dropped",
    "untimed",
    "unfinished",
    "late",
    "clock faults",
    "malformed",
    "launches without kernel",
    "NVTX unbalanced",
    "NVTX unclosed",
    "duplicates",
    "in doubt",
    "profiler overhead",
    "SIMULATED",
    "withheld",
});
static_assert(kTexts.size() == static_cast<std::size_t>(Label::kLabels));

constexpr auto kCauseTexts = std::to_array<CauseText>({
    {"CPU code outside CUDA", "the CPU was doing something else"},
    {"synchronizing", "the CPU was still waiting for the GPU"},
    {"copying", "the CPU was in a copy that blocks it"},
    {"allocating/freeing", "the CPU was allocating or freeing memory"},
    {"loading modules/JIT", "code was loaded onto the GPU or compiled"},
    {"launching other work", "the CPU was submitting work elsewhere"},
    {"other CUDA call", "the CPU was in another CUDA call"},
    {"profiler overhead", "the profiler itself kept the CPU"},
    {"launch queue full", "the CPU could not submit more"},
    {"process starting", "the process had not begun yet"},
    {"copying (staging)", "pageable memory went through a buffer"},
    {"launch latency", "the work was on its way to the GPU"},
    {"scheduling", "the work was queued in time, but had not begun"},
    {"inside a graph", "between two nodes of one CUDA graph launch"},
    {"dependency", "the work had to wait for work elsewhere"},
    {"unknown launch", "the call that submitted the work was not recorded"},
});

}  // namespace

std::string label(Label which) {
  return std::string(kTexts.at(static_cast<std::size_t>(which)));
}

const CauseText* find_cause_text(std::string_view cause) {
  const auto* found = std::find_if(kCauseTexts.begin(), kCauseTexts.end(),
                                   [&](const CauseText& text) { return text.cause == cause; });
  return found == kCauseTexts.end() ? nullptr : found;
}

std::vector<std::string_view> screen_labels() {
  std::vector<std::string_view> all(kTexts.begin(), kTexts.end());
  for (const CauseText& text : kCauseTexts) all.push_back(text.cause);
  return all;
}

}  // namespace profiler
