// The activity buffers: the client hands out empty ones, records are put into them, and they are
// given back when they are full and complete, or flushed. Thread-safe; the client's callbacks are
// called without any lock held.
#pragma once

#include <cupti.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "samples/virtual_gpu/engine/interface.h"

namespace virtual_gpu {

struct Buffer {
  std::uint8_t* data = nullptr;
  std::size_t size = 0;
  std::size_t used = 0;
  std::size_t records = 0;
  std::size_t record_limit = 0;  // 0 = none
  std::uint32_t incomplete = 0;  // records of operations that have not ended
  bool retired = false;          // no more records go in
  bool substantial = false;      // holds more than the records of what buffers cost
  bool delivered = false;        // the client's again; only the count of incomplete still matters
};

// Where the record of an operation was reserved.
struct Slot {
  Buffer* buffer = nullptr;
  std::size_t offset = 0;
  std::uint64_t start_ns = 0;  // as the record says
};

class BufferStore {
 public:
  static BufferStore& instance();

  void set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                     CUpti_BuffersCallbackCompleteFunc complete);
  bool has_callbacks() const { return request_ != nullptr; }
  void set_zeroed(bool zeroed) { zeroed_ = zeroed; }
  void set_per_thread(bool per_thread) { per_thread_ = per_thread; }

  // Both do nothing (false, null), and count a dropped record, when the client gives no buffer.
  bool write(const void* record, std::size_t size) { return append(record, size, nullptr); }
  Slot* reserve(const void* record, std::size_t size);  // to be completed

  // `set_times` writes into the record, which is still the store's own during the call.
  void started(Slot* slot, std::uint64_t start_ns, void (*set_times)(void* record, Times times));
  // Returns the times that the record carries, and frees the slot.
  Times ended(Slot* slot, Times times, void (*set_times)(void* record, Times times));

  // Gives back, on this thread, every buffer without unfinished records; with `force` all.
  void flush(bool force);
  // Every `ms` the worker gives back full and complete buffers; 0 = never.
  void set_period(std::uint32_t ms);
  std::uint64_t take_dropped();

 private:
  // Where a thread's records go.
  struct Source {
    Buffer* current = nullptr;
  };
  struct ThreadExit {  // gives back what an ending thread leaves
    ~ThreadExit();
    Source* source = nullptr;
  };

  bool append(const void* record, std::size_t size, Slot* slot);
  // `cost` is that of the last buffer that was asked for, if any was.
  bool append(const void* record, std::size_t size, Slot* slot, Overhead& cost);
  static Overhead begin_overhead(OverheadKind kind);
  static void end_overhead(Overhead& overhead);
  static void report(const Overhead& overhead);
  Source& source();
  void retire(Source& source);
  // `costs`: the time that it takes is reported.
  void flush_once(bool force, bool costs);
  void deliver(std::vector<Buffer*>& buffers, bool costs);
  std::vector<Buffer*> take_complete(bool force);
  void start_worker();
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;       // the worker
  std::condition_variable delivered_;  // the worker has delivered
  CUpti_BuffersCallbackRequestFunc request_ = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete_ = nullptr;
  bool zeroed_ = false;
  bool per_thread_ = true;
  std::vector<Source*> sources_;
  Source shared_;
  std::vector<Buffer*> retired_;  // full, oldest first
  std::uint64_t dropped_ = 0;
  std::uint32_t period_ms_ = 0;
  std::uint32_t complete_retired_ = 0;
  int delivering_ = 0;
  bool worker_runs_ = false;
};

}  // namespace virtual_gpu
