// The causes of idle time; docs/idle-time.md defines them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace profiler {

enum class Cause : std::uint8_t {
  kUnknownLaunch,
  kSynchronizing,
  kAllocating,
  kCopying,
  kLoading,
  kLaunching,
  kOtherCall,
  kProfilerOverhead,
  kQueueFull,
  kCpuCode,
  kProcessStarting,
  kStaging,
  kLaunchLatency,
  kScheduling,
};
inline constexpr std::size_t kCauseCount = 14;

// The name that people and `profiler explain` use.
std::string_view cause_name(Cause cause);

}  // namespace profiler
