#include "samples/virtual_gpu/engine/attributes.h"

#include <driver_types.h>

#include <algorithm>

namespace virtual_gpu {

namespace {
constexpr std::uint64_t kMemoryClockKhz = 2'619'000;
}  // namespace

bool device_attribute(const Model& model, int attribute, int& value) {
  const auto number = [&](auto n) {
    value = static_cast<int>(std::min<std::uint64_t>(static_cast<std::uint64_t>(n), 2147483647));
    return true;
  };
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return number(kMaxThreadsPerBlock);
    case cudaDevAttrMaxBlockDimX:
      return number(kMaxBlock[0]);
    case cudaDevAttrMaxBlockDimY:
      return number(kMaxBlock[1]);
    case cudaDevAttrMaxBlockDimZ:
      return number(kMaxBlock[2]);
    case cudaDevAttrMaxGridDimX:
      return number(kMaxGrid[0]);
    case cudaDevAttrMaxGridDimY:
      return number(kMaxGrid[1]);
    case cudaDevAttrMaxGridDimZ:
      return number(kMaxGrid[2]);
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return number(kSharedBytesPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return number(kSharedBytesPerBlockOptIn);
    case cudaDevAttrTotalConstantMemory:
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return number(65536);
    case cudaDevAttrWarpSize:
      return number(32);
    case cudaDevAttrMaxPitch:
      return number(2147483647);
    case cudaDevAttrTextureAlignment:
      return number(512);
    case cudaDevAttrAsyncEngineCount:
      return number(3);
    case cudaDevAttrClockRate:
      return number(model.core_clock_khz);
    case cudaDevAttrMultiProcessorCount:
      return number(model.multiprocessors);
    case cudaDevAttrL2CacheSize:
      return number(model.l2_bytes);
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return number(model.threads_per_multiprocessor);
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return number(model.blocks_per_multiprocessor);
    case cudaDevAttrComputeCapabilityMajor:
      return number(model.capability_major);
    case cudaDevAttrComputeCapabilityMinor:
      return number(model.capability_minor);
    case cudaDevAttrMemoryClockRate:
      return number(kMemoryClockKhz);
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrComputePreemptionSupported:
      return number(1);
    case cudaDevAttrGlobalMemoryBusWidth:
      // Two transfers per clock of the memory.
      return number(model.memory_bandwidth * 8 / (2000 * kMemoryClockKhz));
    default:
      return attribute >= 1 && attribute < cudaDevAttrMax && number(0);
  }
}

}  // namespace virtual_gpu
