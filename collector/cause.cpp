#include "collector/cause.h"

namespace profiler {

std::string_view cause_name(Cause cause) {
  switch (cause) {
    case Cause::kUnknownLaunch:
      return "unknown launch";
    case Cause::kSynchronizing:
      return "synchronizing";
    case Cause::kAllocating:
      return "allocating/freeing";
    case Cause::kCopying:
      return "copying";
    case Cause::kLoading:
      return "loading modules/JIT";
    case Cause::kLaunching:
      return "launching other work";
    case Cause::kOtherCall:
      return "other CUDA call";
    case Cause::kProfilerOverhead:
      return "profiler overhead";
    case Cause::kQueueFull:
      return "launch queue full";
    case Cause::kCpuCode:
      return "CPU code outside CUDA";
    case Cause::kProcessStarting:
      return "process starting";
    case Cause::kStaging:
      return "copying (staging)";
    case Cause::kLaunchLatency:
      return "launch latency";
    case Cause::kScheduling:
      return "scheduling";
  }
  return "";
}

}  // namespace profiler
