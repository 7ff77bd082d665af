#include "collector/wire_decoder.h"

#include <algorithm>
#include <cstring>
#include <protozero/pbf_reader.hpp>

#include "proto/session.h"
#include "proto/wire.pb.h"

namespace profiler {
namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;
using protozero::tag_and_type;

constexpr auto kVarint = pbf_wire_type::varint;
constexpr auto kBytes = pbf_wire_type::length_delimited;

constexpr char kBadId[] = "an id is out of order";
constexpr char kUndefinedId[] = "an id was used before it was defined";

std::string_view view(pbf_reader& reader) {
  const protozero::data_view data = reader.get_view();
  return {data.data(), data.size()};
}

// Ids are counted from 1; an id may be defined again (a thread's new name).
bool define(std::vector<std::uint32_t>& table, std::uint32_t id, std::uint32_t index) {
  if (id == 0 || id > table.size() + 1) return false;
  if (id == table.size() + 1) {
    table.push_back(index);
  } else {
    table[id - 1] = index;
  }
  return true;
}

std::uint32_t look_up(const std::vector<std::uint32_t>& table, std::uint32_t id) {
  return id == 0 || id > table.size() ? kNone : table[id - 1];
}

ClockReading clock_reading(const wire::ClockReading& reading) {
  return {reading.monotonic_ns(), reading.boottime_ns(), reading.realtime_ns()};
}

// The four members that every record on a lane has in common.
struct Times {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

Times times(std::uint64_t base, std::int64_t start_delta, std::uint64_t duration) {
  const std::uint64_t start = base + static_cast<std::uint64_t>(start_delta);
  return {start, start + duration};
}

std::uint32_t correlation(std::uint32_t base, std::int32_t delta) {
  return base + static_cast<std::uint32_t>(delta);
}

}  // namespace

void DecodedFrame::clear() {
  hello.reset();
  cuda_facts = false;
  failure.clear();
  goodbye.reset();
  renamed_threads.clear();
  devices.clear();
  api_calls.clear();
  operations.clear();
  syncs.clear();
  event_records.clear();
  overheads.clear();
  nvtx_events.clear();
  losses.clear();
  cupti_failures.clear();
  complete_until_ns.reset();
}

Status WireDecoder::decode(std::string_view body, DecodedFrame& out) {
  out.clear();
  Fault fault = nullptr;
  try {
    fault = decode_frame(body, out);
  } catch (const protozero::exception&) {
    fault = "it is not a protobuf message";
  }
  if (fault != nullptr) return Error{std::string("a frame could not be read: ") + fault};
  return Done{};
}

WireDecoder::Fault WireDecoder::decode_frame(std::string_view body, DecodedFrame& out) {
  Base base;
  pbf_reader frame(body.data(), body.size());
  while (frame.next()) {
    Fault fault = nullptr;
    if (process_ == kNone && frame.tag() > wire::Frame::kHelloFieldNumber)
      return "it came before the hello";
    switch (frame.tag_and_type()) {
      case tag_and_type(wire::Frame::kBaseNsFieldNumber, pbf_wire_type::fixed64):
        base.ns = frame.get_fixed64();
        continue;
      case tag_and_type(wire::Frame::kBaseCorrelationFieldNumber, kVarint):
        base.correlation = frame.get_uint32();
        continue;
      case tag_and_type(wire::Frame::kHelloFieldNumber, kBytes):
        fault = hello(view(frame), out);
        break;
      case tag_and_type(wire::Frame::kGoodbyeFieldNumber, kBytes):
        fault = goodbye(view(frame), out);
        break;
      case tag_and_type(wire::Frame::kDevicesFieldNumber, kBytes):
        fault = device(view(frame), out);
        break;
      case tag_and_type(wire::Frame::kQueuesFieldNumber, kBytes):
        fault = queue(view(frame));
        break;
      case tag_and_type(wire::Frame::kThreadsFieldNumber, kBytes):
        fault = thread(view(frame), out);
        break;
      case tag_and_type(wire::Frame::kApiFunctionsFieldNumber, kBytes):
        fault = api_function(view(frame));
        break;
      case tag_and_type(wire::Frame::kKernelFunctionsFieldNumber, kBytes):
        fault = kernel_function(view(frame));
        break;
      case tag_and_type(wire::Frame::kApiCallsFieldNumber, kBytes):
        fault = api_call(view(frame), base, out);
        break;
      case tag_and_type(wire::Frame::kKernelsFieldNumber, kBytes):
        fault = kernel(view(frame), base, out);
        break;
      case tag_and_type(wire::Frame::kCopiesFieldNumber, kBytes):
        fault = copy(view(frame), base, out);
        break;
      case tag_and_type(wire::Frame::kSetsFieldNumber, kBytes):
        fault = set(view(frame), base, out);
        break;
      case tag_and_type(wire::Frame::kSyncsFieldNumber, kBytes):
        fault = sync(view(frame), base, out);
        break;
      case tag_and_type(wire::Frame::kEventRecordsFieldNumber, kBytes):
        fault = event_record(view(frame), base, out);
        break;
      case tag_and_type(wire::Frame::kOverheadsFieldNumber, kBytes):
        fault = overhead(view(frame), base, out);
        break;
      case tag_and_type(wire::Frame::kNvtxEventsFieldNumber, kBytes):
        fault = nvtx_event(view(frame), base, out);
        break;
      case tag_and_type(wire::Frame::kNvtxDomainsFieldNumber, kBytes):
        fault = nvtx_domain(view(frame));
        break;
      case tag_and_type(wire::Frame::kTextsFieldNumber, kBytes):
        fault = text(view(frame));
        break;
      case tag_and_type(wire::Frame::kStreamNamesFieldNumber, kBytes):
        fault = stream_name(view(frame));
        break;
      case tag_and_type(wire::Frame::kCudaFieldNumber, kBytes):
        fault = cuda_facts(view(frame), out);
        break;
      case tag_and_type(wire::Frame::kLossesFieldNumber, kBytes):
        fault = loss(view(frame), out);
        break;
      case tag_and_type(wire::Frame::kWatermarkFieldNumber, kBytes): {
        wire::Watermark watermark;
        const std::string_view bytes = view(frame);
        if (!watermark.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
          return "its watermark cannot be read";
        out.complete_until_ns = watermark.complete_until_ns();
        break;
      }
      case tag_and_type(wire::Frame::kCuptiFailuresFieldNumber, kBytes): {
        wire::CuptiFailure failure;
        const std::string_view bytes = view(frame);
        if (!failure.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
          return "its CUPTI failure cannot be read";
        out.cupti_failures.push_back({failure.function(), failure.result()});
        break;
      }
      default:
        frame.skip();
        break;
    }
    if (fault != nullptr) return fault;
  }
  return nullptr;
}

WireDecoder::Fault WireDecoder::hello(std::string_view body, DecodedFrame& out) {
  if (process_ != kNone) return "a second hello";
  wire::Hello message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its hello cannot be read";
  if (message.wire_version() != session::kWireVersion)
    return "injector and profiler are of different versions";
  Process process;
  process.pid = message.pid();
  process.parent_pid = message.ppid();
  process.executable = message.executable();
  process.command_line.assign(message.command_line().begin(), message.command_line().end());
  process.hostname = message.hostname();
  process.start_ns = message.start_ns();
  process.hello_clocks = clock_reading(message.clocks());
  process.driver_version = message.driver_version();
  process.cupti_version = message.cupti_version();
  process.cupti_path = message.cupti_path();
  for (const wire::KeyValue& entry : message.environment())
    process.environment.emplace_back(entry.key(), entry.value());
  process.simulated = message.simulated();
  process.simulated_model = message.simulated_model();
  process_ = catalog_->add_process(std::move(process));
  out.hello = process_;
  out.failure = message.failure();
  return nullptr;
}

WireDecoder::Fault WireDecoder::cuda_facts(std::string_view body, DecodedFrame& out) {
  wire::CudaFacts message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its facts about CUDA cannot be read";
  Process& process = catalog_->processes[process_];
  process.driver_version = message.driver_version();
  process.cupti_version = message.cupti_version();
  process.cupti_path = message.cupti_path();
  process.simulated = message.simulated();
  process.simulated_model = message.simulated_model();
  out.cuda_facts = true;
  out.failure = message.failure();
  return nullptr;
}

WireDecoder::Fault WireDecoder::goodbye(std::string_view body, DecodedFrame& out) {
  wire::Goodbye message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its goodbye cannot be read";
  Goodbye goodbye;
  goodbye.clocks = clock_reading(message.clocks());
  goodbye.records_sent = message.records_sent();
  goodbye.records_dropped = message.records_dropped();
  goodbye.drain_incomplete = message.drain_incomplete();
  goodbye.detail = message.detail();
  out.goodbye = std::move(goodbye);
  return nullptr;
}

WireDecoder::Fault WireDecoder::device(std::string_view body, DecodedFrame& out) {
  wire::Device message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its device cannot be read";
  Device device;
  if (message.id() == 0) return kBadId;
  device.ordinal = message.id() - 1;
  device.name = message.name();
  device.has_uuid = message.uuid().size() == device.uuid.size();
  if (device.has_uuid) std::memcpy(device.uuid.data(), message.uuid().data(), device.uuid.size());
  device.memory_bytes = message.memory_bytes();
  device.multiprocessors = message.multiprocessors();
  device.compute_capability_major = message.compute_capability_major();
  device.compute_capability_minor = message.compute_capability_minor();
  const DeviceIndex index = catalog_->device(process_, std::move(device));
  // Device ids are CUPTI's, so they may come in any order, but there are few.
  constexpr std::uint32_t kMaxDevices = 4096;
  if (message.id() > kMaxDevices) return kBadId;
  if (devices_.size() < message.id()) devices_.resize(message.id(), kNone);
  devices_[message.id() - 1] = index;
  out.devices.push_back(index);
  return nullptr;
}

WireDecoder::Fault WireDecoder::queue(std::string_view body) {
  wire::Queue message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its queue cannot be read";
  const DeviceIndex device = look_up(devices_, message.device_id());
  if (device == kNone) return kUndefinedId;
  const QueueIndex index =
      catalog_->queue({process_, device, message.context_id(), message.stream_id(), {}});
  return define(queues_, message.id(), index) ? nullptr : kBadId;
}

WireDecoder::Fault WireDecoder::thread(std::string_view body, DecodedFrame& out) {
  wire::Thread message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its thread cannot be read";
  const ThreadIndex index = catalog_->thread(process_, message.tid());
  if (!message.name().empty()) catalog_->threads[index].name = message.name();
  out.renamed_threads.push_back(index);
  return define(threads_, message.id(), index) ? nullptr : kBadId;
}

WireDecoder::Fault WireDecoder::api_function(std::string_view body) {
  wire::ApiFunction message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its API function cannot be read";
  ApiDomain domain = ApiDomain::kUnknown;
  if (message.domain() == wire::ApiFunction::RUNTIME) domain = ApiDomain::kRuntime;
  if (message.domain() == wire::ApiFunction::DRIVER) domain = ApiDomain::kDriver;
  const FunctionIndex index = catalog_->api_function(domain, message.callback_id(), message.name());
  return define(api_functions_, message.id(), index) ? nullptr : kBadId;
}

WireDecoder::Fault WireDecoder::kernel_function(std::string_view body) {
  wire::KernelFunction message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its kernel function cannot be read";
  const FunctionIndex index = catalog_->kernel_function(
      message.name(), message.registers(), message.static_shared_bytes(), message.local_bytes());
  return define(kernel_functions_, message.id(), index) ? nullptr : kBadId;
}

WireDecoder::Fault WireDecoder::api_call(std::string_view body, Base base, DecodedFrame& out) {
  pbf_reader reader(body.data(), body.size());
  std::int64_t start_delta = 0;
  std::uint64_t duration = 0;
  std::uint32_t function_id = 0;
  std::uint32_t thread_id = 0;
  std::int32_t correlation_delta = 0;
  ApiCall call;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case tag_and_type(wire::ApiCall::kStartDeltaFieldNumber, kVarint):
        start_delta = reader.get_sint64();
        break;
      case tag_and_type(wire::ApiCall::kDurationFieldNumber, kVarint):
        duration = reader.get_uint64();
        break;
      case tag_and_type(wire::ApiCall::kFunctionIdFieldNumber, kVarint):
        function_id = reader.get_uint32();
        break;
      case tag_and_type(wire::ApiCall::kThreadIdFieldNumber, kVarint):
        thread_id = reader.get_uint32();
        break;
      case tag_and_type(wire::ApiCall::kCorrelationDeltaFieldNumber, kVarint):
        correlation_delta = reader.get_sint32();
        break;
      case tag_and_type(wire::ApiCall::kResultFieldNumber, kVarint):
        call.result = reader.get_uint32();
        break;
      default:
        reader.skip();
        break;
    }
  }
  const Times at = times(base.ns, start_delta, duration);
  call.start = at.start;
  call.end = at.end;
  call.function = look_up(api_functions_, function_id);
  call.thread = look_up(threads_, thread_id);
  call.correlation = correlation(base.correlation, correlation_delta);
  if (call.function == kNone || call.thread == kNone) return kUndefinedId;
  out.api_calls.push_back(call);
  return nullptr;
}

WireDecoder::Fault WireDecoder::kernel(std::string_view body, Base base, DecodedFrame& out) {
  pbf_reader reader(body.data(), body.size());
  std::int64_t start_delta = 0;
  std::uint64_t duration = 0;
  std::uint32_t queue_id = 0;
  std::uint32_t function_id = 0;
  std::int32_t correlation_delta = 0;
  Operation kernel;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case tag_and_type(wire::Kernel::kStartDeltaFieldNumber, kVarint):
        start_delta = reader.get_sint64();
        break;
      case tag_and_type(wire::Kernel::kDurationFieldNumber, kVarint):
        duration = reader.get_uint64();
        break;
      case tag_and_type(wire::Kernel::kQueueIdFieldNumber, kVarint):
        queue_id = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kFunctionIdFieldNumber, kVarint):
        function_id = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kCorrelationDeltaFieldNumber, kVarint):
        correlation_delta = reader.get_sint32();
        break;
      case tag_and_type(wire::Kernel::kGridXFieldNumber, kVarint):
        kernel.grid[0] = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kGridYFieldNumber, kVarint):
        kernel.grid[1] = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kGridZFieldNumber, kVarint):
        kernel.grid[2] = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kBlockXFieldNumber, kVarint):
        kernel.block[0] = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kBlockYFieldNumber, kVarint):
        kernel.block[1] = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kBlockZFieldNumber, kVarint):
        kernel.block[2] = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kDynamicSharedBytesFieldNumber, kVarint):
        kernel.dynamic_shared_bytes = reader.get_uint64();
        break;
      case tag_and_type(wire::Kernel::kGraphIdFieldNumber, kVarint):
        kernel.graph = reader.get_uint32();
        break;
      case tag_and_type(wire::Kernel::kGraphNodeIdFieldNumber, kVarint):
        kernel.graph_node = reader.get_uint64();
        break;
      default:
        reader.skip();
        break;
    }
  }
  const Times at = times(base.ns, start_delta, duration);
  kernel.kind = OperationKind::kKernel;
  kernel.start = at.start;
  kernel.end = at.end;
  kernel.queue = look_up(queues_, queue_id);
  kernel.function = look_up(kernel_functions_, function_id);
  kernel.correlation = correlation(base.correlation, correlation_delta);
  if (kernel.queue == kNone || kernel.function == kNone) return kUndefinedId;
  out.operations.push_back(kernel);
  return nullptr;
}

