#include "collector/trace_writer.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "collector/summarize.h"
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
constexpr std::uint32_t kRunSequence = 1;
constexpr std::uint32_t kFirstProcessSequence = 2;

// Interned ids that are the same on every process's sequence.
constexpr std::uint32_t kCudaCategory = 1;  // event_categories
constexpr std::uint32_t kResultName = 1;    // debug_annotation_names
constexpr std::uint32_t kKernelStage = 1;   // gpu_specifications: stages, then queues
constexpr std::uint32_t kMemsetStage = 2;
constexpr std::uint32_t kFirstCopyStage = 3;  // + CUpti_ActivityMemcpyKind
constexpr std::uint32_t kCopyKinds = 11;      // 0 = unknown
constexpr std::uint32_t kFirstQueue = 16;     // + QueueIndex, unique in the trace
static_assert(kFirstCopyStage + kCopyKinds <= kFirstQueue);

enum Argument : std::uint32_t {  // compute_arg_names
  kDevice = 1,
  kStream,
  kGridSize,
  kWorkgroupSize,
  kRegisters,
  kStaticShared,
  kDynamicShared,
  kLocalMemory,
  kProcessId,
  kProcessName,
  kGraph,
  kGraphNode,
  kBytes,
  kThroughput,
  kValue,
  kSourceDevice,
  kDestinationDevice,
};
// Perfetto's GPU views look for the first ones by these names.
constexpr std::pair<Argument, std::string_view> kArgumentNames[] = {
    {kDevice, "device"},
    {kStream, "stream"},
    {kGridSize, "grid_size"},
    {kWorkgroupSize, "workgroup_size"},
    {kRegisters, "registers_per_thread"},
    {kStaticShared, "shared_mem_static"},
    {kDynamicShared, "shared_mem_dynamic"},
    {kLocalMemory, "local_mem_per_thread"},
    {kProcessId, "process_id"},
    {kProcessName, "process_name"},
    {kGraph, "graph"},
    {kGraphNode, "graph_node"},
    {kBytes, "bytes"},
    {kThroughput, "megabytes_per_second"},
    {kValue, "value"},
    {kSourceDevice, "source_device"},
    {kDestinationDevice, "destination_device"},
};

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

}  // namespace

TraceWriter::TraceWriter(TraceFile file)
    : file_(std::move(file)),
      capacity_(kWriteBytes + 64 * 1024),
      buffer_(std::make_unique_for_overwrite<std::uint8_t[]>(capacity_)),
      encoder_(buffer_.get(), capacity_) {}

// --- Packets -------------------------------------------------------------------------------------

void TraceWriter::reserve(std::size_t bytes) {
  if (encoder_.room() >= bytes) return;
  flush();
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
  if (encoder_.size() >= kWriteBytes) flush();
}

void TraceWriter::flush() {
  if (encoder_.size() != 0 && !error_) {
    if (Status status = file_.write(encoder_.data(), encoder_.size()); !status.ok()) {
      error_ = status.error();
    } else {
      flushed_bytes_ += encoder_.size();
    }
  }
  encoder_.rewind(0);
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
  interned_name(InternedData::kEventCategoriesFieldNumber, kCudaCategory, "cuda");
  interned_name(InternedData::kDebugAnnotationNamesFieldNumber, kResultName, "result");
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
  }
  return state;
}

