// What a program registers with NVTX, domains and strings, under numbers that serve as its handles.
//
// One for the process, as handles outlive a session: a forked child goes on with those of its
// parent. Hence also no locks, which a fork could leave locked for ever. Nothing is forgotten; the
// same text has the same number. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "injector/nvtx_text.h"

namespace profiler::injector {

struct NvtxName {
  const NvtxName* next;
  std::uint64_t hash;
  std::uint32_t number;
  std::uint32_t size;  // bytes; the text follows in memory
  const char* text() const { return reinterpret_cast<const char*>(this + 1); }
};

class NvtxRegistry {
 public:
  static constexpr std::uint32_t kMaxNames = 65'536;
  static constexpr std::size_t kMaxBytes = 16 * 1024 * 1024;

  // From 1 on. 0: no text, or no room; events then have no message, or the default domain.
  std::uint32_t number(const NvtxText& text);
  // Null for anything that is no number of this registry.
  const NvtxName* find(std::uint64_t number) const;

 private:
  static constexpr std::size_t kBuckets = 1024;

  std::atomic<const NvtxName*> buckets_[kBuckets] = {};
  std::atomic<const NvtxName*> by_number_[kMaxNames] = {};
  std::atomic<std::uint32_t> last_number_{0};
  std::atomic<std::size_t> bytes_{0};
};

NvtxRegistry& nvtx_domains();
NvtxRegistry& nvtx_strings();

}  // namespace profiler::injector
