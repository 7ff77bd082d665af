// Records the NVTX calls of a process: on the program's threads one reading of the clock and one
// store into the thread's ring, on our thread the reading of all rings.
//
// One belongs to each session and is never destroyed. At most one is active: in a forked child
// none, until a session of its own begins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "injector/nvtx_ring.h"
#include "injector/nvtx_text.h"
#include "injector/sync.h"

namespace profiler::injector {

class NvtxWriter;

class NvtxRecorder {
 public:
  static constexpr std::uint32_t kMaxRings = 1024;  // 64 KiB each at most

  // What belongs to a range, mark or push.
  struct Attributes {
    std::uint32_t domain;    // of nvtx_domains(); 0 = default
    std::uint32_t category;  // 0 = none
    std::uint32_t string;    // of nvtx_strings(); 0 = none, `text` counts
    const NvtxText* text;    // null = none
  };
  struct Drained {
    std::uint64_t lost;  // events that found no room; a range counts once
    std::uint64_t from_ns;
    std::uint64_t to_ns;
    bool quiet;  // no thread was about to store an event: all that are older have been read
  };

  // `wake` counts up when rings should be read soon.
  explicit NvtxRecorder(Counter& wake) : wake_(wake) {}

  void activate();
  static void deactivate();
  // Null: nothing is to be recorded.
  static NvtxRecorder* active();
  // What START returns when nothing is recorded: unique in the process all the same.
  static std::uint64_t new_unrecorded_range() { return new_range() | kUnrecorded; }

  // ---- The program's threads ------------------------------------------------------------------

  // Return the level as NVTX has it.
  int push(const Attributes& attributes);
  int pop(std::uint32_t domain);
  std::uint64_t start(const Attributes& attributes);  // the range
  void end(std::uint32_t domain, std::uint64_t range);
  void mark(const Attributes& attributes);
  void name_thread(std::uint64_t tid, const NvtxText& name);
  void name_stream(std::uint32_t context_id, std::uint32_t stream_id, const NvtxText& name);

  // ---- Our thread -----------------------------------------------------------------------------

  bool was_used() const { return used_.load(std::memory_order_acquire); }
  // Some ring is half full, or none is left: they should be read soon.
  bool is_pressed() const { return pressed_.load(std::memory_order_acquire); }
  // Ranges that are open when recording stops still get their end.
  void set_recording(bool on) { recording_.store(on, std::memory_order_release); }
  Drained drain(NvtxWriter& writer);

 private:
  // For START: the range is not recorded, nor will be its END.
  static constexpr std::uint64_t kUnrecorded = std::uint64_t{1} << 63;

  class Use;

  static std::uint64_t new_range();
  NvtxRing* ring_of_thread();
  NvtxRing* attach();
  static void thread_ended(void* ring);
  bool is_recording() const { return recording_.load(std::memory_order_relaxed); }
  void press();
  void wake_if_filling(const NvtxRing& ring);
  void name(NvtxKind kind, std::uint64_t number, std::uint32_t category, const NvtxText& name);

  Counter& wake_;
  std::atomic<NvtxRing*> rings_{nullptr};
  std::atomic<std::uint32_t> ring_count_{0};
  std::atomic<std::uint64_t> lost_{0};  // on threads without a ring
  std::atomic<bool> used_{false};
  std::atomic<bool> pressed_{false};
  std::atomic<bool> recording_{true};
  std::uint64_t last_drain_ns_ = 0;  // our thread's
};

}  // namespace profiler::injector