void TraceWriter::process(const Catalog& catalog, ProcessIndex process) {
  process_state(catalog, process);
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

std::uint32_t TraceWriter::thread_track(const Catalog& catalog, ThreadIndex thread) {
  std::uint32_t& track = at(thread_tracks_, thread);
  if (track == 0) {
    process_state(catalog, catalog.threads[thread].process);
    track = ++last_track_;
    describe_thread(catalog, thread, track);
  }
  return track;
}

void TraceWriter::thread(const Catalog& catalog, ThreadIndex thread) {
  // The same track again: a second one would be taken for another thread with this id.
  if (thread < thread_tracks_.size() && thread_tracks_[thread] != 0) {
    describe_thread(catalog, thread, thread_tracks_[thread]);
  } else {
    thread_track(catalog, thread);
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
  const std::string name =
      "Stream " + stream + " (" + owner + (is_second ? ", " + context : "") + ")";
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
    if (name.empty()) name = "CUDA call";
    define_name(sequence_of(process), InternedData::kEventNamesFieldNumber, iid, name);
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
  const auto number = [&](Argument name, std::uint64_t value) {
    constant(name, [&] { encoder_.field_varint(ComputeArgument::kUintValueFieldNumber, value); });
  };
  number(kDevice, device);
  number(kProcessId, catalog.processes[process].pid);
  constant(kProcessName, [&] { text(ComputeArgument::kStringValueFieldNumber, owner); });
  number(kRegisters, entry.registers);
  number(kStaticShared, entry.static_shared_bytes);
  number(kLocalMemory, entry.local_bytes);
  encoder_.close(kernel);
  encoder_.close(data);
  end_packet(packet);
  return iid;
}

TraceWriter::Iid TraceWriter::copy_name(ProcessIndex process, const Operation& copy) {
  const std::uint32_t key = (std::uint32_t{copy.copy_kind} << 16) |
                            (std::uint32_t{copy.source_kind} << 8) | copy.destination_kind;
  ProcessState& state = processes_[process];
  for (const auto& [known, iid] : state.copy_names) {
    if (known == key) return iid;
  }
  const Iid iid = ++state.last_event_name;
  state.copy_names.emplace_back(key, iid);
  define_name(sequence_of(process), InternedData::kEventNamesFieldNumber, iid,
              "Memcpy " + copy_kind_name(copy.copy_kind) + " (" +
                  memory_kind_name(copy.source_kind) + " -> " +
                  memory_kind_name(copy.destination_kind) + ")");
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
    if (operation.function == kNone) argument(kDevice, queue.device);
  } else {
    argument(kDevice, queue.device);
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
  argument(kStream, queue.stream);
  if (operation.graph != 0) {
    argument(kGraph, operation.graph);
    argument(kGraphNode, operation.graph_node);
  }
  encoder_.close(launch);
}

void TraceWriter::api_calls(const Catalog& catalog, std::span<const ApiCall> calls) {
  // Of events at one nanosecond the earlier in the file counts as the earlier in time, so callers
  // must come before what they call. CUPTI delivers them in the order in which they ended.
  order_.resize(calls.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const ApiCall& x = calls[a];
    const ApiCall& y = calls[b];
    return std::tie(x.thread, x.start, y.end, b) < std::tie(y.thread, y.start, x.end, a);
  });
  for (const std::uint32_t index : order_) api_call(catalog, calls[index]);
}

void TraceWriter::api_call(const Catalog& catalog, const ApiCall& call) {
  if (!is_writable(call.start, call.end) || call.thread >= catalog.threads.size()) {
    ++left_out_;
    return;
  }
  const ProcessIndex process = catalog.threads[call.thread].process;
  const std::uint32_t track = thread_track(catalog, call.thread);
  const Iid name = api_name(catalog, process, call.function);

  const std::uint32_t sequence = sequence_of(process);
  const std::size_t packet = begin_event(kPacketBytes, sequence, kInterned, call.start);
  const std::size_t event = encoder_.open(TracePacket::kTrackEventFieldNumber);
  encoder_.field_varint(TrackEvent::kCategoryIidsFieldNumber, kCudaCategory);
  encoder_.field_varint(TrackEvent::kTypeFieldNumber, TrackEvent::TYPE_SLICE_BEGIN);
  encoder_.field_varint(TrackEvent::kNameIidFieldNumber, name);
  encoder_.field_varint(TrackEvent::kTrackUuidFieldNumber, track);
  if (call.result != 0) {
    const std::size_t result = encoder_.open(TrackEvent::kDebugAnnotationsFieldNumber);
    encoder_.field_varint(pb::DebugAnnotation::kNameIidFieldNumber, kResultName);
    encoder_.field_varint(pb::DebugAnnotation::kUintValueFieldNumber, call.result);
    encoder_.close(result);
  }
  if (call.correlation != 0 && submits_work(catalog, call.function)) {
    const std::size_t correlation = encoder_.open(TrackEvent::kGpuCorrelationFieldNumber);
    encoder_.field_varint(pb::GpuCorrelation::kRenderStageSubmissionEventIdsFieldNumber,
                          event_id(process, call.correlation));
    encoder_.close(correlation);
    encoder_.field_varint(TrackEvent::kGpuApiFieldNumber, pb::GPU_API_CUDA);
  }
  encoder_.close(event);
  end_packet(packet);
  slice_end(sequence, call.end, track);
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
