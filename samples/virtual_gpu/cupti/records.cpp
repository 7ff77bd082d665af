#include "samples/virtual_gpu/cupti/records.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "samples/virtual_gpu/engine/attributes.h"

namespace virtual_gpu {
namespace {

std::uint8_t memory_kind(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kPageable:
      return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    case MemoryKind::kPinned:
      return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    case MemoryKind::kDevice:
      return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    case MemoryKind::kManaged:
      return CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
  }
  return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
}

std::uint8_t copy_kind(CopyKind kind) {
  switch (kind) {
    case CopyKind::kHostToDevice:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
    case CopyKind::kDeviceToHost:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    case CopyKind::kDeviceToDevice:
      return CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
    case CopyKind::kHostToHost:
      return CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
  }
  return CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN;
}

template <typename Record>
void place(Record& record, const Operation& operation) {
  record.deviceId = operation.device;
  record.contextId = operation.context;
  record.streamId = operation.stream;
  record.correlationId = operation.correlation;
}

template <typename Record>
void write_times(void* record, Times times) {
  static_cast<Record*>(record)->start = times.start_ns;
  static_cast<Record*>(record)->end = times.end_ns;
}

CUpti_ActivitySynchronizationType sync_type(SyncKind kind) {
  switch (kind) {
    case SyncKind::kEvent:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
    case SyncKind::kStreamWaitEvent:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
    case SyncKind::kStream:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    case SyncKind::kContext:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  }
  return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN;
}

std::uint32_t valid_or_invalid(std::uint32_t id) {
  return id != 0 ? id : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
}

// The last ones by number, as older toolkits lack them.
CUpti_ActivityOverheadKind overhead_kind(OverheadKind kind) {
  switch (kind) {
    case OverheadKind::kDriverCompiler:
      return CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER;
    case OverheadKind::kBufferFlush:
      return CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
    case OverheadKind::kInstrumentation:
      return CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION;
    case OverheadKind::kResource:
      return CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE;
    case OverheadKind::kModuleLoading:
      return static_cast<CUpti_ActivityOverheadKind>(4 << 16);
    case OverheadKind::kFunctionLoading:
      return static_cast<CUpti_ActivityOverheadKind>(5 << 16);
    case OverheadKind::kCommandBufferFull:
      return static_cast<CUpti_ActivityOverheadKind>(6 << 16);
    case OverheadKind::kBufferRequest:
      return static_cast<CUpti_ActivityOverheadKind>(7 << 16);
    case OverheadKind::kUvmInit:
      return static_cast<CUpti_ActivityOverheadKind>(8 << 16);
  }
  return CUPTI_ACTIVITY_OVERHEAD_UNKNOWN;
}

}  // namespace

std::size_t record_bytes(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(KernelRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(PeerCopyRecord);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(SetRecord);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(DeviceRecord);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return sizeof(ContextRecord);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(SynchronizationRecord);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(EventRecord);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(OverheadRecord);
    default:
      return 0;
  }
}

KernelRecord kernel_record(const Operation& operation, CUpti_ActivityKind kind,
                           std::uint64_t queued_ns) {
  static std::atomic<std::int64_t> grid{0};
  KernelRecord record{};
  record.kind = kind;
  place(record, operation);
  record.cacheConfig.both = 0;
  record.registersPerThread = static_cast<std::uint16_t>(operation.kernel->cost.registers);
  record.gridX = static_cast<std::int32_t>(operation.grid[0]);
  record.gridY = static_cast<std::int32_t>(operation.grid[1]);
  record.gridZ = static_cast<std::int32_t>(operation.grid[2]);
  record.blockX = static_cast<std::int32_t>(operation.block[0]);
  record.blockY = static_cast<std::int32_t>(operation.block[1]);
  record.blockZ = static_cast<std::int32_t>(operation.block[2]);
  record.staticSharedMemory = static_cast<std::int32_t>(operation.kernel->cost.shared_bytes);
  record.dynamicSharedMemory = static_cast<std::int32_t>(operation.dynamic_shared_bytes);
  record.localMemoryPerThread = operation.kernel->cost.local_bytes;
  record.sharedMemoryExecuted =
      operation.kernel->cost.shared_bytes + operation.dynamic_shared_bytes;
  record.gridId = ++grid;
  record.name = operation.kernel->mangled;
  record.queued = record.submitted = queued_ns;
  return record;
}

CopyRecord copy_record(const Operation& operation) {
  CopyRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  place(record, operation);
  record.copyKind = copy_kind(operation.copy);
  record.srcKind = memory_kind(operation.source);
  record.dstKind = memory_kind(operation.destination);
  record.flags = operation.async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.bytes = operation.bytes;
#if CUPTI_API_VERSION >= 130000
  record.copyCount = 1;
#endif
  return record;
}

SetRecord set_record(const Operation& operation) {
  SetRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  place(record, operation);
  record.value = operation.value;
  record.bytes = operation.bytes;
  record.flags = operation.async ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  record.memoryKind = memory_kind(operation.destination);
  return record;
}

