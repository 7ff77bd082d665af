#include "injector/nvtx_writer.h"

#include <cstdlib>
#include <cstring>

#include "injector/nvtx_registry.h"
#include "injector/nvtx_text.h"

namespace profiler::injector {

bool NvtxWriter::TextKey::operator==(const TextKey& other) const {
  return text_hash == other.text_hash && size == other.size &&
         std::memcmp(bytes, other.bytes, size) == 0;
}

void NvtxWriter::write(const NvtxRecord& record, const char* text, std::uint64_t tid) {
  switch (record.kind) {
    case NvtxKind::kThreadName:
      encoder_.name_thread(record.number, text, record.text_size);
      return;
    case NvtxKind::kStreamName:
      encoder_.stream_name(record.category, record.number, text, record.text_size);
      return;
    default:
      break;
  }
  NvtxEventFacts event{};
  event.kind = static_cast<std::uint32_t>(record.kind);
  event.time_ns = record.time_ns;
  event.tid = tid;
  event.domain_id = domain_id(record.domain);
  event.text_id = message_id(record, text);
  event.range = record.number;
  event.category = record.category;
  encoder_.nvtx_event(event);
}

std::uint32_t NvtxWriter::domain_id(std::uint32_t number) {
  const NvtxName* name = nvtx_domains().find(number);
  if (name == nullptr) return 0;
  const DomainKey key{number};
  if (const auto* known = domains_.find(key)) return known->id;
  if (domains_.full()) domains_.clear();
  const auto* entry = domains_.add(key);
  if (entry == nullptr) return 0;
  encoder_.nvtx_domain(entry->id, name->text(), name->size);
  return entry->id;
}

std::uint32_t NvtxWriter::message_id(const NvtxRecord& record, const char* text) {
  if (record.string != 0) {
    const NvtxName* name = nvtx_strings().find(record.string);
    return name == nullptr ? 0 : text_id(name->text(), name->size, name->hash);
  }
  if (record.text_size == 0) return 0;
  return text_id(text, record.text_size, hash_text(text, record.text_size));
}

std::uint32_t NvtxWriter::text_id(const char* bytes, std::size_t size, std::uint64_t hash) {
  if (const auto* known = texts_.find({bytes, size, hash})) return known->id;
  if (texts_.full() || text_bytes_ + size > kMaxTextBytes) forget_texts();
  auto* copy = static_cast<char*>(std::malloc(size));
  if (copy == nullptr) return 0;
  std::memcpy(copy, bytes, size);
  const auto* entry = texts_.add({copy, size, hash});
  if (entry == nullptr) {
    std::free(copy);
    return 0;
  }
  text_bytes_ += size;
  encoder_.text(entry->id, copy, size);
  return entry->id;
}

void NvtxWriter::forget_texts() {
  texts_.for_each([](auto& entry) { std::free(const_cast<char*>(entry.key.bytes)); });
  texts_.clear();
  text_bytes_ = 0;
}

}  // namespace profiler::injector
