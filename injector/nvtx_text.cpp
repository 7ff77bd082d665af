#include "injector/nvtx_text.h"

#include <cstring>

#include "injector/intern_table.h"

namespace profiler::injector {
namespace {

constexpr char kEllipsis[] = "\xe2\x80\xa6";
constexpr std::size_t kEllipsisBytes = sizeof kEllipsis - 1;

std::size_t put_utf8(char* into, std::uint32_t code) {
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
  if (code < 0x80) {
    into[0] = static_cast<char>(code);
    return 1;
  }
  const std::size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (std::size_t i = size - 1; i > 0; --i) {
    into[i] = static_cast<char>(0x80 | (code & 0x3f));
    code >>= 6;
  }
  static constexpr std::uint32_t kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  into[0] = static_cast<char>(kLead[size] | code);
  return size;
}

}  // namespace

void NvtxText::set(const char* text) {
  size_ = 0;
  if (text == nullptr) return;
  bytes_ = text;
  size_ = strnlen(text, kMaxBytes + 1);
  if (size_ > kMaxBytes) cut();
}

void NvtxText::set(const wchar_t* text) {
  bytes_ = buffer_;
  size_ = 0;
  if (text == nullptr) return;
  while (*text != L'\0' && size_ <= kMaxBytes) {
    static_assert(sizeof(wchar_t) == 4);
    // No more than kMaxBytes are there, so that the longest character has room.
    size_ += put_utf8(buffer_ + size_, static_cast<std::uint32_t>(*text++));
  }
  if (size_ > kMaxBytes) cut();
}

void NvtxText::cut() {
  std::size_t kept = kMaxBytes - kEllipsisBytes;
  for (int i = 0; i < 3 && (static_cast<unsigned char>(bytes_[kept]) & 0xc0) == 0x80; ++i) --kept;
  if (bytes_ != buffer_) std::memcpy(buffer_, bytes_, kept);
  for (std::size_t i = 0; i < kEllipsisBytes; ++i) buffer_[kept + i] = kEllipsis[i];
  bytes_ = buffer_;
  size_ = kept + kEllipsisBytes;
}

std::uint64_t hash_text(const char* bytes, std::size_t size) {
  std::uint64_t hash = size;
  while (size >= 8) {
    std::uint64_t part = 0;
    std::memcpy(&part, bytes, 8);
    hash = mix_bits(hash + part);
    bytes += 8;
    size -= 8;
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, bytes, size);
  return mix_bits(mix_bits(hash + rest));
}

}  // namespace profiler::injector
