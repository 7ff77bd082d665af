// The clock of the virtual GPU: device time is CLOCK_MONOTONIC, in nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace virtual_gpu {

inline std::uint64_t read_clock(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
         static_cast<std::uint64_t>(time.tv_nsec);
}

inline std::uint64_t now_ns() {
  return read_clock(CLOCK_MONOTONIC);
}

// Timers fire late by up to this much (timer slack and wake-up), so the end of a wait is spun, as
// the CUDA runtime does by default.
inline constexpr std::uint64_t kSpinNs = 90'000;

inline void sleep_until(std::uint64_t target_ns) {
  if (target_ns > now_ns() + kSpinNs) {
    const std::uint64_t wake = target_ns - kSpinNs;
    timespec time{};
    time.tv_sec = static_cast<time_t>(wake / 1'000'000'000U);
    time.tv_nsec = static_cast<long>(wake % 1'000'000'000U);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
  }
  while (now_ns() < target_ns) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

}  // namespace virtual_gpu
