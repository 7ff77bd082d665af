// What every runtime function begins and ends with, and the state of the runtime per thread.
#pragma once

#include <cuda_runtime_api.h>

#include "samples/virtual_gpu/engine/api_names.h"
#include "samples/virtual_gpu/engine/interface.h"

// An exported runtime function.
#define RUNTIME_API extern "C" __attribute__((visibility("default"))) cudaError_t

// Exports `name` and its twin for per-thread default streams (name_ptsz or name_ptds). Both call
// `body`, whose first two arguments are the call's number and whether the twin was called.
#define RUNTIME_TWINS(name, suffix, body, parameters, ...)                      \
  RUNTIME_API name parameters {                                                 \
    constexpr std::uint32_t kCbid = ::virtual_gpu::runtime_cbid(#name);         \
    return body(kCbid, false, __VA_ARGS__);                                     \
  }                                                                             \
  RUNTIME_API name##suffix parameters;                                          \
  RUNTIME_API name##suffix parameters {                                         \
    constexpr std::uint32_t kCbid = ::virtual_gpu::runtime_cbid(#name #suffix); \
    return body(kCbid, true, __VA_ARGS__);                                      \
  }

// Opens a call that needs the device; returns at once when there is none.
#define RUNTIME_CALL_NUMBERED(number) \
  ::virtual_gpu::Call call(number);   \
  if (call.refused() != cudaSuccess) return call.refused()
#define RUNTIME_CALL(name)                                           \
  constexpr std::uint32_t kCbid = ::virtual_gpu::runtime_cbid(name); \
  RUNTIME_CALL_NUMBERED(kCbid)

namespace virtual_gpu {

VirtualGpu& gpu();

// The device that this thread chose, and its context: the driver's current one if there is one,
// else the primary one, which is made at first use.
int thread_device();
void set_thread_device(int device);
Context* context();

// `per_thread` says what a null handle means. Null = no such stream.
Stream* find_stream(cudaStream_t stream, bool per_thread);

// The sticky-until-read error of this thread.
cudaError_t last_error();
void set_last_error(cudaError_t error);

class Call {
 public:
  // Initialises the driver at the process's first call, as the runtime does. `initialise` false:
  // the call works without a device, and is recorded only if there is one already.
  explicit Call(std::uint32_t cbid, bool initialise = true);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;

  cudaError_t refused() const { return refused_; }
  void set_symbol(const char* mangled) { call_.symbol = mangled; }

  // Closes the call, and remembers an error.
  cudaError_t done(int result);
  cudaError_t done_quietly(cudaError_t result);  // the same without remembering

 private:
  ApiCall call_;
  cudaError_t refused_ = cudaSuccess;
};

// The numbers of a driver function and its twin for per-thread default streams.
struct DriverFunction {
  std::uint32_t plain;
  std::uint32_t per_thread;
  std::uint32_t number(bool twin) const { return twin ? per_thread : plain; }
};
consteval DriverFunction driver_function(std::string_view name, std::string_view twin = {}) {
  const std::uint32_t plain = driver_cbid(name);
  const std::uint32_t per_thread = driver_cbid(twin);
  return {plain, per_thread != 0 ? per_thread : plain};
}

// Does `work`, which returns a result, as the driver function of that number: what a runtime call
// does in the driver, and almost all that takes time. A toolkit without the function has 0 for it.
template <typename Function>
int in_driver(std::uint32_t number, const Function& work) {
  ApiCall call;
  call.domain = ApiDomain::kDriver;
  call.cbid = number;
  gpu().begin(call);
  const int result = work();
  gpu().end(call, result);
  return result;
}

// Loads the module into the context if it is not there yet.
void require_module(std::uint32_t context, std::uint32_t module);

// A kernel of the program, by the address of its host stub.
struct RegisteredKernel {
  const char* mangled = nullptr;
  std::uint32_t module = 0;
  std::uint32_t loaded_in = 0;     // accessed atomically: the context that had its module last
  const Kernel* kernel = nullptr;  // interned at the first launch
};
// Null if `function` is neither a stub nor a handle of __cudaGetKernel.
RegisteredKernel* find_kernel(const void* function);
const Kernel* interned(RegisteredKernel* registered);

// A __device__ variable by its host shadow; its address on the device, null if there is none.
void* symbol_address(const void* symbol, std::size_t* bytes);

}  // namespace virtual_gpu
