#include "collector/trace_events.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <protozero/pbf_reader.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/trace_layout.h"
#include "collector/trace_packets.h"
#include "collector/trace_writer.h"
#include "proto/perfetto_trace.pb.h"  // field numbers only

namespace profiler {
namespace {

namespace pb = perfetto::protos;
using namespace trace_layout;
using nlohmann::json;
using pb::GpuRenderStageEvent;
using pb::InternedData;
using pb::TracePacket;
using pb::TrackEvent;
using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::tag_and_type;

constexpr auto kVarint = pbf_wire_type::varint;
constexpr auto kBytesType = pbf_wire_type::length_delimited;
constexpr std::size_t kMostPacketBytes = 64 * 1024 * 1024;
constexpr std::size_t kBatch = 4096;  // records
constexpr std::uint64_t kMostDevices = 4096;
constexpr std::uint64_t kMostProcesses = 1 << 20;

std::string_view view(pbf_reader& reader) {
  const protozero::data_view data = reader.get_view();
  return {data.data(), data.size()};
}

// A JSON member as a number of type T; nothing when it is none.
template <typename T>
std::optional<T> number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_integer()) return std::nullopt;
  return static_cast<T>(found->get<std::uint64_t>());
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

struct CopyName {
  std::uint8_t kind = 0;
  std::uint8_t source = 0;
  std::uint8_t destination = 0;
  bool asynchronous = false;
};

// Names and ids of one sequence.
struct Sequence {
  ProcessIndex process = kNone;
  std::unordered_map<std::uint64_t, std::string> names;
  std::unordered_map<std::uint64_t, std::string> strings;
  std::unordered_map<std::uint64_t, TextId> texts;             // by name, filled when asked for
  std::unordered_map<std::uint64_t, FunctionIndex> functions;  // by name
  std::unordered_map<std::uint64_t, FunctionIndex> kernels;
  std::unordered_map<std::uint64_t, CopyName> copies;  // by name
};

struct Track {
  ThreadIndex thread = kNone;
  std::uint64_t parent = 0;
};

// A track event that is not one of ours has no category.
struct Event {
  std::uint32_t sequence = 0;
  std::uint64_t time = 0;
  std::uint64_t type = 0;
  std::uint64_t category = 0;
  std::uint64_t name = 0;
  std::uint64_t track = 0;
  std::uint64_t correlation = 0;
  std::uint64_t submission = 0;  // event id of the work; 0 = none
  std::uint64_t domain = 0;      // interned string
  std::uint64_t numbers[kAnnotations] = {};
  bool has_from = false;

  std::uint32_t any_correlation() const {
    return static_cast<std::uint32_t>(submission != 0 ? submission : correlation);
  }
};

template <typename Record>
class Batch {
 public:
  using Take = std::function<void(std::span<const Record>)>;
  explicit Batch(const Take& take) : take_(take) {}
  void add(const Record& record) {
    if (!take_) return;
    records_.push_back(record);
    if (records_.size() >= kBatch) hand_over();
  }
  void hand_over() {
    if (!records_.empty()) take_(records_);
    records_.clear();
  }

 private:
  const Take& take_;
  std::vector<Record> records_;
};

class EventReader {
 public:
  EventReader(Catalog& catalog, const RecordSink& sink, TraceEvents& result)
      : catalog_(catalog),
        sink_(sink),
        result_(result),
        api_calls_(sink.api_calls),
        operations_(sink.operations),
        syncs_(sink.syncs),
        event_records_(sink.event_records),
        overheads_(sink.overheads),
        ranges_(sink.nvtx_ranges),
        marks_(sink.nvtx_marks) {}

  bool is_ours() const { return is_ours_; }

