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
  // Accessed atomically. The context that loaded it last; 0 = none did.
  mutable std::uint32_t loaded_in = 0;
  mutable bool instrumented = false;  // a profiler has seen its first launch
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

// A wait of the host, or of a stream, as the host saw it. `event` is 0 where there is none, and so
// is `stream` (no stream has that number).
enum class SyncKind : std::uint8_t { kEvent, kStreamWaitEvent, kStream, kContext };
inline constexpr const char* kSyncKindNames[] = {"event", "stream wait event", "stream", "context"};

struct Synchronization {
  SyncKind kind = SyncKind::kContext;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t event = 0;
  std::uint64_t record = 0;  // which recording of the event; 0 = it never was recorded
  std::uint32_t correlation = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t result = 0;
};

// An event was recorded.
struct EventRecording {
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t event = 0;
  std::uint64_t record = 0;  // unique in the process
  std::uint32_t correlation = 0;
};

// Time that the driver or the profiler took on the calling thread for its own affairs.
enum class OverheadKind : std::uint8_t {
  kDriverCompiler,
  kBufferFlush,
  kInstrumentation,
  kResource,
  kModuleLoading,
  kFunctionLoading,
  kCommandBufferFull,
  kBufferRequest,
  kUvmInit,
};
inline constexpr const char* kOverheadKindNames[] = {"driver compiler",
                                                     "buffer flush",
                                                     "instrumentation",
                                                     "resource",
                                                     "runtime triggered module loading",
                                                     "lazy function loading",
                                                     "command buffer full",
                                                     "buffer request",
                                                     "UVM init"};

struct Overhead {
  OverheadKind kind = OverheadKind::kResource;
  std::uint32_t correlation = 0;
  std::uint32_t stream = 0;  // kCommandBufferFull: whose
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

}  // namespace virtual_gpu
