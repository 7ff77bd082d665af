// Where the idle time of a GPU went: one gap, cut into pieces that each have one cause. The pieces
// tile the gap exactly, in integer nanoseconds. docs/idle-time.md has the rules.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/cause.h"
#include "collector/records.h"
#include "collector/thread_lanes.h"

namespace profiler {

// How long an undisturbed launch may take to reach the device before the rest of the wait is
// called scheduling. ns.
inline constexpr std::uint64_t kDefaultLaunchWindowNs = 10'000;

// [start, end): a maximal interval of the active span in which no operation ran.
struct Gap {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

// The API call that submitted the operation which ended a gap.
struct Launch {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  ThreadIndex thread = kNone;
  bool is_staged_copy = false;         // the operation is a copy of pageable memory
  std::uint64_t process_hello_ns = 0;  // 0 = unknown
};

struct GapPiece {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  Cause cause = Cause::kCpuCode;
  // The thread that the GPU waited for; kNone where no thread was to blame (rules 1 and 5).
  ThreadIndex thread = kNone;
  bool handed_over =
      false;  // `thread` is another than the launching one: it waited, then passed on
};

// Appends the pieces of `gap` to `pieces`, in order of time, none empty, neighbours of one cause
// and thread joined. `launch` is null when the operation at the gap's end has no launch record.
// Returns true when the launch's times contradict the operation's (a clock fault) and had to be
// clamped.
bool partition_gap(Gap gap, const Launch* launch, std::uint64_t launch_window_ns,
                   ThreadLanes& lanes, std::vector<GapPiece>& pieces);

}  // namespace profiler
