// Devices, errors, versions.
#include <cstdio>
#include <cstring>

#include "samples/virtual_gpu/cudart/call.h"
#include "samples/virtual_gpu/engine/attributes.h"
#include "samples/virtual_gpu/engine/errors.h"

using namespace virtual_gpu;  // NOLINT: every function here is exported and global

namespace {

constexpr char kUnknownError[] = "unrecognized error code";

bool is_device(int device) {
  return device >= 0 && static_cast<std::uint32_t>(device) < gpu().device_count();
}

const Model& model(int device) {
  return gpu().model(static_cast<std::uint32_t>(device));
}

void fill(cudaDeviceProp& prop, const Model& from) {
  const auto attribute = [&](int number) {
    int value = 0;
    device_attribute(from, number, value);
    return value;
  };
  prop = {};
  std::snprintf(prop.name, sizeof prop.name, "%s", from.name.c_str());
  std::memcpy(prop.uuid.bytes, from.uuid.data(), 16);
  prop.totalGlobalMem = from.memory_bytes;
  prop.sharedMemPerBlock = kSharedBytesPerBlock;
  prop.regsPerBlock = 65536;
  prop.warpSize = 32;
  prop.memPitch = 2147483647;
  prop.maxThreadsPerBlock = static_cast<int>(kMaxThreadsPerBlock);
  for (int i = 0; i < 3; ++i) {
    prop.maxThreadsDim[i] = static_cast<int>(kMaxBlock[i]);
    prop.maxGridSize[i] = static_cast<int>(kMaxGrid[i]);
  }
  prop.totalConstMem = 65536;
  prop.major = static_cast<int>(from.capability_major);
  prop.minor = static_cast<int>(from.capability_minor);
  prop.textureAlignment = 512;
  prop.texturePitchAlignment = 32;
  prop.multiProcessorCount = static_cast<int>(from.multiprocessors);
  prop.canMapHostMemory = 1;
  prop.concurrentKernels = 1;
  prop.pciBusID = 1;
  prop.asyncEngineCount = attribute(cudaDevAttrAsyncEngineCount);
  prop.unifiedAddressing = 1;
  prop.memoryBusWidth = attribute(cudaDevAttrGlobalMemoryBusWidth);
  prop.l2CacheSize = attribute(cudaDevAttrL2CacheSize);
  prop.maxThreadsPerMultiProcessor = static_cast<int>(from.threads_per_multiprocessor);
  prop.streamPrioritiesSupported = 1;
  prop.sharedMemPerMultiprocessor = kSharedBytesPerBlockOptIn;
  prop.sharedMemPerBlockOptin = kSharedBytesPerBlockOptIn;
  prop.regsPerMultiprocessor = 65536;
  prop.managedMemory = 1;
  prop.concurrentManagedAccess = 1;
  prop.computePreemptionSupported = 1;
  prop.canUseHostPointerForRegisteredMem = 1;
  prop.maxBlocksPerMultiProcessor = static_cast<int>(from.blocks_per_multiprocessor);
  prop.hostRegisterSupported = 1;
#if CUDART_VERSION < 13000
  prop.clockRate = attribute(cudaDevAttrClockRate);
  prop.memoryClockRate = attribute(cudaDevAttrMemoryClockRate);
#endif
}

}  // namespace

RUNTIME_API cudaGetDeviceCount(int* count) {
  RUNTIME_CALL("cudaGetDeviceCount");
  if (count == nullptr) return call.done(cudaErrorInvalidValue);
  *count = static_cast<int>(gpu().device_count());
  return call.done(cudaSuccess);
}

RUNTIME_API cudaGetDevice(int* device) {
  RUNTIME_CALL("cudaGetDevice");
  if (device == nullptr) return call.done(cudaErrorInvalidValue);
  *device = thread_device();
  return call.done(cudaSuccess);
}

RUNTIME_API cudaSetDevice(int device) {
  RUNTIME_CALL("cudaSetDevice");
  if (!is_device(device)) return call.done(cudaErrorInvalidDevice);
  set_thread_device(device);
  gpu().set_current(gpu().primary(static_cast<std::uint32_t>(device)));
  return call.done(cudaSuccess);
}

// Spelled with a macro by CUDA 12 (…_v2).
#define EXPANDED_TEXT(name) #name
#define EXPANDED(name) EXPANDED_TEXT(name)
RUNTIME_API cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  RUNTIME_CALL(EXPANDED(cudaGetDeviceProperties));
  if (prop == nullptr) return call.done(cudaErrorInvalidValue);
  if (!is_device(device)) return call.done(cudaErrorInvalidDevice);
  fill(*prop, model(device));
  return call.done(cudaSuccess);
}

