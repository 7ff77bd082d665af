#include "collector/device_activity.h"

#include <algorithm>
#include <tuple>

#include "collector/interval_set.h"

namespace profiler {
namespace {

void count(CauseTotals& totals, std::uint64_t share) {
  totals.total_ns += share;
  ++totals.gap_count;
  totals.longest_ns = std::max(totals.longest_ns, share);
}

// Shares of one gap by some key; few keys a gap, so a list will do.
template <typename Key>
class Shares {
 public:
  void clear() { shares_.clear(); }
  void add(const Key& key, std::uint64_t ns) {
    for (auto& [known, sum] : shares_) {
      if (known == key) {
        sum += ns;
        return;
      }
    }
    shares_.emplace_back(key, ns);
  }
  const std::vector<std::pair<Key, std::uint64_t>>& all() const { return shares_; }

 private:
  std::vector<std::pair<Key, std::uint64_t>> shares_;
};

// The operation that ended last so far, the first of them in the timeline's order.
struct Latest {
  std::uint32_t index = kNone;
  std::uint64_t end = 0;

  void add(std::uint32_t operation, std::uint64_t operation_end) {
    if (index != kNone && operation_end <= end) return;
    index = operation;
    end = operation_end;
  }
};

bool is_longer(const Gap& a, const Gap& b) {
  const std::uint64_t length_a = a.end - a.start;
  const std::uint64_t length_b = b.end - b.start;
  return length_a != length_b ? length_a > length_b : a.start < b.start;
}

class DeviceSweep {
 public:
  DeviceSweep(const Timeline& timeline, const Catalog& catalog, const LaunchMatches& matches,
              ThreadLanes& lanes, std::span<const NvtxRange> ranges, std::uint64_t launch_window_ns,
              const GapVisitor& visitor)
      : timeline_(timeline),
        catalog_(catalog),
        matches_(matches),
        lanes_(lanes),
        ranges_(ranges),
        launch_window_ns_(launch_window_ns),
        visitor_(visitor) {}

  // `order`: the device's operations, sorted by start. `holes`: what was not recorded of it.
  DeviceActivity run(DeviceIndex device, std::span<const std::uint32_t> order,
                     const IntervalSet& holes) {
    activity_ = DeviceActivity{};
    latest_ = Latest{};
    activity_.device = device;
    activity_.operations = order.size();
    activity_.first_start = operation(order.front()).start;
    IntervalSet busy;
    IntervalSet kernels;
    IntervalSet transfers;
    for (const std::uint32_t index : order) {
      const LaneOperation& o = operation(index);
      busy.append({o.start, o.end});
      (o.kind == OperationKind::kKernel ? kernels : transfers).append({o.start, o.end});
      activity_.last_end = std::max(activity_.last_end, o.end);
    }
    const IntervalSet span({{activity_.first_start, activity_.last_end}});
    const IntervalSet lost = holes.intersect(span);
    activity_.not_recorded_ns = lost.length();
    activity_.busy_ns = busy.length() - busy.intersect(lost).length();
    activity_.kernel_busy_ns = kernels.length() - kernels.intersect(lost).length();
    activity_.copy_busy_ns = transfers.length() - transfers.intersect(lost).length();

    const IntervalSet idle = busy.complement(activity_.first_start, activity_.last_end);
    std::size_t next = 0;
    for (const Interval& gap : idle.intervals()) {
      for (; operation(order[next]).start < gap.end; ++next) {
        // An empty one within the gap did not run before it.
        const std::uint64_t end = operation(order[next]).end;
        if (end <= gap.start) latest_.add(order[next], end);
      }
      before_ = latest_.index;
      account({gap.start, gap.end}, order.subspan(next), lost);
    }
    std::sort(
        activity_.top_gaps.begin(), activity_.top_gaps.end(),
        [](const KeptGap& a, const KeptGap& b) { return is_longer(a.facts.gap, b.facts.gap); });
    return std::move(activity_);
  }

 private:
  const LaneOperation& operation(std::uint32_t index) const {
    return timeline_.operations()[index];
  }

  // Which of the operations that start at the gap's end ended it: not empty, then launched first.
  std::uint32_t ending_operation(std::span<const std::uint32_t> starting) const {
    const std::uint64_t at = operation(starting.front()).start;
    const auto rank = [this](std::uint32_t index) {
      const LaneOperation& o = operation(index);
      const std::uint32_t call = matches_.call_of_operation[index];
      const bool empty = o.start == o.end;
      if (call == kNone)
        return std::tuple{empty, true, std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{0}};
      const ApiCall& api = timeline_.calls()[call];
      return std::tuple{empty, false, api.start, api.end, catalog_.threads[api.thread].tid};
    };
    std::uint32_t best = starting.front();
    for (const std::uint32_t index : starting) {
      if (operation(index).start != at) break;
      if (rank(index) < rank(best)) best = index;
    }
    return best;
  }

