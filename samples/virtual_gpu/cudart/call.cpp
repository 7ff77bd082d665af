#include "samples/virtual_gpu/cudart/call.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace virtual_gpu {
namespace {

thread_local int chosen_device = 0;
thread_local cudaError_t remembered = cudaSuccess;

}  // namespace

VirtualGpu& gpu() {
  static VirtualGpu* const instance = [] {
    VirtualGpu* found = profilerVirtualGpuInterface(kInterfaceVersion);
    if (found == nullptr) {
      std::fprintf(stderr, "virtual GPU: libcudart and libcuda are of different builds\n");
      std::abort();
    }
    return found;
  }();
  return *instance;
}

int thread_device() {
  return chosen_device;
}
void set_thread_device(int device) {
  chosen_device = device;
}

Context* context() {
  Context* current = gpu().current();
  ContextFacts facts;
  if (current != nullptr && gpu().context_facts(current, facts)) return current;
  const auto device = static_cast<std::uint32_t>(chosen_device);
  if (Context* primary = gpu().find_primary(device)) return primary;
  constexpr DriverFunction kRetain = driver_function("cuDevicePrimaryCtxRetain");
  Context* made = nullptr;
  in_driver(kRetain.plain, [&] {
    made = gpu().primary(device);
    return 0;
  });
  return made;
}

void require_module(std::uint32_t context, std::uint32_t module) {
  if (module == 0 || gpu().has_module(context, module)) return;
  constexpr DriverFunction kLoad = driver_function("cuLibraryLoadData");
  in_driver(kLoad.plain, [&] {
    gpu().load_module(context, module);
    return 0;
  });
}

Stream* find_stream(cudaStream_t stream, bool per_thread) {
  return gpu().find_stream(context(), stream, per_thread);
}

cudaError_t last_error() {
  return remembered;
}
void set_last_error(cudaError_t error) {
  remembered = error;
}

Call::Call(std::uint32_t cbid, bool initialise) {
  DriverState state = gpu().state();
  if (state != DriverState::kReady && initialise) {
    // Once per process: a second cuInit is the program's own affair.
    if (state == DriverState::kUnused || state == DriverState::kInitialising) gpu().initialise();
    state = gpu().state();
    if (state != DriverState::kReady && state != DriverState::kInitialising) {
      refused_ = state == DriverState::kForked    ? cudaErrorInitializationError
                 : state == DriverState::kStopped ? cudaErrorCudartUnloading
                                                  : cudaErrorNoDevice;
      remembered = refused_;
      return;
    }
  }
  if (initialise && gpu().in_host_function()) {
    refused_ = remembered = cudaErrorNotPermitted;
    return;
  }
  call_.cbid = cbid;
  gpu().begin(call_);
}

cudaError_t Call::done(int result) {
  if (result != cudaSuccess) remembered = static_cast<cudaError_t>(result);
  return done_quietly(static_cast<cudaError_t>(result));
}

cudaError_t Call::done_quietly(cudaError_t result) {
  gpu().end(call_, result);
  return result;
}

}  // namespace virtual_gpu

// Called by the generated stubs.
extern "C" int virtual_gpu_missing(const char* name, int* logged) {
  if (!__atomic_exchange_n(logged, 1, __ATOMIC_RELAXED)) {
    std::fprintf(stderr, "virtual GPU: %s is not simulated; it returns 801 (not supported)\n",
                 name);
  }
  virtual_gpu::Call call(virtual_gpu::runtime_cbid(name));
  if (call.refused() != cudaSuccess) return call.refused();
  return call.done(cudaErrorNotSupported);
}