WireDecoder::Fault WireDecoder::copy(std::string_view body, Base base, DecodedFrame& out) {
  pbf_reader reader(body.data(), body.size());
  std::int64_t start_delta = 0;
  std::uint64_t duration = 0;
  std::uint32_t queue_id = 0;
  std::int32_t correlation_delta = 0;
  Operation copy;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case tag_and_type(wire::Memcpy::kStartDeltaFieldNumber, kVarint):
        start_delta = reader.get_sint64();
        break;
      case tag_and_type(wire::Memcpy::kDurationFieldNumber, kVarint):
        duration = reader.get_uint64();
        break;
      case tag_and_type(wire::Memcpy::kQueueIdFieldNumber, kVarint):
        queue_id = reader.get_uint32();
        break;
      case tag_and_type(wire::Memcpy::kBytesFieldNumber, kVarint):
        copy.bytes = reader.get_uint64();
        break;
      case tag_and_type(wire::Memcpy::kCorrelationDeltaFieldNumber, kVarint):
        correlation_delta = reader.get_sint32();
        break;
      case tag_and_type(wire::Memcpy::kCopyKindFieldNumber, kVarint):
        copy.copy_kind = static_cast<std::uint8_t>(reader.get_uint32());
        break;
      case tag_and_type(wire::Memcpy::kSourceKindFieldNumber, kVarint):
        copy.source_kind = static_cast<std::uint8_t>(reader.get_uint32());
        break;
      case tag_and_type(wire::Memcpy::kDestinationKindFieldNumber, kVarint):
        copy.destination_kind = static_cast<std::uint8_t>(reader.get_uint32());
        break;
      case tag_and_type(wire::Memcpy::kAsynchronousFieldNumber, kVarint):
        copy.asynchronous = reader.get_bool();
        break;
      case tag_and_type(wire::Memcpy::kSourceDeviceIdFieldNumber, kVarint):
        copy.source_device = look_up(devices_, reader.get_uint32());
        break;
      case tag_and_type(wire::Memcpy::kDestinationDeviceIdFieldNumber, kVarint):
        copy.destination_device = look_up(devices_, reader.get_uint32());
        break;
      case tag_and_type(wire::Memcpy::kGraphIdFieldNumber, kVarint):
        copy.graph = reader.get_uint32();
        break;
      case tag_and_type(wire::Memcpy::kGraphNodeIdFieldNumber, kVarint):
        copy.graph_node = reader.get_uint64();
        break;
      default:
        reader.skip();
        break;
    }
  }
  const Times at = times(base.ns, start_delta, duration);
  copy.kind = OperationKind::kMemcpy;
  copy.start = at.start;
  copy.end = at.end;
  copy.queue = look_up(queues_, queue_id);
  copy.correlation = correlation(base.correlation, correlation_delta);
  if (copy.queue == kNone) return kUndefinedId;
  out.operations.push_back(copy);
  return nullptr;
}