  // `packet` is a TracePacket. Throws protozero::exception when it is none.
  void take(std::string_view packet) {
    pbf_reader reader(packet.data(), packet.size());
    std::uint64_t time = 0;
    std::uint32_t sequence = 0;
    std::string_view event;
    std::string_view work;
    std::string_view track;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(TracePacket::kTimestampFieldNumber, kVarint):
          time = reader.get_uint64();
          break;
        case tag_and_type(TracePacket::kTrustedPacketSequenceIdFieldNumber, kVarint):
          sequence = reader.get_uint32();
          break;
        case tag_and_type(TracePacket::kTrackEventFieldNumber, kBytesType):
          event = view(reader);
          break;
        case tag_and_type(TracePacket::kGpuRenderStageEventFieldNumber, kBytesType):
          work = view(reader);
          break;
        case tag_and_type(TracePacket::kTrackDescriptorFieldNumber, kBytesType):
          track = view(reader);
          break;
        case tag_and_type(TracePacket::kInternedDataFieldNumber, kBytesType):
          intern(sequences_[sequence], view(reader));
          break;
        case tag_and_type(TracePacket::kGpuInfoFieldNumber, kBytesType):
          list_devices(view(reader));
          break;
        case tag_and_type(TracePacket::kTraceAttributesFieldNumber, kBytesType):
          attributes(view(reader));
          break;
        default:
          reader.skip();
      }
    }
    if (!event.empty()) take_event(sequence, time, event);
    if (!work.empty()) take_work(sequence, time, work);
    if (!track.empty()) take_track(sequence, track);
  }

  void finish() {
    api_calls_.hand_over();
    operations_.hand_over();
    syncs_.hand_over();
    event_records_.hand_over();
    overheads_.hand_over();
    ranges_.hand_over();
    marks_.hand_over();

    TraceFacts& facts = result_.facts;
    if (facts.is_complete) {
      for (ProcessState& state : facts.processes) {
        if (state.process == kNone) continue;
        const auto sequence = sequences_.find(kFirstProcessSequence + state.process);
        state.process = sequence == sequences_.end() ? kNone : sequence->second.process;
      }
    } else {
      facts.run.end_ns = std::max(result_.last_ns, facts.run.start_ns);
      for (ProcessIndex i = 0; i < catalog_.processes.size(); ++i) {
        ProcessState state;
        state.pid = catalog_.processes[i].pid;
        state.process = i;
        state.hello_ns = catalog_.processes[i].hello_clocks.monotonic_ns;
        state.closed = true;  // how it ended is unknown, and not that it runs
        facts.processes.push_back(std::move(state));
      }
    }
    const auto less = [](std::uint64_t& total, std::uint64_t part) {
      total -= std::min(total, part);
    };
    less(facts.untraced.dropped, dropped_);
    less(facts.untraced.untimed, untimed_);
    less(facts.untraced.unfinished, unfinished_);
  }

 private:
  static std::pair<std::uint64_t, std::string_view> interned(std::string_view body) {
    pbf_reader reader(body.data(), body.size());
    std::pair<std::uint64_t, std::string_view> entry;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(pb::InternedName::kIidFieldNumber, kVarint):
          entry.first = reader.get_uint64();
          break;
        case tag_and_type(pb::InternedName::kNameFieldNumber, kBytesType):
          entry.second = view(reader);
          break;
        default:
          reader.skip();
      }
    }
    return entry;
  }

  void intern(Sequence& sequence, std::string_view body) {
    pbf_reader reader(body.data(), body.size());
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(InternedData::kEventNamesFieldNumber, kBytesType): {
          const auto [iid, name] = interned(view(reader));
          sequence.names[iid] = name;
          break;
        }
        case tag_and_type(InternedData::kDebugAnnotationStringValuesFieldNumber, kBytesType): {
          const auto [iid, name] = interned(view(reader));
          sequence.strings[iid] = name;
          break;
        }
        case tag_and_type(InternedData::kComputeKernelsFieldNumber, kBytesType):
          intern_kernel(sequence, view(reader));
          break;
        default:
          reader.skip();
      }
    }
  }

  // One of `args`: name and value.
  static std::pair<std::uint64_t, std::uint64_t> argument(std::string_view body) {
    using Argument = pb::GpuRenderStageEvent_ExtraComputeArg;
    pbf_reader reader(body.data(), body.size());
    std::pair<std::uint64_t, std::uint64_t> result;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(Argument::kNameIidFieldNumber, kVarint):
          result.first = reader.get_uint64();
          break;
        case tag_and_type(Argument::kUintValueFieldNumber, kVarint):
          result.second = reader.get_uint64();
          break;
        default:
          reader.skip();
      }
    }
    return result;
  }

  void intern_kernel(Sequence& sequence, std::string_view body) {
    using Kernel = pb::InternedComputeKernel;
    pbf_reader reader(body.data(), body.size());
    std::uint64_t iid = 0;
    std::string_view mangled;
    std::uint64_t numbers[kArguments] = {};
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(Kernel::kIidFieldNumber, kVarint):
          iid = reader.get_uint64();
          break;
        case tag_and_type(Kernel::kNameFieldNumber, kBytesType):
          mangled = view(reader);
          break;
        case tag_and_type(Kernel::kArgsFieldNumber, kBytesType): {
          const auto [name, value] = argument(view(reader));
          if (name < kArguments) numbers[name] = value;
          break;
        }
        default:
          reader.skip();
      }
    }
    sequence.kernels[iid] =
        catalog_.kernel_function(mangled, static_cast<std::uint32_t>(numbers[kRegisters]),
                                 numbers[kStaticShared], numbers[kLocalMemory]);
  }

  void attributes(std::string_view body) {
    pbf_reader reader(body.data(), body.size());
    while (reader.next(pb::TraceAttributes::kAttributeFieldNumber, kBytesType)) {
      pbf_reader attribute = reader.get_message();
      while (attribute.next(pb::TraceAttributes_Attribute::kKeyFieldNumber, kBytesType)) {
        if (view(attribute) == kVersionAttribute) is_ours_ = true;
      }
    }
  }

  void list_devices(std::string_view body) {
    pbf_reader reader(body.data(), body.size());
    for (std::size_t index = 0;
         reader.next(pb::GpuInfo::kGpusFieldNumber, kBytesType) && index < kMostDevices; ++index) {
      if (index >= catalog_.devices.size()) catalog_.devices.emplace_back();
      catalog_.devices[index] = read_device(view(reader));
    }
  }

  static Device read_device(std::string_view body) {
    using Gpu = pb::GpuInfo_Gpu;
    Device device;
    pbf_reader reader(body.data(), body.size());
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(Gpu::kNameFieldNumber, kBytesType):
          device.name = view(reader);
          break;
        case tag_and_type(Gpu::kUuidFieldNumber, kBytesType): {
          const std::string_view uuid = view(reader);
          device.has_uuid = uuid.size() == device.uuid.size();
          if (device.has_uuid) std::copy(uuid.begin(), uuid.end(), device.uuid.begin());
          break;
        }
        case tag_and_type(Gpu::kExtraInfoFieldNumber, kBytesType):
          read_extra(view(reader), device);
          break;
        default:
          reader.skip();
      }
    }
    // What the writer shows where there is no name.
    if (device.name == "CUDA device " + std::to_string(device.ordinal)) device.name.clear();
    return device;
  }

  static void read_extra(std::string_view body, Device& device) {
    pbf_reader reader(body.data(), body.size());
    std::string_view key;
    std::uint64_t value = 0;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(pb::GpuInfo_KeyValue::kKeyFieldNumber, kBytesType):
          key = view(reader);
          break;
        case tag_and_type(pb::GpuInfo_KeyValue::kValueFieldNumber, kBytesType):
          for (const char c : view(reader)) {
            if (c >= '0' && c <= '9') value = value * 10 + static_cast<std::uint64_t>(c - '0');
          }
          break;
        default:
          reader.skip();
      }
    }
    const auto narrow = static_cast<std::uint32_t>(value);
    if (key == "memory_bytes") device.memory_bytes = value;
    if (key == "multiprocessors") device.multiprocessors = narrow;
    if (key == "ordinal") device.ordinal = narrow;
    if (key == "compute_capability_major") device.compute_capability_major = narrow;
    if (key == "compute_capability_minor") device.compute_capability_minor = narrow;
  }

  // --- Tracks ------------------------------------------------------------------------------------

  void take_track(std::uint32_t sequence, std::string_view body) {
    using Descriptor = pb::TrackDescriptor;
    pbf_reader reader(body.data(), body.size());
    std::uint64_t uuid = 0;
    Track track;
    std::string_view thread;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(Descriptor::kUuidFieldNumber, kVarint):
          uuid = reader.get_uint64();
          break;
        case tag_and_type(Descriptor::kParentUuidFieldNumber, kVarint):
          track.parent = reader.get_uint64();
          break;
        case tag_and_type(Descriptor::kThreadFieldNumber, kBytesType):
          thread = view(reader);
          break;
        default:
          reader.skip();
      }
    }
    if (!thread.empty()) track.thread = read_thread(sequences_[sequence], thread);
    tracks_[uuid] = track;
  }

  ThreadIndex read_thread(const Sequence& sequence, std::string_view body) {
    using Descriptor = pb::ThreadDescriptor;
    pbf_reader reader(body.data(), body.size());
    std::uint64_t tid = 0;
    std::string_view name;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(Descriptor::kTidFieldNumber, kVarint):
          tid = reader.get_uint64();
          break;
        case tag_and_type(Descriptor::kThreadNameFieldNumber, kBytesType):
          name = view(reader);
          break;
        default:
          reader.skip();
      }
    }
    if (sequence.process == kNone) return kNone;
    const ThreadIndex thread = catalog_.thread(sequence.process, tid);
    if (!name.empty()) catalog_.threads[thread].name = name;
    return thread;
  }

  // The thread of a track, or of the one that it belongs to.
  ThreadIndex thread_of(std::uint64_t uuid) const {
    for (int depth = 0; depth < 2; ++depth) {
      const auto found = tracks_.find(uuid);
      if (found == tracks_.end()) return kNone;
      if (found->second.thread != kNone) return found->second.thread;
      uuid = found->second.parent;
    }
    return kNone;
  }

  // --- Events ------------------------------------------------------------------------------------

  void take_event(std::uint32_t sequence, std::uint64_t time, std::string_view body) {
    Event event;
    event.sequence = sequence;
    event.time = time;
    std::string_view fact;
    bool is_fact = false;
    pbf_reader reader(body.data(), body.size());
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(TrackEvent::kTypeFieldNumber, kVarint):
          event.type = reader.get_uint64();
          break;
        case tag_and_type(TrackEvent::kTrackUuidFieldNumber, kVarint):
          event.track = reader.get_uint64();
          break;
        case tag_and_type(TrackEvent::kCategoryIidsFieldNumber, kVarint):
          event.category = reader.get_uint64();
          break;
        case tag_and_type(TrackEvent::kNameIidFieldNumber, kVarint):
          event.name = reader.get_uint64();
          break;
        case tag_and_type(TrackEvent::kCorrelationIdFieldNumber, kVarint):
          event.correlation = reader.get_uint64();
          break;
        case tag_and_type(TrackEvent::kGpuCorrelationFieldNumber, kBytesType): {
          pbf_reader ids = reader.get_message();
          while (ids.next(pb::GpuCorrelation::kRenderStageSubmissionEventIdsFieldNumber, kVarint)) {
            event.submission = ids.get_uint64();
          }
          break;
        }
        case tag_and_type(TrackEvent::kNameFieldNumber, kBytesType):
          is_fact = view(reader) == kFacts;
          break;
        case tag_and_type(TrackEvent::kDebugAnnotationsFieldNumber, kBytesType):
          annotation(view(reader), event, fact);
          break;
        default:
          reader.skip();
      }
    }
    if (is_fact) {
      take_fact(sequence, fact);
      return;
    }
    switch (event.type) {
      case TrackEvent::TYPE_SLICE_BEGIN:
        open_ = event.category != 0 ? std::optional(event) : std::nullopt;
        break;
      case TrackEvent::TYPE_SLICE_END:
        // The writer puts the end of a slice right behind its beginning.
        if (open_ && open_->track == event.track) take_slice(*open_, event.time);
        open_.reset();
        break;
      case TrackEvent::TYPE_INSTANT:
        take_instant(event);
        break;
      default:
        break;
    }
  }

  static void annotation(std::string_view body, Event& event, std::string_view& fact) {
    using pb::DebugAnnotation;
    pbf_reader reader(body.data(), body.size());
    std::uint64_t name = 0;
    std::uint64_t value = 0;
    std::uint64_t string_iid = 0;
    std::string_view text_name;
    std::string_view text;
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(DebugAnnotation::kNameIidFieldNumber, kVarint):
          name = reader.get_uint64();
          break;
        case tag_and_type(DebugAnnotation::kUintValueFieldNumber, kVarint):
          value = reader.get_uint64();
          break;
        case tag_and_type(DebugAnnotation::kStringValueIidFieldNumber, kVarint):
          string_iid = reader.get_uint64();
          break;
        case tag_and_type(DebugAnnotation::kNameFieldNumber, kBytesType):
          text_name = view(reader);
          break;
        case tag_and_type(DebugAnnotation::kStringValueFieldNumber, kBytesType):
          text = view(reader);
          break;
        default:
          reader.skip();
      }
    }
    if (text_name == kFactText) fact = text;
    if (name == kDomain) event.domain = string_iid;
    if (name == kFrom) event.has_from = true;
    if (name < kAnnotations) event.numbers[name] = value;
  }

  void take_slice(const Event& event, std::uint64_t end) {
    switch (event.category) {
      case kUnknownCall:
      case kRuntimeCall:
      case kDriverCall:
        take_call(event, end);
        break;
      case kNvtx:
      case kNvtxStartEnd:
        take_range(event, end);
        break;
      case kSync:
        take_sync(event, end);
        break;
      case kOverhead:
        take_overhead(event, end);
        break;
      case kHole:
        take_hole(event, end);
        break;
      default:
        ++result_.ignored;
    }
  }

  void take_instant(const Event& event) {
    switch (event.category) {
      case kNvtx:
        take_mark(event);
        break;
      case kEventRecord: {
        const ProcessIndex process = sequences_[event.sequence].process;
        if (process == kNone) {
          ++result_.ignored;
          break;
        }
        EventRecord record;
        record.process = process;
        record.correlation = event.any_correlation();
        record.context = static_cast<std::uint32_t>(event.numbers[kContext]);
        record.stream = event.numbers[kStream];
        record.event = static_cast<std::uint32_t>(event.numbers[kEvent]);
        event_records_.add(record);
        break;
      }
      case kUntimed: {
        const auto queue = queues_.find(event.numbers[kQueue]);
        if (queue == queues_.end() || event.numbers[kKind] > 2) {
          ++result_.ignored;
          break;
        }
        Operation operation;
        operation.start = event.numbers[kFrom];
        operation.end = event.numbers[kTo];
        operation.kind = static_cast<OperationKind>(event.numbers[kKind]);
        operation.queue = queue->second;
        operation.correlation = event.any_correlation();
        // As the timeline tells them apart.
        if (has_times(operation.start, operation.end)) break;
        ++(is_time(operation.start) && operation.end == 0 ? unfinished_ : untimed_);
        operations_.add(operation);
        break;
      }
      default:
        break;
    }
  }

  void seen(std::uint64_t time) { result_.last_ns = std::max(result_.last_ns, time); }

  void take_call(const Event& event, std::uint64_t end) {
    Sequence& sequence = sequences_[event.sequence];
    ApiCall call;
    call.start = event.time;
    call.end = end;
    call.thread = thread_of(event.track);
    call.correlation = event.any_correlation();
    call.result = static_cast<std::uint32_t>(event.numbers[kResult]);
    const auto function = sequence.functions.find(event.name);
    // A call whose function is unknown has a name without a function.
    if (function != sequence.functions.end()) {
      call.function = function->second;
    } else if (!sequence.names.contains(event.name)) {
      ++result_.ignored;
      return;
    }
    if (call.thread == kNone) {
      ++result_.ignored;
      return;
    }
    seen(end);
    api_calls_.add(call);
  }

  TextId text(Sequence& sequence, const Event& event) {
    if (event.numbers[kUnnamed] != 0) return kNone;
    const auto known = sequence.texts.find(event.name);
    if (known != sequence.texts.end()) return known->second;
    const auto name = sequence.names.find(event.name);
    if (name == sequence.names.end()) return kNone;
    return sequence.texts[event.name] = catalog_.text(name->second);
  }

  DomainId domain(const Sequence& sequence, const Event& event) {
    const auto name = sequence.strings.find(event.domain);
    return name == sequence.strings.end() ? 0 : catalog_.nvtx_domain(name->second);
  }

  void take_range(const Event& event, std::uint64_t end) {
    Sequence& sequence = sequences_[event.sequence];
    NvtxRange range;
    range.start = event.time;
    range.end = end;
    range.is_nested = event.category == kNvtx;
    if (sequence.process == kNone) {
      ++result_.ignored;
      return;
    }
    range.thread = range.is_nested ? thread_of(event.track)
                                   : catalog_.thread(sequence.process, event.numbers[kThread]);
    if (range.thread == kNone) {
      ++result_.ignored;
      return;
    }
    range.end_thread = range.thread;
    if (event.numbers[kEndThread] != 0) {
      range.end_thread = catalog_.thread(sequence.process, event.numbers[kEndThread]);
    }
    if (event.numbers[kUnclosed] != 0) range.end_thread = kNone;
    range.domain = domain(sequence, event);
    range.text = text(sequence, event);
    seen(end);
    ranges_.add(range);
  }

  void take_mark(const Event& event) {
    Sequence& sequence = sequences_[event.sequence];
    NvtxEvent mark;
    mark.time = event.time;
    mark.kind = NvtxKind::kMark;
    mark.thread = thread_of(event.track);
    mark.domain = domain(sequence, event);
    mark.text = text(sequence, event);
    if (mark.thread == kNone) {
      ++result_.ignored;
      return;
    }
    seen(mark.time);
    marks_.add(mark);
  }

  void take_sync(const Event& event, std::uint64_t end) {
    SyncRecord sync;
    sync.start = event.time;
    sync.end = end;
    sync.kind = event.numbers[kKind] <= static_cast<std::uint64_t>(SyncKind::kContext)
                    ? static_cast<SyncKind>(event.numbers[kKind])
                    : SyncKind::kUnknown;
    sync.process = sequences_[event.sequence].process;
    sync.correlation = event.any_correlation();
    sync.context = static_cast<std::uint32_t>(event.numbers[kContext]);
    sync.stream = event.numbers[kStream];
    sync.event = static_cast<std::uint32_t>(event.numbers[kEvent]);
    if (sync.process == kNone) {
      ++result_.ignored;
      return;
    }
    seen(end);
    syncs_.add(sync);
  }

  void take_overhead(const Event& event, std::uint64_t end) {
    OverheadRecord overhead;
    overhead.start = event.time;
    overhead.end = end;
    overhead.kind = static_cast<OverheadKind>(event.numbers[kKind]);
    overhead.correlation = event.any_correlation();
    if (event.sequence != kRunSequence) {
      overhead.thread = thread_of(event.track);
      if (overhead.thread == kNone) {
        ++result_.ignored;
        return;
      }
    }
    seen(end);
    overheads_.add(overhead);
  }

  void take_hole(const Event& event, std::uint64_t end) {
    LossRecord loss;
    loss.count = event.numbers[kCount];
    loss.from_ns = event.has_from ? event.numbers[kFrom] : event.time;
    loss.to_ns = event.has_from ? event.numbers[kTo] : end;
    dropped_ += loss.count;
    if (sink_.loss) sink_.loss(sequences_[event.sequence].process, loss);
  }

  // --- GPU work ----------------------------------------------------------------------------------

  static void dimensions(std::string_view body, std::uint32_t (&size)[3]) {
    using Dim3 = pb::GpuRenderStageEvent_Dim3;
    pbf_reader reader(body.data(), body.size());
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(Dim3::kXFieldNumber, kVarint):
          size[0] = reader.get_uint32();
          break;
        case tag_and_type(Dim3::kYFieldNumber, kVarint):
          size[1] = reader.get_uint32();
          break;
        case tag_and_type(Dim3::kZFieldNumber, kVarint):
          size[2] = reader.get_uint32();
          break;
        default:
          reader.skip();
      }
    }
  }

  void launch(std::string_view body, Operation& operation) {
    using Launch = pb::GpuRenderStageEvent_ComputeKernelLaunch;
    pbf_reader reader(body.data(), body.size());
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(Launch::kGridSizeFieldNumber, kBytesType):
          dimensions(view(reader), operation.grid);
          break;
        case tag_and_type(Launch::kWorkgroupSizeFieldNumber, kBytesType):
          dimensions(view(reader), operation.block);
          break;
        case tag_and_type(Launch::kArgsFieldNumber, kBytesType): {
          const auto [name, value] = argument(view(reader));
          set_argument(name, value, operation);
          break;
        }
        default:
          reader.skip();
      }
    }
  }

  void set_argument(std::uint64_t name, std::uint64_t value, Operation& operation) const {
    const auto narrow = static_cast<std::uint32_t>(value);
    switch (name) {
      case kDynamicShared:
        operation.dynamic_shared_bytes = value;
        break;
      case kGraph:
        operation.graph = narrow;
        break;
      case kGraphNode:
        operation.graph_node = value;
        break;
      case kBytes:
        operation.bytes = value;
        break;
      case kValue:
        operation.value = narrow;
        break;
      case kSourceDevice:
        if (value < catalog_.devices.size()) operation.source_device = narrow;
        break;
      case kDestinationDevice:
        if (value < catalog_.devices.size()) operation.destination_device = narrow;
        break;
      default:
        break;
    }
  }

  void take_work(std::uint32_t sequence_id, std::uint64_t time, std::string_view body) {
    const Sequence& sequence = sequences_[sequence_id];
    Operation operation;
    operation.start = time;
    std::uint64_t stage = 0;
    std::uint64_t kernel = 0;
    std::uint64_t name = 0;
    std::uint64_t queue = 0;
    pbf_reader reader(body.data(), body.size());
    while (reader.next()) {
      switch (reader.tag_and_type()) {
        case tag_and_type(GpuRenderStageEvent::kEventIdFieldNumber, kVarint):
          operation.correlation = static_cast<std::uint32_t>(reader.get_uint64());
          break;
        case tag_and_type(GpuRenderStageEvent::kDurationFieldNumber, kVarint):
          operation.end = time + reader.get_uint64();
          break;
        case tag_and_type(GpuRenderStageEvent::kHwQueueIidFieldNumber, kVarint):
          queue = reader.get_uint64();
          break;
        case tag_and_type(GpuRenderStageEvent::kStageIidFieldNumber, kVarint):
          stage = reader.get_uint64();
          break;
        case tag_and_type(GpuRenderStageEvent::kKernelIidFieldNumber, kVarint):
          kernel = reader.get_uint64();
          break;
        case tag_and_type(GpuRenderStageEvent::kNameIidFieldNumber, kVarint):
          name = reader.get_uint64();
          break;
        case tag_and_type(GpuRenderStageEvent::kLaunchFieldNumber, kBytesType):
          launch(view(reader), operation);
          break;
        default:
          reader.skip();
      }
    }
    const auto known_queue = queues_.find(queue);
    if (known_queue == queues_.end() || !has_times(operation.start, operation.end)) {
      ++result_.ignored;
      return;
    }
    operation.queue = known_queue->second;
    if (stage == kKernelStage) {
      operation.kind = OperationKind::kKernel;
      const auto function = sequence.kernels.find(kernel);
      if (function != sequence.kernels.end()) operation.function = function->second;
    } else {
      operation.kind = stage == kMemsetStage ? OperationKind::kMemset : OperationKind::kMemcpy;
      const auto copy = sequence.copies.find(name);
      if (copy == sequence.copies.end()) {
        ++result_.ignored;
        return;
      }
      operation.copy_kind = copy->second.kind;
      operation.source_kind = copy->second.source;
      operation.destination_kind = copy->second.destination;
      operation.asynchronous = copy->second.asynchronous;
    }
    seen(operation.end);
    operations_.add(operation);
  }

  // --- Facts -------------------------------------------------------------------------------------

  void take_fact(std::uint32_t sequence_id, std::string_view text) {
    if (sequence_id == kRunSequence && read_facts(text, result_.facts)) return;
    const json document = json::parse(text, nullptr, false);
    if (!document.is_object()) {
      ++result_.ignored;
      return;
    }
    const auto object = [&](const char* key) -> const json* {
      const auto found = document.find(key);
      return found != document.end() && found->is_object() ? &*found : nullptr;
    };
    Sequence& sequence = sequences_[sequence_id];
    if (const json* process = object("process")) add_process(sequence, *process);
    if (const json* queue = object("queue")) add_queue(sequence, *queue);
    if (const json* function = object("function")) {
      const auto id = number_of<std::uint64_t>(*function, "iid").value_or(0);
      const auto domain = number_of<std::uint32_t>(*function, "domain").value_or(0);
      sequence.functions[id] = catalog_.api_function(
          domain <= 2 ? static_cast<ApiDomain>(domain) : ApiDomain::kUnknown,
          number_of<std::uint32_t>(*function, "id").value_or(0), text_of(*function, "raw"));
    }
    if (const json* copy = object("copy")) {
      sequence.copies[number_of<std::uint64_t>(*copy, "iid").value_or(0)] = {
          number_of<std::uint8_t>(*copy, "kind").value_or(0),
          number_of<std::uint8_t>(*copy, "source").value_or(0),
          number_of<std::uint8_t>(*copy, "destination").value_or(0),
          flag_of(*copy, "asynchronous")};
    }
  }

  static void add_cuda_facts(Process& process, const json& entry) {
    process.driver_version = number_of<std::int32_t>(entry, "driver_version").value_or(0);
    process.cupti_version = number_of<std::uint32_t>(entry, "cupti_version").value_or(0);
    process.cupti_path = text_of(entry, "cupti_path");
    process.simulated = flag_of(entry, "simulated");
    process.simulated_model = text_of(entry, "simulated_model");
  }

  void add_process(Sequence& sequence, const json& entry) {
    if (sequence.process != kNone) {
      add_cuda_facts(catalog_.processes[sequence.process], entry);
      return;
    }
    if (catalog_.processes.size() >= kMostProcesses) return;
    Process process;
    process.pid = number_of<std::uint64_t>(entry, "pid").value_or(0);
    process.parent_pid = number_of<std::uint64_t>(entry, "parent_pid").value_or(0);
    process.executable = text_of(entry, "executable");
    const auto command_line = entry.find("command_line");
    if (command_line != entry.end() && command_line->is_array()) {
      for (const json& argument : *command_line) {
        if (argument.is_string()) process.command_line.push_back(argument.get<std::string>());
      }
    }
    process.hostname = text_of(entry, "hostname");
    process.start_ns = number_of<std::uint64_t>(entry, "start_ns").value_or(0);
    process.hello_clocks.monotonic_ns = number_of<std::uint64_t>(entry, "hello_ns").value_or(0);
    process.hello_clocks.boottime_ns =
        number_of<std::uint64_t>(entry, "hello_boottime_ns").value_or(0);
    process.hello_clocks.realtime_ns =
        number_of<std::uint64_t>(entry, "hello_realtime_ns").value_or(0);
    add_cuda_facts(process, entry);
    const auto environment = entry.find("environment");
    if (environment != entry.end() && environment->is_array()) {
      for (const json& pair : *environment) {
        if (pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string()) {
          process.environment.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
        }
      }
    }
    sequence.process = catalog_.add_process(std::move(process));
  }

  void add_queue(const Sequence& sequence, const json& entry) {
    Queue queue;
    queue.process = sequence.process;
    queue.device = number_of<std::uint32_t>(entry, "device").value_or(kNone);
    queue.context = number_of<std::uint32_t>(entry, "context").value_or(0);
    queue.stream = number_of<std::uint64_t>(entry, "stream").value_or(0);
    if (queue.process == kNone || queue.device >= catalog_.devices.size()) {
      ++result_.ignored;
      return;
    }
    const QueueIndex index = catalog_.queue(queue);
    catalog_.queues[index].name = text_of(entry, "name");
    queues_[number_of<std::uint64_t>(entry, "iid").value_or(0)] = index;
  }

  Catalog& catalog_;
  const RecordSink& sink_;
  TraceEvents& result_;
  bool is_ours_ = false;
  std::unordered_map<std::uint32_t, Sequence> sequences_;
  std::unordered_map<std::uint64_t, Track> tracks_;
  std::unordered_map<std::uint64_t, QueueIndex> queues_;
  std::optional<Event> open_;
  std::uint64_t dropped_ = 0;     // that the sink got
  std::uint64_t untimed_ = 0;     // likewise
  std::uint64_t unfinished_ = 0;  // likewise
  Batch<ApiCall> api_calls_;
  Batch<Operation> operations_;
  Batch<SyncRecord> syncs_;
  Batch<EventRecord> event_records_;
  Batch<OverheadRecord> overheads_;
  Batch<NvtxRange> ranges_;
  Batch<NvtxEvent> marks_;
};

}  // namespace

