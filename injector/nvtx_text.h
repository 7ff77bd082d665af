// A message of NVTX as it is recorded: at most 1000 bytes, cut after a whole character and ended
// with "…" beyond that. Wide text becomes UTF-8; other bytes stay as they are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace profiler::injector {

// Refers to the caller's text where it need not be changed: lives no longer than that.
class NvtxText {
 public:
  static constexpr std::size_t kMaxBytes = 1000;

  NvtxText() : bytes_(buffer_) {}
  explicit NvtxText(const char* text) : NvtxText() { set(text); }
  explicit NvtxText(const wchar_t* text) : NvtxText() { set(text); }
  NvtxText(const NvtxText&) = delete;
  NvtxText& operator=(const NvtxText&) = delete;

  // Null is no message. Wide text is UTF-32; what is none becomes U+FFFD.
  void set(const char* text);
  void set(const wchar_t* text);

  const char* bytes() const { return bytes_; }
  std::size_t size() const { return size_; }  // bytes; 0 = no message

 private:
  void cut();  // `bytes_` has more than kMaxBytes

  const char* bytes_;
  std::size_t size_ = 0;
  char buffer_[kMaxBytes + 4];  // one character too many shows that the text is too long
};

std::uint64_t hash_text(const char* bytes, std::size_t size);

}  // namespace profiler::injector