WireDecoder::Fault WireDecoder::set(std::string_view body, Base base, DecodedFrame& out) {
  pbf_reader reader(body.data(), body.size());
  std::int64_t start_delta = 0;
  std::uint64_t duration = 0;
  std::uint32_t queue_id = 0;
  std::int32_t correlation_delta = 0;
  Operation set;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case tag_and_type(wire::Memset::kStartDeltaFieldNumber, kVarint):
        start_delta = reader.get_sint64();
        break;
      case tag_and_type(wire::Memset::kDurationFieldNumber, kVarint):
        duration = reader.get_uint64();
        break;
      case tag_and_type(wire::Memset::kQueueIdFieldNumber, kVarint):
        queue_id = reader.get_uint32();
        break;
      case tag_and_type(wire::Memset::kBytesFieldNumber, kVarint):
        set.bytes = reader.get_uint64();
        break;
      case tag_and_type(wire::Memset::kCorrelationDeltaFieldNumber, kVarint):
        correlation_delta = reader.get_sint32();
        break;
      case tag_and_type(wire::Memset::kValueFieldNumber, kVarint):
        set.value = reader.get_uint32();
        break;
      case tag_and_type(wire::Memset::kMemoryKindFieldNumber, kVarint):
        set.destination_kind = static_cast<std::uint8_t>(reader.get_uint32());
        break;
      case tag_and_type(wire::Memset::kAsynchronousFieldNumber, kVarint):
        set.asynchronous = reader.get_bool();
        break;
      case tag_and_type(wire::Memset::kGraphIdFieldNumber, kVarint):
        set.graph = reader.get_uint32();
        break;
      case tag_and_type(wire::Memset::kGraphNodeIdFieldNumber, kVarint):
        set.graph_node = reader.get_uint64();
        break;
      default:
        reader.skip();
        break;
    }
  }
  const Times at = times(base.ns, start_delta, duration);
  set.kind = OperationKind::kMemset;
  set.start = at.start;
  set.end = at.end;
  set.queue = look_up(queues_, queue_id);
  set.correlation = correlation(base.correlation, correlation_delta);
  if (set.queue == kNone) return kUndefinedId;
  out.operations.push_back(set);
  return nullptr;
}

