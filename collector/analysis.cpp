#include "collector/analysis.h"

#include <utility>

namespace profiler {
namespace {

NvtxPairs all_ranges(const Catalog& catalog, Timeline& timeline, std::uint64_t end_ns) {
  timeline.settle();
  NvtxPairs pairs = pair_nvtx_events(timeline.nvtx_events(), catalog, end_ns);
  pairs.unbalanced += timeline.unbalanced();
  for (const NvtxRange& range : timeline.nvtx_ranges())
    pairs.unclosed += range.end_thread == kNone ? 1 : 0;
  pairs.ranges.insert(pairs.ranges.end(), timeline.nvtx_ranges().begin(),
                      timeline.nvtx_ranges().end());
  return pairs;
}

}  // namespace

Analysis::Analysis(const Catalog& catalog, Timeline& timeline, std::uint64_t launch_window_ns,
                   std::uint64_t end_ns, const GapVisitor& visitor)
    : pairs_(all_ranges(catalog, timeline, end_ns)),
      lanes_(timeline.calls(), timeline.overheads(), pairs_.ranges, catalog),
      matches_(match_launches(timeline, catalog, lanes_)),
      devices_(analyse_devices(timeline, catalog, matches_, lanes_, pairs_.ranges, launch_window_ns,
                               visitor)),
      operations_(add_up_operations(timeline, catalog, matches_)),
      nvtx_(add_up_nvtx(pairs_.ranges, timeline, catalog, matches_)),
      api_(total_api_calls(lanes_, catalog)) {}

}  // namespace profiler
