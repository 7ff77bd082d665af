#include "injector/record_encoder.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "injector/activity_kinds.h"
#include "injector/denied_calls.h"

namespace profiler::injector {
namespace {

constexpr std::size_t kMaxBody = session::kMaxFrameBytes;
// Room for the longest length prefix.
constexpr std::size_t kFrameCapacity = kMaxBody + 8;
// No record or definition is longer, names apart.
constexpr std::size_t kMaxRecordBytes = 256;
// What surrounds a name in the largest frame: the frame's base and the definition's other fields.
constexpr std::size_t kMaxNameBytes = kMaxBody - 128;

// Field numbers of wire.proto.
namespace frame {
constexpr std::uint32_t kBaseNs = 1;
constexpr std::uint32_t kBaseCorrelation = 2;
constexpr std::uint32_t kHello = 3;
constexpr std::uint32_t kGoodbye = 4;
constexpr std::uint32_t kDevice = 5;
constexpr std::uint32_t kContext = 6;
constexpr std::uint32_t kQueue = 7;
constexpr std::uint32_t kThread = 8;
constexpr std::uint32_t kApiFunction = 9;
constexpr std::uint32_t kKernelFunction = 10;
constexpr std::uint32_t kApiCall = 11;
constexpr std::uint32_t kKernel = 12;
constexpr std::uint32_t kMemcpy = 13;
constexpr std::uint32_t kMemset = 14;
constexpr std::uint32_t kLoss = 15;
constexpr std::uint32_t kWatermark = 16;
constexpr std::uint32_t kCuptiFailure = 17;
constexpr std::uint32_t kSync = 18;
constexpr std::uint32_t kEventRecord = 19;
constexpr std::uint32_t kOverhead = 20;
constexpr std::uint32_t kNvtxEvent = 21;
constexpr std::uint32_t kNvtxDomain = 22;
constexpr std::uint32_t kText = 23;
constexpr std::uint32_t kStreamName = 24;
constexpr std::uint32_t kCuda = 25;
}  // namespace frame
constexpr std::uint32_t kDomainRuntime = 1;
constexpr std::uint32_t kDomainDriver = 2;
constexpr std::uint32_t kReasonExit = 1;
constexpr std::uint32_t kReasonSessionLost = 2;

template <typename Record>
const Record& as(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

// Where to cut a text at `limit` bytes without splitting a UTF-8 character.
std::size_t cut_position(const char* text, std::size_t limit) {
  std::size_t at = limit;
  for (int i = 0; i < 3 && at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; ++i) {
    --at;
  }
  return at;
}

bool has_text(const char* text) {
  return text != nullptr && text[0] != '\0';
}

bool is_plausible_time(std::uint64_t ns) {
  return ns != 0 && ns <= INT64_MAX;
}

}  // namespace

RecordEncoder::RecordEncoder(CuptiApi& cupti, FrameSink sink)
    : cupti_(cupti),
      sink_(sink),
      frame_(static_cast<std::uint8_t*>(std::malloc(kFrameCapacity))),
      encoder_(frame_, frame_ == nullptr ? 0 : kFrameCapacity) {}

RecordEncoder::~RecordEncoder() {
  std::free(frame_);
}

// ---- Frames -----------------------------------------------------------------------------------

void RecordEncoder::begin_frame() {
  encoder_.rewind(0);
  body_ = encoder_.open_length();
  frame_open_ = true;
  base_ns_ = is_plausible_time(next_base_ns_) ? next_base_ns_ : now_ns();
  base_correlation_ = next_base_correlation_;
  encoder_.field_fixed64(frame::kBaseNs, base_ns_);
  if (base_correlation_ != 0) encoder_.field_varint(frame::kBaseCorrelation, base_correlation_);
}

void RecordEncoder::reserve(std::size_t bytes) {
  if (frame_open_) {
    const std::size_t used = encoder_.size() - body_;
    if (used >= kFrameTarget || used + bytes > kMaxBody) send();
  }
  if (!frame_open_) begin_frame();
}

void RecordEncoder::send() {
  if (!frame_open_) return;
  frame_open_ = false;
  encoder_.close(body_);
  const bool sent = encoder_.ok() && sink_.write(sink_.context, encoder_.data(), encoder_.size());
  (sent ? records_sent_ : records_lost_) += records_in_frame_;
  records_in_frame_ = 0;
}

void RecordEncoder::close_record(std::size_t opened) {
  encoder_.close(opened);
  ++records_in_frame_;
}

void RecordEncoder::put_text(std::uint32_t field, const char* text, std::size_t length) {
  static constexpr char kEllipsis[] = "\xe2\x80\xa6";
  if (length <= kMaxNameBytes) {
    encoder_.field_bytes(field, text, length);
    return;
  }
  const std::size_t kept = cut_position(text, kMaxNameBytes - 3);
  auto* cut = static_cast<char*>(std::malloc(kept + 3));
  if (cut == nullptr) return;
  std::memcpy(cut, text, kept);
  for (std::size_t i = 0; i < 3; ++i) cut[kept + i] = kEllipsis[i];
  encoder_.field_bytes(field, cut, kept + 3);
  std::free(cut);
}

void RecordEncoder::put_clocks(std::uint32_t field, const ClockReading& clocks) {
  const std::size_t opened = encoder_.open(field);
  encoder_.field_varint(1, clocks.monotonic_ns);
  encoder_.field_varint(2, clocks.boottime_ns);
  encoder_.field_varint(3, clocks.realtime_ns);
  encoder_.close(opened);
}

// ---- Session messages -------------------------------------------------------------------------

void RecordEncoder::hello(const HelloFacts& facts) {
  const ProcessFacts& process = *facts.process;
  next_base_ns_ = facts.clocks.monotonic_ns;
  next_base_correlation_ = 0;
  reserve(kMaxBody / 2);
  const std::size_t opened = encoder_.open(frame::kHello);
  encoder_.field_varint(1, session::kWireVersion);
  encoder_.field_varint(2, process.pid);
  encoder_.field_varint(3, process.ppid);
  if (process.executable[0] != '\0') encoder_.field_string(4, process.executable);
  for (std::size_t at = 0; at < process.command_line_bytes;) {
    const char* argument = process.command_line + at;
    const std::size_t length = strnlen(argument, process.command_line_bytes - at);
    encoder_.field_bytes(5, argument, length);
    at += length + 1;
  }
  if (process.start_ns != 0) encoder_.field_varint(6, process.start_ns);
  put_clocks(7, facts.clocks);
  const CudaFacts& cuda = facts.cuda;
  if (cuda.driver_version > 0) {
    encoder_.field_varint(8, static_cast<std::uint64_t>(cuda.driver_version));
  }
  if (cuda.cupti_version != 0) encoder_.field_varint(9, cuda.cupti_version);
  if (has_text(cuda.cupti_path)) encoder_.field_string(10, cuda.cupti_path);
  if (process.hostname[0] != '\0') encoder_.field_string(11, process.hostname);
  for (std::size_t i = 0; i < process.environment_count; ++i) {
    const std::size_t pair = encoder_.open(12);
    encoder_.field_string(1, process.environment[i].key);
    encoder_.field_string(2, process.environment[i].value);
    encoder_.close(pair);
  }
  if (cuda.simulated_model != nullptr) {
    encoder_.field_bool(13, true);
    encoder_.field_string(14, cuda.simulated_model);
  }
  if (has_text(cuda.failure)) encoder_.field_string(15, cuda.failure);
  encoder_.close(opened);
}

void RecordEncoder::cuda(const CudaFacts& facts) {
  reserve(kMaxBody / 2);
  const std::size_t opened = encoder_.open(frame::kCuda);
  if (facts.driver_version > 0) {
    encoder_.field_varint(1, static_cast<std::uint64_t>(facts.driver_version));
  }
  if (facts.cupti_version != 0) encoder_.field_varint(2, facts.cupti_version);
  if (has_text(facts.cupti_path)) encoder_.field_string(3, facts.cupti_path);
  if (facts.simulated_model != nullptr) {
    encoder_.field_bool(4, true);
    encoder_.field_string(5, facts.simulated_model);
  }
  if (has_text(facts.failure)) encoder_.field_string(6, facts.failure);
  encoder_.close(opened);
}

void RecordEncoder::goodbye(const GoodbyeFacts& facts) {
  send();  // so that what is counted below has been handed over
  next_base_ns_ = facts.clocks.monotonic_ns;
  next_base_correlation_ = 0;
  reserve(kMaxRecordBytes + 1024);
  const std::size_t opened = encoder_.open(frame::kGoodbye);
  encoder_.field_varint(1, facts.session_lost ? kReasonSessionLost : kReasonExit);
  put_clocks(2, facts.clocks);
  encoder_.field_varint(3, records_sent_);
  encoder_.field_varint(4, records_lost_);
  if (facts.drain_incomplete) encoder_.field_bool(5, true);
  if (facts.detail != nullptr) encoder_.field_bytes(6, facts.detail, strnlen(facts.detail, 1024));
  encoder_.close(opened);
  send();
}

void RecordEncoder::loss(LossPlace place, std::uint64_t count, std::uint64_t from_ns,
                         std::uint64_t to_ns) {
  if (count == 0) return;
  next_base_ns_ = from_ns;
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kLoss);
  encoder_.field_varint(1, static_cast<std::uint32_t>(place));
  encoder_.field_varint(2, count);
  encoder_.field_varint(3, from_ns);
  encoder_.field_varint(4, to_ns);
  encoder_.close(opened);
  // Lost frames were counted when the sink refused them.
  if (place != LossPlace::kPipe) records_lost_ += count;
}

void RecordEncoder::watermark(std::uint64_t complete_until_ns, std::uint64_t buffers_outstanding) {
  next_base_ns_ = complete_until_ns;
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kWatermark);
  encoder_.field_varint(1, complete_until_ns);
  encoder_.field_varint(2, buffers_outstanding);
  encoder_.close(opened);
}