WireDecoder::Fault WireDecoder::sync(std::string_view body, Base base, DecodedFrame& out) {
  wire::Sync message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its synchronization record cannot be read";
  const Times at = times(base.ns, message.start_delta(), message.duration());
  SyncRecord sync;
  sync.start = at.start;
  sync.end = at.end;
  sync.kind = static_cast<SyncKind>(message.kind());
  sync.process = process_;
  sync.correlation = correlation(base.correlation, message.correlation_delta());
  sync.context = message.context_id();
  sync.stream = message.stream_id();
  sync.event = message.event_id();
  out.syncs.push_back(sync);
  return nullptr;
}

WireDecoder::Fault WireDecoder::event_record(std::string_view body, Base base, DecodedFrame& out) {
  wire::EventRecord message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its event record cannot be read";
  out.event_records.push_back({process_, correlation(base.correlation, message.correlation_delta()),
                               message.context_id(), message.stream_id(), message.event_id()});
  return nullptr;
}

WireDecoder::Fault WireDecoder::overhead(std::string_view body, Base base, DecodedFrame& out) {
  wire::Overhead message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its overhead record cannot be read";
  const Times at = times(base.ns, message.start_delta(), message.duration());
  OverheadRecord overhead;
  overhead.start = at.start;
  overhead.end = at.end;
  overhead.kind = static_cast<OverheadKind>(message.kind());
  overhead.thread = look_up(threads_, message.thread_id());
  overhead.correlation = correlation(base.correlation, message.correlation_delta());
  if (message.thread_id() != 0 && overhead.thread == kNone) return kUndefinedId;
  out.overheads.push_back(overhead);
  return nullptr;
}

