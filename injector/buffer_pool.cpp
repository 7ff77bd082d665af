#include "injector/buffer_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

namespace profiler::injector {
namespace {

// CUPTI returns a buffer as full when the next record does not fit; no record is this long.
constexpr std::size_t kLongestRecord = 1024;

void* map(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

void BufferPool::configure(std::size_t cap, bool may_decline) {
  const Lock lock(mutex_);
  cap_ = cap < kSmallest ? kSmallest : cap;
  may_decline_ = may_decline;
}

std::size_t BufferPool::index_of(std::size_t size) {
  std::size_t index = 0;
  while ((kSmallest << index) < size) ++index;
  return index;
}

void BufferPool::link(Buffer*& list, Buffer* buffer) {
  buffer->previous = nullptr;
  buffer->next = list;
  if (list != nullptr) list->previous = buffer;
  list = buffer;
}

void BufferPool::unlink(Buffer*& list, Buffer* buffer) {
  (buffer->previous != nullptr ? buffer->previous->next : list) = buffer->next;
  if (buffer->next != nullptr) buffer->next->previous = buffer->previous;
}

Buffer* BufferPool::new_buffer(std::size_t size) {
  Buffer* buffer = unmapped_;
  if (buffer != nullptr) {
    unmapped_ = buffer->next;
  } else {
    buffer = static_cast<Buffer*>(std::malloc(sizeof(Buffer)));
    if (buffer == nullptr) return nullptr;
  }
  *buffer = Buffer{};
  buffer->size = size;
  buffer->data = static_cast<std::uint8_t*>(map(size));
  if (buffer->data == nullptr) {
    buffer->next = unmapped_;
    unmapped_ = buffer;
    return nullptr;
  }
  return buffer;
}

Buffer* BufferPool::take_free(std::size_t size) {
  const std::size_t index = index_of(size);
  Buffer* buffer = free_[index];
  if (buffer == nullptr) return nullptr;
  free_[index] = buffer->next;
  --free_count_[index];
  if (free_count_[index] < free_low_[index]) free_low_[index] = free_count_[index];
  return buffer;
}

Buffer* BufferPool::hand_out(std::uint64_t now_ns) {
  used_.store(true, std::memory_order_relaxed);
  const Lock lock(mutex_);
  Buffer* buffer = take_free(wanted_size_);
  if (buffer == nullptr && mapped_ + wanted_size_ <= cap_) {
    buffer = new_buffer(wanted_size_);
    if (buffer != nullptr) mapped_ += buffer->size;
  }
  // Near the cap any size will do.
  for (std::size_t size = kLargest; buffer == nullptr && size >= kSmallest; size /= 2) {
    buffer = take_free(size);
  }
  for (std::size_t size = wanted_size_ / 2; buffer == nullptr && size >= kSmallest; size /= 2) {
    if (mapped_ + size > cap_) continue;
    buffer = new_buffer(size);
    if (buffer != nullptr) mapped_ += size;
  }
  if (buffer == nullptr) {
    if (may_decline_) return nullptr;
    buffer = free_emergency_;
    if (buffer != nullptr) {
      free_emergency_ = buffer->next;
    } else {
      buffer = new_buffer(kSmallest);
    }
    if (buffer == nullptr) return nullptr;
    buffer->emergency = true;
  }
  buffer->handed_out_ns = now_ns;
  buffer->valid = 0;
  link(handed_out_, buffer);
  return buffer;
}

Buffer* BufferPool::give_back(const std::uint8_t* data, std::size_t valid, std::uint64_t now_ns) {
  const Lock lock(mutex_);
  Buffer* buffer = handed_out_;
  while (buffer != nullptr && buffer->data != data) buffer = buffer->next;
  if (buffer == nullptr) return nullptr;
  unlink(handed_out_, buffer);
  buffer->valid = valid < buffer->size ? valid : buffer->size;
  buffer->next = nullptr;
  buffer->previous = nullptr;
  if (buffer->emergency) return buffer;

  const bool full = buffer->size - buffer->valid < kLongestRecord;
  if (full && now_ns - buffer->handed_out_ns < kFastFill && buffer->size >= wanted_size_ &&
      wanted_size_ < kLargest) {
    wanted_size_ *= 2;
  }
  (completed_last_ != nullptr ? completed_last_->next : completed_first_) = buffer;
  completed_last_ = buffer;
  return buffer;
}

void BufferPool::discard(Buffer* emergency, std::uint64_t records, std::uint64_t now_ns) {
  std::memset(emergency->data, 0, emergency->valid);
  const Lock lock(mutex_);
  if (records != 0) {
    if (loss_.count == 0 || emergency->handed_out_ns < loss_.from_ns) {
      loss_.from_ns = emergency->handed_out_ns;
    }
    loss_.to_ns = now_ns;
    loss_.count += records;
  }
  emergency->next = free_emergency_;
  free_emergency_ = emergency;
}

Buffer* BufferPool::take_completed() {
  const Lock lock(mutex_);
  Buffer* buffer = completed_first_;
  if (buffer == nullptr) return nullptr;
  completed_first_ = buffer->next;
  if (completed_first_ == nullptr) completed_last_ = nullptr;
  in_work_ = buffer;
  return buffer;
}

Buffer* BufferPool::next_completed(const Buffer* previous) {
  const Lock lock(mutex_);
  return previous == nullptr ? completed_first_ : previous->next;
}

void BufferPool::recycle(Buffer* buffer) {
  std::memset(buffer->data, 0, buffer->valid);
  void* memory = nullptr;
  std::size_t size = 0;
  {
    const Lock lock(mutex_);
    in_work_ = nullptr;
    if (buffer->size < wanted_size_) {
      // Outgrown: a larger one will be mapped in its place.
      memory = buffer->data;
      size = buffer->size;
      mapped_ -= size;
      buffer->data = nullptr;
      buffer->next = unmapped_;
      unmapped_ = buffer;
    } else {
      const std::size_t index = index_of(buffer->size);
      buffer->next = free_[index];
      free_[index] = buffer;
      ++free_count_[index];
    }
  }
  if (memory != nullptr) munmap(memory, size);
}

std::uint64_t BufferPool::complete_until(std::uint64_t now_ns, std::uint64_t* outstanding) {
  const Lock lock(mutex_);
  std::uint64_t earliest = now_ns;
  std::uint64_t count = 0;
  const auto consider = [&](const Buffer* buffer) {
    ++count;
    if (buffer->handed_out_ns < earliest) earliest = buffer->handed_out_ns;
  };
  for (const Buffer* at = handed_out_; at != nullptr; at = at->next) consider(at);
  for (const Buffer* at = completed_first_; at != nullptr; at = at->next) consider(at);
  if (in_work_ != nullptr) consider(in_work_);
  *outstanding = count;
  return earliest;
}

BufferPool::Loss BufferPool::take_loss() {
  const Lock lock(mutex_);
  const Loss loss = loss_;
  loss_ = Loss{};
  return loss;
}

void BufferPool::trim() {
  for (std::size_t index = 0; index < kSizes; ++index) {
    Buffer* surplus = nullptr;
    {
      const Lock lock(mutex_);
      // Half of what lay idle, so that a steady rhythm keeps its buffers.
      for (std::size_t i = free_low_[index] / 2; i != 0; --i) {
        Buffer* buffer = free_[index];
        free_[index] = buffer->next;
        --free_count_[index];
        mapped_ -= buffer->size;
        buffer->next = surplus;
        surplus = buffer;
      }
      free_low_[index] = free_count_[index];
    }
    while (surplus != nullptr) {
      Buffer* buffer = surplus;
      surplus = buffer->next;
      munmap(buffer->data, buffer->size);
      buffer->data = nullptr;
      const Lock lock(mutex_);
      buffer->next = unmapped_;
      unmapped_ = buffer;
    }
  }
}

std::size_t BufferPool::mapped_bytes() {
  const Lock lock(mutex_);
  return mapped_;
}

}  // namespace profiler::injector
