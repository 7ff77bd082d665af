// Numbers for kernel functions: a name and the resources that its records carry.
//
// CUPTI gives a name as a pointer into the target. The pointer is the key, since hashing long C++
// names for every launch would cost more than the rest of the record; but a pointer can come to
// mean another name once a module is unloaded, so the text is compared with a copy: at every use
// when it is short, once per buffer of records when it is long.
#pragma once

#include <cstddef>
#include <cstdint>

#include "injector/intern_table.h"

namespace profiler::injector {

class KernelNames {
 public:
  struct Function {
    std::uint32_t id;  // 0: out of memory, unknown
    bool is_new;       // a definition must be sent
    std::size_t name_bytes;
  };

  // Copies of names are forgotten, with their numbers, beyond this many bytes.
  static constexpr std::size_t kMaxNameBytes = 16 * 1024 * 1024;
  static constexpr std::size_t kShortName = 256;  // bytes

  ~KernelNames() { forget(); }

  // `name` may be null.
  Function number(const char* name, std::uint32_t registers, std::uint64_t static_shared_bytes,
                  std::uint64_t local_bytes);

  // A new buffer of records begins.
  void begin_buffer() { ++buffer_; }

  std::size_t size() const { return table_.size(); }

 private:
  struct Key {
    const char* name;
    std::uint32_t registers;
    std::uint64_t static_shared_bytes;
    std::uint64_t local_bytes;

    bool operator==(const Key&) const = default;
    std::uint64_t hash() const {
      return mix_bits(mix_bits(reinterpret_cast<std::uintptr_t>(name) + registers) +
                      (static_shared_bytes << 20) + local_bytes);
    }
  };
  struct Copy {
    char* text;
    std::size_t bytes;
    std::uint64_t checked_in_buffer;
  };

  bool remember(Copy& copy, const char* name);
  void forget();

  InternTable<Key, Copy> table_;
  std::size_t name_bytes_ = 0;
  std::uint64_t buffer_ = 1;
};

}  // namespace profiler::injector
