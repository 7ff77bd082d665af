#include "collector/trace_writer.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

#include "collector/summarize.h"
#include "collector/trace_layout.h"
#include "collector/utf8.h"
#include "proto/perfetto_trace.pb.h"  // field numbers only

namespace profiler {
namespace {

namespace pb = perfetto::protos;
using pb::GpuRenderStageEvent;
using pb::InternedData;
using pb::TraceAttributes;
using pb::TracePacket;
using pb::TrackDescriptor;
using pb::TrackEvent;
using Specification = pb::InternedGpuRenderStageSpecification;
using LaunchArguments = pb::GpuRenderStageEvent_ComputeKernelLaunch;
using ComputeArgument = pb::GpuRenderStageEvent_ExtraComputeArg;

constexpr std::size_t kWriteBytes = 1024 * 1024;  // what the file gets at a time, at least
constexpr std::size_t kPacketBytes = 1024;        // most that a packet without texts can take
constexpr std::size_t kTextGrowth = 3;            // one invalid byte becomes U+FFFD, 3 bytes
constexpr std::uint32_t kCleared = TracePacket::SEQ_INCREMENTAL_STATE_CLEARED;
constexpr std::uint32_t kInterned = TracePacket::SEQ_NEEDS_INCREMENTAL_STATE;

using namespace trace_layout;

constexpr std::size_t kMostLanes = 256;        // of one kind of slices that may overlap
constexpr std::size_t kMostHeldBack = 16'384;  // slices of a process

constexpr std::string_view kFactsDescription =
    "What the profiler needs to analyse the events of this trace anew. Nothing to look at.";
constexpr std::string_view kSyncDescription =
    "Waits of this process for its GPUs, as CUPTI recorded them; the calls are on their threads.";
constexpr std::string_view kRangesDescription =
    "NVTX ranges that may begin and end on different threads of this process.";
constexpr std::string_view kOverheadDescription =
    "What CUPTI counts as overhead on this thread: of the profiler, and of CUDA itself, such as "
    "loading modules.";
constexpr std::string_view kHoleDescription =
    "Records of these times were lost; how many is in the arguments.";
constexpr std::string_view kEventsDescription =
    "Records without a time of their own; where they stand says nothing.";

constexpr std::string_view kGapDescription =
    "Each slice is time in which this GPU ran nothing, between its first and its last work; its "
    "name is the cause. Short gaps are left out here, and counted in the busy counter and the "
    "summary.";
constexpr std::string_view kBusyDescription =
    "Share of each interval in which at least one kernel, copy or set ran on this GPU.";
constexpr std::string_view kGroupDescription =
    "When this GPU had nothing to do, and why. Its kernels and copies are under GPU and under "
    "their process.";

bool is_writable(std::uint64_t start, std::uint64_t end) {
  // Perfetto's times are signed.
  return has_times(start, end) && end <= static_cast<std::uint64_t>(INT64_MAX);
}

template <typename T>
T& at(std::vector<T>& table, std::size_t index) {
  if (index >= table.size()) table.resize(index + 1);
  return table[index];
}

std::size_t room_for(std::string_view text) {
  return text.size() * kTextGrowth + 64;
}

// One id for a call and all the work it submitted: CUPTI's correlation ids are per process.
std::uint64_t event_id(ProcessIndex process, std::uint32_t correlation) {
  return (std::uint64_t{process} << 32) | correlation;
}

std::uint32_t sequence_of(ProcessIndex process) {
  return kFirstProcessSequence + process;
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string_view process_name(const Process& process) {
  std::string_view name = file_name(process.executable);
  if (name.empty() && !process.command_line.empty()) name = file_name(process.command_line[0]);
  return name.empty() ? "process" : name;
}

std::string architecture(const Device& device) {
  if (device.compute_capability_major == 0) return {};
  return "sm_" + std::to_string(device.compute_capability_major) +
         std::to_string(device.compute_capability_minor);
}

std::string device_name(const Device& device) {
  return device.name.empty() ? "CUDA device " + std::to_string(device.ordinal) : device.name;
}

std::uint64_t product(const std::uint32_t (&size)[3]) {
  return std::uint64_t{size[0]} * size[1] * size[2];
}

std::string dump(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string process_fact(const Process& process) {
  nlohmann::json environment = nlohmann::json::array();
  for (const auto& [key, value] : process.environment) environment.push_back({key, value});
  return dump({{"process",
                {{"pid", process.pid},
                 {"parent_pid", process.parent_pid},
                 {"executable", process.executable},
                 {"command_line", process.command_line},
                 {"hostname", process.hostname},
                 {"start_ns", process.start_ns},
                 {"hello_ns", process.hello_clocks.monotonic_ns},
                 {"hello_boottime_ns", process.hello_clocks.boottime_ns},
                 {"hello_realtime_ns", process.hello_clocks.realtime_ns},
                 {"driver_version", process.driver_version},
                 {"cupti_version", process.cupti_version},
                 {"cupti_path", process.cupti_path},
                 {"environment", environment},
                 {"simulated", process.simulated},
                 {"simulated_model", process.simulated_model}}}});
}

std::string thread_name(const Thread& thread) {
  return thread.name.empty() ? "thread " + std::to_string(thread.tid) : thread.name;
}

std::uint32_t category_of(const Catalog& catalog, FunctionIndex function) {
  if (function >= catalog.api_functions.size()) return kUnknownCall;
  switch (catalog.api_functions[function].domain) {
    case ApiDomain::kRuntime:
      return kRuntimeCall;
    case ApiDomain::kDriver:
      return kDriverCall;
    default:
      return kUnknownCall;
  }
}

std::string_view sync_name(SyncKind kind) {
  switch (kind) {
    case SyncKind::kEvent:
      return "wait for an event";
    case SyncKind::kStreamWaitEvent:
      return "stream waits for an event";
    case SyncKind::kStream:
      return "wait for a stream";
    case SyncKind::kContext:
      return "wait for a context";
    default:
      return "wait";
  }
}

std::string_view overhead_name(OverheadKind kind) {
  switch (kind) {
    case OverheadKind::kDriverCompiler:
      return "driver compiler";
    case OverheadKind::kBufferFlush:
      return "buffer flush";
    case OverheadKind::kInstrumentation:
      return "instrumentation";
    case OverheadKind::kResource:
      return "resource";
    case OverheadKind::kRuntimeTriggeredModuleLoading:
      return "runtime triggered module loading";
    case OverheadKind::kLazyFunctionLoading:
      return "lazy function loading";
    case OverheadKind::kCommandBufferFull:
      return "command buffer full";
    case OverheadKind::kBufferRequest:
      return "buffer request";
    case OverheadKind::kUvmInit:
      return "UVM init";
    default:
      return "unknown";
  }
}

// The end of the longest part of `text` from `begin` on that fits and does not cut a character.
std::size_t part_end(std::string_view text, std::size_t begin, std::size_t most) {
  if (text.size() - begin <= most) return text.size();
  std::size_t end = begin + most;
  const auto continues = [&](std::size_t i) {
    return (static_cast<std::uint8_t>(text[i]) & 0xC0) == 0x80;
  };
  for (int back = 0; back < 3 && continues(end); ++back) --end;
  return end;
}

// Whether slice `x`, the n-th to arrive, must precede `y` in the file. Of events at one nanosecond
// the earlier in the file counts as the earlier in time, so what encloses comes before what it
// encloses. CUPTI delivers calls in the order in which they ended.
template <typename Slice>
bool comes_first(const Slice& x, std::uint32_t x_arrival, const Slice& y, std::uint32_t y_arrival) {
  const auto depth = [](const Slice& slice) {
    return slice.category == kNvtx ? 0U : slice.category;
  };
  return std::tuple{x.track, x.start, y.end, depth(x), x.correlation, y_arrival} <
         std::tuple{y.track, y.start, x.end, depth(y), y.correlation, x_arrival};
}

}  // namespace

TraceWriter::TraceWriter(TraceFile file)
    : file_(std::move(file)),
      capacity_(kWriteBytes + 64 * 1024),
      buffer_(std::make_unique_for_overwrite<std::uint8_t[]>(capacity_)),
      encoder_(buffer_.get(), capacity_) {}

// --- Packets -------------------------------------------------------------------------------------

void TraceWriter::reserve(std::size_t bytes) {
  if (encoder_.room() >= bytes) return;
  write_out();
  if (capacity_ >= bytes) return;
  capacity_ = bytes;
  buffer_ = std::make_unique_for_overwrite<std::uint8_t[]>(capacity_);
  encoder_ = proto::Encoder(buffer_.get(), capacity_);
}

std::size_t TraceWriter::begin_packet(std::size_t most, std::uint32_t sequence,
                                      std::uint32_t flags) {
  reserve(most);
  const std::size_t packet = encoder_.open(pb::Trace::kPacketFieldNumber);
  encoder_.field_varint(TracePacket::kTrustedPacketSequenceIdFieldNumber, sequence);
  if (flags != 0) encoder_.field_varint(TracePacket::kSequenceFlagsFieldNumber, flags);
  return packet;
}

std::size_t TraceWriter::begin_event(std::size_t most, std::uint32_t sequence, std::uint32_t flags,
                                     std::uint64_t time) {
  const std::size_t packet = begin_packet(most, sequence, flags);
  encoder_.field_varint(TracePacket::kTimestampFieldNumber, time);
  last_ns_ = std::max(last_ns_, time);
  return packet;
}

void TraceWriter::end_packet(std::size_t packet) {
  encoder_.close(packet);
  if (encoder_.size() >= kWriteBytes) write_out();
}

void TraceWriter::write_out() {
  if (encoder_.size() != 0 && !error_) {
    if (Status status = file_.write(encoder_.data(), encoder_.size()); !status.ok()) {
      error_ = status.error();
    } else {
      flushed_bytes_ += encoder_.size();
    }
  }
  encoder_.rewind(0);
}

void TraceWriter::release_all() {
  for (ProcessIndex process = 0; process < processes_.size(); ++process) {
    release(processes_[process], sequence_of(process));
  }
}

void TraceWriter::flush() {
  release_all();
  write_out();
}

Status TraceWriter::finish() {
  flush();
  if (Status status = file_.close(); !status.ok() && !error_) error_ = status.error();
  if (error_) return *error_;
  return Done{};
}

void TraceWriter::discard() {
  encoder_.rewind(0);
  file_.remove();
}

void TraceWriter::text(std::uint32_t field, std::string_view value) {
  const std::string_view valid = valid_utf8(value, scratch_);
  encoder_.field_bytes(field, valid.data(), valid.size());
}

void TraceWriter::interned_name(std::uint32_t field, Iid iid, std::string_view name) {
  const std::size_t entry = encoder_.open(field);
  encoder_.field_varint(pb::InternedName::kIidFieldNumber, iid);
  text(pb::InternedName::kNameFieldNumber, name);
  encoder_.close(entry);
}

void TraceWriter::define_name(std::uint32_t sequence, std::uint32_t field, Iid iid,
                              std::string_view name) {
  const std::size_t packet = begin_packet(kPacketBytes + room_for(name), sequence, kInterned);
  const std::size_t data = encoder_.open(TracePacket::kInternedDataFieldNumber);
  interned_name(field, iid, name);
  encoder_.close(data);
  end_packet(packet);
}

void TraceWriter::argument(Iid name, std::uint64_t value) {
  const std::size_t argument = encoder_.open(LaunchArguments::kArgsFieldNumber);
  encoder_.field_varint(ComputeArgument::kNameIidFieldNumber, name);
  encoder_.field_varint(ComputeArgument::kUintValueFieldNumber, value);
  encoder_.close(argument);
}

void TraceWriter::annotation(std::string_view name, std::uint64_t value) {
  const std::size_t annotation = encoder_.open(TrackEvent::kDebugAnnotationsFieldNumber);
  text(pb::DebugAnnotation::kNameFieldNumber, name);
  encoder_.field_varint(pb::DebugAnnotation::kUintValueFieldNumber, value);
  encoder_.close(annotation);
}

TraceWriter::OpenEvent TraceWriter::begin_track_event(std::uint32_t sequence, std::uint64_t time,
                                                      std::uint32_t type, std::uint32_t category,
                                                      Iid name, std::uint32_t track) {
  OpenEvent open;
  open.packet = begin_event(kPacketBytes, sequence, kInterned, time);
  open.event = encoder_.open(TracePacket::kTrackEventFieldNumber);
  encoder_.field_varint(TrackEvent::kCategoryIidsFieldNumber, category);
  encoder_.field_varint(TrackEvent::kTypeFieldNumber, type);
  encoder_.field_varint(TrackEvent::kNameIidFieldNumber, name);
  encoder_.field_varint(TrackEvent::kTrackUuidFieldNumber, track);
  return open;
}

void TraceWriter::end_track_event(OpenEvent open) {
  encoder_.close(open.event);
  end_packet(open.packet);
}

void TraceWriter::number(Iid name, std::uint64_t value) {
  if (value != 0) number_even_zero(name, value);
}

void TraceWriter::number_even_zero(Iid name, std::uint64_t value) {
  const std::size_t annotation = encoder_.open(TrackEvent::kDebugAnnotationsFieldNumber);
  encoder_.field_varint(pb::DebugAnnotation::kNameIidFieldNumber, name);
  encoder_.field_varint(pb::DebugAnnotation::kUintValueFieldNumber, value);
  encoder_.close(annotation);
}

void TraceWriter::string_number(Iid name, Iid value) {
  if (value == 0) return;
  const std::size_t annotation = encoder_.open(TrackEvent::kDebugAnnotationsFieldNumber);
  encoder_.field_varint(pb::DebugAnnotation::kNameIidFieldNumber, name);
  encoder_.field_varint(pb::DebugAnnotation::kStringValueIidFieldNumber, value);
  encoder_.close(annotation);
}

void TraceWriter::correlation(std::uint32_t value) {
  if (value != 0) encoder_.field_varint(TrackEvent::kCorrelationIdFieldNumber, value);
}

std::uint32_t TraceWriter::describe_track(const TrackPlace& place) {
  const std::uint32_t track = ++last_track_;
  const std::size_t packet =
      begin_event(kPacketBytes + room_for(place.name) + room_for(place.description), place.sequence,
                  0, start_ns_);
  const std::size_t descriptor = encoder_.open(TracePacket::kTrackDescriptorFieldNumber);
  encoder_.field_varint(TrackDescriptor::kUuidFieldNumber, track);
  text(TrackDescriptor::kNameFieldNumber, place.name);
  if (place.parent != 0) {
    encoder_.field_varint(TrackDescriptor::kParentUuidFieldNumber, place.parent);
  }
  if (!place.description.empty()) {
    text(TrackDescriptor::kDescriptionFieldNumber, place.description);
  }
  encoder_.close(descriptor);
  end_packet(packet);
  return track;
}

// The track among `lanes` on which nothing overlaps [start, end). Perfetto draws tracks of one name
// and parent as one.
std::uint32_t TraceWriter::lane(Lanes& lanes, std::uint64_t start, std::uint64_t end,
                                const TrackPlace& place) {
  for (Lane& lane : lanes) {
    if (start >= lane.end) {
      lane.end = end;
      return lane.track;
    }
    if (end < lane.start) {
      lane.start = start;
      return lane.track;
    }
  }
  // Beyond all reason; what is drawn there may be cut, what is recorded is not.
  if (lanes.size() >= kMostLanes) return lanes.back().track;
  lanes.push_back({describe_track(place), start, end});
  return lanes.back().track;
}

void TraceWriter::sort_by_start(std::size_t count,
                                const std::function<std::uint64_t(std::uint32_t)>& start) {
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0U);
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return start(a) < start(b); });
}

