// The NVTX events of one thread on their way to ours: a ring of bytes with one writer, the thread,
// and one reader, our thread. No locks, no allocation per event.
//
// A push is taken only if the pops of all open ranges have room behind it: what comes through is
// always balanced. A push that finds no room is lost together with its pop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace profiler::injector {

enum class NvtxKind : std::uint8_t {
  // As NvtxEvent.Kind of the wire.
  kPush = 1,
  kPop = 2,
  kStart = 3,
  kEnd = 4,
  kMark = 5,
  // Names that the program gives.
  kThreadName = 16,
  kStreamName = 17,
};

struct NvtxRecord {
  std::uint64_t time_ns;    // CLOCK_MONOTONIC
  std::uint64_t number;     // kStart, kEnd: range; kThreadName: tid; kStreamName: CUPTI stream id
  std::uint32_t domain;     // of nvtx_domains(); 0 = default
  std::uint32_t category;   // kStreamName: CUPTI context id; 0 = none
  std::uint32_t string;     // of nvtx_strings(); 0 = none
  std::uint16_t text_size;  // bytes of text behind the record
  NvtxKind kind;
  std::uint8_t unused;
};
static_assert(sizeof(NvtxRecord) == 32);

class NvtxRing {
 public:
  static constexpr std::uint32_t kCapacity = 64 * 1024;  // bytes, a power of two
  static constexpr std::size_t kMaxTextSize = 1000;
  static constexpr int kNoTracking = -2;  // NVTX_NO_PUSH_POP_TRACKING

  // Null: no memory. Rings are never freed.
  static NvtxRing* create();

  // ---- The writer -----------------------------------------------------------------------------

  // A ring begins or ends to be the calling thread's.
  bool claim(std::uint64_t tid);
  void release() { state_.store(State::kReleased, std::memory_order_release); }

  // Encloses each use, the reading of the clock included. False: a signal handler interrupts one.
  bool begin();
  void end() { busy_.store(false, std::memory_order_release); }

  // Return the level of the range in its domain, 0 = outermost; kNoTracking or -1 (no range is
  // open) otherwise. `recording` false at the push: the range is not recorded, nor is its end.
  int push(const NvtxRecord& record, const char* text, bool recording);
  int pop(const NvtxRecord& record, bool recording);
  // False: no room; counted as lost.
  bool write(const NvtxRecord& record, const char* text);
  void lose() { lost_.fetch_add(1, std::memory_order_relaxed); }
  bool is_half_full() const;

  // ---- The reader -----------------------------------------------------------------------------

  std::uint64_t tid() const { return tid_; }  // of the thread whose events are in the ring
  bool is_busy() const { return busy_.load(std::memory_order_acquire); }
  // Whether its thread has ended; what it wrote is to be read before `free`.
  bool is_released() const { return state_.load(std::memory_order_acquire) == State::kReleased; }
  bool is_free() const { return state_.load(std::memory_order_acquire) == State::kFree; }
  void free() { state_.store(State::kFree, std::memory_order_release); }
  std::uint32_t end_position() const { return head_.load(std::memory_order_acquire); }
  // Reads the next record before `end_position`; `text` has room for kMaxTextSize. False: none.
  bool read(NvtxRecord& record, char* text, std::uint32_t end_position);
  std::uint64_t take_lost() { return lost_.exchange(0, std::memory_order_relaxed); }

  NvtxRing* next = nullptr;  // in the recorder's list; set once

 private:
  enum class State : std::uint32_t { kFree, kOwned, kReleased };
  static constexpr std::uint32_t kMaxDomains = 32;  // with open ranges on one thread
  static constexpr std::uint32_t kMaxDepth = 256;   // of recorded ranges in one domain
  static constexpr std::uint32_t kMask = kCapacity - 1;

  struct Stack {
    std::uint32_t domain;
    std::uint32_t depth;
    std::uint64_t skipped[kMaxDepth / 64];  // bit i: the range of level i is not recorded

    bool is_skipped(std::uint32_t level) const {
      return level >= kMaxDepth || (skipped[level / 64] >> (level % 64) & 1) != 0;
    }
    void set_skipped(std::uint32_t level, bool on) {
      if (level >= kMaxDepth) return;
      const std::uint64_t bit = std::uint64_t{1} << (level % 64);
      skipped[level / 64] = on ? skipped[level / 64] | bit : skipped[level / 64] & ~bit;
    }
  };

  Stack* stack_of(std::uint32_t domain, bool make);
  bool has_room(std::size_t bytes) const;
  void put(std::uint32_t position, const void* bytes, std::size_t size);
  void get(std::uint32_t position, void* bytes, std::size_t size) const;

  std::atomic<State> state_{State::kFree};
  std::atomic<bool> busy_{false};
  std::atomic<std::uint32_t> head_{0};  // the writer's; positions are taken modulo kCapacity
  std::atomic<std::uint64_t> lost_{0};
  std::uint64_t tid_ = 0;
  std::uint32_t open_ = 0;  // recorded ranges
  std::uint32_t stacks_used_ = 0;
  Stack stacks_[kMaxDomains] = {};
  alignas(64) std::atomic<std::uint32_t> tail_{0};  // the reader's
  alignas(64) unsigned char data_[kCapacity];
};

}  // namespace profiler::injector