RUNTIME_API cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  RUNTIME_CALL("cudaDeviceGetAttribute");
  if (!is_device(device)) return call.done(cudaErrorInvalidDevice);
  if (value == nullptr || !device_attribute(model(device), attribute, *value)) {
    return call.done(cudaErrorInvalidValue);
  }
  return call.done(cudaSuccess);
}

RUNTIME_API cudaDeviceGetPCIBusId(char* text, int length, int device) {
  RUNTIME_CALL("cudaDeviceGetPCIBusId");
  if (!is_device(device)) return call.done(cudaErrorInvalidDevice);
  if (text == nullptr || length <= 0) return call.done(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return call.done(cudaSuccess);
}

RUNTIME_API cudaDeviceSynchronize() {
  RUNTIME_CALL("cudaDeviceSynchronize");
  constexpr DriverFunction kSynchronize = driver_function("cuCtxSynchronize");
  Context* here = context();
  return call.done(in_driver(kSynchronize.plain, [&] { return gpu().synchronize(here); }));
}

RUNTIME_API cudaDeviceReset() {
  RUNTIME_CALL("cudaDeviceReset");
  constexpr DriverFunction kReset = driver_function("cuDevicePrimaryCtxReset_v2");
  in_driver(kReset.plain, [] {
    gpu().reset_primary(static_cast<std::uint32_t>(thread_device()));
    return 0;
  });
  gpu().set_current(nullptr);
  return call.done(cudaSuccess);
}

RUNTIME_API cudaInitDevice(int device, unsigned, unsigned) {
  RUNTIME_CALL("cudaInitDevice");
  if (!is_device(device)) return call.done(cudaErrorInvalidDevice);
  gpu().primary(static_cast<std::uint32_t>(device));
  return call.done(cudaSuccess);
}

RUNTIME_API cudaSetDeviceFlags(unsigned flags) {
  RUNTIME_CALL("cudaSetDeviceFlags");
  return call.done((flags & ~unsigned{cudaDeviceMask}) == 0 ? cudaSuccess : cudaErrorInvalidValue);
}

RUNTIME_API cudaDeviceSetLimit(cudaLimit limit, std::size_t) {
  RUNTIME_CALL("cudaDeviceSetLimit");
  const auto number = static_cast<unsigned>(limit);
  return call.done(number <= cudaLimitPersistingL2CacheSize ? cudaSuccess
                                                            : cudaErrorUnsupportedLimit);
}

RUNTIME_API cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  RUNTIME_CALL("cudaDeviceGetStreamPriorityRange");
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return call.done(cudaSuccess);
}

RUNTIME_API cudaProfilerStart() {
  RUNTIME_CALL("cudaProfilerStart");
  return call.done(cudaSuccess);
}

RUNTIME_API cudaProfilerStop() {
  RUNTIME_CALL("cudaProfilerStop");
  return call.done(cudaSuccess);
}

RUNTIME_API cudaDriverGetVersion(int* version) {
  Call call(runtime_cbid("cudaDriverGetVersion"), false);
  if (version == nullptr) return call.done(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return call.done(cudaSuccess);
}

RUNTIME_API cudaRuntimeGetVersion(int* version) {
  Call call(runtime_cbid("cudaRuntimeGetVersion"), false);
  if (version == nullptr) return call.done(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return call.done(cudaSuccess);
}

RUNTIME_API cudaGetLastError() {
  Call call(runtime_cbid("cudaGetLastError"), false);
  const cudaError_t error = last_error();
  set_last_error(cudaSuccess);
  return call.done_quietly(error);
}

RUNTIME_API cudaPeekAtLastError() {
  Call call(runtime_cbid("cudaPeekAtLastError"), false);
  return call.done_quietly(last_error());
}

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorName(cudaError_t error) {
  Call call(runtime_cbid("cudaGetErrorName"), false);
  const char* name = error_name(kRuntimeErrors, error);
  call.done_quietly(cudaSuccess);
  return name != nullptr ? name : kUnknownError;
}

extern "C" __attribute__((visibility("default"))) const char* cudaGetErrorString(
    cudaError_t error) {
  Call call(runtime_cbid("cudaGetErrorString"), false);
  const char* text = error_text(error);
  call.done_quietly(cudaSuccess);
  return text != nullptr ? text : kUnknownError;
}
