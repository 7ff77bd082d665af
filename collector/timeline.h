// Everything that happened, as records arrive, in any order, in columns of plain integers. What
// cannot be placed in time is counted and takes part in nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "collector/catalog.h"
#include "collector/interval_set.h"
#include "collector/records.h"

namespace profiler {

// What the lanes, the gap analysis and the statistics need of an operation.
struct LaneOperation {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  QueueIndex queue = kNone;
  std::uint32_t correlation = 0;
  std::uint32_t what = kNone;  // kernel: Catalog::kernel_functions; else Timeline::transfers
  OperationKind kind = OperationKind::kKernel;
};

// A copy or a set.
struct Transfer {
  std::uint64_t bytes = 0;
  std::uint8_t copy_kind = 0;         // CUpti_ActivityMemcpyKind
  std::uint8_t source_kind = 0;       // CUpti_ActivityMemoryKind
  std::uint8_t destination_kind = 0;  // CUpti_ActivityMemoryKind
};

// Records that were lost: some in number, some in time.
struct Hole {
  ProcessIndex process = kNone;
  Interval time;
};

class Timeline {
 public:
  // `catalog` must outlive the timeline.
  explicit Timeline(const Catalog& catalog) : catalog_(&catalog) {}

  void add(std::span<const ApiCall> calls);
  void add(std::span<const Operation> operations);
  void add(std::span<const OverheadRecord> overheads);
  void add(std::span<const NvtxEvent> events);
  void add(std::span<const NvtxRange> ranges);  // from a source that has whole ranges
  void add_syncs(std::uint64_t count) { syncs_ += count; }
  // `from` and `to` without valid times: the loss is counted and makes no hole.
  void add_loss(ProcessIndex process, std::uint64_t count, std::uint64_t from, std::uint64_t to);
  void add_malformed(std::uint64_t count) { malformed_ += count; }
  void add_untimed(std::uint64_t count) { untimed_ += count; }
  void add_unfinished(std::uint64_t count) { unfinished_ += count; }
  void add_unbalanced(std::uint64_t count) { unbalanced_ += count; }

  // Once, when all records are there: puts the calls in the order of lanes, and drops operations
  // that arrived twice.
  void settle();

  const std::vector<ApiCall>& calls() const { return calls_; }
  const std::vector<LaneOperation>& operations() const { return operations_; }
  const std::vector<Transfer>& transfers() const { return transfers_; }
  const std::vector<OverheadRecord>& overheads() const { return overheads_; }
  const std::vector<NvtxEvent>& nvtx_events() const { return nvtx_events_; }
  const std::vector<NvtxRange>& nvtx_ranges() const { return nvtx_ranges_; }
  const std::vector<Hole>& holes() const { return holes_; }
  // Launches whose operation arrived without valid times: (process, correlation).
  const std::vector<std::pair<ProcessIndex, std::uint32_t>>& untimed_launches() const {
    return untimed_launches_;
  }

  std::uint64_t untimed() const { return untimed_; }        // records
  std::uint64_t unfinished() const { return unfinished_; }  // operations
  std::uint64_t dropped() const { return dropped_; }        // records
  std::uint64_t malformed() const { return malformed_; }    // frames
  std::uint64_t duplicates() const { return duplicates_; }  // operations
  std::uint64_t syncs() const { return syncs_; }            // records
  std::uint64_t unbalanced() const { return unbalanced_; }  // NVTX events known to fit nothing

 private:
  const Catalog* catalog_;
  std::vector<ApiCall> calls_;
  std::vector<LaneOperation> operations_;
  std::vector<Transfer> transfers_;
  std::vector<OverheadRecord> overheads_;
  std::vector<NvtxEvent> nvtx_events_;
  std::vector<NvtxRange> nvtx_ranges_;
  std::vector<Hole> holes_;
  std::vector<std::pair<ProcessIndex, std::uint32_t>> untimed_launches_;
  std::uint64_t untimed_ = 0;
  std::uint64_t unfinished_ = 0;
  std::uint64_t dropped_ = 0;
  std::uint64_t malformed_ = 0;
  std::uint64_t duplicates_ = 0;
  std::uint64_t syncs_ = 0;
  std::uint64_t unbalanced_ = 0;
};

}  // namespace profiler