// --- The run -------------------------------------------------------------------------------------

void TraceWriter::preamble(const ClockReading& clocks, std::string_view profiler_version,
                           std::span<const TraceAttribute> attributes) {
  start_ns_ = clocks.monotonic_ns;
  last_ns_ = start_ns_;

  using pb::ClockSnapshot;
  const std::size_t packet = begin_event(kPacketBytes, kRunSequence, kCleared, start_ns_);
  const std::size_t snapshot = encoder_.open(TracePacket::kClockSnapshotFieldNumber);
  const std::pair<pb::BuiltinClock, std::uint64_t> readings[] = {
      {pb::BUILTIN_CLOCK_MONOTONIC, clocks.monotonic_ns},
      {pb::BUILTIN_CLOCK_BOOTTIME, clocks.boottime_ns},
      {pb::BUILTIN_CLOCK_REALTIME, clocks.realtime_ns}};
  for (const auto& [clock_id, time] : readings) {
    if (time == 0) continue;
    const std::size_t clock = encoder_.open(ClockSnapshot::kClocksFieldNumber);
    encoder_.field_varint(pb::ClockSnapshot_Clock::kClockIdFieldNumber, clock_id);
    encoder_.field_varint(pb::ClockSnapshot_Clock::kTimestampFieldNumber, time);
    encoder_.close(clock);
  }
  encoder_.field_varint(ClockSnapshot::kPrimaryTraceClockFieldNumber, pb::BUILTIN_CLOCK_MONOTONIC);
  encoder_.close(snapshot);
  packet_defaults();
  end_packet(packet);
  std::vector<TraceAttribute> all = {
      {std::string(kVersionAttribute), std::string(profiler_version)}};
  all.insert(all.end(), attributes.begin(), attributes.end());
  this->attributes(all);

  const std::size_t names = begin_packet(8 * kPacketBytes, kRunSequence, kInterned);
  const std::size_t data = encoder_.open(TracePacket::kInternedDataFieldNumber);
  slice_names();
  encoder_.close(data);
  end_packet(names);
}

