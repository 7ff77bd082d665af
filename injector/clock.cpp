#include "injector/clock.h"

#include <unistd.h>
#include <ctime>

namespace profiler::injector {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

std::uint64_t read_ns(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * kSecond +
         static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace

std::uint64_t now_ns() {
  return read_ns(CLOCK_MONOTONIC);
}

ClockReading read_clocks() {
  const std::uint64_t before = read_ns(CLOCK_MONOTONIC);
  ClockReading reading{};
  reading.boottime_ns = read_ns(CLOCK_BOOTTIME);
  reading.realtime_ns = read_ns(CLOCK_REALTIME);
  const std::uint64_t after = read_ns(CLOCK_MONOTONIC);
  reading.monotonic_ns = before + (after - before) / 2;
  return reading;
}

std::uint64_t monotonic_of_ticks(std::uint64_t ticks, const ClockReading& now) {
  const long hertz = sysconf(_SC_CLK_TCK);
  if (hertz <= 0) return 0;
  const std::uint64_t boottime = ticks * (kSecond / static_cast<std::uint64_t>(hertz));
  // What the machine slept; the readings are not quite simultaneous, hence signed.
  const auto suspended = static_cast<std::int64_t>(now.boottime_ns - now.monotonic_ns);
  const auto monotonic = static_cast<std::int64_t>(boottime) - suspended;
  return monotonic > 0 ? static_cast<std::uint64_t>(monotonic) : 0;
}

}  // namespace profiler::injector