DeviceRecord device_record(std::uint32_t device, const Model& model) {
  DeviceRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  record.flags = CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS;
  record.globalMemoryBandwidth = model.memory_bandwidth / 1000;  // kilobytes per second
  record.globalMemorySize = model.memory_bytes;
  record.constantMemorySize = 65536;
  record.l2CacheSize = static_cast<std::uint32_t>(model.l2_bytes);
  record.numThreadsPerWarp = 32;
  record.coreClockRate = model.core_clock_khz;
  record.numMemcpyEngines = 3;
  record.numMultiprocessors = model.multiprocessors;
  record.maxIPC = 4;
  record.maxWarpsPerMultiprocessor = model.threads_per_multiprocessor / 32;
  record.maxBlocksPerMultiprocessor = model.blocks_per_multiprocessor;
  record.maxSharedMemoryPerMultiprocessor = kSharedBytesPerBlockOptIn;
  record.maxRegistersPerMultiprocessor = 65536;
  record.maxRegistersPerBlock = 65536;
  record.maxSharedMemoryPerBlock = kSharedBytesPerBlock;
  record.maxThreadsPerBlock = kMaxThreadsPerBlock;
  record.maxBlockDimX = kMaxBlock[0];
  record.maxBlockDimY = kMaxBlock[1];
  record.maxBlockDimZ = kMaxBlock[2];
  record.maxGridDimX = kMaxGrid[0];
  record.maxGridDimY = kMaxGrid[1];
  record.maxGridDimZ = kMaxGrid[2];
  record.computeCapabilityMajor = model.capability_major;
  record.computeCapabilityMinor = model.capability_minor;
  record.id = device;
  std::memcpy(record.uuid.bytes, model.uuid.data(), 16);
  record.name = strdup(model.name.c_str());
  record.isCudaVisible = 1;
  return record;
}

ContextRecord context_record(const ContextFacts& facts, const Model& model) {
  ContextRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  record.contextId = facts.id;
  record.deviceId = facts.device;
  record.computeApiKind = CUPTI_ACTIVITY_COMPUTE_API_CUDA;
  record.nullStreamId = static_cast<std::uint16_t>(facts.null_stream);
#if CUPTI_API_VERSION >= 130000
  record.numMultiprocessors = static_cast<std::uint16_t>(model.multiprocessors);
#else
  (void)model;
#endif
  return record;
}

CUpti_ActivityStream stream_record(const StreamFacts& facts, std::uint32_t correlation) {
  CUpti_ActivityStream record{};
  record.kind = CUPTI_ACTIVITY_KIND_STREAM;
  record.contextId = facts.context;
  record.streamId = facts.id;
  record.priority = static_cast<std::uint32_t>(facts.priority);
  record.flag = facts.is_legacy    ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL
                : facts.flags == 1 ? CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING
                                   : CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT;
  record.correlationId = correlation;
  return record;
}

CUpti_ActivityAPI api_record(const ApiCall& call, std::uint64_t end_ns, std::uint32_t result,
                             std::uint32_t thread) {
  CUpti_ActivityAPI record{};
  record.kind =
      call.domain == ApiDomain::kRuntime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  record.cbid = call.cbid;
  record.start = call.start_ns;
  record.end = end_ns;
  record.processId = static_cast<std::uint32_t>(getpid());
  record.threadId = thread;
  record.correlationId = call.correlation;
  record.returnValue = result;
  return record;
}

SynchronizationRecord synchronization_record(const Synchronization& synchronization) {
  SynchronizationRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = sync_type(synchronization.kind);
  record.start = synchronization.start_ns;
  record.end = synchronization.end_ns;
  record.correlationId = synchronization.correlation;
  record.contextId = synchronization.context;
  record.streamId = valid_or_invalid(synchronization.stream);
  record.cudaEventId = valid_or_invalid(synchronization.event);
#if CUPTI_API_VERSION >= 130000
  record.cudaEventSyncId =
      synchronization.record != 0 ? synchronization.record : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  record.returnValue = synchronization.result;
#endif
  return record;
}

EventRecord event_record(const EventRecording& recording) {
  EventRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId = recording.correlation;
  record.contextId = recording.context;
  record.streamId = recording.stream;
  record.eventId = recording.event;
#if CUPTI_API_VERSION >= 130000
  record.deviceId = recording.device;
  record.cudaEventSyncId = recording.record;
#endif
  return record;
}

OverheadRecord overhead_record(const Overhead& overhead, std::uint32_t thread) {
  OverheadRecord record{};
  record.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  record.overheadKind = overhead_kind(overhead.kind);
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = static_cast<std::uint32_t>(getpid());
  record.objectId.pt.threadId = thread;
  record.start = overhead.start_ns;
  record.end = overhead.end_ns;
  record.correlationId = overhead.correlation;
#if CUPTI_API_VERSION >= 130000
  if (overhead.kind == OverheadKind::kCommandBufferFull) {
    // A plain C allocation, since the client frees it.
    auto* data = static_cast<CUpti_ActivityOverheadCommandBufferFullData*>(
        std::calloc(1, sizeof(CUpti_ActivityOverheadCommandBufferFullData)));
    if (data != nullptr) data->channelID = overhead.stream;
    record.overheadData = data;
  }
#endif
  return record;
}

void set_times(void* record, Times times) {
  switch (*static_cast<const CUpti_ActivityKind*>(record)) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      write_times<KernelRecord>(record, times);
      static_cast<KernelRecord*>(record)->completed = times.end_ns;
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      write_times<CopyRecord>(record, times);
      break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      write_times<SetRecord>(record, times);
      break;
    default:
      break;
  }
}

}  // namespace virtual_gpu
