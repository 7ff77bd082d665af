// The memory that CUPTI writes records into: handed out on application threads, given back on any
// thread, read and recycled by our own thread.
//
// Buffers grow from 64 KiB to 1 MiB while one fills within 200 ms: a quiet thread then holds
// little, and a busy one asks seldom. All are zero when handed out (mmap, later our own thread's
// memset of what CUPTI wrote), so that CUPTI need not clear them on the thread that launches.
// The sum is capped. Beyond the cap a request is declined, where the CUPTI version allows that;
// else an emergency buffer is lent, whose records are counted and thrown away on its return.
//
// The mutex is held for a few instructions (once in a while for an mmap) and never across a call
// into CUPTI: CUPTI calls back under locks of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "injector/sync.h"

namespace profiler::injector {

// Owned by the pool for ever; `data` is, too, except between hand_out and give_back.
struct Buffer {
  std::uint8_t* data;
  std::size_t size;   // bytes
  std::size_t valid;  // bytes that CUPTI wrote
  std::uint64_t handed_out_ns;
  bool emergency;
  Buffer* next;
  Buffer* previous;  // while handed out
};

class BufferPool {
 public:
  static constexpr std::size_t kSmallest = 64 * 1024;
  static constexpr std::size_t kLargest = 1024 * 1024;
  static constexpr std::size_t kSizes = 5;
  static constexpr std::uint64_t kFastFill = 200'000'000;  // ns

  struct Loss {
    std::uint64_t count;    // records
    std::uint64_t from_ns;  // CLOCK_MONOTONIC
    std::uint64_t to_ns;
  };

  // Before any other call. `cap` in bytes. `may_decline`: see CuptiApi::may_decline_buffers.
  void configure(std::size_t cap, bool may_decline);

  // A zeroed, 64-byte aligned buffer for CUPTI; null: declined. Any thread.
  Buffer* hand_out(std::uint64_t now_ns);

  // CUPTI is done with `data`. Null: no buffer of ours (another client's). An emergency buffer is
  // the caller's until `discard`; any other waits for `take_completed`. Any thread.
  Buffer* give_back(const std::uint8_t* data, std::size_t valid, std::uint64_t now_ns);
  void discard(Buffer* emergency, std::uint64_t records, std::uint64_t now_ns);

  // The following are for our own thread.

  // In order of return; null when there is none. It counts as outstanding until recycled.
  Buffer* take_completed();
  // Looks on without taking: the one returned after `previous`, the first for null.
  Buffer* next_completed(const Buffer* previous);
  void recycle(Buffer* buffer);

  // Every record that ended before the returned time has been in a recycled buffer, as far as the
  // hand-out times tell: the earliest hand-out of a buffer not yet recycled, at most `now_ns`.
  std::uint64_t complete_until(std::uint64_t now_ns, std::uint64_t* outstanding);

  // What emergency buffers lost since the last call.
  Loss take_loss();

  // Returns memory of buffers that were not needed since the last call.
  void trim();

  bool was_used() const { return used_.load(std::memory_order_relaxed); }
  std::size_t mapped_bytes();

 private:
  Buffer* new_buffer(std::size_t size);
  Buffer* take_free(std::size_t size);
  static std::size_t index_of(std::size_t size);
  static void link(Buffer*& list, Buffer* buffer);
  static void unlink(Buffer*& list, Buffer* buffer);

  Mutex mutex_;
  std::size_t cap_ = 0;
  bool may_decline_ = false;
  std::size_t wanted_size_ = kSmallest;
  std::size_t mapped_ = 0;     // bytes, emergency buffers apart
  Buffer* free_[kSizes] = {};  // by size
  std::size_t free_count_[kSizes] = {};
  std::size_t free_low_[kSizes] = {};  // least count since the last trim
  Buffer* free_emergency_ = nullptr;
  Buffer* unmapped_ = nullptr;    // structs without memory
  Buffer* handed_out_ = nullptr;  // doubly linked
  Buffer* completed_first_ = nullptr;
  Buffer* completed_last_ = nullptr;
  Buffer* in_work_ = nullptr;  // the one our thread is reading
  Loss loss_{};
  std::atomic<bool> used_{false};
};

}  // namespace profiler::injector