WireDecoder::Fault WireDecoder::nvtx_event(std::string_view body, Base base, DecodedFrame& out) {
  pbf_reader reader(body.data(), body.size());
  std::int64_t time_delta = 0;
  std::uint32_t thread_id = 0;
  std::uint32_t domain_id = 0;
  std::uint32_t text_id = 0;
  NvtxEvent event;
  while (reader.next()) {
    switch (reader.tag_and_type()) {
      case tag_and_type(wire::NvtxEvent::kKindFieldNumber, kVarint): {
        const std::uint32_t kind = reader.get_uint32();
        if (kind <= static_cast<std::uint32_t>(NvtxKind::kMark))
          event.kind = static_cast<NvtxKind>(kind);
        break;
      }
      case tag_and_type(wire::NvtxEvent::kTimeDeltaFieldNumber, kVarint):
        time_delta = reader.get_sint64();
        break;
      case tag_and_type(wire::NvtxEvent::kThreadIdFieldNumber, kVarint):
        thread_id = reader.get_uint32();
        break;
      case tag_and_type(wire::NvtxEvent::kDomainIdFieldNumber, kVarint):
        domain_id = reader.get_uint32();
        break;
      case tag_and_type(wire::NvtxEvent::kTextIdFieldNumber, kVarint):
        text_id = reader.get_uint32();
        break;
      case tag_and_type(wire::NvtxEvent::kRangeFieldNumber, kVarint):
        event.range = reader.get_uint64();
        break;
      default:
        reader.skip();
        break;
    }
  }
  event.time = base.ns + static_cast<std::uint64_t>(time_delta);
  event.thread = look_up(threads_, thread_id);
  event.domain = domain_id == 0 ? 0 : look_up(nvtx_domains_, domain_id);
  event.text = look_up(texts_, text_id);
  if (event.thread == kNone || event.domain == kNone || (text_id != 0 && event.text == kNone))
    return kUndefinedId;
  out.nvtx_events.push_back(event);
  return nullptr;
}

