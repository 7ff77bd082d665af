#include "collector/device_activity.h"

#include <algorithm>
#include <tuple>

#include "collector/interval_set.h"

namespace profiler {
namespace {

class DeviceSweep {
 public:
  DeviceSweep(const Timeline& timeline, const Catalog& catalog, const LaunchMatches& matches,
              std::uint64_t launch_window_ns, const GapVisitor& visitor)
      : timeline_(timeline),
        catalog_(catalog),
        matches_(matches),
        launch_window_ns_(launch_window_ns),
        visitor_(visitor) {}

  // `order`: the device's operations, sorted by start.
  DeviceActivity run(DeviceIndex device, std::span<const std::uint32_t> order) {
    DeviceActivity activity;
    activity.device = device;
    activity.operations = order.size();
    activity.first_start = operation(order.front()).start;
    IntervalSet busy;
    for (const std::uint32_t index : order) {
      busy.append({operation(index).start, operation(index).end});
      activity.last_end = std::max(activity.last_end, operation(index).end);
    }
    activity.busy_ns = busy.length();
    activity.idle_ns = activity.last_end - activity.first_start - activity.busy_ns;

    const IntervalSet idle = busy.complement(activity.first_start, activity.last_end);
    std::size_t next = 0;
    for (const Interval& gap : idle.intervals()) {
      while (operation(order[next]).start < gap.end) ++next;
      account({gap.start, gap.end}, ending_launch(order.subspan(next)), activity);
    }
    return activity;
  }

 private:
  const LaneOperation& operation(std::uint32_t index) const {
    return timeline_.operations()[index];
  }

  // The launch of the operation that ended the gap: `starting` begins with those that start there.
  const Launch* ending_launch(std::span<const std::uint32_t> starting) {
    const std::uint64_t at = operation(starting.front()).start;
    bool found = false;
    bool found_empty = true;
    const auto rank = [this](const Launch& launch) {
      const Thread& thread = catalog_.threads[launch.thread];
      return std::tuple{launch.start, launch.end, catalog_.processes[thread.process].pid,
                        thread.tid};
    };
    for (const std::uint32_t index : starting) {
      const LaneOperation& candidate = operation(index);
      if (candidate.start != at) break;
      const bool empty = candidate.end == candidate.start;
      const std::uint32_t call = matches_.call_of_operation[index];
      if (empty && !found_empty) continue;
      if (!empty && found_empty) {
        // The first one that is not empty: whatever empty ones said does not count.
        found_empty = false;
        found = false;
      }
      if (call == kNone) continue;
      const ApiCall& api = timeline_.calls()[call];
      const Launch launch{api.start, api.end, api.thread};
      if (!found || rank(launch) < rank(launch_)) {
        launch_ = launch;
        found = true;
      }
    }
    return found ? &launch_ : nullptr;
  }

  void account(Gap gap, const Launch* launch, DeviceActivity& activity) {
    pieces_.clear();
    if (partition_gap(gap, launch, launch_window_ns_, pieces_)) ++activity.clock_faults;
    ++activity.gap_count;
    activity.longest_gap_ns = std::max(activity.longest_gap_ns, gap.end - gap.start);
    std::array<std::uint64_t, kCauseCount> share{};
    for (const GapPiece& piece : pieces_)
      share[static_cast<std::size_t>(piece.cause)] += piece.end - piece.start;
    for (std::size_t cause = 0; cause < kCauseCount; ++cause) {
      if (share[cause] == 0) continue;
      CauseTotals& totals = activity.causes[cause];
      totals.total_ns += share[cause];
      ++totals.gap_count;
      totals.longest_ns = std::max(totals.longest_ns, share[cause]);
    }
    if (visitor_) visitor_(activity.device, gap, pieces_);
  }

  const Timeline& timeline_;
  const Catalog& catalog_;
  const LaunchMatches& matches_;
  std::uint64_t launch_window_ns_;
  const GapVisitor& visitor_;
  std::vector<GapPiece> pieces_;
  Launch launch_;
};

}  // namespace

std::vector<DeviceActivity> analyse_devices(const Timeline& timeline, const Catalog& catalog,
                                            const LaunchMatches& matches,
                                            std::uint64_t launch_window_ns,
                                            const GapVisitor& visitor) {
  std::vector<std::vector<std::uint32_t>> by_device(catalog.devices.size());
  const std::vector<LaneOperation>& operations = timeline.operations();
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    if (operations[i].queue == kNone) continue;
    const DeviceIndex device = catalog.queues[operations[i].queue].device;
    if (device != kNone) by_device[device].push_back(i);
  }
  DeviceSweep sweep(timeline, catalog, matches, launch_window_ns, visitor);
  std::vector<DeviceActivity> result;
  for (DeviceIndex device = 0; device < by_device.size(); ++device) {
    std::vector<std::uint32_t>& order = by_device[device];
    if (order.empty()) continue;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return operations[a].start < operations[b].start;
    });
    result.push_back(sweep.run(device, order));
  }
  return result;
}

}  // namespace profiler
