#include "injector/kernel_names.h"

#include <cstdlib>
#include <cstring>

namespace profiler::injector {

KernelNames::Function KernelNames::number(const char* name, std::uint32_t registers,
                                          std::uint64_t static_shared_bytes,
                                          std::uint64_t local_bytes) {
  const Key key{name, registers, static_shared_bytes, local_bytes};
  if (auto* entry = table_.find(key)) {
    Copy& copy = entry->value;
    const bool checked = copy.bytes > kShortName && copy.checked_in_buffer == buffer_;
    if (checked || name == nullptr || std::strcmp(copy.text, name) == 0) {
      copy.checked_in_buffer = buffer_;
      return {entry->id, false, copy.bytes};
    }
    name_bytes_ -= copy.bytes;
    std::free(copy.text);
    copy = Copy{};
    if (!remember(copy, name)) {
      // An empty text differs from every real name: the next use tries again.
      copy.text = static_cast<char*>(std::calloc(1, 1));
      if (copy.text == nullptr) forget();
      return {0, false, 0};
    }
    entry->id = table_.new_id();
    return {entry->id, true, copy.bytes};
  }
  if (table_.full() || name_bytes_ > kMaxNameBytes) forget();
  Copy copy{};
  if (!remember(copy, name)) return {0, false, 0};
  auto* entry = table_.add(key);
  if (entry == nullptr) {
    name_bytes_ -= copy.bytes;
    std::free(copy.text);
    return {0, false, 0};
  }
  entry->value = copy;
  return {entry->id, true, copy.bytes};
}

bool KernelNames::remember(Copy& copy, const char* name) {
  copy.checked_in_buffer = buffer_;
  if (name == nullptr) return true;
  copy.bytes = std::strlen(name);
  copy.text = static_cast<char*>(std::malloc(copy.bytes + 1));
  if (copy.text == nullptr) {
    copy.bytes = 0;
    return false;
  }
  std::memcpy(copy.text, name, copy.bytes + 1);
  name_bytes_ += copy.bytes;
  return true;
}

void KernelNames::forget() {
  table_.for_each([](auto& entry) { std::free(entry.value.text); });
  table_.clear();
  name_bytes_ = 0;
}

}  // namespace profiler::injector
