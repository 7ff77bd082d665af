#include "collector/trace_packets.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

#include "proto/perfetto_trace.pb.h"  // field numbers only

namespace profiler {
namespace {

constexpr std::uint8_t kPacketTag = (perfetto::protos::Trace::kPacketFieldNumber << 3) | 2;
constexpr std::size_t kBufferBytes = 1024 * 1024;
constexpr std::size_t kMostVarintBytes = 10;

// Null when the beginning may be that of a trace.
const char* other_format(std::string_view beginning) {
  if (beginning.starts_with("\x1F\x8B")) return " is compressed with gzip: gunzip it first.";
  if (beginning.starts_with("\x28\xB5\x2F\xFD")) {
    return " is compressed with zstd: unzstd it first.";
  }
  if (beginning.starts_with("{") || beginning.starts_with("[")) {
    return " is a JSON file, not a .pftrace.";
  }
  if (static_cast<std::uint8_t>(beginning[0]) != kPacketTag) return " is not a .pftrace.";
  return nullptr;
}

}  // namespace

Error unreadable_trace(const std::string& path, int error_number) {
  const std::string file = "'" + path + "'";
  switch (error_number) {
    case ENOENT:
      return {"There is no file " + file + ": check its name."};
    case EISDIR:
      return {file + " is a folder: name a .pftrace file in it."};
    default:
      return {file + " cannot be read (" + std::strerror(error_number) + ")."};
  }
}

TracePackets::TracePackets(int descriptor, std::size_t most_bytes)
    : descriptor_(descriptor),
      most_bytes_(most_bytes),
      capacity_(kBufferBytes),
      buffer_(std::make_unique_for_overwrite<char[]>(capacity_)) {}

Result<TracePackets> TracePackets::open(const std::string& path, std::size_t most_bytes) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return unreadable_trace(path, errno);
  TracePackets packets(descriptor, most_bytes);
  const std::string_view beginning = packets.peek(4);
  if (packets.error_number_ != 0) return unreadable_trace(path, packets.error_number_);
  if (beginning.empty()) {
    return Error{"'" + path + "' is empty: the profiler was stopped before it wrote anything."};
  }
  if (const char* reason = other_format(beginning)) return Error{"'" + path + "'" + reason};
  return packets;
}

// At least `count` bytes from here on, fewer only at the end of the file.
std::string_view TracePackets::peek(std::size_t count) {
  while (end_ - begin_ < count && !at_end_) fill(count);
  return {buffer_.get() + begin_, end_ - begin_};
}

// Returns false if the file ends before.
bool TracePackets::skip(std::uint64_t count) {
  while (count > end_ - begin_) {
    count -= end_ - begin_;
    offset_ += end_ - begin_;
    begin_ = end_;
    if (at_end_) return false;
    fill(1);
  }
  begin_ += static_cast<std::size_t>(count);
  offset_ += count;
  return true;
}

void TracePackets::fill(std::size_t wanted) {
  if (wanted > capacity_) {
    // Twice as much as there is, so that a length that lies costs no more than the file's size.
    capacity_ = std::min(wanted, 2 * capacity_);
    auto larger = std::make_unique_for_overwrite<char[]>(capacity_);
    std::memcpy(larger.get(), buffer_.get() + begin_, end_ - begin_);
    buffer_ = std::move(larger);
  } else if (begin_ != 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
  }
  end_ -= begin_;
  begin_ = 0;
  if (end_ == capacity_) return;  // grows again
  ssize_t got = 0;
  do {
    got = ::read(descriptor_.get(), buffer_.get() + end_, capacity_ - end_);
  } while (got < 0 && errno == EINTR);
  if (got < 0) error_number_ = errno;
  if (got <= 0) {
    at_end_ = true;
  } else {
    end_ += static_cast<std::size_t>(got);
  }
}

TracePackets::Next TracePackets::next(std::string_view& packet) {
  skip(consumed_);
  consumed_ = 0;
  const auto ended = [this](Next how) { return error_number_ != 0 ? Next::kUnreadable : how; };
  while (true) {
    std::string_view ahead = peek(1 + kMostVarintBytes);
    if (ahead.empty()) return ended(Next::kEnd);
    if (static_cast<std::uint8_t>(ahead[0]) != kPacketTag) return Next::kMalformed;
    const char* at = ahead.data() + 1;
    std::uint64_t length = 0;
    try {
      length = protozero::decode_varint(&at, ahead.data() + ahead.size());
    } catch (const protozero::end_of_buffer_exception&) {
      return ended(Next::kInPacket);
    } catch (const protozero::exception&) {
      return Next::kMalformed;
    }
    const auto head = static_cast<std::size_t>(at - ahead.data());
    if (length > most_bytes_) {
      if (!skip(head) || !skip(length)) return ended(Next::kInPacket);
      continue;
    }
    consumed_ = head + static_cast<std::size_t>(length);
    ahead = peek(consumed_);
    if (ahead.size() < consumed_) {
      consumed_ = 0;
      return ended(Next::kInPacket);
    }
    packet = ahead.substr(head, consumed_ - head);
    return Next::kPacket;
  }
}

}  // namespace profiler
