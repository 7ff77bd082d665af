// Writes protobuf messages straight into a buffer of the caller: the wire in the injector, the
// .pftrace in the collector. Usable in any process: no allocation, no exceptions, no libstdc++.
//
// A message is opened, its fields are appended, and it is closed; one byte is reserved for its
// length and the body is moved when that does not suffice, since nearly all messages are short.
// When the buffer is full the encoder stops writing and `ok()` turns false for good; the caller
// then drops what it was writing with `rewind()`. Output is what libprotobuf writes for the same
// fields in the same order (tests/proto_test.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace profiler::proto {

inline constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

inline constexpr std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++size;
  }
  return size;
}

class Encoder {
 public:
  // `buffer` stays the caller's and must outlive the encoder.
  Encoder(void* buffer, std::size_t capacity)
      : begin_(static_cast<std::uint8_t*>(buffer)), cursor_(begin_), end_(begin_ + capacity) {}

  const std::uint8_t* data() const { return begin_; }
  std::size_t size() const { return static_cast<std::size_t>(cursor_ - begin_); }
  std::size_t room() const { return static_cast<std::size_t>(end_ - cursor_); }
  bool ok() const { return ok_; }

  // Forgets everything after the first `size` bytes, and a failure with it.
  void rewind(std::size_t size) {
    cursor_ = begin_ + size;
    ok_ = true;
  }

  void field_varint(std::uint32_t field, std::uint64_t value) {
    tag(field, kVarint);
    varint(value);
  }
  void field_signed(std::uint32_t field, std::int64_t value) { field_varint(field, zigzag(value)); }
  void field_bool(std::uint32_t field, bool value) { field_varint(field, value ? 1 : 0); }
  void field_fixed64(std::uint32_t field, std::uint64_t value) {
    tag(field, kFixed64);
    fixed64(value);
  }
  void field_double(std::uint32_t field, double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    field_fixed64(field, bits);
  }
  void field_bytes(std::uint32_t field, const void* bytes, std::size_t length) {
    tag(field, kLengthDelimited);
    varint(length);
    raw(bytes, length);
  }
  void field_string(std::uint32_t field, const char* text) {
    field_bytes(field, text, std::strlen(text));
  }

  // Opens a nested message; hand the result to `close`.
  std::size_t open(std::uint32_t field) {
    tag(field, kLengthDelimited);
    return open_length();
  }
  // Opens a length-prefixed body without a tag: a frame on the pipe.
  std::size_t open_length() {
    const std::uint8_t zero = 0;
    raw(&zero, 1);
    return size();
  }
  void close(std::size_t body_start) {
    if (!ok_) return;
    const std::size_t length = size() - body_start;
    std::uint8_t* body = begin_ + body_start;
    const std::size_t length_bytes = varint_size(length);
    if (length_bytes > 1) {
      if (room() < length_bytes - 1) {
        ok_ = false;
        return;
      }
      std::memmove(body + length_bytes - 1, body, length);
      cursor_ += length_bytes - 1;
    }
    std::uint8_t* at = body - 1;
    std::uint64_t rest = length;
    while (rest >= 0x80) {
      *at++ = static_cast<std::uint8_t>(rest | 0x80);
      rest >>= 7;
    }
    *at = static_cast<std::uint8_t>(rest);
  }

 private:
  static constexpr std::uint32_t kVarint = 0;
  static constexpr std::uint32_t kFixed64 = 1;
  static constexpr std::uint32_t kLengthDelimited = 2;
  static constexpr std::size_t kMaxVarint = 10;

  void tag(std::uint32_t field, std::uint32_t type) {
    varint((static_cast<std::uint64_t>(field) << 3) | type);
  }
  void varint(std::uint64_t value) {
    if (room() < kMaxVarint && room() < varint_size(value)) ok_ = false;
    if (!ok_) return;
    while (value >= 0x80) {
      *cursor_++ = static_cast<std::uint8_t>(value | 0x80);
      value >>= 7;
    }
    *cursor_++ = static_cast<std::uint8_t>(value);
  }
  void fixed64(std::uint64_t value) {
    std::uint8_t bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(value >> (8 * i));
    raw(bytes, sizeof bytes);
  }
  void raw(const void* bytes, std::size_t length) {
    if (room() < length) ok_ = false;
    if (!ok_) return;
    if (length != 0) std::memcpy(cursor_, bytes, length);
    cursor_ += length;
  }

  std::uint8_t* begin_;
  std::uint8_t* cursor_;
  std::uint8_t* end_;
  bool ok_ = true;
};

}  // namespace profiler::proto