void RecordEncoder::failure(const CuptiCallFailure& failure) {
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kCuptiFailure);
  encoder_.field_string(1, failure.function);
  encoder_.field_varint(2, failure.result);
  encoder_.close(opened);
}

// ---- Definitions ------------------------------------------------------------------------------

std::uint32_t RecordEncoder::queue_id(std::uint32_t device, std::uint32_t context,
                                      std::uint64_t stream) {
  const QueueKey key{device, context, stream};
  if (const auto* known = queues_.find(key)) return known->id;
  if (queues_.full()) queues_.clear();
  const auto* entry = queues_.add(key);
  if (entry == nullptr) return 0;
  reserve(kMaxRecordBytes);
  if (!is_known(device)) {
    // CUPTI never named it: a number is all there is.
    const std::size_t opened_device = encoder_.open(frame::kDevice);
    encoder_.field_varint(1, std::uint64_t{device} + 1);
    encoder_.close(opened_device);
    remember(device);
  }
  const std::size_t opened = encoder_.open(frame::kQueue);
  encoder_.field_varint(1, entry->id);
  encoder_.field_varint(2, std::uint64_t{device} + 1);
  encoder_.field_varint(3, context);
  encoder_.field_varint(4, stream);
  encoder_.close(opened);
  return entry->id;
}

