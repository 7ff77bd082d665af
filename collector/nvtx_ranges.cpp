#include "collector/nvtx_ranges.h"

#include <algorithm>
#include <map>
#include <utility>

namespace profiler {

NvtxPairs pair_nvtx_events(std::span<const NvtxEvent> events, const Catalog& catalog,
                           std::uint64_t end_of_time) {
  NvtxPairs pairs;
  std::vector<const NvtxEvent*> order;
  order.reserve(events.size());
  for (const NvtxEvent& event : events) {
    if (!is_time(event.time) || event.thread == kNone) {
      ++pairs.untimed;
    } else {
      order.push_back(&event);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const NvtxEvent* a, const NvtxEvent* b) { return a->time < b->time; });

  const auto open_range = [](const NvtxEvent& event, bool nested) {
    NvtxRange range;
    range.start = event.time;
    range.thread = event.thread;
    range.domain = event.domain;
    range.text = event.text;
    range.is_nested = nested;
    return range;
  };
  std::map<std::pair<ThreadIndex, DomainId>, std::vector<NvtxRange>> pushed;
  std::map<std::pair<ProcessIndex, std::uint64_t>, NvtxRange> started;
  const auto close = [&](NvtxRange range, const NvtxEvent& event) {
    range.end = event.time;
    range.end_thread = event.thread;
    pairs.ranges.push_back(range);
  };
  for (const NvtxEvent* event : order) {
    switch (event->kind) {
      case NvtxKind::kPush:
        pushed[{event->thread, event->domain}].push_back(open_range(*event, true));
        break;
      case NvtxKind::kPop: {
        std::vector<NvtxRange>& stack = pushed[{event->thread, event->domain}];
        if (stack.empty()) {
          ++pairs.unbalanced;
          break;
        }
        close(stack.back(), *event);
        stack.pop_back();
        break;
      }
      case NvtxKind::kStart: {
        const std::pair key{catalog.threads[event->thread].process, event->range};
        if (!started.emplace(key, open_range(*event, false)).second) ++pairs.unbalanced;
        break;
      }
      case NvtxKind::kEnd: {
        const auto found = started.find({catalog.threads[event->thread].process, event->range});
        if (found == started.end()) {
          ++pairs.unbalanced;
          break;
        }
        close(found->second, *event);
        started.erase(found);
        break;
      }
      case NvtxKind::kMark:
        ++pairs.marks;
        break;
      case NvtxKind::kUnknown:
        ++pairs.unbalanced;
        break;
    }
  }
  const auto leave_open = [&](NvtxRange range) {
    ++pairs.unclosed;
    range.end = std::max(range.start, end_of_time);
    pairs.ranges.push_back(range);
  };
  for (const auto& [key, stack] : pushed) {
    for (const NvtxRange& range : stack) leave_open(range);
  }
  for (const auto& [key, range] : started) leave_open(range);
  return pairs;
}

}  // namespace profiler
