#include "collector/thread_lanes.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>

namespace profiler {
namespace {

bool is_driver(const ApiCall& call, const Catalog& catalog) {
  return call.function < catalog.api_functions.size() &&
         catalog.api_functions[call.function].domain == ApiDomain::kDriver;
}

std::string_view function_name(const ApiCall& call, const Catalog& catalog) {
  if (call.function >= catalog.api_functions.size()) return {};
  return catalog.api_functions[call.function].name;
}

}  // namespace

void sort_for_lanes(std::vector<ApiCall>& calls, const Catalog& catalog) {
  std::sort(calls.begin(), calls.end(), [&](const ApiCall& a, const ApiCall& b) {
    if (a.thread != b.thread) return a.thread < b.thread;
    if (a.start != b.start) return a.start < b.start;
    if (a.end != b.end) return a.end > b.end;
    const bool a_driver = is_driver(a, catalog);
    const bool b_driver = is_driver(b, catalog);
    if (a_driver != b_driver) return b_driver;
    if (a.correlation != b.correlation) return a.correlation < b.correlation;
    // By name: the catalog's order depends on which record came first.
    const int names = function_name(a, catalog).compare(function_name(b, catalog));
    return names != 0 ? names < 0 : a.result < b.result;
  });
}

template <typename Record>
ThreadLanes::Column ThreadLanes::make_column(std::span<const Record> sorted, std::size_t threads) {
  Column column;
  column.first.assign(threads + 1, static_cast<std::uint32_t>(sorted.size()));
  column.latest_end.resize(sorted.size());
  for (std::size_t i = sorted.size(); i-- > 0;) {
    // Records of no thread come last; they are nobody's.
    const std::size_t thread = std::min<std::size_t>(sorted[i].thread, threads);
    column.first[thread] = static_cast<std::uint32_t>(i);
  }
  // Threads without records begin where the next one does.
  for (std::size_t thread = threads; thread-- > 0;)
    column.first[thread] = std::min(column.first[thread], column.first[thread + 1]);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const bool first = i == 0 || sorted[i - 1].thread != sorted[i].thread;
    column.latest_end[i] =
        first ? sorted[i].end : std::max(column.latest_end[i - 1], sorted[i].end);
  }
  return column;
}

template <typename Record, typename Take>
void ThreadLanes::open_between(std::span<const Record> sorted, const Column& column,
                               ThreadIndex thread, std::uint64_t from, std::uint64_t to,
                               Take take) {
  if (thread >= column.first.size() - 1 || from >= to) return;
  const std::uint32_t first = column.first[thread];
  const std::uint32_t last = column.first[thread + 1];
  const auto begin = sorted.begin();
  const auto end_of_starts =
      std::lower_bound(begin + first, begin + last, to,
                       [](const Record& record, std::uint64_t at) { return record.start < at; });
  auto i = static_cast<std::uint32_t>(end_of_starts - begin);
  while (i > first && column.latest_end[i - 1] > from) {
    --i;
    if (sorted[i].end > from) take(i);
  }
}

ThreadLanes::ThreadLanes(std::span<const ApiCall> calls, std::span<const OverheadRecord> overheads,
                         std::span<const NvtxRange> ranges, const Catalog& catalog)
    : catalog_(catalog),
      calls_(calls),
      overheads_(overheads.begin(), overheads.end()),
      outermost_(calls.size()),
      parent_(calls.size(), kNone),
      pageable_(calls.size(), false) {
  const std::size_t threads = catalog.threads.size();
  std::sort(overheads_.begin(), overheads_.end(),
            [](const OverheadRecord& a, const OverheadRecord& b) {
              return std::tie(a.thread, a.start, b.end, a.kind) <
                     std::tie(b.thread, b.start, a.end, b.kind);
            });
  range_index_.resize(ranges.size());
  std::iota(range_index_.begin(), range_index_.end(), 0U);
  std::sort(range_index_.begin(), range_index_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(ranges[a].thread, ranges[a].start, ranges[b].end, a) <
           std::tie(ranges[b].thread, ranges[b].start, ranges[a].end, b);
  });
  ranges_.reserve(ranges.size());
  for (const std::uint32_t index : range_index_) ranges_.push_back(ranges[index]);

  call_column_ = make_column(calls_, threads);
  overhead_column_ = make_column(std::span<const OverheadRecord>(overheads_), threads);
  range_column_ = make_column(std::span<const NvtxRange>(ranges_), threads);

  class_of_function_.reserve(catalog.api_functions.size());
  for (const ApiFunction& function : catalog.api_functions)
    class_of_function_.push_back(classify_api(function.name));

  std::vector<std::uint32_t> open;
  for (std::uint32_t i = 0; i < calls_.size(); ++i) {
    if (i > 0 && calls_[i].thread != calls_[i - 1].thread) open.clear();
    while (!open.empty() && calls_[open.back()].end < calls_[i].end) open.pop_back();
    // What is left ends no earlier; it encloses this call unless it ended before it began.
    while (!open.empty() && calls_[open.back()].end < calls_[i].start) open.pop_back();
    parent_[i] = open.empty() ? kNone : open.back();
    outermost_[i] = open.empty() ? i : outermost_[open.back()];
    open.push_back(i);
  }
}

