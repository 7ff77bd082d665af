#include "samples/virtual_gpu/engine/address_table.h"

#include <sys/mman.h>

namespace virtual_gpu {
namespace {

std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + 4095) & ~std::uint64_t{4095};
}

void unmap(const MemoryRange& range) {
  if (!range.registered) munmap(reinterpret_cast<void*>(range.begin), whole_pages(range.bytes));
}

}  // namespace

void* AddressTable::allocate(MemoryKind kind, std::uint64_t bytes, std::uint32_t context) {
  const bool device = kind == MemoryKind::kDevice;
  void* memory = mmap(nullptr, whole_pages(bytes), device ? PROT_NONE : PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (device ? MAP_NORESERVE : 0), -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::lock_guard lock(mutex_);
  ranges_[begin] = {begin, bytes, kind, context, false};
  if (device) device_bytes_ += bytes;
  return memory;
}

bool AddressTable::register_host(void* address, std::uint64_t bytes, std::uint32_t context) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto next = ranges_.lower_bound(begin);
  if (next != ranges_.end() && next->first < begin + bytes) return false;
  if (next != ranges_.begin()) {
    const MemoryRange& before = std::prev(next)->second;
    if (before.begin + before.bytes > begin) return false;
  }
  ranges_[begin] = {begin, bytes, MemoryKind::kPinned, context, true};
  return true;
}

bool AddressTable::remove(const void* address, bool (*wanted)(const MemoryRange&),
                          MemoryRange* removed) {
  const std::lock_guard lock(mutex_);
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == ranges_.end() || !wanted(found->second)) return false;
  if (removed != nullptr) *removed = found->second;
  if (found->second.kind == MemoryKind::kDevice) device_bytes_ -= found->second.bytes;
  unmap(found->second);
  ranges_.erase(found);
  return true;
}

void AddressTable::remove_context(std::uint32_t context) {
  const std::lock_guard lock(mutex_);
  for (auto i = ranges_.begin(); i != ranges_.end();) {
    if (i->second.context != context) {
      ++i;
      continue;
    }
    if (i->second.kind == MemoryKind::kDevice) device_bytes_ -= i->second.bytes;
    unmap(i->second);
    i = ranges_.erase(i);
  }
}

MemoryRange AddressTable::find(const void* address) const {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  const auto next = ranges_.upper_bound(value);
  if (next != ranges_.begin()) {
    const MemoryRange& range = std::prev(next)->second;
    if (value - range.begin < range.bytes) return range;
  }
  return {};
}

std::uint64_t AddressTable::device_bytes() const {
  const std::lock_guard lock(mutex_);
  return device_bytes_;
}

}  // namespace virtual_gpu
