#include "collector/operation_statistics.h"

namespace profiler {

void KernelStatistics::merge(const KernelStatistics& other) {
  duration.merge(other.duration);
  launch_latency.merge(other.launch_latency);
  queue_delay.merge(other.queue_delay);
  with_launch += other.with_launch;
  shorter_than_launch += other.shorter_than_launch;
}

OperationStatistics add_up_operations(const Timeline& timeline, const Catalog& catalog,
                                      const LaunchMatches& matches) {
  OperationStatistics statistics;
  const std::vector<LaneOperation>& operations = timeline.operations();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const LaneOperation& operation = operations[i];
    const std::uint64_t duration = operation.end - operation.start;
    const bool is_kernel = operation.kind == OperationKind::kKernel;
    KernelStatistics* kernel = nullptr;
    if (is_kernel) {
      const DeviceIndex device =
          operation.queue == kNone ? kNone : catalog.queues[operation.queue].device;
      kernel = &statistics.kernels[{operation.what, device}];
      kernel->duration.add(duration);
    } else {
      const bool is_set = operation.kind == OperationKind::kMemset;
      const Transfer& transfer = timeline.transfers()[operation.what];
      CopyTotals& totals =
          statistics
              .copies[{is_set, is_set ? std::uint8_t{0} : transfer.copy_kind,
                       is_set ? std::uint8_t{0} : transfer.source_kind, transfer.destination_kind}];
      ++totals.count;
      totals.bytes += transfer.bytes;
      totals.total_ns += duration;
    }
    const std::uint32_t index = matches.call_of_operation[i];
    if (index == kNone) continue;
    const ApiCall& call = timeline.calls()[index];
    const std::uint64_t latency = operation.start > call.start ? operation.start - call.start : 0;
    statistics.launch_latency.add(latency);
    if (operation.start > call.end) statistics.queue_delay.add(operation.start - call.end);
    if (kernel == nullptr) continue;
    kernel->launch_latency.add(latency);
    if (operation.start > call.end) kernel->queue_delay.add(operation.start - call.end);
    const bool shorter = duration < call.end - call.start;
    ++kernel->with_launch;
    kernel->shorter_than_launch += shorter ? 1 : 0;
    ++statistics.kernels_with_launch;
    statistics.kernels_shorter_than_launch += shorter ? 1 : 0;
  }
  return statistics;
}

}  // namespace profiler
