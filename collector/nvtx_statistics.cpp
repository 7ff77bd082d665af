#include "collector/nvtx_statistics.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "collector/interval_set.h"

namespace profiler {
namespace {

// Ranges of one lane (a thread's pushes, a process's starts), sorted by start, with the latest end
// so far to stop a search backwards.
struct Lane {
  std::vector<std::uint32_t> ranges;
  std::vector<std::uint64_t> latest_end;

  void seal(std::span<const NvtxRange> all) {
    std::sort(ranges.begin(), ranges.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::tie(all[a].start, all[b].end, a) < std::tie(all[b].start, all[a].end, b);
    });
    std::uint64_t latest = 0;
    for (const std::uint32_t range : ranges) {
      latest = std::max(latest, all[range].end);
      latest_end.push_back(latest);
    }
  }

  template <typename Take>
  void open_at(std::span<const NvtxRange> all, std::uint64_t at, Take take) const {
    const auto after = std::upper_bound(
        ranges.begin(), ranges.end(), at,
        [&](std::uint64_t time, std::uint32_t range) { return time < all[range].start; });
    for (auto i = after - ranges.begin();
         i-- > 0 && latest_end[static_cast<std::size_t>(i)] > at;) {
      const std::uint32_t range = ranges[static_cast<std::size_t>(i)];
      if (all[range].end > at) take(range);
    }
  }
};

using Key = std::tuple<DomainId, TextId, bool>;

Key key_of(const NvtxRange& range) {
  return {range.domain, range.text, range.is_nested};
}

}  // namespace

std::vector<NvtxTotals> add_up_nvtx(std::span<const NvtxRange> ranges, const Timeline& timeline,
                                    const Catalog& catalog, const LaunchMatches& matches) {
  std::vector<NvtxTotals> totals;
  if (ranges.empty()) return totals;
  std::map<Key, std::uint32_t> slot;
  std::vector<std::uint32_t> slot_of(ranges.size());
  // Pushes and pops nest within their domain only.
  std::map<std::pair<ThreadIndex, DomainId>, Lane> pushed;
  std::map<ProcessIndex, Lane> started;
  for (std::uint32_t i = 0; i < ranges.size(); ++i) {
    const NvtxRange& range = ranges[i];
    const auto [entry, is_new] =
        slot.emplace(key_of(range), static_cast<std::uint32_t>(totals.size()));
    if (is_new) {
      totals.emplace_back();
      std::tie(totals.back().domain, totals.back().text, totals.back().is_nested) = key_of(range);
    }
    slot_of[i] = entry->second;
    NvtxTotals& sum = totals[slot_of[i]];
    const std::uint64_t duration = range.end - range.start;
    sum.min_ns = sum.count == 0 ? duration : std::min(sum.min_ns, duration);
    sum.max_ns = std::max(sum.max_ns, duration);
    ++sum.count;
    sum.total_ns += duration;
    sum.self_ns += duration;
    if (range.is_nested) {
      pushed[{range.thread, range.domain}].ranges.push_back(i);
    } else {
      started[catalog.threads[range.thread].process].ranges.push_back(i);
    }
  }
  for (auto& [key, lane] : pushed) {
    lane.seal(ranges);
    std::vector<std::uint32_t> open;
    for (const std::uint32_t i : lane.ranges) {
      while (!open.empty() && ranges[open.back()].end < ranges[i].end) open.pop_back();
      if (!open.empty() && ranges[open.back()].end > ranges[i].start)
        totals[slot_of[open.back()]].self_ns -= ranges[i].end - ranges[i].start;
      open.push_back(i);
    }
  }
  for (auto& [process, lane] : started) lane.seal(ranges);

  // A settled timeline has its operations in order of their start, so the unions grow at their end.
  std::vector<IntervalSet> unions(totals.size());
  std::vector<std::uint32_t> counted;
  for (std::size_t i = 0; i < timeline.operations().size(); ++i) {
    const std::uint32_t index = matches.call_of_operation[i];
    if (index == kNone) continue;
    const ApiCall& call = timeline.calls()[index];
    const LaneOperation& operation = timeline.operations()[i];
    counted.clear();
    const auto take = [&](std::uint32_t range) {
      // Once, however often a range lies within one of the same name.
      if (std::find(counted.begin(), counted.end(), slot_of[range]) == counted.end())
        counted.push_back(slot_of[range]);
    };
    for (auto lane = pushed.lower_bound({call.thread, 0});
         lane != pushed.end() && lane->first.first == call.thread; ++lane)
      lane->second.open_at(ranges, call.start, take);
    if (const auto lane = started.find(catalog.threads[call.thread].process); lane != started.end())
      lane->second.open_at(ranges, call.start, take);
    for (const std::uint32_t entry : counted) {
      ++totals[entry].operations;
      totals[entry].gpu_sum_ns += operation.end - operation.start;
      unions[entry].append({operation.start, operation.end});
    }
  }
  for (std::size_t i = 0; i < totals.size(); ++i) totals[i].gpu_union_ns = unions[i].length();
  return totals;
}

}  // namespace profiler
