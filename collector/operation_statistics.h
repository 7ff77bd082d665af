// Totals of device operations: kernels with their durations and latencies, copies and sets.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "collector/catalog.h"
#include "collector/distribution.h"
#include "collector/launch_index.h"
#include "collector/timeline.h"

namespace profiler {

struct KernelKey {
  FunctionIndex function = kNone;
  DeviceIndex device = kNone;
  auto operator<=>(const KernelKey&) const = default;
};

struct KernelStatistics {
  Distribution duration;
  Distribution launch_latency;  // start - start of the call
  Distribution queue_delay;     // start - end of the call, where positive
  std::uint64_t with_launch = 0;
  std::uint64_t shorter_than_launch = 0;  // the call took longer than the kernel

  void merge(const KernelStatistics& other);
};

// Copies of one kind between the same kinds of memory; sets have no source.
struct CopyKey {
  bool is_set = false;
  std::uint8_t kind = 0;         // CUpti_ActivityMemcpyKind
  std::uint8_t source = 0;       // CUpti_ActivityMemoryKind
  std::uint8_t destination = 0;  // CUpti_ActivityMemoryKind
  auto operator<=>(const CopyKey&) const = default;
};

struct CopyTotals {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t total_ns = 0;
};

struct OperationStatistics {
  std::map<KernelKey, KernelStatistics> kernels;
  std::map<CopyKey, CopyTotals> copies;
  Distribution launch_latency;  // of all operations with a launch record
  Distribution queue_delay;
  std::uint64_t kernels_with_launch = 0;
  std::uint64_t kernels_shorter_than_launch = 0;
};

OperationStatistics add_up_operations(const Timeline& timeline, const Catalog& catalog,
                                      const LaunchMatches& matches);

}  // namespace profiler
