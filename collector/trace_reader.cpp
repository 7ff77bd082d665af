#include "collector/trace_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <utility>

#include "collector/trace_writer.h"
#include "proto/perfetto_trace.pb.h"  // field numbers only

namespace profiler {
namespace {

namespace pb = perfetto::protos;
using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::tag_and_type;

constexpr auto kVarint = pbf_wire_type::varint;
constexpr auto kBytes = pbf_wire_type::length_delimited;
constexpr std::uint8_t kPacketTag = (pb::Trace::kPacketFieldNumber << 3) | 2;
constexpr std::size_t kMostPacketBytes = trace_summary::kMostPartBytes + 4096;  // that can matter
constexpr std::size_t kBufferBytes = 1024 * 1024;
constexpr std::size_t kMostVarintBytes = 10;

// A file, read once from its beginning through one buffer.
class Bytes {
 public:
  explicit Bytes(int descriptor)
      : descriptor_(descriptor), buffer_(std::make_unique_for_overwrite<char[]>(kBufferBytes)) {}
  ~Bytes() { ::close(descriptor_); }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;

  // At least `count` bytes from here on, fewer only at the end of the file. `count` is at most
  // kBufferBytes.
  std::string_view peek(std::size_t count) {
    while (end_ - begin_ < count && !at_end_) fill();
    return {buffer_.get() + begin_, end_ - begin_};
  }
  // Returns false if the file ends before.
  bool skip(std::uint64_t count) {
    while (count > end_ - begin_) {
      count -= end_ - begin_;
      offset_ += end_ - begin_;
      begin_ = end_;
      if (at_end_) return false;
      fill();
    }
    begin_ += static_cast<std::size_t>(count);
    offset_ += count;
    return true;
  }
  std::uint64_t offset() const { return offset_; }
  int error_number() const { return error_number_; }

 private:
  void fill() {
    if (begin_ != 0) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    ssize_t got = 0;
    do {
      got = ::read(descriptor_, buffer_.get() + end_, kBufferBytes - end_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) error_number_ = errno;
    if (got <= 0) {
      at_end_ = true;
    } else {
      end_ += static_cast<std::size_t>(got);
    }
  }

  int descriptor_;
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;
  bool at_end_ = false;
  int error_number_ = 0;
};

std::string_view view(pbf_reader& reader) {
  const protozero::data_view data = reader.get_view();
  return {data.data(), data.size()};
}

struct SummaryPart {
  std::uint64_t part = 0;
  std::uint64_t parts = 0;
  std::uint64_t bytes = 0;
  std::uint64_t digest = 0;
  std::string_view text;
};

void read_annotation(std::string_view body, SummaryPart& part) {
  namespace names = trace_summary;
  pbf_reader annotation(body.data(), body.size());
  std::string_view name;
  std::string_view text;
  std::uint64_t number = 0;
  while (annotation.next()) {
    switch (annotation.tag_and_type()) {
      case tag_and_type(pb::DebugAnnotation::kNameFieldNumber, kBytes):
        name = view(annotation);
        break;
      case tag_and_type(pb::DebugAnnotation::kStringValueFieldNumber, kBytes):
        text = view(annotation);
        break;
      case tag_and_type(pb::DebugAnnotation::kUintValueFieldNumber, kVarint):
        number = annotation.get_uint64();
        break;
      default:
        annotation.skip();
    }
  }
  if (name == names::kPart) part.part = number;
  if (name == names::kParts) part.parts = number;
  if (name == names::kBytes) part.bytes = number;
  if (name == names::kDigest) part.digest = number;
  if (name == names::kText) part.text = text;
}

std::optional<SummaryPart> read_event(std::string_view body) {
  SummaryPart part;
  bool is_ours = false;
  pbf_reader event(body.data(), body.size());
  while (event.next()) {
    switch (event.tag_and_type()) {
      case tag_and_type(pb::TrackEvent::kNameFieldNumber, kBytes):
        is_ours = view(event) == trace_summary::kName;
        break;
      case tag_and_type(pb::TrackEvent::kDebugAnnotationsFieldNumber, kBytes):
        read_annotation(view(event), part);
        break;
      default:
        event.skip();
    }
  }
  if (!is_ours) return std::nullopt;
  return part;
}

bool has_version(std::string_view body) {
  pbf_reader attributes(body.data(), body.size());
  while (attributes.next(pb::TraceAttributes::kAttributeFieldNumber, kBytes)) {
    pbf_reader attribute = attributes.get_message();
    while (attribute.next(pb::TraceAttributes_Attribute::kKeyFieldNumber, kBytes)) {
      if (view(attribute) == kVersionAttribute) return true;
    }
  }
  return false;
}

// What was found so far.
class Search {
 public:
  // `packet` is a TracePacket. Throws protozero::exception when it is none.
  void look_at(std::string_view packet) {
    is_empty_ = false;
    if (is_ours_ && packet.size() < trace_summary::kLeastPacketBytes) return;
    pbf_reader reader(packet.data(), packet.size());
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(pb::TracePacket::kTrackEventFieldNumber, kBytes):
          if (const auto part = read_event(view(reader))) add(*part);
          break;
        case tag_and_type(pb::TracePacket::kTraceAttributesFieldNumber, kBytes):
          is_ours_ = has_version(view(reader)) || is_ours_;
          break;
        default:
          reader.skip();
      }
    }
  }

