// The packets of a .pftrace, one after the other, whatever the size of the file. Trusts nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "collector/result.h"
#include "collector/session_directory.h"

namespace profiler {

class TracePackets {
 public:
  enum class Next {
    kPacket,
    kEnd,        // of the file, after a whole packet
    kInPacket,   // of the file, before
    kMalformed,  // what follows is no packet
    kUnreadable  // see error_number()
  };

  // Packets above `most_bytes` are passed over. The error says why the file cannot be a trace: no
  // file, a folder, empty, compressed, something else.
  static Result<TracePackets> open(const std::string& path, std::size_t most_bytes);

  // Reads the next packet; `packet` is valid until the next call.
  Next next(std::string_view& packet);
  std::uint64_t offset() const { return offset_; }  // bytes from the beginning of the file
  int error_number() const { return error_number_; }

 private:
  TracePackets(int descriptor, std::size_t most_bytes);
  std::string_view peek(std::size_t count);
  bool skip(std::uint64_t count);
  void fill(std::size_t wanted);

  OwnedFd descriptor_;
  std::size_t most_bytes_;
  std::size_t capacity_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t consumed_ = 0;  // bytes of the packet that was returned last
  std::uint64_t offset_ = 0;
  bool at_end_ = false;
  int error_number_ = 0;
};

// "There is no file 'a.pftrace': check its name."
Error unreadable_trace(const std::string& path, int error_number);

}  // namespace profiler
