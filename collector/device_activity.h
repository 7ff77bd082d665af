// Busy, idle and gaps of each device, and the cause of every idle nanosecond.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "collector/catalog.h"
#include "collector/launch_index.h"
#include "collector/partition.h"
#include "collector/timeline.h"

namespace profiler {

struct CauseTotals {
  std::uint64_t total_ns = 0;
  std::uint64_t gap_count = 0;   // gaps of which it has at least 1 ns
  std::uint64_t longest_ns = 0;  // its largest share of one gap
};

struct DeviceActivity {
  DeviceIndex device = kNone;
  std::uint64_t operations = 0;
  std::uint64_t first_start = 0;  // ns, as in the records
  std::uint64_t last_end = 0;
  std::uint64_t busy_ns = 0;
  std::uint64_t idle_ns = 0;
  std::uint64_t gap_count = 0;
  std::uint64_t longest_gap_ns = 0;
  std::uint64_t clock_faults = 0;
  std::array<CauseTotals, kCauseCount> causes;
};

// Called for every gap of a device in order of time; the pieces tile the gap.
using GapVisitor = std::function<void(DeviceIndex, Gap, std::span<const GapPiece>)>;

// One entry for each device with operations, in the catalog's order. `matches` belongs to
// `timeline`'s calls and operations. `visitor` may be empty.
std::vector<DeviceActivity> analyse_devices(const Timeline& timeline, const Catalog& catalog,
                                            const LaunchMatches& matches,
                                            std::uint64_t launch_window_ns,
                                            const GapVisitor& visitor);

}  // namespace profiler
