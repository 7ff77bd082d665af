// Plain records as the collector handles them, whatever they came from (a pipe, a trace, an
// imported file). Times: nanoseconds of one clock (CLOCK_MONOTONIC of the host for a live run).
// Ids are indices into the Catalog, so they mean the same for all processes; kNone = unknown.
#pragma once

#include <cstdint>

namespace profiler {

inline constexpr std::uint32_t kNone = 0xffffffffU;

using ProcessIndex = std::uint32_t;   // Catalog::processes
using ThreadIndex = std::uint32_t;    // Catalog::threads
using DeviceIndex = std::uint32_t;    // Catalog::devices
using QueueIndex = std::uint32_t;     // Catalog::queues
using FunctionIndex = std::uint32_t;  // Catalog::api_functions or Catalog::kernel_functions

// What CUPTI documents, and what was seen, as "no time": 0, UINT64_MAX, INT64_MIN.
inline constexpr bool is_time(std::uint64_t ns) {
  return ns != 0 && ns != UINT64_MAX && ns != (std::uint64_t{1} << 63);
}

// [start, end) with two valid times in order.
inline constexpr bool has_times(std::uint64_t start, std::uint64_t end) {
  return is_time(start) && is_time(end) && start <= end;
}

struct ApiCall {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  ThreadIndex thread = kNone;
  FunctionIndex function = kNone;  // Catalog::api_functions
  std::uint32_t correlation = 0;   // 0 = none
  std::uint32_t result = 0;        // cudaError_t or CUresult
};

enum class OperationKind : std::uint8_t { kKernel, kMemcpy, kMemset };

// One piece of work of a GPU queue. Members beyond `graph_node` hold for their kind only.
struct Operation {
  std::uint64_t start = 0;
  std::uint64_t end = 0;  // 0 with a valid start: unfinished when it was delivered
  OperationKind kind = OperationKind::kKernel;
  QueueIndex queue = kNone;
  std::uint32_t correlation = 0;  // per process, shared by all nodes of a graph launch; 0 = none
  std::uint32_t graph = 0;        // 0 = not of a graph launch
  std::uint64_t graph_node = 0;

  FunctionIndex function = kNone;  // kernel: Catalog::kernel_functions
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint64_t dynamic_shared_bytes = 0;

  std::uint64_t bytes = 0;            // copy and set
  std::uint8_t copy_kind = 0;         // copy: CUpti_ActivityMemcpyKind
  std::uint8_t source_kind = 0;       // copy: CUpti_ActivityMemoryKind
  std::uint8_t destination_kind = 0;  // copy, set: likewise
  bool asynchronous = false;          // copy, set
  std::uint32_t value = 0;            // set
  DeviceIndex source_device = kNone;  // peer copy
  DeviceIndex destination_device = kNone;
};

// A wait, as CUPTI records it; see wire.proto. Host times.
enum class SyncKind : std::uint8_t { kUnknown, kEvent, kStreamWaitEvent, kStream, kContext };

struct SyncRecord {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  SyncKind kind = SyncKind::kUnknown;
  ProcessIndex process = kNone;
  std::uint32_t correlation = 0;  // that of the API call, whose thread waited
  std::uint32_t context = 0;      // CUPTI context id
  std::uint64_t stream = 0;       // CUPTI stream id, 0 = none
  std::uint32_t event = 0;        // 0 = none
};

// CUPTI's CUDA_EVENT: an event was recorded on a stream.
struct EventRecord {
  ProcessIndex process = kNone;
  std::uint32_t correlation = 0;
  std::uint32_t context = 0;
  std::uint64_t stream = 0;
  std::uint32_t event = 0;
};

// CUpti_ActivityOverheadKind.
enum class OverheadKind : std::uint32_t {
  kUnknown = 0,
  kDriverCompiler = 1,
  kBufferFlush = 1 << 16,
  kInstrumentation = 2 << 16,
  kResource = 3 << 16,
  kRuntimeTriggeredModuleLoading = 4 << 16,
  kLazyFunctionLoading = 5 << 16,
  kCommandBufferFull = 6 << 16,
  kBufferRequest = 7 << 16,
  kUvmInit = 8 << 16,
};

struct OverheadRecord {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  OverheadKind kind = OverheadKind::kUnknown;
  ThreadIndex thread = kNone;
  std::uint32_t correlation = 0;
};

using TextId = std::uint32_t;    // Catalog::texts
using DomainId = std::uint32_t;  // Catalog::nvtx_domains

enum class NvtxKind : std::uint8_t { kUnknown, kPush, kPop, kStart, kEnd, kMark };

struct NvtxEvent {
  std::uint64_t time = 0;
  NvtxKind kind = NvtxKind::kUnknown;
  ThreadIndex thread = kNone;
  DomainId domain = 0;      // 0 = the default domain
  TextId text = kNone;      // kNone = no message, or an event that has none
  std::uint64_t range = 0;  // start and end: unique in the process
};

// A pair of events. Ranges that were never closed end with their process; see nvtx_ranges.h.
struct NvtxRange {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  ThreadIndex thread = kNone;      // that opened it
  ThreadIndex end_thread = kNone;  // that closed it; kNone = nobody did
  DomainId domain = 0;
  TextId text = kNone;
  bool is_nested = true;  // push/pop; false: start/end
};

}  // namespace profiler
