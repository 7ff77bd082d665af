// Where the idle time of a GPU went: one gap, cut into pieces that each have one cause. The pieces
// tile the gap exactly, in integer nanoseconds.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/records.h"

namespace profiler {

// How long an undisturbed launch may take to reach the device before the rest of the wait is
// called scheduling. ns.
inline constexpr std::uint64_t kDefaultLaunchWindowNs = 10'000;

enum class Cause : std::uint8_t {
  kUnknownLaunch,  // no launch record for the operation that ended the gap
  kHost,           // the call that ended the gap had not been made yet
  kLaunchLatency,  // the call was under way, or its work on the way to the device
  kScheduling,     // submitted long before, and yet the device was idle
};
inline constexpr std::size_t kCauseCount = 4;

std::string_view cause_name(Cause cause);

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
};

struct GapPiece {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  Cause cause = Cause::kHost;
};

// Appends the pieces of `gap` to `pieces`, in order of time, none empty, neighbours of one cause
// joined. `launch` is null when the operation at the gap's end has no launch record. Returns true
// when the launch's times contradict the operation's (a clock fault) and had to be clamped.
bool partition_gap(Gap gap, const Launch* launch, std::uint64_t launch_window_ns,
                   std::vector<GapPiece>& pieces);

}  // namespace profiler