void TraceWriter::slice_names() {
  for (const auto& [iid, name] : kCategoryNames) {
    interned_name(InternedData::kEventCategoriesFieldNumber, iid, name);
  }
  for (const auto& [iid, name] : kAnnotationNames) {
    interned_name(InternedData::kDebugAnnotationNamesFieldNumber, iid, name);
  }
}

void TraceWriter::fact(std::uint32_t sequence, std::string_view json) {
  if (facts_track_ == 0) {
    facts_track_ = describe_track({kRunSequence, 0, kFacts, kFactsDescription});
  }
  const std::size_t packet = begin_event(kPacketBytes + room_for(json), sequence, 0, start_ns_);
  const std::size_t event = encoder_.open(TracePacket::kTrackEventFieldNumber);
  encoder_.field_varint(TrackEvent::kTypeFieldNumber, TrackEvent::TYPE_INSTANT);
  encoder_.field_varint(TrackEvent::kTrackUuidFieldNumber, facts_track_);
  text(TrackEvent::kNameFieldNumber, kFacts);
  const std::size_t annotation = encoder_.open(TrackEvent::kDebugAnnotationsFieldNumber);
  text(pb::DebugAnnotation::kNameFieldNumber, kFactText);
  text(pb::DebugAnnotation::kStringValueFieldNumber, json);
  encoder_.close(annotation);
  encoder_.close(event);
  end_packet(packet);
}

void TraceWriter::facts(std::string_view json) {
  fact(kRunSequence, json);
}

void TraceWriter::packet_defaults() {
  const std::size_t defaults = encoder_.open(TracePacket::kTracePacketDefaultsFieldNumber);
  encoder_.field_varint(pb::TracePacketDefaults::kTimestampClockIdFieldNumber,
                        pb::BUILTIN_CLOCK_MONOTONIC);
  encoder_.close(defaults);
}

void TraceWriter::attributes(std::span<const TraceAttribute> attributes) {
  using pb::TraceAttributes_Attribute;
  if (attributes.empty()) return;
  std::size_t most = kPacketBytes;
  for (const TraceAttribute& attribute : attributes) {
    most += room_for(attribute.key);
    if (const auto* value = std::get_if<std::string>(&attribute.value)) most += room_for(*value);
  }
  const std::size_t packet = begin_event(most, kRunSequence, 0, start_ns_);
  const std::size_t list = encoder_.open(TracePacket::kTraceAttributesFieldNumber);
  for (const TraceAttribute& attribute : attributes) {
    if (std::find(attribute_keys_.begin(), attribute_keys_.end(), attribute.key) !=
        attribute_keys_.end()) {
      continue;
    }
    attribute_keys_.push_back(attribute.key);
    const std::size_t entry = encoder_.open(TraceAttributes::kAttributeFieldNumber);
    text(TraceAttributes_Attribute::kKeyFieldNumber, attribute.key);
    if (const auto* value = std::get_if<std::string>(&attribute.value)) {
      text(TraceAttributes_Attribute::kStringValueFieldNumber, *value);
    } else {
      encoder_.field_varint(
          TraceAttributes_Attribute::kLongValueFieldNumber,
          std::min(std::get<std::uint64_t>(attribute.value), std::uint64_t{INT64_MAX}));
    }
    encoder_.close(entry);
  }
  encoder_.close(list);
  end_packet(packet);
}

void TraceWriter::losses(const ChecksSummary& checks) {
  attributes(std::vector<TraceAttribute>{{"dropped_records", checks.dropped},
                                         {"untimed_records", checks.untimed},
                                         {"unfinished_operations", checks.unfinished},
                                         {"unmatched_operations", checks.unmatched},
                                         {"late_records", checks.late},
                                         {"malformed_frames", checks.malformed},
                                         {"records_not_in_trace", left_out_}});
}

void TraceWriter::summary(std::string_view json) {
  namespace names = trace_summary;
  release_all();
  std::string valid;
  json = valid_utf8(json, valid);
  const std::uint32_t track = ++last_track_;
  {
    const std::size_t packet = begin_event(kPacketBytes, kRunSequence, 0, start_ns_);
    const std::size_t descriptor = encoder_.open(TracePacket::kTrackDescriptorFieldNumber);
    encoder_.field_varint(TrackDescriptor::kUuidFieldNumber, track);
    text(TrackDescriptor::kNameFieldNumber, names::kName);
    encoder_.close(descriptor);
    end_packet(packet);
  }

  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin < json.size() || parts.empty();) {
    const std::size_t end = part_end(json, begin, names::kMostPartBytes);
    parts.push_back(json.substr(begin, end - begin));
    begin = end;
  }
  const std::uint64_t digest =
      ::crc32_z(0, reinterpret_cast<const Bytef*>(json.data()), json.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::size_t packet =
        begin_event(kPacketBytes + parts[i].size(), kRunSequence, 0, last_ns_);
    const std::size_t event = encoder_.open(TracePacket::kTrackEventFieldNumber);
    encoder_.field_varint(TrackEvent::kTypeFieldNumber, TrackEvent::TYPE_INSTANT);
    encoder_.field_varint(TrackEvent::kTrackUuidFieldNumber, track);
    text(TrackEvent::kNameFieldNumber, names::kName);
    annotation(names::kPart, i);
    annotation(names::kParts, parts.size());
    annotation(names::kBytes, json.size());
    annotation(names::kDigest, digest);
    const std::size_t annotation = encoder_.open(TrackEvent::kDebugAnnotationsFieldNumber);
    text(pb::DebugAnnotation::kNameFieldNumber, names::kText);
    encoder_.field_bytes(pb::DebugAnnotation::kStringValueFieldNumber, parts[i].data(),
                         parts[i].size());
    encoder_.close(annotation);
    encoder_.close(event);
    end_packet(packet);
  }
}

// --- Who and what --------------------------------------------------------------------------------

void TraceWriter::open_process_sequence(std::uint32_t sequence) {
  // A few hundred bytes of names, all short.
  const std::size_t packet = begin_event(8 * kPacketBytes, sequence, kCleared, start_ns_);
  packet_defaults();
  const std::size_t data = encoder_.open(TracePacket::kInternedDataFieldNumber);
  slice_names();
  const auto stage = [&](Iid iid, std::string_view name, std::uint32_t category) {
    const std::size_t entry = encoder_.open(InternedData::kGpuSpecificationsFieldNumber);
    encoder_.field_varint(Specification::kIidFieldNumber, iid);
    text(Specification::kNameFieldNumber, name);
    encoder_.field_varint(Specification::kCategoryFieldNumber, category);
    encoder_.close(entry);
  };
  stage(kKernelStage, "Kernel", Specification::COMPUTE);
  stage(kMemsetStage, "Memset", Specification::OTHER);
  for (std::uint32_t kind = 0; kind < kCopyKinds; ++kind) {
    stage(kFirstCopyStage + kind, "Memcpy " + copy_kind_name(static_cast<std::uint8_t>(kind)),
          Specification::OTHER);
  }
  for (const auto& [iid, name] : kArgumentNames) {
    interned_name(InternedData::kComputeArgNamesFieldNumber, iid, name);
  }
  encoder_.close(data);
  end_packet(packet);
}

