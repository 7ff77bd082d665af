// What runs on the device, as records and the truth log describe it. Plain data, shared by the
// three libraries.
#pragma once

#include <cstdint>

#include "samples/virtual_gpu/engine/model.h"

namespace virtual_gpu {

// A kernel of the program. Interned by mangled name and never freed: records point to its name.
struct Kernel {
  const char* mangled;
  const char* demangled;
  KernelCost cost;
};

enum class Work : std::uint8_t {
  kKernel,
  kCopy,
  kSet,
  kMarker,    // an event, or a wait for one: takes no time, has no record
  kHostCall,  // a function that runs on the host, in the order of the stream; no record
};

struct Operation {
  Work work = Work::kMarker;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t correlation = 0;
  // kKernel
  const Kernel* kernel = nullptr;
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t dynamic_shared_bytes = 0;
  // kCopy, kSet
  CopyKind copy = CopyKind::kHostToDevice;
  MemoryKind source = MemoryKind::kPageable;
  MemoryKind destination = MemoryKind::kDevice;
  bool async = false;
  std::uint32_t value = 0;
  std::uint64_t bytes = 0;
};

}  // namespace virtual_gpu