  bool is_empty() const { return is_empty_; }  // no whole packet was seen
  bool is_ours() const { return is_ours_; }
  bool is_complete() const { return parts_ != 0 && next_ == parts_; }
  bool is_damaged() const {
    return is_broken_ ||
           (is_complete() &&
            (text_.size() != bytes_ ||
             ::crc32_z(0, reinterpret_cast<const Bytef*>(text_.data()), text_.size()) != digest_));
  }
  std::string take() { return std::move(text_); }

 private:
  void add(const SummaryPart& part) {
    if (part.part == 0) {
      text_.clear();
      next_ = 0;
      parts_ = part.parts;
      bytes_ = part.bytes;
      digest_ = part.digest;
      is_broken_ = parts_ == 0;
    }
    // What belongs to another summary, or exceeds the size announced, was not written by us.
    if (part.part != next_ || part.parts != parts_ || part.bytes != bytes_ ||
        part.digest != digest_ || part.text.size() > bytes_ - text_.size()) {
      is_broken_ = true;
    }
    if (is_broken_) return;
    text_.append(part.text);
    ++next_;
  }

  bool is_empty_ = true;
  bool is_ours_ = false;
  bool is_broken_ = false;
  std::uint64_t next_ = 0;
  std::uint64_t parts_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t digest_ = 0;
  std::string text_;
};

enum class End { kWhole, kInPacket, kMalformed };

static_assert(kMostPacketBytes + kMostVarintBytes + 1 <= kBufferBytes);

End search(Bytes& bytes, Search& search) {
  while (true) {
    std::string_view ahead = bytes.peek(1 + kMostVarintBytes);
    if (ahead.empty()) return End::kWhole;
    if (static_cast<std::uint8_t>(ahead[0]) != kPacketTag) return End::kMalformed;
    const char* at = ahead.data() + 1;
    std::uint64_t length = 0;
    try {
      length = protozero::decode_varint(&at, ahead.data() + ahead.size());
    } catch (const protozero::end_of_buffer_exception&) {
      return End::kInPacket;
    } catch (const protozero::exception&) {
      return End::kMalformed;
    }
    const auto head = static_cast<std::size_t>(at - ahead.data());
    if (length > kMostPacketBytes) {  // a long name; no packet that matters here is so large
      if (!bytes.skip(head) || !bytes.skip(length)) return End::kInPacket;
      continue;
    }
    const std::size_t whole = head + static_cast<std::size_t>(length);
    ahead = bytes.peek(whole);
    if (ahead.size() < whole) return End::kInPacket;
    try {
      search.look_at(ahead.substr(head, whole - head));
    } catch (const protozero::exception&) {
      return End::kMalformed;
    }
    bytes.skip(whole);
  }
}

Error unreadable(const std::string& path, int error_number) {
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

Result<std::string> read_summary(const std::string& path) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return unreadable(path, errno);
  Bytes bytes(descriptor);
  const std::string file = "'" + path + "'";

  const std::string_view beginning = bytes.peek(4);
  if (bytes.error_number() != 0) return unreadable(path, bytes.error_number());
  if (beginning.empty()) {
    return Error{file + " is empty: the profiler was stopped before it wrote anything."};
  }
  if (const char* reason = other_format(beginning)) return Error{file + reason};

  Search found;
  const End end = search(bytes, found);
  if (bytes.error_number() != 0) return unreadable(path, bytes.error_number());
  const std::string where = " at byte " + std::to_string(bytes.offset());
  if (found.is_damaged()) {
    return Error{"The summary in " + file +
                 " is damaged: its digest is not that of its text. The events may still be "
                 "readable: open the file in ui.perfetto.dev."};
  }
  if (found.is_complete()) return found.take();
  if (!found.is_ours()) {
    return Error{file + (end == End::kMalformed || found.is_empty()
                             ? " is not a .pftrace."
                             : " is a Perfetto trace without a summary of this profiler: open it "
                               "in ui.perfetto.dev.")};
  }
  if (end == End::kMalformed) {
    return Error{file + " is damaged" + where +
                 ", so its summary cannot be found; record the program again."};
  }
  return Error{file + " ends early" + (end == End::kInPacket ? ", in the middle of a record" : "") +
               ": the profiler was stopped before it wrote the summary. What was recorded can be "
               "seen in ui.perfetto.dev."};
}

}  // namespace profiler
