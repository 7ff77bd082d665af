// Everything that happened, as records arrive, in any order: API calls and device operations with
// valid times in columns, and what can be added up at once (kernels, copies). What cannot be placed
// in time is counted and takes part in nothing else.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "collector/catalog.h"
#include "collector/distribution.h"
#include "collector/records.h"

namespace profiler {

// What the lanes and the gap analysis need of an operation.
struct LaneOperation {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  QueueIndex queue = kNone;
  std::uint32_t correlation = 0;
};

struct KernelKey {
  FunctionIndex function = kNone;
  DeviceIndex device = kNone;
  auto operator<=>(const KernelKey&) const = default;
};

// Copies of one kind between the same kinds of memory; sets have `is_set` and no source.
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

class Timeline {
 public:
  // `catalog` must outlive the timeline.
  explicit Timeline(const Catalog& catalog) : catalog_(&catalog) {}

  void add(std::span<const ApiCall> calls);
  void add(std::span<const Operation> operations);
  void add_dropped(std::uint64_t count) { dropped_ += count; }
  void add_malformed(std::uint64_t count) { malformed_ += count; }

  const std::vector<ApiCall>& calls() const { return calls_; }
  const std::vector<LaneOperation>& operations() const { return operations_; }
  const std::map<KernelKey, Distribution>& kernels() const { return kernels_; }
  const std::map<CopyKey, CopyTotals>& copies() const { return copies_; }

  std::uint64_t untimed() const { return untimed_; }        // records
  std::uint64_t unfinished() const { return unfinished_; }  // operations
  std::uint64_t dropped() const { return dropped_; }        // records
  std::uint64_t malformed() const { return malformed_; }    // frames

 private:
  const Catalog* catalog_;
  std::vector<ApiCall> calls_;
  std::vector<LaneOperation> operations_;
  std::map<KernelKey, Distribution> kernels_;
  std::map<CopyKey, CopyTotals> copies_;
  std::uint64_t untimed_ = 0;
  std::uint64_t unfinished_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t malformed_ = 0;
};

}  // namespace profiler