void RecordEncoder::put_thread(std::uint32_t id, std::uint64_t tid, const char* name) {
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kThread);
  encoder_.field_varint(1, id);
  encoder_.field_varint(2, tid);
  if (name[0] != '\0') encoder_.field_string(3, name);
  encoder_.close(opened);
}

std::uint32_t RecordEncoder::thread_id(std::uint64_t tid) {
  const NumberKey key{tid};
  if (auto* known = threads_.find(key)) {
    ThreadName& name = known->value;
    if (name.gone) {
      // It may be a new thread under an old number, with a name of its own.
      name.gone = name.given = false;
    }
    return known->id;
  }
  if (threads_.full()) threads_.clear();
  auto* entry = threads_.add(key);
  if (entry == nullptr) return 0;
  entry->value.gone = !read_thread_name(tid, entry->value.text, sizeof entry->value.text);
  put_thread(entry->id, tid, entry->value.text);
  return entry->id;
}

void RecordEncoder::refresh_thread_names() {
  threads_.for_each([this](auto& entry) {
    if (entry.value.gone) return;
    char name[sizeof entry.value.text];
    if (!read_thread_name(entry.key.value, name, sizeof name)) {
      entry.value.gone = true;
      return;
    }
    if (entry.value.given) return;
    if (std::strcmp(name, entry.value.text) == 0) return;
    std::memcpy(entry.value.text, name, sizeof name);
    put_thread(entry.id, entry.key.value, name);
  });
}

