// The CPU lanes: for each thread its API calls, OVERHEAD records and NVTX ranges, sorted and
// nested, so that one can ask what was open when. Built once, when all records are there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collector/api_class.h"
#include "collector/catalog.h"
#include "collector/innermost.h"
#include "collector/records.h"

namespace profiler {

// Sorts calls as lanes need them: by thread, start, outer before inner.
void sort_for_lanes(std::vector<ApiCall>& calls, const Catalog& catalog);

class ThreadLanes {
 public:
  // `calls` as sort_for_lanes leaves them. All of it must outlive the lanes.
  ThreadLanes(std::span<const ApiCall> calls, std::span<const OverheadRecord> overheads,
              std::span<const NvtxRange> ranges, const Catalog& catalog);

  // A call that submitted a copy of pageable memory blocks the host although it is asynchronous,
  // and so do the calls nested in it. To be told before anything is asked; `call`: an outermost
  // one.
  void mark_pageable(std::uint32_t call);

  std::span<const ApiCall> calls() const { return calls_; }
  // The outermost call of the same thread that encloses this one in time; itself if there is none.
  std::uint32_t outermost(std::uint32_t call) const { return outermost_[call]; }
  // The call in which this one lies directly, kNone if in none.
  std::uint32_t parent(std::uint32_t call) const { return parent_[call]; }
  Cause class_of(std::uint32_t call) const;
  bool is_polling(std::uint32_t call) const;
  bool is_kernel_launch(std::uint32_t call) const;

  // Everything open on a thread at some instant of [from, to), sorted by start. `cause_of` tells
  // what a record stands for. Valid until the next call.
  std::span<const OpenRecord> records(ThreadIndex thread, std::uint64_t from, std::uint64_t to);
  Cause cause_of(const OpenRecord& record) const;
  static bool is_overhead(const OpenRecord& record) { return record.order == kOverheadOrder; }
  // Whether any API call of the thread has a nanosecond in [from, to).
  bool has_call(ThreadIndex thread, std::uint64_t from, std::uint64_t to) const;

  // The calls of other threads of the process that wait (and do not poll), end within [from, to]
  // and have a nanosecond in it; sorted by start. Valid until the next call.
  std::span<const OpenRecord> waiting_elsewhere(ThreadIndex thread, std::uint64_t from,
                                                std::uint64_t to);

  // The outermost waiting call of the thread that is open at `at`; kNone if there is none.
  std::uint32_t waiting_at(ThreadIndex thread, std::uint64_t at) const;

  // NVTX ranges that the thread opened and that are open at some instant of [from, to), sorted by
  // start; `index` of a record is that into `ranges`. Valid until the next call.
  std::span<const OpenRecord> ranges(ThreadIndex thread, std::uint64_t from, std::uint64_t to);

 private:
  // Ties between records of a thread with equal times: overhead lies in the driver call, which lies
  // in the runtime call.
  static constexpr std::uint32_t kRuntimeOrder = 0;
  static constexpr std::uint32_t kDriverOrder = 1;
  static constexpr std::uint32_t kOverheadOrder = 2;

  // A thread's part of a column that is sorted by thread and start, with the latest end so far, so
  // that a search backwards knows when nothing can be open any more.
  struct Column {
    std::vector<std::uint32_t> first;  // by thread; one more than there are threads
    std::vector<std::uint64_t> latest_end;
  };
  template <typename Record>
  static Column make_column(std::span<const Record> sorted, std::size_t threads);
  template <typename Record, typename Take>
  static void open_between(std::span<const Record> sorted, const Column& column, ThreadIndex thread,
                           std::uint64_t from, std::uint64_t to, Take take);

  const Catalog& catalog_;
  std::span<const ApiCall> calls_;
  std::vector<OverheadRecord> overheads_;
  std::vector<NvtxRange> ranges_;
  std::vector<std::uint32_t> range_index_;  // of ranges_ in what the constructor got
  Column call_column_;
  Column overhead_column_;
  Column range_column_;
  std::vector<std::uint32_t> outermost_;
  std::vector<std::uint32_t> parent_;
  std::vector<bool> pageable_;
  std::vector<ApiClass> class_of_function_;
  // Waiting calls of each process by their end; filled when first asked for.
  std::vector<std::vector<std::uint32_t>> waiting_by_end_;
  bool waiting_ready_ = false;
  std::vector<OpenRecord> answer_;
};

}  // namespace profiler