void TraceWriter::describe_process(const Process& process, std::uint32_t sequence,
                                   std::uint32_t track) {
  using pb::ProcessDescriptor;
  std::size_t most = kPacketBytes + room_for(process.executable);
  for (const std::string& argument : process.command_line) most += 2 * room_for(argument);
  for (const auto& [key, value] : process.environment) most += room_for(key) + room_for(value);

  const std::size_t packet = begin_event(most, sequence, 0, start_ns_);
  const std::size_t descriptor = encoder_.open(TracePacket::kTrackDescriptorFieldNumber);
  encoder_.field_varint(TrackDescriptor::kUuidFieldNumber, track);
  const std::size_t body = encoder_.open(TrackDescriptor::kProcessFieldNumber);
  encoder_.field_varint(ProcessDescriptor::kPidFieldNumber, process.pid);
  for (const std::string& argument : process.command_line) {
    text(ProcessDescriptor::kCmdlineFieldNumber, argument);
  }
  text(ProcessDescriptor::kProcessNameFieldNumber, process_name(process));
  if (is_writable(process.start_ns, process.start_ns)) {
    encoder_.field_varint(ProcessDescriptor::kStartTimestampNsFieldNumber, process.start_ns);
  }
  for (const auto& [key, value] : process.environment) {
    std::string label = key;
    label.append("=").append(value);
    text(ProcessDescriptor::kProcessLabelsFieldNumber, label);
  }
  encoder_.close(body);
  encoder_.close(descriptor);
  end_packet(packet);
}

// What the first process with a GPU driver knows of the machine.
void TraceWriter::describe_driver(const Process& process) {
  if (driver_described_ || (process.driver_version == 0 && process.cupti_version == 0)) return;
  driver_described_ = true;
  std::vector<TraceAttribute> list;
  if (process.simulated) {
    list.push_back({"simulated", std::uint64_t{1}});
    list.push_back({"simulated_model", process.simulated_model});
  }
  if (process.driver_version > 0) {
    list.push_back({"driver_version", static_cast<std::uint64_t>(process.driver_version)});
  }
  if (process.cupti_version != 0) {
    list.push_back({"cupti_version", std::uint64_t{process.cupti_version}});
    list.push_back({"cupti_path", process.cupti_path});
  }
  attributes(list);
}

TraceWriter::ProcessState& TraceWriter::process_state(const Catalog& catalog,
                                                      ProcessIndex process) {
  ProcessState& state = at(processes_, process);
  if (state.track == 0) {
    state.track = ++last_track_;
    open_process_sequence(sequence_of(process));
    describe_process(catalog.processes[process], sequence_of(process), state.track);
    describe_driver(catalog.processes[process]);
    fact(sequence_of(process), process_fact(catalog.processes[process]));
  }
  return state;
}

void TraceWriter::process(const Catalog& catalog, ProcessIndex process) {
  process_state(catalog, process);
}

void TraceWriter::process_facts(const Catalog& catalog, ProcessIndex process) {
  process_state(catalog, process);
  describe_driver(catalog.processes[process]);
  fact(sequence_of(process), process_fact(catalog.processes[process]));
}

void TraceWriter::describe_thread(const Catalog& catalog, ThreadIndex thread, std::uint32_t track) {
  using pb::ThreadDescriptor;
  const Thread& entry = catalog.threads[thread];
  process_state(catalog, entry.process);
  const std::size_t packet =
      begin_event(kPacketBytes + room_for(entry.name), sequence_of(entry.process), 0, start_ns_);
  const std::size_t descriptor = encoder_.open(TracePacket::kTrackDescriptorFieldNumber);
  encoder_.field_varint(TrackDescriptor::kUuidFieldNumber, track);
  const std::size_t body = encoder_.open(TrackDescriptor::kThreadFieldNumber);
  encoder_.field_varint(ThreadDescriptor::kPidFieldNumber, catalog.processes[entry.process].pid);
  encoder_.field_varint(ThreadDescriptor::kTidFieldNumber, entry.tid);
  if (!entry.name.empty()) text(ThreadDescriptor::kThreadNameFieldNumber, entry.name);
  encoder_.close(body);
  encoder_.close(descriptor);
  end_packet(packet);
}

TraceWriter::ThreadState& TraceWriter::thread_state(const Catalog& catalog, ThreadIndex thread) {
  ThreadState& state = at(threads_, thread);
  if (state.track == 0) {
    process_state(catalog, catalog.threads[thread].process);
    state.track = ++last_track_;
    describe_thread(catalog, thread, state.track);
  }
  return state;
}

void TraceWriter::thread(const Catalog& catalog, ThreadIndex thread) {
  // The same track again: a second one would be taken for another thread with this id.
  if (thread < threads_.size() && threads_[thread].track != 0) {
    describe_thread(catalog, thread, threads_[thread].track);
  } else {
    thread_state(catalog, thread);
  }
}

void TraceWriter::list_devices(const Catalog& catalog) {
  using pb::GpuInfo_Gpu;
  using pb::GpuInfo_KeyValue;
  listed_devices_ = catalog.devices.size();
  std::size_t most = kPacketBytes;
  for (const Device& device : catalog.devices) most += 2 * room_for(device.name) + 512;
  const std::size_t packet = begin_event(most, kRunSequence, 0, start_ns_);
  const std::size_t info = encoder_.open(TracePacket::kGpuInfoFieldNumber);
  for (const Device& device : catalog.devices) {
    const std::size_t gpu = encoder_.open(pb::GpuInfo::kGpusFieldNumber);
    text(GpuInfo_Gpu::kNameFieldNumber, device_name(device));
    text(GpuInfo_Gpu::kVendorFieldNumber, "NVIDIA");
    text(GpuInfo_Gpu::kModelFieldNumber, device_name(device));
    if (const std::string name = architecture(device); !name.empty()) {
      text(GpuInfo_Gpu::kArchitectureFieldNumber, name);
    }
    if (device.has_uuid) {
      encoder_.field_bytes(GpuInfo_Gpu::kUuidFieldNumber, device.uuid.data(), device.uuid.size());
    }
    const auto extra = [&](std::string_view key, std::uint64_t value) {
      if (value == 0) return;
      const std::size_t entry = encoder_.open(GpuInfo_Gpu::kExtraInfoFieldNumber);
      text(GpuInfo_KeyValue::kKeyFieldNumber, key);
      text(GpuInfo_KeyValue::kValueFieldNumber, std::to_string(value));
      encoder_.close(entry);
    };
    extra("memory_bytes", device.memory_bytes);
    extra("multiprocessors", device.multiprocessors);
    extra("ordinal", device.ordinal);
    extra("compute_capability_major", device.compute_capability_major);
    extra("compute_capability_minor", device.compute_capability_minor);
    encoder_.close(gpu);
  }
  encoder_.close(info);
  end_packet(packet);
}

void TraceWriter::device(const Catalog& catalog, DeviceIndex) {
  list_devices(catalog);
}

TraceWriter::DeviceState& TraceWriter::device_state(const Catalog& catalog, DeviceIndex device) {
  DeviceState& state = at(devices_, device);
  if (state.group_track != 0) return state;
  state.group_track = ++last_track_;
  state.gap_track = ++last_track_;
  state.busy_track = ++last_track_;

  const auto describe = [&](std::uint32_t track, std::string_view name, std::string_view help,
                            auto&& rest) {
    const std::size_t packet =
        begin_event(kPacketBytes + room_for(name) + help.size(), kRunSequence, 0, start_ns_);
    const std::size_t descriptor = encoder_.open(TracePacket::kTrackDescriptorFieldNumber);
    encoder_.field_varint(TrackDescriptor::kUuidFieldNumber, track);
    text(TrackDescriptor::kNameFieldNumber, name);
    text(TrackDescriptor::kDescriptionFieldNumber, help);
    rest();
    encoder_.close(descriptor);
    end_packet(packet);
  };
  describe(state.group_track,
           "GPU " + std::to_string(device) + ": " + device_name(catalog.devices[device]),
           kGroupDescription, [&] {
             encoder_.field_varint(TrackDescriptor::kChildOrderingFieldNumber,
                                   TrackDescriptor::EXPLICIT);
           });
  describe(state.gap_track, "Idle", kGapDescription, [&] {
    encoder_.field_varint(TrackDescriptor::kParentUuidFieldNumber, state.group_track);
    encoder_.field_varint(TrackDescriptor::kSiblingOrderRankFieldNumber, 0);
  });
  describe(state.busy_track, "Busy", kBusyDescription, [&] {
    encoder_.field_varint(TrackDescriptor::kParentUuidFieldNumber, state.group_track);
    encoder_.field_varint(TrackDescriptor::kSiblingOrderRankFieldNumber, 1);
    const std::size_t counter = encoder_.open(TrackDescriptor::kCounterFieldNumber);
    text(pb::CounterDescriptor::kUnitNameFieldNumber, "%");
    encoder_.close(counter);
  });
  return state;
}