void ThreadLanes::mark_pageable(std::uint32_t call) {
  for (std::uint32_t i = call; i < calls_.size() && outermost_[i] == call; ++i) pageable_[i] = true;
}

Cause ThreadLanes::class_of(std::uint32_t call) const {
  const FunctionIndex function = calls_[call].function;
  if (function >= class_of_function_.size()) return Cause::kOtherCall;
  const ApiClass& api = class_of_function_[function];
  return api.is_asynchronous && pageable_[call] ? Cause::kCopying : api.cause;
}

bool ThreadLanes::is_polling(std::uint32_t call) const {
  const FunctionIndex function = calls_[call].function;
  return function < class_of_function_.size() && class_of_function_[function].is_polling;
}

bool ThreadLanes::is_kernel_launch(std::uint32_t call) const {
  const FunctionIndex function = calls_[call].function;
  return function < class_of_function_.size() && class_of_function_[function].is_kernel_launch;
}

std::span<const OpenRecord> ThreadLanes::records(ThreadIndex thread, std::uint64_t from,
                                                 std::uint64_t to) {
  answer_.clear();
  open_between(calls_, call_column_, thread, from, to, [&](std::uint32_t i) {
    answer_.push_back({calls_[i].start, calls_[i].end,
                       is_driver(calls_[i], catalog_) ? kDriverOrder : kRuntimeOrder, i});
  });
  open_between(std::span<const OverheadRecord>(overheads_), overhead_column_, thread, from, to,
               [&](std::uint32_t i) {
                 answer_.push_back({overheads_[i].start, overheads_[i].end, kOverheadOrder, i});
               });
  std::sort(answer_.begin(), answer_.end(),
            [](const OpenRecord& a, const OpenRecord& b) { return is_inner(b, a); });
  return answer_;
}

Cause ThreadLanes::cause_of(const OpenRecord& record) const {
  return is_overhead(record) ? overhead_cause(overheads_[record.index].kind)
                             : class_of(record.index);
}

bool ThreadLanes::has_call(ThreadIndex thread, std::uint64_t from, std::uint64_t to) const {
  bool found = false;
  open_between(calls_, call_column_, thread, from, to, [&](std::uint32_t i) {
    found |= std::min(calls_[i].end, to) > std::max(calls_[i].start, from);
  });
  return found;
}

std::span<const OpenRecord> ThreadLanes::waiting_elsewhere(ThreadIndex thread, std::uint64_t from,
                                                           std::uint64_t to) {
  if (!waiting_ready_) {
    waiting_ready_ = true;
    waiting_by_end_.resize(catalog_.processes.size());
    for (std::uint32_t i = 0; i < calls_.size(); ++i) {
      if (calls_[i].thread == kNone || is_polling(i) || !is_waiting(class_of(i))) continue;
      waiting_by_end_[catalog_.threads[calls_[i].thread].process].push_back(i);
    }
    for (std::vector<std::uint32_t>& waiting : waiting_by_end_) {
      std::sort(waiting.begin(), waiting.end(), [&](std::uint32_t a, std::uint32_t b) {
        return calls_[a].end != calls_[b].end ? calls_[a].end < calls_[b].end : a < b;
      });
    }
  }
  answer_.clear();
  const std::vector<std::uint32_t>& waiting = waiting_by_end_[catalog_.threads[thread].process];
  auto at = std::lower_bound(
      waiting.begin(), waiting.end(), from,
      [&](std::uint32_t call, std::uint64_t time) { return calls_[call].end < time; });
  for (; at != waiting.end() && calls_[*at].end <= to; ++at) {
    const ApiCall& call = calls_[*at];
    if (call.thread == thread || call.end <= from || call.start >= to || call.start == call.end)
      continue;
    // Among equal times the lowest thread id is the inner one.
    const std::uint64_t tid = catalog_.threads[call.thread].tid;
    answer_.push_back(
        {call.start, call.end,
         static_cast<std::uint32_t>(UINT32_MAX - std::min<std::uint64_t>(tid, UINT32_MAX)), *at});
  }
  std::sort(answer_.begin(), answer_.end(),
            [](const OpenRecord& a, const OpenRecord& b) { return is_inner(b, a); });
  return answer_;
}

std::uint32_t ThreadLanes::waiting_at(ThreadIndex thread, std::uint64_t at) const {
  std::uint32_t found = kNone;
  // Comes from the latest start to the earliest, so that the last one that fits is the outermost.
  open_between(calls_, call_column_, thread, at, at + 1, [&](std::uint32_t i) {
    if (calls_[i].start <= at && is_waiting(class_of(i))) found = i;
  });
  return found;
}

std::span<const OpenRecord> ThreadLanes::ranges(ThreadIndex thread, std::uint64_t from,
                                                std::uint64_t to) {
  answer_.clear();
  open_between(std::span<const NvtxRange>(ranges_), range_column_, thread, from, to,
               [&](std::uint32_t i) {
                 answer_.push_back({ranges_[i].start, ranges_[i].end, i, range_index_[i]});
               });
  std::reverse(answer_.begin(), answer_.end());
  return answer_;
}

}  // namespace profiler