void RecordEncoder::name_thread(std::uint64_t tid, const char* name, std::size_t size) {
  const std::uint32_t id = thread_id(tid);
  if (id == 0) return;
  ThreadName& known = threads_.find({tid})->value;
  known.given = true;
  known.text[0] = '\0';
  reserve(kMaxRecordBytes + size);
  const std::size_t opened = encoder_.open(frame::kThread);
  encoder_.field_varint(1, id);
  encoder_.field_varint(2, tid);
  encoder_.field_bytes(3, name, size);
  encoder_.close(opened);
}

std::uint32_t RecordEncoder::api_function_id(CUpti_CallbackDomain domain, std::uint32_t wire_domain,
                                             std::uint32_t callback_id) {
  const NumberKey key{(std::uint64_t{wire_domain} << 32) + callback_id};
  if (const auto* known = api_functions_.find(key)) return known->id;
  if (denied_functions_.find(key) != nullptr) return 0;
  // Named here, as the numbers of a newer toolkit are unknown to the collector.
  const char* name = cupti_.callback_name(domain, callback_id);
  if (name != nullptr && is_denied_call(name)) {
    if (denied_functions_.full()) denied_functions_.clear();
    denied_functions_.add(key);
    return 0;
  }
  if (api_functions_.full()) api_functions_.clear();
  const auto* entry = api_functions_.add(key);
  if (entry == nullptr) return 0;
  reserve(kMaxRecordBytes * 2);
  const std::size_t opened = encoder_.open(frame::kApiFunction);
  encoder_.field_varint(1, entry->id);
  encoder_.field_varint(2, wire_domain);
  encoder_.field_varint(3, callback_id);
  if (name != nullptr) encoder_.field_bytes(4, name, strnlen(name, kMaxRecordBytes));
  encoder_.close(opened);
  return entry->id;
}

std::uint32_t RecordEncoder::kernel_function_id(const CUpti_ActivityKernel8& kernel) {
  const auto static_shared = static_cast<std::uint32_t>(kernel.staticSharedMemory);
  const KernelNames::Function function = kernel_names_.number(
      kernel.name, kernel.registersPerThread, static_shared, kernel.localMemoryPerThread);
  if (!function.is_new) return function.id;
  // A name of this length or more gets a frame of its own, cut if even that is too small.
  reserve(function.name_bytes < kMaxNameBytes ? function.name_bytes + 64 : kMaxBody);
  const std::size_t opened = encoder_.open(frame::kKernelFunction);
  encoder_.field_varint(1, function.id);
  if (kernel.name != nullptr) put_text(2, kernel.name, function.name_bytes);
  encoder_.field_varint(3, kernel.registersPerThread);
  encoder_.field_varint(4, static_shared);
  encoder_.field_varint(5, kernel.localMemoryPerThread);
  encoder_.close(opened);
  return function.id;
}

bool RecordEncoder::is_known(std::uint32_t device) const {
  return device < kMaxDevices && (device_bits_[device / 64] >> (device % 64) & 1) != 0;
}

void RecordEncoder::remember(std::uint32_t device) {
  if (device < kMaxDevices) device_bits_[device / 64] |= std::uint64_t{1} << (device % 64);
  ++known_devices_;
}

bool RecordEncoder::devices_first(Buffer* buffer) {
  CUpti_Activity* record = nullptr;
  while ((record = cupti_.next_record(buffer->data, buffer->valid, record)) != nullptr) {
    if (record->kind == CUPTI_ACTIVITY_KIND_DEVICE) device(record);
  }
  return knows_a_device();
}

