#include "collector/api_class.h"

#include <array>

namespace profiler {
namespace {

struct Row {
  std::string_view pattern;  // with at most one `*`
  Cause cause;
  bool is_polling = false;
};

// The first row that fits counts.
constexpr std::array kRows = {
    Row{"cudaStreamQuery", Cause::kSynchronizing, true},
    Row{"cudaEventQuery", Cause::kSynchronizing, true},
    Row{"cuStreamQuery", Cause::kSynchronizing, true},
    Row{"cuEventQuery", Cause::kSynchronizing, true},
    Row{"cudaDeviceSynchronize", Cause::kSynchronizing},
    Row{"cudaThreadSynchronize", Cause::kSynchronizing},
    Row{"cudaStreamSynchronize", Cause::kSynchronizing},
    Row{"cudaEventSynchronize", Cause::kSynchronizing},
    Row{"cuCtxSynchronize", Cause::kSynchronizing},
    Row{"cuStreamSynchronize", Cause::kSynchronizing},
    Row{"cuEventSynchronize", Cause::kSynchronizing},
    Row{"cudaLaunch*", Cause::kLaunching},
    Row{"cuLaunch*", Cause::kLaunching},
    Row{"cudaGraphLaunch", Cause::kLaunching},
    Row{"cuGraphLaunch", Cause::kLaunching},
    Row{"cudaMemset*", Cause::kLaunching},
    Row{"cuMemset*", Cause::kLaunching},
    Row{"cudaMemcpy*Async", Cause::kLaunching},
    Row{"cuMemcpy*Async", Cause::kLaunching},
    Row{"cudaMemPrefetch*", Cause::kLaunching},
    Row{"cuMemPrefetch*", Cause::kLaunching},
    Row{"cudaMemcpy*", Cause::kCopying},
    Row{"cuMemcpy*", Cause::kCopying},
    Row{"cudaMalloc*", Cause::kAllocating},
    Row{"cudaFree*", Cause::kAllocating},
    Row{"cudaHostAlloc", Cause::kAllocating},
    Row{"cudaHostRegister", Cause::kAllocating},
    Row{"cudaHostUnregister", Cause::kAllocating},
    Row{"cuMemAlloc*", Cause::kAllocating},
    Row{"cuMemFree*", Cause::kAllocating},
    Row{"cuMemHost*", Cause::kAllocating},
    Row{"cuMemCreate", Cause::kAllocating},
    Row{"cuMemRelease", Cause::kAllocating},
    Row{"cuMemMap*", Cause::kAllocating},
    Row{"cuMemUnmap", Cause::kAllocating},
    Row{"cuMemAddress*", Cause::kAllocating},
    Row{"cuMemSetAccess", Cause::kAllocating},
    Row{"cuModule*", Cause::kLoading},
    Row{"cuLibrary*", Cause::kLoading},
    Row{"cuLink*", Cause::kLoading},
    Row{"cudaLibrary*", Cause::kLoading},
    Row{"cudaInitModule", Cause::kLoading},
    Row{"cudaGetKernel", Cause::kLoading},
};

constexpr std::array<std::string_view, 6> kKernelLaunches = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel",
    "cuLaunchKernel",   "cuLaunchKernelEx",    "cuLaunchCooperativeKernel"};

bool fits(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  const std::string_view head = pattern.substr(0, star);
  const std::string_view tail = pattern.substr(star + 1);
  return name.size() >= head.size() + tail.size() && name.starts_with(head) && name.ends_with(tail);
}

}  // namespace

ApiClass classify_api(std::string_view display_name) {
  ApiClass result;
  for (const Row& row : kRows) {
    if (!fits(row.pattern, display_name)) continue;
    result.cause = row.cause;
    result.is_polling = row.is_polling;
    break;
  }
  result.is_asynchronous = display_name.ends_with("Async");
  for (const std::string_view launch : kKernelLaunches)
    result.is_kernel_launch |= display_name == launch;
  return result;
}

bool is_waiting(Cause cause) {
  return cause == Cause::kSynchronizing || cause == Cause::kCopying ||
         cause == Cause::kAllocating || cause == Cause::kLoading;
}

Cause overhead_cause(OverheadKind kind) {
  switch (kind) {
    case OverheadKind::kDriverCompiler:
    case OverheadKind::kRuntimeTriggeredModuleLoading:
    case OverheadKind::kLazyFunctionLoading:
      return Cause::kLoading;
    case OverheadKind::kCommandBufferFull:
      return Cause::kQueueFull;
    case OverheadKind::kUnknown:
    case OverheadKind::kBufferFlush:
    case OverheadKind::kInstrumentation:
    case OverheadKind::kResource:
    case OverheadKind::kBufferRequest:
    case OverheadKind::kUvmInit:
      break;
  }
  return Cause::kProfilerOverhead;
}

bool is_program_overhead(OverheadKind kind) {
  return overhead_cause(kind) != Cause::kProfilerOverhead;
}

}  // namespace profiler
