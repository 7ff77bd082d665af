#include "collector/launch_index.h"

#include <algorithm>

namespace profiler {
namespace {

struct Entry {
  std::uint64_t key = 0;  // process, correlation
  std::uint32_t index = 0;
};

std::uint64_t make_key(ProcessIndex process, std::uint32_t correlation) {
  return (std::uint64_t{process} << 32) | correlation;
}

}  // namespace

bool is_pageable_copy(const Timeline& timeline, const LaneOperation& operation) {
  if (operation.kind != OperationKind::kMemcpy) return false;
  constexpr std::uint8_t kPageable = 1;  // CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
  const Transfer& transfer = timeline.transfers()[operation.what];
  return transfer.source_kind == kPageable || transfer.destination_kind == kPageable;
}

LaunchMatches match_launches(const Timeline& timeline, const Catalog& catalog, ThreadLanes& lanes) {
  const std::span<const ApiCall> calls = timeline.calls();
  const std::span<const LaneOperation> operations = timeline.operations();
  LaunchMatches matches;
  matches.call_of_operation.assign(operations.size(), kNone);

  std::vector<Entry> by_call;
  by_call.reserve(calls.size());
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    if (calls[i].correlation == 0 || calls[i].thread == kNone) continue;
    by_call.push_back(
        {make_key(catalog.threads[calls[i].thread].process, calls[i].correlation), i});
  }
  std::sort(by_call.begin(), by_call.end(), [&](const Entry& a, const Entry& b) {
    if (a.key != b.key) return a.key < b.key;
    const ApiCall& x = calls[a.index];
    const ApiCall& y = calls[b.index];
    if (x.start != y.start) return x.start < y.start;
    if (x.end != y.end) return x.end < y.end;
    return x.thread < y.thread;
  });

  std::vector<Entry> by_operation;
  by_operation.reserve(operations.size());
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    if (operations[i].correlation == 0 || operations[i].queue == kNone) continue;
    by_operation.push_back(
        {make_key(catalog.queues[operations[i].queue].process, operations[i].correlation), i});
  }
  std::sort(by_operation.begin(), by_operation.end(), [](const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.index < b.index;
  });

  std::vector<bool> submitted(calls.size(), false);
  auto first = by_call.begin();
  for (const Entry& entry : by_operation) {
    while (first != by_call.end() && first->key < entry.key) ++first;
    if (first == by_call.end()) break;
    if (first->key != entry.key) continue;
    std::uint32_t chosen = first->index;
    for (auto candidate = first; candidate != by_call.end() && candidate->key == entry.key;
         ++candidate) {
      if (calls[candidate->index].start > operations[entry.index].start) break;
      if (calls[candidate->index].start > calls[chosen].start) chosen = candidate->index;
    }
    chosen = lanes.outermost(chosen);
    matches.call_of_operation[entry.index] = chosen;
    submitted[chosen] = true;
    if (is_pageable_copy(timeline, operations[entry.index])) lanes.mark_pageable(chosen);
  }
  // A launch whose kernel came without times is no launch without a kernel.
  std::vector<std::uint64_t> untimed;
  for (const auto& [process, correlation] : timeline.untimed_launches())
    untimed.push_back(make_key(process, correlation));
  std::sort(untimed.begin(), untimed.end());
  for (const Entry& entry : by_call) {
    const std::uint32_t outer = lanes.outermost(entry.index);
    if (!submitted[outer] && std::binary_search(untimed.begin(), untimed.end(), entry.key))
      matches.launched_untimed.push_back(outer);
  }
  std::sort(matches.launched_untimed.begin(), matches.launched_untimed.end());
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    if (lanes.outermost(i) != i || submitted[i] || calls[i].result != 0 ||
        !lanes.is_kernel_launch(i) ||
        std::binary_search(matches.launched_untimed.begin(), matches.launched_untimed.end(), i))
      continue;
    ++matches.launches_without_operation;
  }
  for (const bool is_launch : submitted) matches.launches += is_launch ? 1 : 0;
  for (const std::uint32_t call : matches.call_of_operation)
    matches.unmatched += call == kNone ? 1 : 0;
  return matches;
}

}  // namespace profiler
