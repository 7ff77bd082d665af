// Gives keys of the target (a queue, a thread, a kernel's name) the short numbers that travel on
// the wire: 1, 2, 3 ... in order of first appearance.
//
// Open addressing, plain memory, one owner thread. A table is bounded: its owner calls `clear`
// when it is `full`; numbers go on counting, so that a number never means two things.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace profiler::injector {

inline std::uint64_t mix_bits(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0x9e3779b97f4a7c15ULL;
  return value ^ (value >> 29);
}

inline constexpr std::size_t kMaxInternEntries = 65536;

// `Key` needs `std::uint64_t hash() const` and ==; both are copied as plain memory.
template <typename Key, typename Value>
class InternTable {
 public:
  struct Entry {
    Key key;
    Value value;
    std::uint32_t id;  // 0: the slot is empty
  };

  InternTable() = default;
  InternTable(const InternTable&) = delete;
  InternTable& operator=(const InternTable&) = delete;
  ~InternTable() { std::free(slots_); }

  std::size_t size() const { return size_; }
  bool full() const { return size_ >= kMaxInternEntries; }

  // Null when absent.
  Entry* find(const Key& key) {
    if (last_ < capacity_ && slots_[last_].id != 0 && slots_[last_].key == key) {
      return &slots_[last_];
    }
    if (capacity_ == 0) return nullptr;
    last_ = slot_of(key);
    return slots_[last_].id != 0 ? &slots_[last_] : nullptr;
  }

  // The key must be absent and the table not full. The value is zeroed. Null when memory is out.
  Entry* add(const Key& key) {
    if (size_ * 2 >= capacity_ && !grow()) return nullptr;
    last_ = slot_of(key);
    Entry& entry = slots_[last_];
    entry.key = key;
    entry.value = Value{};
    entry.id = new_id();
    ++size_;
    return &entry;
  }

  // For an entry that now means something else.
  std::uint32_t new_id() { return ++last_id_; }

  void clear() {
    for (std::size_t i = 0; i < capacity_; ++i) slots_[i].id = 0;
    size_ = 0;
  }

  template <typename Visit>
  void for_each(Visit visit) {
    for (std::size_t i = 0; i < capacity_; ++i) {
      if (slots_[i].id != 0) visit(slots_[i]);
    }
  }

 private:
  std::size_t slot_of(const Key& key) const {
    std::size_t slot = key.hash() & (capacity_ - 1);
    while (slots_[slot].id != 0 && !(slots_[slot].key == key)) slot = (slot + 1) & (capacity_ - 1);
    return slot;
  }

  bool grow() {
    const std::size_t old_capacity = capacity_;
    Entry* old_slots = slots_;
    const std::size_t capacity = old_capacity == 0 ? 64 : old_capacity * 2;
    auto* slots = static_cast<Entry*>(std::calloc(capacity, sizeof(Entry)));
    if (slots == nullptr) return false;
    slots_ = slots;
    capacity_ = capacity;
    for (std::size_t i = 0; i < old_capacity; ++i) {
      if (old_slots[i].id != 0) slots_[slot_of(old_slots[i].key)] = old_slots[i];
    }
    std::free(old_slots);
    return true;
  }

  Entry* slots_ = nullptr;
  std::size_t capacity_ = 0;  // a power of two, or 0
  std::size_t size_ = 0;
  std::size_t last_ = 0;  // slot of the last find or add: runs of the same key are common
  std::uint32_t last_id_ = 0;
};

}  // namespace profiler::injector