void RecordEncoder::device(const CUpti_Activity* record) {
  const auto& device = as<CUpti_ActivityDevice4>(record);
  if (is_known(device.id)) return;  // sent ahead of its buffer
  remember(device.id);
  static_assert(sizeof device.uuid.bytes == 16);
  const std::size_t name_length = device.name == nullptr ? 0 : strnlen(device.name, 1024);
  reserve(kMaxRecordBytes + name_length);
  const std::size_t opened = encoder_.open(frame::kDevice);
  encoder_.field_varint(1, std::uint64_t{device.id} + 1);
  if (name_length != 0) encoder_.field_bytes(2, device.name, name_length);
  // The slices of one GPU share its UUID; each has a MIG UUID of its own.
  const CUuuid& uuid = device.isMigEnabled != 0 ? device.migUuid : device.uuid;
  static constexpr char kZero[16] = {};
  if (std::memcmp(uuid.bytes, kZero, 16) != 0) encoder_.field_bytes(3, uuid.bytes, 16);
  if (device.globalMemorySize != 0) encoder_.field_varint(4, device.globalMemorySize);
  encoder_.field_varint(5, device.numMultiprocessors);
  encoder_.field_varint(6, device.computeCapabilityMajor);
  encoder_.field_varint(7, device.computeCapabilityMinor);
  if (device.globalMemoryBandwidth != 0) encoder_.field_varint(8, device.globalMemoryBandwidth);
  encoder_.close(opened);
  if (cupti_.device_name_is_ours()) {
    std::free(const_cast<char*>(device.name));
    // The record lies in our buffer and may be read once more, see devices_first.
    const_cast<CUpti_ActivityDevice4&>(device).name = nullptr;
  }
}

void RecordEncoder::synchronization(const CUpti_Activity* record) {
  const auto& sync = as<CUpti_ActivitySynchronization>(record);
  next_base_ns_ = sync.start;
  next_base_correlation_ = sync.correlationId;
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kSync);
  encoder_.field_signed(1, static_cast<std::int64_t>(sync.start - base_ns_));
  encoder_.field_varint(2, sync.end - sync.start);
  encoder_.field_varint(3, static_cast<std::uint32_t>(sync.type));
  put_correlation(4, sync.correlationId);
  if (sync.contextId != CUPTI_SYNCHRONIZATION_INVALID_VALUE)
    encoder_.field_varint(5, sync.contextId);
  if (sync.streamId != CUPTI_SYNCHRONIZATION_INVALID_VALUE) encoder_.field_varint(6, sync.streamId);
  if (sync.cudaEventId != CUPTI_SYNCHRONIZATION_INVALID_VALUE)
    encoder_.field_varint(7, sync.cudaEventId);
  close_record(opened);
}

void RecordEncoder::event_record(const CUpti_Activity* record) {
  const auto& event = as<CUpti_ActivityCudaEvent>(record);
  next_base_correlation_ = event.correlationId;
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kEventRecord);
  put_correlation(1, event.correlationId);
  encoder_.field_varint(2, event.contextId);
  encoder_.field_varint(3, event.streamId);
  encoder_.field_varint(4, event.eventId);
  close_record(opened);
}

void RecordEncoder::overhead(const CUpti_Activity* record) {
  const auto& overhead = as<CUpti_ActivityOverhead>(record);
  next_base_ns_ = overhead.start;
  const bool of_thread = overhead.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD;
  const std::uint32_t thread = of_thread ? thread_id(overhead.objectId.pt.threadId) : 0;
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kOverhead);
  encoder_.field_signed(1, static_cast<std::int64_t>(overhead.start - base_ns_));
  encoder_.field_varint(2, overhead.end - overhead.start);
  encoder_.field_varint(3, static_cast<std::uint32_t>(overhead.overheadKind));
  if (thread != 0) encoder_.field_varint(4, thread);
  close_record(opened);
#if CUPTI_API_VERSION >= 22
  // Handed over to us by the struct that has it; see cupti_activity.h.
  if (cupti_.version() >= 22) {
    auto* data = as<CUpti_ActivityOverhead3>(record).overheadData;
    if (data != nullptr) std::free(data);
  }
#endif
}

void RecordEncoder::context(const CUpti_Activity* record) {
  const auto& context = as<CUpti_ActivityContext>(record);
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kContext);
  encoder_.field_varint(1, context.contextId);
  encoder_.field_varint(2, std::uint64_t{context.deviceId} + 1);
  encoder_.close(opened);
}

void RecordEncoder::put_definition(std::uint32_t field, std::uint32_t id, const char* text,
                                   std::size_t size) {
  reserve(kMaxRecordBytes + size);
  const std::size_t opened = encoder_.open(field);
  encoder_.field_varint(1, id);
  encoder_.field_bytes(2, text, size);
  encoder_.close(opened);
}

void RecordEncoder::nvtx_domain(std::uint32_t id, const char* name, std::size_t size) {
  put_definition(frame::kNvtxDomain, id, name, size);
}

