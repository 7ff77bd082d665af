// Which addresses are memory of the device, pinned or managed; everything else is pageable.
// Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "samples/virtual_gpu/engine/model.h"

namespace virtual_gpu {

struct MemoryRange {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::kPageable;
  std::uint32_t context = 0;
  bool registered = false;  // cudaHostRegister: the program's own memory
};

class AddressTable {
 public:
  // Device memory is reserved address space: it cannot be touched, and costs nothing. Pinned and
  // managed memory is real. Returns null when the system refuses.
  void* allocate(MemoryKind kind, std::uint64_t bytes, std::uint32_t context);
  // False when [begin, begin + bytes) overlaps a known range.
  bool register_host(void* begin, std::uint64_t bytes, std::uint32_t context);
  // Removes the range that begins at `address` and frees its memory (unless registered).
  // `wanted` says which ranges the caller may remove.
  bool remove(const void* address, bool (*wanted)(const MemoryRange&), MemoryRange* removed);
  void remove_context(std::uint32_t context);
  // The range that holds `address`, else a pageable one of 0 bytes.
  MemoryRange find(const void* address) const;

  std::uint64_t device_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, MemoryRange> ranges_;
  std::uint64_t device_bytes_ = 0;
};

}  // namespace virtual_gpu