// Makes sure that queue and context are defined; returns the iid of the context.
TraceWriter::Iid TraceWriter::queue_context(const Catalog& catalog, QueueIndex queue) {
  Iid& known = at(queue_contexts_, queue);
  if (known != 0) return known;

  const Queue& entry = catalog.queues[queue];
  const Process& process = catalog.processes[entry.process];
  process_state(catalog, entry.process);
  if (listed_devices_ < catalog.devices.size()) list_devices(catalog);

  const auto same = [&](const ContextState& context) {
    return context.process == entry.process && context.device == entry.device &&
           context.context == entry.context;
  };
  const auto found = std::find_if(contexts_.begin(), contexts_.end(), same);
  const bool is_new = found == contexts_.end();
  known = static_cast<Iid>(found - contexts_.begin()) + 1;
  // A program has one context on a device, as a rule; only others need a word in the lane's name.
  const bool is_second = std::any_of(contexts_.begin(), found, [&](const ContextState& context) {
    return context.process == entry.process && context.device == entry.device;
  });
  if (is_new) contexts_.push_back({entry.process, entry.device, entry.context});

  const std::string owner = std::string(process_name(process)) + " " + std::to_string(process.pid);
  const std::string context = "context " + std::to_string(entry.context);
  const std::string stream = std::to_string(entry.stream);
  const std::string named = entry.name.empty() ? "" : " " + entry.name;
  const std::string name =
      "Stream " + stream + named + " (" + owner + (is_second ? ", " + context : "") + ")";
  const std::string description = "Stream " + stream + " of " + context + " on GPU " +
                                  std::to_string(entry.device) + ", process " + owner +
                                  ", with CUPTI's ids.";

  const std::size_t packet = begin_packet(kPacketBytes + room_for(name) + room_for(description),
                                          sequence_of(entry.process), kInterned);
  const std::size_t data = encoder_.open(TracePacket::kInternedDataFieldNumber);
  if (is_new) {
    using pb::InternedGraphicsContext;
    const std::size_t graphics = encoder_.open(InternedData::kGraphicsContextsFieldNumber);
    encoder_.field_varint(InternedGraphicsContext::kIidFieldNumber, known);
    encoder_.field_varint(InternedGraphicsContext::kPidFieldNumber, process.pid);
    encoder_.field_varint(InternedGraphicsContext::kApiFieldNumber, pb::GPU_API_CUDA);
    encoder_.close(graphics);
  }
  const std::size_t specification = encoder_.open(InternedData::kGpuSpecificationsFieldNumber);
  encoder_.field_varint(Specification::kIidFieldNumber, kFirstQueue + queue);
  text(Specification::kNameFieldNumber, name);
  text(Specification::kDescriptionFieldNumber, description);
  encoder_.close(specification);
  encoder_.close(data);
  end_packet(packet);
  fact(sequence_of(entry.process), dump({{"queue",
                                          {{"iid", kFirstQueue + queue},
                                           {"device", entry.device},
                                           {"context", entry.context},
                                           {"stream", entry.stream},
                                           {"name", entry.name}}}}));
  return known;
}

// --- Names ---------------------------------------------------------------------------------------

TraceWriter::Iid TraceWriter::api_name(const Catalog& catalog, ProcessIndex process,
                                       FunctionIndex function) {
  ProcessState& state = processes_[process];
  const bool is_known = function < catalog.api_functions.size();
  Iid& iid = is_known ? at(state.api_names, function) : state.unknown_api;
  if (iid == 0) {
    iid = ++state.last_event_name;
    std::string_view name;
    if (is_known) name = catalog.api_functions[function].name;
    if (name.empty()) name = kUnknownCallName;
    define_name(sequence_of(process), InternedData::kEventNamesFieldNumber, iid, name);
    if (is_known) {
      const ApiFunction& entry = catalog.api_functions[function];
      fact(sequence_of(process), dump({{"function",
                                        {{"iid", iid},
                                         {"domain", static_cast<std::uint32_t>(entry.domain)},
                                         {"id", entry.callback_id},
                                         {"raw", entry.raw_name}}}}));
    }
  }
  return iid;
}

// 0 = without a name of its own: the slice shows its stage's.
TraceWriter::Iid TraceWriter::kernel_name(const Catalog& catalog, ProcessIndex process,
                                          FunctionIndex function) {
  const KernelFunction& entry = catalog.kernel_functions[function];
  const std::string_view name = entry.short_name.empty() ? entry.name : entry.short_name;
  if (name.empty()) return 0;
  ProcessState& state = processes_[process];
  Iid& iid = at(state.kernel_names, function);
  if (iid == 0) {
    iid = ++state.last_event_name;
    define_name(sequence_of(process), InternedData::kEventNamesFieldNumber, iid, name);
  }
  return iid;
}

TraceWriter::Iid TraceWriter::kernel(const Catalog& catalog, ProcessIndex process,
                                     DeviceIndex device, FunctionIndex function) {
  ProcessState& state = processes_[process];
  Iid& iid = at(at(state.kernels, device), function);
  if (iid != 0) return iid;
  iid = ++state.last_kernel;

  using pb::InternedComputeKernel;
  const KernelFunction& entry = catalog.kernel_functions[function];
  const std::string_view owner = process_name(catalog.processes[process]);
  const std::size_t packet =
      begin_packet(kPacketBytes + room_for(entry.mangled) + room_for(entry.name) + room_for(owner),
                   sequence_of(process), kInterned);
  const std::size_t data = encoder_.open(TracePacket::kInternedDataFieldNumber);
  const std::size_t kernel = encoder_.open(InternedData::kComputeKernelsFieldNumber);
  encoder_.field_varint(InternedComputeKernel::kIidFieldNumber, iid);
  text(InternedComputeKernel::kNameFieldNumber, entry.mangled);
  text(InternedComputeKernel::kDemangledNameFieldNumber, entry.name);
  if (const std::string name = architecture(catalog.devices[device]); !name.empty()) {
    text(InternedComputeKernel::kArchFieldNumber, name);
  }
  const auto constant = [&](Argument name, auto&& value_field) {
    const std::size_t argument = encoder_.open(InternedComputeKernel::kArgsFieldNumber);
    encoder_.field_varint(ComputeArgument::kNameIidFieldNumber, name);
    value_field();
    encoder_.close(argument);
  };
  const auto constant_number = [&](Argument name, std::uint64_t value) {
    constant(name, [&] { encoder_.field_varint(ComputeArgument::kUintValueFieldNumber, value); });
  };
  constant_number(kDeviceArgument, device);
  constant_number(kProcessId, catalog.processes[process].pid);
  constant(kProcessName, [&] { text(ComputeArgument::kStringValueFieldNumber, owner); });
  constant_number(kRegisters, entry.registers);
  constant_number(kStaticShared, entry.static_shared_bytes);
  constant_number(kLocalMemory, entry.local_bytes);
  encoder_.close(kernel);
  encoder_.close(data);
  end_packet(packet);
  return iid;
}

