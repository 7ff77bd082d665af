#include "injector/nvtx_ring.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace profiler::injector {
namespace {

std::size_t rounded_up(std::size_t size) {
  return (size + 7) & ~std::size_t{7};
}

}  // namespace

NvtxRing* NvtxRing::create() {
  // Not malloc: the caller may be inside the program's own. Pages come with their first use.
  void* memory =
      mmap(nullptr, sizeof(NvtxRing), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) NvtxRing;
}

bool NvtxRing::claim(std::uint64_t tid) {
  State expected = State::kFree;
  if (!state_.compare_exchange_strong(expected, State::kOwned, std::memory_order_acq_rel)) {
    return false;
  }
  tid_ = tid;
  open_ = 0;
  stacks_used_ = 0;
  return true;
}

bool NvtxRing::begin() {
  if (busy_.load(std::memory_order_relaxed)) return false;
  busy_.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return true;
}

// ---- Nesting ------------------------------------------------------------------------------------

NvtxRing::Stack* NvtxRing::stack_of(std::uint32_t domain, bool make) {
  Stack* unused = nullptr;
  for (std::uint32_t i = 0; i < stacks_used_; ++i) {
    if (stacks_[i].domain == domain) return &stacks_[i];
    if (stacks_[i].depth == 0) unused = &stacks_[i];
  }
  if (!make) return nullptr;
  if (unused == nullptr) {
    if (stacks_used_ == kMaxDomains) return nullptr;
    unused = &stacks_[stacks_used_++];
  }
  unused->domain = domain;
  unused->depth = 0;
  return unused;
}

int NvtxRing::push(const NvtxRecord& record, const char* text, bool recording) {
  Stack* stack = stack_of(record.domain, true);
  if (stack == nullptr) {
    if (recording) lose();
    return kNoTracking;
  }
  const std::uint32_t level = stack->depth++;
  bool recorded = false;
  if (recording && level >= kMaxDepth) {
    lose();
  } else if (recording) {
    ++open_;  // keeps room for the pop
    recorded = write(record, text);
    if (!recorded) --open_;
  }
  stack->set_skipped(level, !recorded);
  return static_cast<int>(level);
}

int NvtxRing::pop(const NvtxRecord& record, bool recording) {
  Stack* stack = stack_of(record.domain, false);
  if (stack == nullptr || stack->depth == 0) {
    // Closes nothing; recorded all the same, as a fault of the program.
    if (recording) write(record, nullptr);
    return -1;
  }
  const std::uint32_t level = --stack->depth;
  if (!stack->is_skipped(level)) {
    --open_;
    write(record, nullptr);
  }
  return static_cast<int>(level);
}

// ---- Bytes --------------------------------------------------------------------------------------

bool NvtxRing::has_room(std::size_t bytes) const {
  const std::uint32_t used =
      head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_acquire);
  return used + bytes + std::size_t{open_} * sizeof(NvtxRecord) <= kCapacity;
}

bool NvtxRing::is_half_full() const {
  return head_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_relaxed) >=
         kCapacity / 2;
}

bool NvtxRing::write(const NvtxRecord& record, const char* text) {
  const std::size_t size = sizeof record + rounded_up(record.text_size);
  if (!has_room(size)) {
    lose();
    return false;
  }
  const std::uint32_t head = head_.load(std::memory_order_relaxed);
  put(head, &record, sizeof record);
  if (text != nullptr) {
    put(head + static_cast<std::uint32_t>(sizeof record), text, record.text_size);
  }
  head_.store(head + static_cast<std::uint32_t>(size), std::memory_order_release);
  return true;
}

bool NvtxRing::read(NvtxRecord& record, char* text, std::uint32_t end_position) {
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  if (tail == end_position) return false;
  get(tail, &record, sizeof record);
  get(tail + static_cast<std::uint32_t>(sizeof record), text, record.text_size);
  const std::size_t size = sizeof record + rounded_up(record.text_size);
  tail_.store(tail + static_cast<std::uint32_t>(size), std::memory_order_release);
  return true;
}

void NvtxRing::put(std::uint32_t position, const void* bytes, std::size_t size) {
  const std::uint32_t at = position & kMask;
  const std::size_t first = size < kCapacity - at ? size : kCapacity - at;
  std::memcpy(data_ + at, bytes, first);
  std::memcpy(data_, static_cast<const unsigned char*>(bytes) + first, size - first);
}

void NvtxRing::get(std::uint32_t position, void* bytes, std::size_t size) const {
  const std::uint32_t at = position & kMask;
  const std::size_t first = size < kCapacity - at ? size : kCapacity - at;
  std::memcpy(bytes, data_ + at, first);
  std::memcpy(static_cast<unsigned char*>(bytes) + first, data_, size - first);
}

}  // namespace profiler::injector
