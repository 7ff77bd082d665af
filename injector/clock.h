// The one clock of the profiler, CLOCK_MONOTONIC in nanoseconds, and its relation to the others.
#pragma once

#include <cstdint>

namespace profiler::injector {

// CLOCK_MONOTONIC, ns. Cheap (vDSO) and callable from any thread.
std::uint64_t now_ns();

// One moment on three clocks, ns; `monotonic` is the middle of the two readings around the others.
struct ClockReading {
  std::uint64_t monotonic_ns;
  std::uint64_t boottime_ns;
  std::uint64_t realtime_ns;
};
ClockReading read_clocks();

// /proc/<pid>/stat counts a start time in ticks of CLOCK_BOOTTIME; this is the same on
// CLOCK_MONOTONIC, in ns. 0 when that lies before the clock's zero.
std::uint64_t monotonic_of_ticks(std::uint64_t ticks, const ClockReading& now);

}  // namespace profiler::injector
