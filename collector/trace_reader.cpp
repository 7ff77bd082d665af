#include "collector/trace_reader.h"

#include <zlib.h>

#include <cstdint>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <utility>

#include "collector/trace_packets.h"
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
constexpr std::size_t kMostPacketBytes = trace_summary::kMostPartBytes + 4096;  // that can matter

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

}  // namespace

Result<std::string> read_summary(const std::string& path) {
  Result<TracePackets> packets = TracePackets::open(path, kMostPacketBytes);
  if (!packets) return packets.error();
  const std::string file = "'" + path + "'";

  Search found;
  std::string_view packet;
  using Next = TracePackets::Next;
  Next end = packets->next(packet);
  try {
    for (; end == Next::kPacket; end = packets->next(packet)) found.look_at(packet);
  } catch (const protozero::exception&) {
    end = Next::kMalformed;
  }
  if (end == Next::kUnreadable) return unreadable_trace(path, packets->error_number());
  const std::string where = " at byte " + std::to_string(packets->offset());
  if (found.is_damaged()) {
    return Error{"The summary in " + file +
                 " is damaged: its digest is not that of its text. The events may still be "
                 "readable: open the file in ui.perfetto.dev."};
  }
  if (found.is_complete()) return found.take();
  if (!found.is_ours()) {
    return Error{file + (end == Next::kMalformed || found.is_empty()
                             ? " is not a .pftrace."
                             : " is a Perfetto trace without a summary of this profiler: open it "
                               "in ui.perfetto.dev.")};
  }
  if (end == Next::kMalformed) {
    return Error{file + " is damaged" + where +
                 ", so its summary cannot be found; record the program again."};
  }
  return Error{file + " ends early" +
               (end == Next::kInPacket ? ", in the middle of a record" : "") +
               ": the profiler was stopped before it wrote the summary. What was recorded can be "
               "seen in ui.perfetto.dev."};
}

}  // namespace profiler