TraceWriter::Iid TraceWriter::copy_name(ProcessIndex process, const Operation& copy) {
  const bool is_set = copy.kind == OperationKind::kMemset;
  const std::uint64_t key = (std::uint64_t{is_set} << 33) |
                            (std::uint64_t{copy.asynchronous} << 32) |
                            (std::uint64_t{copy.copy_kind} << 16) |
                            (std::uint64_t{copy.source_kind} << 8) | copy.destination_kind;
  ProcessState& state = processes_[process];
  for (const auto& [known, iid] : state.copy_names) {
    if (known == key) return iid;
  }
  const Iid iid = ++state.last_event_name;
  state.copy_names.emplace_back(key, iid);
  define_name(sequence_of(process), InternedData::kEventNamesFieldNumber, iid,
              is_set ? "Memset"
                     : "Memcpy " + copy_kind_name(copy.copy_kind) + " (" +
                           memory_kind_name(copy.source_kind) + " -> " +
                           memory_kind_name(copy.destination_kind) + ")");
  fact(sequence_of(process), dump({{"copy",
                                    {{"iid", iid},
                                     {"kind", copy.copy_kind},
                                     {"source", copy.source_kind},
                                     {"destination", copy.destination_kind},
                                     {"asynchronous", copy.asynchronous}}}}));
  return iid;
}

TraceWriter::Iid TraceWriter::fixed_name(std::uint32_t sequence, std::string_view name) {
  if (sequence == kRunSequence) return cause_name(name);
  ProcessState& state = processes_[sequence - kFirstProcessSequence];
  for (const auto& [known, iid] : state.fixed_names) {
    if (known == name) return iid;
  }
  const Iid iid = ++state.last_event_name;
  state.fixed_names.emplace_back(name, iid);
  define_name(sequence, InternedData::kEventNamesFieldNumber, iid, name);
  return iid;
}

TraceWriter::Iid TraceWriter::text_name(const Catalog& catalog, ProcessIndex process, TextId text) {
  if (text >= catalog.texts.size()) return fixed_name(sequence_of(process), "(no message)");
  ProcessState& state = processes_[process];
  Iid& iid = at(state.texts, text);
  if (iid == 0) {
    iid = ++state.last_event_name;
    define_name(sequence_of(process), InternedData::kEventNamesFieldNumber, iid,
                catalog.texts[text]);
  }
  return iid;
}

// 0 = the default domain.
TraceWriter::Iid TraceWriter::domain_name(const Catalog& catalog, ProcessIndex process,
                                          DomainId domain) {
  if (domain == 0 || domain >= catalog.nvtx_domains.size()) return 0;
  ProcessState& state = processes_[process];
  Iid& iid = at(state.domains, domain);
  if (iid == 0) {
    iid = ++state.last_string;
    define_name(sequence_of(process), InternedData::kDebugAnnotationStringValuesFieldNumber, iid,
                catalog.nvtx_domains[domain]);
  }
  return iid;
}

TraceWriter::Iid TraceWriter::cause_name(std::string_view cause) {
  const auto found = std::find(causes_.begin(), causes_.end(), cause);
  const auto iid = static_cast<Iid>(found - causes_.begin()) + 1;
  if (found == causes_.end()) {
    causes_.emplace_back(cause);
    define_name(kRunSequence, InternedData::kEventNamesFieldNumber, iid, cause);
  }
  return iid;
}

// Arrows to GPU work cost bytes in every slice, so only calls that can have any get them.
bool TraceWriter::submits_work(const Catalog& catalog, FunctionIndex function) {
  if (function >= catalog.api_functions.size()) return true;
  Submits& answer = at(submits_work_, function);
  if (answer == Submits::kUnasked) {
    const ApiFunction& entry = catalog.api_functions[function];
    const auto has = [&](std::string_view word) {
      return entry.name.find(word) != std::string::npos;
    };
    const bool submits = entry.domain == ApiDomain::kUnknown || has("Launch") || has("Memcpy") ||
                         has("Memset") || has("Prefetch") || has("runtime call ") ||
                         has("driver call ");
    answer = submits ? Submits::kYes : Submits::kNo;
  }
  return answer == Submits::kYes;
}

// --- Records -------------------------------------------------------------------------------------

void TraceWriter::operations(const Catalog& catalog, std::span<const Operation> operations) {
  for (const Operation& entry : operations) operation(catalog, entry);
}

void TraceWriter::operation(const Catalog& catalog, const Operation& operation) {
  if (!is_writable(operation.start, operation.end) || operation.queue >= catalog.queues.size()) {
    ++left_out_;
    if (operation.queue < catalog.queues.size()) untimed_operation(catalog, operation);
    return;
  }
  const Queue& queue = catalog.queues[operation.queue];
  const Iid context = queue_context(catalog, operation.queue);
  std::uint32_t stage = kMemsetStage;
  Iid kernel_iid = 0;
  Iid name = 0;
  if (operation.kind == OperationKind::kKernel) {
    stage = kKernelStage;
    if (operation.function < catalog.kernel_functions.size()) {
      kernel_iid = kernel(catalog, queue.process, queue.device, operation.function);
      name = kernel_name(catalog, queue.process, operation.function);
    }
  } else if (operation.kind == OperationKind::kMemcpy) {
    stage = kFirstCopyStage + (operation.copy_kind < kCopyKinds ? operation.copy_kind : 0);
    name = copy_name(queue.process, operation);
  } else {
    name = copy_name(queue.process, operation);
  }

  const std::size_t packet =
      begin_event(kPacketBytes, sequence_of(queue.process), kInterned, operation.start);
  last_ns_ = std::max(last_ns_, operation.end);
  const std::size_t event = encoder_.open(TracePacket::kGpuRenderStageEventFieldNumber);
  encoder_.field_varint(GpuRenderStageEvent::kEventIdFieldNumber,
                        event_id(queue.process, operation.correlation));
  encoder_.field_varint(GpuRenderStageEvent::kDurationFieldNumber, operation.end - operation.start);
  encoder_.field_varint(GpuRenderStageEvent::kContextFieldNumber, context);
  if (queue.device != 0) {
    encoder_.field_varint(GpuRenderStageEvent::kGpuIdFieldNumber, queue.device);
  }
  encoder_.field_varint(GpuRenderStageEvent::kHwQueueIidFieldNumber, kFirstQueue + operation.queue);
  encoder_.field_varint(GpuRenderStageEvent::kStageIidFieldNumber, stage);
  if (kernel_iid != 0) {
    encoder_.field_varint(GpuRenderStageEvent::kKernelIidFieldNumber, kernel_iid);
  }
  if (name != 0) encoder_.field_varint(GpuRenderStageEvent::kNameIidFieldNumber, name);
  launch(queue, operation);
  encoder_.close(event);
  end_packet(packet);
}

void TraceWriter::launch(const Queue& queue, const Operation& operation) {
  const std::size_t launch = encoder_.open(GpuRenderStageEvent::kLaunchFieldNumber);
  const auto dimensions = [&](std::uint32_t field, const std::uint32_t(&size)[3]) {
    using pb::GpuRenderStageEvent_Dim3;
    const std::size_t body = encoder_.open(field);
    encoder_.field_varint(GpuRenderStageEvent_Dim3::kXFieldNumber, size[0]);
    if (size[1] != 1) encoder_.field_varint(GpuRenderStageEvent_Dim3::kYFieldNumber, size[1]);
    if (size[2] != 1) encoder_.field_varint(GpuRenderStageEvent_Dim3::kZFieldNumber, size[2]);
    encoder_.close(body);
  };
  if (operation.kind == OperationKind::kKernel) {
    dimensions(LaunchArguments::kGridSizeFieldNumber, operation.grid);
    dimensions(LaunchArguments::kWorkgroupSizeFieldNumber, operation.block);
    // Perfetto shows its table of launch statistics only where these two are.
    argument(kGridSize, product(operation.grid));
    argument(kWorkgroupSize, product(operation.block));
    if (operation.dynamic_shared_bytes != 0) {
      argument(kDynamicShared, operation.dynamic_shared_bytes);
    }
    if (operation.function == kNone) argument(kDeviceArgument, queue.device);
  } else {
    argument(kDeviceArgument, queue.device);
    argument(kBytes, operation.bytes);
    const std::uint64_t duration = operation.end - operation.start;
    if (duration != 0 && operation.kind == OperationKind::kMemcpy) {
      argument(kThroughput, static_cast<std::uint64_t>(static_cast<double>(operation.bytes) * 1e3 /
                                                       static_cast<double>(duration)));
    }
    if (operation.kind == OperationKind::kMemset) argument(kValue, operation.value);
    if (operation.source_device != kNone) argument(kSourceDevice, operation.source_device);
    if (operation.destination_device != kNone) {
      argument(kDestinationDevice, operation.destination_device);
    }
  }
  argument(kStreamArgument, queue.stream);
  if (operation.graph != 0) {
    argument(kGraph, operation.graph);
    argument(kGraphNode, operation.graph_node);
  }
  encoder_.close(launch);
}

