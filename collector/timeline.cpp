#include "collector/timeline.h"

#include <algorithm>
#include <tuple>

#include "collector/thread_lanes.h"

namespace profiler {

void Timeline::add(std::span<const ApiCall> calls) {
  for (const ApiCall& call : calls) {
    if (has_times(call.start, call.end)) {
      calls_.push_back(call);
    } else {
      ++untimed_;
    }
  }
}

void Timeline::add(std::span<const Operation> operations) {
  for (const Operation& operation : operations) {
    if (!has_times(operation.start, operation.end)) {
      // A forced flush delivers work that is still running with its end unset.
      if (is_time(operation.start) && operation.end == 0) {
        ++unfinished_;
      } else {
        ++untimed_;
      }
      if (operation.queue != kNone)
        untimed_launches_.emplace_back(catalog_->queues[operation.queue].process,
                                       operation.correlation);
      continue;
    }
    LaneOperation lane{operation.start,       operation.end,      operation.queue,
                       operation.correlation, operation.function, operation.kind};
    if (operation.kind != OperationKind::kKernel) {
      lane.what = static_cast<std::uint32_t>(transfers_.size());
      transfers_.push_back({operation.bytes, operation.copy_kind, operation.source_kind,
                            operation.destination_kind});
    }
    operations_.push_back(lane);
  }
}

void Timeline::add(std::span<const OverheadRecord> overheads) {
  for (const OverheadRecord& overhead : overheads) {
    if (has_times(overhead.start, overhead.end)) {
      overheads_.push_back(overhead);
    } else {
      ++untimed_;
    }
  }
}

void Timeline::add(std::span<const NvtxEvent> events) {
  nvtx_events_.insert(nvtx_events_.end(), events.begin(), events.end());
}

void Timeline::add(std::span<const NvtxRange> ranges) {
  nvtx_ranges_.insert(nvtx_ranges_.end(), ranges.begin(), ranges.end());
}

void Timeline::add_loss(ProcessIndex process, std::uint64_t count, std::uint64_t from,
                        std::uint64_t to) {
  dropped_ += count;
  if (count != 0 && has_times(from, to) && from < to) holes_.push_back({process, {from, to}});
}

void Timeline::settle() {
  sort_for_lanes(calls_, *catalog_);

  // An operation that arrived twice is the same work: one queue does nothing twice at one time.
  const auto what = [&](const LaneOperation& operation) {
    if (operation.kind == OperationKind::kKernel)
      return std::tuple{std::uint64_t{operation.what}, std::uint8_t{0}, std::uint8_t{0},
                        std::uint8_t{0}};
    const Transfer& transfer = transfers_[operation.what];
    return std::tuple{transfer.bytes, transfer.copy_kind, transfer.source_kind,
                      transfer.destination_kind};
  };
  const auto key = [&](const LaneOperation& o) {
    return std::tuple{o.start, o.end, o.queue, o.correlation, o.kind, what(o)};
  };
  std::sort(operations_.begin(), operations_.end(),
            [&](const LaneOperation& a, const LaneOperation& b) {
              return a.start != b.start ? a.start < b.start : key(a) < key(b);
            });
  // Nodes of a graph share everything but their time; empty ones may share that, too.
  const auto end = std::unique(operations_.begin(), operations_.end(),
                               [&](const LaneOperation& a, const LaneOperation& b) {
                                 return a.start == b.start && b.start != b.end && key(a) == key(b);
                               });
  duplicates_ += static_cast<std::uint64_t>(operations_.end() - end);
  operations_.erase(end, operations_.end());
}

}  // namespace profiler