  void account(Gap gap, std::span<const std::uint32_t> starting, const IntervalSet& lost) {
    GapFacts facts;
    facts.gap = gap;
    facts.before = before_;
    facts.after = ending_operation(starting);
    facts.launch = matches_.call_of_operation[facts.after];
    Launch launch;
    if (facts.launch != kNone) {
      const ApiCall& call = timeline_.calls()[facts.launch];
      launch.start = call.start;
      launch.end = call.end;
      launch.thread = call.thread;
      launch.is_staged_copy = is_pageable_copy(timeline_, operation(facts.after));
      launch.process_hello_ns =
          catalog_.processes[catalog_.threads[call.thread].process].hello_clocks.monotonic_ns;
      facts.opened_by = lanes_.waiting_at(call.thread, gap.start);
    }
    pieces_.clear();
    if (partition_gap(gap, facts.launch == kNone ? nullptr : &launch, launch_window_ns_, lanes_,
                      pieces_))
      ++activity_.clock_faults;

    const IntervalSet parts = lost.complement(gap.start, gap.end);
    if (parts.intervals().size() == 1 && parts.intervals()[0] == Interval{gap.start, gap.end}) {
      account_recorded(facts, pieces_);
      return;
    }
    for (const Interval& part : parts.intervals()) {
      cut_.clear();
      for (GapPiece piece : pieces_) {
        piece.start = std::max(piece.start, part.start);
        piece.end = std::min(piece.end, part.end);
        if (piece.start < piece.end) cut_.push_back(piece);
      }
      facts.gap = {part.start, part.end};
      account_recorded(facts, cut_);
    }
  }

  void account_recorded(GapFacts& facts, std::span<const GapPiece> pieces) {
    facts.pieces = pieces;
    const std::uint64_t length = facts.gap.end - facts.gap.start;
    activity_.idle_ns += length;
    ++activity_.gap_count;
    activity_.longest_gap_ns = std::max(activity_.longest_gap_ns, length);

    causes_.clear();
    threads_.clear();
    nvtx_.clear();
    for (const GapPiece& piece : pieces) {
      causes_.add(piece.cause, piece.end - piece.start);
      if (piece.thread == kNone) continue;
      threads_.add(piece.thread, piece.end - piece.start);
      if (ranges_.empty()) continue;
      sweep_innermost(lanes_.ranges(piece.thread, piece.start, piece.end), piece.start, piece.end,
                      [&](std::uint64_t start, std::uint64_t end, const OpenRecord* range) {
                        if (range == nullptr) return;
                        const NvtxRange& r = ranges_[range->index];
                        nvtx_.add({r.domain, r.text}, end - start);
                      });
    }
    for (const auto& [cause, share] : causes_.all())
      count(activity_.causes[static_cast<std::size_t>(cause)], share);
    for (const auto& [thread, share] : threads_.all()) count(activity_.threads[thread], share);
    for (const auto& [range, share] : nvtx_.all()) count(activity_.nvtx[range], share);
    if (facts.opened_by != kNone) {
      const ApiCall& call = timeline_.calls()[facts.opened_by];
      count(activity_.opened_by[{catalog_.api_functions[call.function].name,
                                 lanes_.class_of(facts.opened_by)}],
            length);
    }
    keep_if_long(facts, pieces);
    if (visitor_) visitor_(activity_.device, facts);
  }

  void keep_if_long(const GapFacts& facts, std::span<const GapPiece> pieces) {
    std::vector<KeptGap>& kept = activity_.top_gaps;
    const auto longer = [](const KeptGap& a, const KeptGap& b) {
      return is_longer(a.facts.gap, b.facts.gap);
    };
    // A heap with the shortest on top.
    if (kept.size() == kMostTopGaps) {
      if (!is_longer(facts.gap, kept.front().facts.gap)) return;
      std::pop_heap(kept.begin(), kept.end(), longer);
      kept.pop_back();
    }
    KeptGap gap{facts, {pieces.begin(), pieces.end()}};
    gap.facts.pieces = {};
    kept.push_back(std::move(gap));
    std::push_heap(kept.begin(), kept.end(), longer);
  }

  const Timeline& timeline_;
  const Catalog& catalog_;
  const LaunchMatches& matches_;
  ThreadLanes& lanes_;
  std::span<const NvtxRange> ranges_;
  std::uint64_t launch_window_ns_;
  const GapVisitor& visitor_;
  DeviceActivity activity_;
  std::uint32_t before_ = kNone;
  Latest latest_;
  std::vector<GapPiece> pieces_;
  std::vector<GapPiece> cut_;
  Shares<Cause> causes_;
  Shares<ThreadIndex> threads_;
  Shares<std::pair<DomainId, TextId>> nvtx_;
};

// What was not recorded of the processes that used a device.
IntervalSet holes_of(const Timeline& timeline, const std::vector<bool>& uses_device) {
  std::vector<Interval> holes;
  for (const Hole& hole : timeline.holes()) {
    if (hole.process < uses_device.size() && uses_device[hole.process]) holes.push_back(hole.time);
  }
  return IntervalSet(std::move(holes));
}

}  // namespace

std::vector<DeviceActivity> analyse_devices(const Timeline& timeline, const Catalog& catalog,
                                            const LaunchMatches& matches, ThreadLanes& lanes,
                                            std::span<const NvtxRange> ranges,
                                            std::uint64_t launch_window_ns,
                                            const GapVisitor& visitor) {
  // A settled timeline has its operations in order of their start.
  std::vector<std::vector<std::uint32_t>> by_device(catalog.devices.size());
  std::vector<std::vector<bool>> used_by(catalog.devices.size());
  const std::vector<LaneOperation>& operations = timeline.operations();
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    if (operations[i].queue == kNone) continue;
    const Queue& queue = catalog.queues[operations[i].queue];
    if (queue.device == kNone) continue;
    by_device[queue.device].push_back(i);
    std::vector<bool>& used = used_by[queue.device];
    used.resize(catalog.processes.size(), false);
    used[queue.process] = true;
  }
  DeviceSweep sweep(timeline, catalog, matches, lanes, ranges, launch_window_ns, visitor);
  std::vector<DeviceActivity> result;
  for (DeviceIndex device = 0; device < by_device.size(); ++device) {
    if (by_device[device].empty()) continue;
    result.push_back(sweep.run(device, by_device[device], holes_of(timeline, used_by[device])));
  }
  return result;
}

}  // namespace profiler