// That it was submitted and never seen to run matters to the launches that seem to have no
// operation.
void TraceWriter::untimed_operation(const Catalog& catalog, const Operation& operation) {
  const Queue& queue = catalog.queues[operation.queue];
  queue_context(catalog, operation.queue);
  const std::uint32_t sequence = sequence_of(queue.process);
  const OpenEvent open = begin_track_event(sequence, last_ns_, TrackEvent::TYPE_INSTANT, kUntimed,
                                           fixed_name(sequence, "operation without times"),
                                           events_track(queue.process));
  correlation(operation.correlation);
  number(kQueue, kFirstQueue + operation.queue);
  number(kFrom, operation.start);
  number(kTo, operation.end);
  number(kKind, static_cast<std::uint64_t>(operation.kind));
  end_track_event(open);
}

void TraceWriter::api_calls(const Catalog& catalog, std::span<const ApiCall> calls) {
  ProcessIndex process = kNone;
  std::size_t held_before = 0;
  for (const ApiCall& call : calls) {
    if (!is_writable(call.start, call.end) || call.thread >= catalog.threads.size()) {
      ++left_out_;
      continue;
    }
    const ProcessIndex owner = catalog.threads[call.thread].process;
    if (owner != process) {  // a batch is of one process, as a rule
      if (process != kNone) hold_back(process, held_before);
      process = owner;
      held_before = process_state(catalog, process).held_back.size();
    }
    Slice slice;
    slice.start = call.start;
    slice.end = call.end;
    slice.track = thread_state(catalog, call.thread).track;
    slice.thread = call.thread;
    slice.name = api_name(catalog, process, call.function);
    slice.category = category_of(catalog, call.function);
    slice.correlation = call.correlation;
    slice.result = call.result;
    slice.has_arrows = call.correlation != 0 && submits_work(catalog, call.function);
    processes_[process].held_back.push_back(slice);
  }
  if (process != kNone) hold_back(process, held_before);
}

std::uint32_t TraceWriter::nvtx_track(const Catalog& catalog, ThreadIndex thread, DomainId domain) {
  ThreadState& state = thread_state(catalog, thread);
  // Ranges of two domains need not nest, so each has its track; the first one gets the thread's.
  if (state.domain == kNone) state.domain = domain;
  if (state.domain == domain) return state.track;
  for (const auto& [known, track] : state.other_domains) {
    if (known == domain) return track;
  }
  const bool is_named = domain != 0 && domain < catalog.nvtx_domains.size();
  const std::string name = "NVTX " + (is_named ? catalog.nvtx_domains[domain] : "default domain") +
                           " (" + thread_name(catalog.threads[thread]) + ")";
  const std::uint32_t sequence = sequence_of(catalog.threads[thread].process);
  const std::uint32_t track = describe_track({sequence, state.track, name, {}});
  state.other_domains.emplace_back(domain, track);
  return track;
}

void TraceWriter::nvtx_ranges(const Catalog& catalog, std::span<const NvtxRange> ranges) {
  std::vector<std::uint32_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(ranges[a].start, ranges[b].end, a) <
           std::tie(ranges[b].start, ranges[a].end, b);
  });
  for (const std::uint32_t index : order) {
    const NvtxRange& range = ranges[index];
    if (!is_writable(range.start, range.end) || range.thread >= catalog.threads.size()) {
      ++left_out_;
      continue;
    }
    if (!range.is_nested) {
      start_end_range(catalog, range);
      continue;
    }
    const ProcessIndex process = catalog.threads[range.thread].process;
    Slice slice;
    slice.start = range.start;
    slice.end = range.end;
    slice.track = nvtx_track(catalog, range.thread, range.domain);
    slice.thread = range.thread;
    slice.name = text_name(catalog, process, range.text);
    slice.category = kNvtx;
    slice.domain = domain_name(catalog, process, range.domain);
    slice.is_unclosed = range.end_thread == kNone;
    slice.is_unnamed = range.text >= catalog.texts.size();
    ProcessState& state = processes_[process];
    state.held_back.push_back(slice);
    if (state.held_back.size() > kMostHeldBack) release(state, sequence_of(process));
  }
}

void TraceWriter::start_end_range(const Catalog& catalog, const NvtxRange& range) {
  const ProcessIndex process = catalog.threads[range.thread].process;
  ProcessState& state = process_state(catalog, process);
  const std::uint32_t sequence = sequence_of(process);
  const Iid name = text_name(catalog, process, range.text);
  const Iid domain = domain_name(catalog, process, range.domain);
  const std::uint32_t track = lane(state.ranges, range.start, range.end,
                                   {sequence, state.track, "NVTX start/end", kRangesDescription});
  thread_state(catalog, range.thread);
  const bool has_end = range.end_thread < catalog.threads.size();
  if (has_end) thread_state(catalog, range.end_thread);
  const OpenEvent open = begin_track_event(sequence, range.start, TrackEvent::TYPE_SLICE_BEGIN,
                                           kNvtxStartEnd, name, track);
  string_number(kDomain, domain);
  number(kThread, catalog.threads[range.thread].tid);
  if (!has_end) number(kUnclosed, 1);
  if (has_end && range.end_thread != range.thread) {
    number(kEndThread, catalog.threads[range.end_thread].tid);
  }
  if (range.text >= catalog.texts.size()) number(kUnnamed, 1);
  end_track_event(open);
  slice_end(sequence, range.end, track);
}

void TraceWriter::nvtx_marks(const Catalog& catalog, std::span<const NvtxEvent> events) {
  for (const NvtxEvent& event : events) {
    if (event.kind != NvtxKind::kMark) continue;
    if (!is_writable(event.time, event.time) || event.thread >= catalog.threads.size()) {
      ++left_out_;
      continue;
    }
    const ProcessIndex process = catalog.threads[event.thread].process;
    const std::uint32_t track = thread_state(catalog, event.thread).track;
    const Iid name = text_name(catalog, process, event.text);
    const Iid domain = domain_name(catalog, process, event.domain);
    const OpenEvent open = begin_track_event(sequence_of(process), event.time,
                                             TrackEvent::TYPE_INSTANT, kNvtx, name, track);
    string_number(kDomain, domain);
    if (event.text >= catalog.texts.size()) number(kUnnamed, 1);
    end_track_event(open);
  }
}

void TraceWriter::syncs(const Catalog& catalog, std::span<const SyncRecord> syncs) {
  sort_by_start(syncs.size(), [&](std::uint32_t i) { return syncs[i].start; });
  for (const std::uint32_t index : order_) {
    const SyncRecord& sync = syncs[index];
    if (!is_writable(sync.start, sync.end) || sync.process >= catalog.processes.size()) {
      ++left_out_;
      continue;
    }
    ProcessState& state = process_state(catalog, sync.process);
    const std::uint32_t sequence = sequence_of(sync.process);
    const Iid name = fixed_name(sequence, sync_name(sync.kind));
    const std::uint32_t track =
        lane(state.syncs, sync.start, sync.end,
             {sequence, state.track, "CUDA synchronization", kSyncDescription});
    const OpenEvent open =
        begin_track_event(sequence, sync.start, TrackEvent::TYPE_SLICE_BEGIN, kSync, name, track);
    correlation(sync.correlation);
    number(kKind, static_cast<std::uint64_t>(sync.kind));
    number(kContext, sync.context);
    number(kStream, sync.stream);
    number(kEvent, sync.event);
    end_track_event(open);
    last_ns_ = std::max(last_ns_, sync.end);
    slice_end(sequence, sync.end, track);
  }
}