WireDecoder::Fault WireDecoder::nvtx_domain(std::string_view body) {
  wire::NvtxDomain message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its NVTX domain cannot be read";
  return define(nvtx_domains_, message.id(), catalog_->nvtx_domain(message.name())) ? nullptr
                                                                                    : kBadId;
}

WireDecoder::Fault WireDecoder::text(std::string_view body) {
  wire::Text message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its text cannot be read";
  return define(texts_, message.id(), catalog_->text(message.text())) ? nullptr : kBadId;
}

WireDecoder::Fault WireDecoder::stream_name(std::string_view body) {
  wire::StreamName message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its stream name cannot be read";
  for (Queue& queue : catalog_->queues) {
    if (queue.process == process_ && queue.stream == message.stream_id() &&
        (message.context_id() == 0 || queue.context == message.context_id()))
      queue.name = message.name();
  }
  return nullptr;
}

WireDecoder::Fault WireDecoder::loss(std::string_view body, DecodedFrame& out) {
  wire::Loss message;
  if (!message.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return "its loss cannot be read";
  out.losses.push_back({message.count(), message.from_ns(), message.to_ns()});
  return nullptr;
}

std::span<char> FrameSplitter::room() {
  constexpr std::size_t kReadBytes = 256 * 1024;
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ != 0 && buffer_.size() - end_ < kReadBytes) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kReadBytes) buffer_.resize(end_ + kReadBytes);
  return {buffer_.data() + end_, buffer_.size() - end_};
}

void FrameSplitter::commit(std::size_t bytes) {
  end_ += bytes;
}

std::optional<std::string_view> FrameSplitter::next() {
  if (fault_) return std::nullopt;
  std::uint64_t length = 0;
  std::size_t at = begin_;
  for (std::uint32_t shift = 0;; shift += 7) {
    if (at == end_) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(buffer_[at++]);
    length |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
    if (shift >= 21) {
      fault_ = true;
      return std::nullopt;
    }
  }
  if (length > session::kMaxFrameBytes) {
    fault_ = true;
    return std::nullopt;
  }
  if (end_ - at < length) return std::nullopt;
  begin_ = at + length;
  return std::string_view(buffer_.data() + at, length);
}

}  // namespace profiler