void RecordEncoder::text(std::uint32_t id, const char* text, std::size_t size) {
  put_definition(frame::kText, id, text, size);
}

void RecordEncoder::stream_name(std::uint32_t context_id, std::uint64_t stream_id, const char* name,
                                std::size_t size) {
  reserve(kMaxRecordBytes + size);
  const std::size_t opened = encoder_.open(frame::kStreamName);
  if (context_id != 0) encoder_.field_varint(1, context_id);
  encoder_.field_varint(2, stream_id);
  encoder_.field_bytes(3, name, size);
  encoder_.close(opened);
}

// ---- Records ----------------------------------------------------------------------------------

void RecordEncoder::record(const CUpti_Activity* record) {
  const ActivityKindRow* row = find_activity_kind(record->kind);
  if (row != nullptr) (this->*row->encode)(record);
}

void RecordEncoder::put_correlation(std::uint32_t field, std::uint32_t correlation) {
  const auto delta = static_cast<std::int32_t>(correlation - base_correlation_);
  if (delta != 0) encoder_.field_signed(field, delta);
}

void RecordEncoder::runtime_call(const CUpti_Activity* record) {
  call(as<CUpti_ActivityAPI>(record), CUPTI_CB_DOMAIN_RUNTIME_API, kDomainRuntime);
}

void RecordEncoder::driver_call(const CUpti_Activity* record) {
  call(as<CUpti_ActivityAPI>(record), CUPTI_CB_DOMAIN_DRIVER_API, kDomainDriver);
}

void RecordEncoder::call(const CUpti_ActivityAPI& call, CUpti_CallbackDomain domain,
                         std::uint32_t wire_domain) {
  next_base_ns_ = call.start;
  next_base_correlation_ = call.correlationId;
  // Definitions first: they may close the frame whose base the deltas below refer to.
  const std::uint32_t function = api_function_id(domain, wire_domain, call.cbid);
  if (function == 0) return;
  const std::uint32_t thread = thread_id(call.threadId);
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kApiCall);
  encoder_.field_signed(1, static_cast<std::int64_t>(call.start - base_ns_));
  encoder_.field_varint(2, call.end - call.start);
  encoder_.field_varint(3, function);
  encoder_.field_varint(4, thread);
  put_correlation(5, call.correlationId);
  if (call.returnValue != 0) encoder_.field_varint(6, call.returnValue);
  close_record(opened);
}

void RecordEncoder::nvtx_event(const NvtxEventFacts& event) {
  next_base_ns_ = event.time_ns;
  const std::uint32_t thread = thread_id(event.tid);
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(frame::kNvtxEvent);
  encoder_.field_varint(1, event.kind);
  encoder_.field_signed(2, static_cast<std::int64_t>(event.time_ns - base_ns_));
  encoder_.field_varint(3, thread);
  if (event.domain_id != 0) encoder_.field_varint(4, event.domain_id);
  if (event.text_id != 0) encoder_.field_varint(5, event.text_id);
  if (event.range != 0) encoder_.field_varint(6, event.range);
  if (event.category != 0) encoder_.field_varint(7, event.category);
  close_record(opened);
}

std::size_t RecordEncoder::open_operation(std::uint32_t field, const Operation& operation,
                                          std::uint32_t queue) {
  reserve(kMaxRecordBytes);
  const std::size_t opened = encoder_.open(field);
  encoder_.field_signed(1, static_cast<std::int64_t>(operation.start - base_ns_));
  encoder_.field_varint(2, operation.end - operation.start);
  encoder_.field_varint(3, queue);
  return opened;
}

