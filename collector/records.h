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

}  // namespace profiler
