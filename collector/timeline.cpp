#include "collector/timeline.h"

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
      continue;
    }
    operations_.push_back({operation.start, operation.end, operation.queue, operation.correlation});
    const std::uint64_t duration = operation.end - operation.start;
    if (operation.kind == OperationKind::kKernel) {
      const DeviceIndex device =
          operation.queue == kNone ? kNone : catalog_->queues[operation.queue].device;
      kernels_[{operation.function, device}].add(duration);
    } else {
      const bool is_set = operation.kind == OperationKind::kMemset;
      CopyTotals& totals =
          copies_[{is_set, is_set ? std::uint8_t{0} : operation.copy_kind,
                   is_set ? std::uint8_t{0} : operation.source_kind, operation.destination_kind}];
      ++totals.count;
      totals.bytes += operation.bytes;
      totals.total_ns += duration;
    }
  }
}

}  // namespace profiler