void RecordEncoder::kernel(const CUpti_Activity* record) {
  const auto& kernel = as<CUpti_ActivityKernel8>(record);
  const Operation operation{kernel.start,     kernel.end,      kernel.deviceId,
                            kernel.contextId, kernel.streamId, kernel.correlationId};
  next_base_ns_ = operation.start;
  next_base_correlation_ = operation.correlation;
  const std::uint32_t queue = queue_id(operation.device, operation.context, operation.stream);
  const std::uint32_t function = kernel_function_id(kernel);
  const std::size_t opened = open_operation(frame::kKernel, operation, queue);
  encoder_.field_varint(4, function);
  put_correlation(5, kernel.correlationId);
  const auto put_extent = [this](std::uint32_t field, std::int32_t extent) {
    if (extent != 1) encoder_.field_varint(field, static_cast<std::uint32_t>(extent));
  };
  put_extent(6, kernel.gridX);
  put_extent(7, kernel.blockX);
  put_extent(8, kernel.gridY);
  put_extent(9, kernel.gridZ);
  put_extent(10, kernel.blockY);
  put_extent(11, kernel.blockZ);
  if (kernel.dynamicSharedMemory != 0) {
    encoder_.field_varint(12, static_cast<std::uint32_t>(kernel.dynamicSharedMemory));
  }
  if (kernel.graphId != 0) encoder_.field_varint(13, kernel.graphId);
  if (kernel.graphNodeId != 0) encoder_.field_varint(14, kernel.graphNodeId);
  close_record(opened);
}

void RecordEncoder::copy(const CUpti_Activity* record) {
  const auto& copy = as<CUpti_ActivityMemcpy5>(record);
  const Operation operation{copy.start,     copy.end,      copy.deviceId,
                            copy.contextId, copy.streamId, copy.correlationId};
  next_base_ns_ = operation.start;
  next_base_correlation_ = operation.correlation;
  const std::uint32_t queue = queue_id(operation.device, operation.context, operation.stream);
  const std::size_t opened = open_operation(frame::kMemcpy, operation, queue);
  encoder_.field_varint(4, copy.bytes);
  put_correlation(5, copy.correlationId);
  encoder_.field_varint(6, copy.copyKind);
  encoder_.field_varint(7, copy.srcKind);
  encoder_.field_varint(8, copy.dstKind);
  if ((copy.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0) encoder_.field_bool(9, true);
  if (copy.graphId != 0) encoder_.field_varint(12, copy.graphId);
  if (copy.graphNodeId != 0) encoder_.field_varint(13, copy.graphNodeId);
  close_record(opened);
}

void RecordEncoder::peer_copy(const CUpti_Activity* record) {
  const auto& copy = as<CUpti_ActivityMemcpyPtoP4>(record);
  const Operation operation{copy.start,     copy.end,      copy.deviceId,
                            copy.contextId, copy.streamId, copy.correlationId};
  next_base_ns_ = operation.start;
  next_base_correlation_ = operation.correlation;
  const std::uint32_t queue = queue_id(operation.device, operation.context, operation.stream);
  const std::size_t opened = open_operation(frame::kMemcpy, operation, queue);
  encoder_.field_varint(4, copy.bytes);
  put_correlation(5, copy.correlationId);
  encoder_.field_varint(6, copy.copyKind);
  encoder_.field_varint(7, copy.srcKind);
  encoder_.field_varint(8, copy.dstKind);
  if ((copy.flags & CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC) != 0) encoder_.field_bool(9, true);
  encoder_.field_varint(10, std::uint64_t{copy.srcDeviceId} + 1);
  encoder_.field_varint(11, std::uint64_t{copy.dstDeviceId} + 1);
  if (copy.graphId != 0) encoder_.field_varint(12, copy.graphId);
  if (copy.graphNodeId != 0) encoder_.field_varint(13, copy.graphNodeId);
  close_record(opened);
}

void RecordEncoder::set(const CUpti_Activity* record) {
  const auto& set = as<CUpti_ActivityMemset4>(record);
  const Operation operation{set.start,     set.end,      set.deviceId,
                            set.contextId, set.streamId, set.correlationId};
  next_base_ns_ = operation.start;
  next_base_correlation_ = operation.correlation;
  const std::uint32_t queue = queue_id(operation.device, operation.context, operation.stream);
  const std::size_t opened = open_operation(frame::kMemset, operation, queue);
  encoder_.field_varint(4, set.bytes);
  put_correlation(5, set.correlationId);
  if (set.value != 0) encoder_.field_varint(6, set.value);
  encoder_.field_varint(7, set.memoryKind);
  if ((set.flags & CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC) != 0) encoder_.field_bool(8, true);
  if (set.graphId != 0) encoder_.field_varint(9, set.graphId);
  if (set.graphNodeId != 0) encoder_.field_varint(10, set.graphNodeId);
  close_record(opened);
}

}  // namespace profiler::injector
