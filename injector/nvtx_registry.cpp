#include "injector/nvtx_registry.h"

#include <cstdlib>
#include <cstring>

namespace profiler::injector {
namespace {

// Zero-initialised: pages that are not used take no memory.
constinit NvtxRegistry domains;
constinit NvtxRegistry strings;

const NvtxName* find_text(const NvtxName* from, const NvtxName* end, std::uint64_t hash,
                          const NvtxText& text) {
  for (const NvtxName* at = from; at != end; at = at->next) {
    if (at->hash == hash && at->size == text.size() &&
        std::memcmp(at->text(), text.bytes(), text.size()) == 0) {
      return at;
    }
  }
  return nullptr;
}

}  // namespace

NvtxRegistry& nvtx_domains() {
  return domains;
}
NvtxRegistry& nvtx_strings() {
  return strings;
}

std::uint32_t NvtxRegistry::number(const NvtxText& text) {
  if (text.size() == 0) return 0;
  const std::uint64_t hash = hash_text(text.bytes(), text.size());
  std::atomic<const NvtxName*>& bucket = buckets_[hash % kBuckets];
  const NvtxName* first = bucket.load(std::memory_order_acquire);
  if (const NvtxName* known = find_text(first, nullptr, hash, text)) return known->number;

  const std::size_t bytes = sizeof(NvtxName) + text.size();
  if (bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes > kMaxBytes) {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return 0;
  }
  auto* name = static_cast<NvtxName*>(std::malloc(bytes));
  if (name == nullptr) return 0;
  const std::uint32_t number = last_number_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (number > kMaxNames || number == 0) {
    last_number_.store(kMaxNames, std::memory_order_relaxed);
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    std::free(name);
    return 0;
  }
  *name = {first, hash, number, static_cast<std::uint32_t>(text.size())};
  std::memcpy(reinterpret_cast<char*>(name + 1), text.bytes(), text.size());
  by_number_[number - 1].store(name, std::memory_order_release);
  while (!bucket.compare_exchange_weak(first, name, std::memory_order_acq_rel)) {
    // Others were faster, perhaps with the same text; the number stays unused then.
    if (const NvtxName* known = find_text(first, name->next, hash, text)) return known->number;
    name->next = first;
  }
  return number;
}

const NvtxName* NvtxRegistry::find(std::uint64_t number) const {
  if (number == 0 || number > kMaxNames) return nullptr;
  return by_number_[number - 1].load(std::memory_order_acquire);
}

}  // namespace profiler::injector