void TraceWriter::overheads(const Catalog& catalog, std::span<const OverheadRecord> overheads) {
  sort_by_start(overheads.size(), [&](std::uint32_t i) { return overheads[i].start; });
  for (const std::uint32_t index : order_) {
    const OverheadRecord& overhead = overheads[index];
    if (!is_writable(overhead.start, overhead.end)) {
      ++left_out_;
      continue;
    }
    std::uint32_t sequence = kRunSequence;
    std::uint32_t track = 0;
    if (overhead.thread < catalog.threads.size()) {
      const Thread& thread = catalog.threads[overhead.thread];
      sequence = sequence_of(thread.process);
      ThreadState& state = thread_state(catalog, overhead.thread);
      const std::string name = "overhead (" + thread_name(thread) + ")";
      track = lane(state.overheads, overhead.start, overhead.end,
                   {sequence, state.track, name, kOverheadDescription});
    } else {
      track = lane(overheads_, overhead.start, overhead.end,
                   {sequence, 0, "overhead", kOverheadDescription});
    }
    const Iid name = fixed_name(sequence, overhead_name(overhead.kind));
    const OpenEvent open = begin_track_event(sequence, overhead.start, TrackEvent::TYPE_SLICE_BEGIN,
                                             kOverhead, name, track);
    correlation(overhead.correlation);
    number(kKind, static_cast<std::uint64_t>(overhead.kind));
    end_track_event(open);
    slice_end(sequence, overhead.end, track);
  }
}

std::uint32_t TraceWriter::events_track(ProcessIndex process) {
  ProcessState& state = processes_[process];
  if (state.events_track == 0) {
    state.events_track = describe_track(
        {sequence_of(process), state.track, "records without a time", kEventsDescription});
  }
  return state.events_track;
}

void TraceWriter::event_records(const Catalog& catalog, std::span<const EventRecord> events) {
  for (const EventRecord& event : events) {
    if (event.process >= catalog.processes.size()) {
      ++left_out_;
      continue;
    }
    process_state(catalog, event.process);
    const std::uint32_t sequence = sequence_of(event.process);
    const std::uint32_t track = events_track(event.process);
    const Iid name = fixed_name(sequence, "event recorded");
    const OpenEvent open =
        begin_track_event(sequence, last_ns_, TrackEvent::TYPE_INSTANT, kEventRecord, name, track);
    correlation(event.correlation);
    number(kContext, event.context);
    number(kStream, event.stream);
    number(kEvent, event.event);
    end_track_event(open);
  }
}

void TraceWriter::hole(ProcessIndex process, std::uint64_t start, std::uint64_t end,
                       std::uint64_t count) {
  const bool is_known = process < processes_.size() && processes_[process].track != 0;
  const std::uint32_t sequence = is_known ? sequence_of(process) : kRunSequence;
  const std::uint32_t parent = is_known ? processes_[process].track : 0;
  Lanes& lanes = is_known ? processes_[process].holes : holes_;
  const Iid name = fixed_name(sequence, "not recorded");
  const bool is_slice = is_writable(start, end);
  const std::uint64_t from = is_slice ? start : last_ns_;
  const std::uint64_t to = is_slice ? end : last_ns_;
  const std::uint32_t track =
      lane(lanes, from, to, {sequence, parent, "not recorded", kHoleDescription});
  const OpenEvent open =
      begin_track_event(sequence, from, TrackEvent::TYPE_SLICE_BEGIN, kHole, name, track);
  number(kCount, count);
  if (!is_slice) {
    // 0 is a value here: it says that the slice's own times are not meant.
    number_even_zero(kFrom, start);
    number_even_zero(kTo, end);
  }
  end_track_event(open);
  slice_end(sequence, to, track);
}

// `held_before`: so many slices have waited for one batch and are due.
void TraceWriter::hold_back(ProcessIndex process, std::size_t held_before) {
  ProcessState& state = processes_[process];
  std::vector<Slice>& held = state.held_back;
  const std::uint32_t sequence = sequence_of(process);
  // All that is due, and what must come before it.
  order_.resize(held.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::sort(order_.begin(), order_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return comes_first(held[a], a, held[b], b); });
  std::size_t begin = 0;
  while (begin < order_.size()) {
    std::size_t end = begin;
    std::size_t due = begin;
    const std::uint32_t track = held[order_[begin]].track;
    for (; end < order_.size() && held[order_[end]].track == track; ++end) {
      if (order_[end] < held_before) due = end + 1;
    }
    if (end - due > kMostHeldBack) due = end - kMostHeldBack;
    for (std::size_t i = begin; i < due; ++i) {
      slice(sequence, held[order_[i]]);
      held[order_[i]].track = 0;  // written
    }
    begin = end;
  }
  std::erase_if(held, [](const Slice& entry) { return entry.track == 0; });
}

void TraceWriter::release(ProcessState& state, std::uint32_t sequence) {
  std::vector<Slice>& held = state.held_back;
  order_.resize(held.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::sort(order_.begin(), order_.end(),
            [&](std::uint32_t a, std::uint32_t b) { return comes_first(held[a], a, held[b], b); });
  for (const std::uint32_t index : order_) slice(sequence, held[index]);
  held.clear();
}

void TraceWriter::slice(std::uint32_t sequence, const Slice& slice) {
  const OpenEvent open = begin_track_event(sequence, slice.start, TrackEvent::TYPE_SLICE_BEGIN,
                                           slice.category, slice.name, slice.track);
  number(kResult, slice.result);
  string_number(kDomain, slice.domain);
  if (slice.is_unclosed) number(kUnclosed, 1);
  if (slice.is_unnamed) number(kUnnamed, 1);
  // Of a call and the calls nested in it that share its id, the outermost has the arrows.
  std::uint32_t& arrows = threads_[slice.thread].arrow_correlation;
  if (slice.has_arrows && slice.correlation != arrows) {
    arrows = slice.correlation;
    const std::size_t correlation = encoder_.open(TrackEvent::kGpuCorrelationFieldNumber);
    encoder_.field_varint(pb::GpuCorrelation::kRenderStageSubmissionEventIdsFieldNumber,
                          event_id(sequence - kFirstProcessSequence, slice.correlation));
    encoder_.close(correlation);
    encoder_.field_varint(TrackEvent::kGpuApiFieldNumber, pb::GPU_API_CUDA);
  } else {
    correlation(slice.correlation);
  }
  end_track_event(open);
  last_ns_ = std::max(last_ns_, slice.end);
  slice_end(sequence, slice.end, slice.track);
}

void TraceWriter::slice_end(std::uint32_t sequence, std::uint64_t time, std::uint32_t track) {
  const std::size_t packet = begin_event(kPacketBytes, sequence, 0, time);
  const std::size_t event = encoder_.open(TracePacket::kTrackEventFieldNumber);
  encoder_.field_varint(TrackEvent::kTypeFieldNumber, TrackEvent::TYPE_SLICE_END);
  encoder_.field_varint(TrackEvent::kTrackUuidFieldNumber, track);
  encoder_.close(event);
  end_packet(packet);
}

void TraceWriter::gap(const Catalog& catalog, DeviceIndex device, std::uint64_t start,
                      std::uint64_t end, std::string_view cause) {
  if (!is_writable(start, end) || start == end) return;
  const std::uint32_t track = device_state(catalog, device).gap_track;
  const Iid name = cause_name(cause);
  const std::size_t packet = begin_event(kPacketBytes, kRunSequence, kInterned, start);
  const std::size_t event = encoder_.open(TracePacket::kTrackEventFieldNumber);
  encoder_.field_varint(TrackEvent::kTypeFieldNumber, TrackEvent::TYPE_SLICE_BEGIN);
  encoder_.field_varint(TrackEvent::kNameIidFieldNumber, name);
  encoder_.field_varint(TrackEvent::kTrackUuidFieldNumber, track);
  encoder_.close(event);
  end_packet(packet);
  slice_end(kRunSequence, end, track);
}

void TraceWriter::busy_percent(const Catalog& catalog, DeviceIndex device, std::uint64_t time,
                               double percent) {
  if (!is_writable(time, time)) return;
  const std::uint32_t track = device_state(catalog, device).busy_track;
  const std::size_t packet = begin_event(kPacketBytes, kRunSequence, 0, time);
  const std::size_t event = encoder_.open(TracePacket::kTrackEventFieldNumber);
  encoder_.field_varint(TrackEvent::kTypeFieldNumber, TrackEvent::TYPE_COUNTER);
  encoder_.field_varint(TrackEvent::kTrackUuidFieldNumber, track);
  encoder_.field_double(TrackEvent::kDoubleCounterValueFieldNumber, percent);
  encoder_.close(event);
  end_packet(packet);
}

}  // namespace profiler
