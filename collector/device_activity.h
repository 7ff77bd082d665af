// Busy, idle and gaps of each device, and the cause of every idle nanosecond.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collector/catalog.h"
#include "collector/launch_index.h"
#include "collector/partition.h"
#include "collector/thread_lanes.h"
#include "collector/timeline.h"

namespace profiler {

struct CauseTotals {
  std::uint64_t total_ns = 0;
  std::uint64_t gap_count = 0;   // gaps of which it has at least 1 ns
  std::uint64_t longest_ns = 0;  // its largest share of one gap
};

// A gap and what is known of it. Indices are those of timeline and lanes; kNone = none.
struct GapFacts {
  Gap gap;
  std::span<const GapPiece> pieces;  // tile the gap, less what was not recorded
  std::uint32_t before = kNone;      // operation that ended when it began
  std::uint32_t after = kNone;       // operation that ended it
  std::uint32_t launch = kNone;      // call that submitted that one
  std::uint32_t opened_by = kNone;   // waiting call that was open when it began
};

// A gap that is kept.
struct KeptGap {
  GapFacts facts;  // `pieces` is empty: they are in the next member
  std::vector<GapPiece> pieces;
};

struct DeviceActivity {
  DeviceIndex device = kNone;
  std::uint64_t operations = 0;
  std::uint64_t first_start = 0;  // ns, as in the records
  std::uint64_t last_end = 0;
  std::uint64_t not_recorded_ns = 0;
  std::uint64_t busy_ns = 0;
  std::uint64_t kernel_busy_ns = 0;
  std::uint64_t copy_busy_ns = 0;
  std::uint64_t idle_ns = 0;
  std::uint64_t gap_count = 0;
  std::uint64_t longest_gap_ns = 0;
  std::uint64_t clock_faults = 0;
  std::array<CauseTotals, kCauseCount> causes;
  std::map<ThreadIndex, CauseTotals> threads;  // time before the call, by the thread to blame
  std::map<std::pair<DomainId, TextId>, CauseTotals> nvtx;         // the same by innermost range
  std::map<std::pair<std::string, Cause>, CauseTotals> opened_by;  // whole gaps by call and class
  std::vector<KeptGap> top_gaps;                                   // longest first, then earliest
};

inline constexpr std::size_t kMostTopGaps = 100;

// Called for every gap of a device in order of time.
using GapVisitor = std::function<void(DeviceIndex, const GapFacts&)>;

// One entry for each device with operations, in the catalog's order. `timeline` is settled;
// `ranges` are those in `lanes`. `visitor` may be empty.
std::vector<DeviceActivity> analyse_devices(const Timeline& timeline, const Catalog& catalog,
                                            const LaunchMatches& matches, ThreadLanes& lanes,
                                            std::span<const NvtxRange> ranges,
                                            std::uint64_t launch_window_ns,
                                            const GapVisitor& visitor);

}  // namespace profiler