Result<TraceEvents> read_events(const std::string& path, Catalog& catalog, const RecordSink& sink) {
  Result<TracePackets> packets = TracePackets::open(path, kMostPacketBytes);
  if (!packets) return packets.error();
  TraceEvents result;
  EventReader reader(catalog, sink, result);
  using Next = TracePackets::Next;
  std::string_view packet;
  Next next = packets->next(packet);
  for (; next == Next::kPacket; next = packets->next(packet)) {
    try {
      reader.take(packet);
    } catch (const protozero::exception&) {
      next = Next::kMalformed;
      break;
    }
  }
  if (next == Next::kUnreadable) return unreadable_trace(path, packets->error_number());
  result.is_whole = next == Next::kEnd;
  result.end_offset = packets->offset();
  const std::string file = "'" + path + "'";
  if (!reader.is_ours()) {
    return Error{file +
                 " is no trace of this profiler: its events can be seen in "
                 "ui.perfetto.dev, not analysed here."};
  }
  if (result.facts.layout_version == 0) {
    return Error{file + " ends before it says what was recorded, so there is nothing to analyse."};
  }
  if (result.facts.layout_version != kVersion) {
    return Error{file + " was written by another version of the profiler (layout " +
                 std::to_string(result.facts.layout_version) + ", this one reads " +
                 std::to_string(kVersion) + "): analyse it with that one."};
  }
  reader.finish();
  return result;
}

}  // namespace profiler
