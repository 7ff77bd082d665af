// Streams and events. A cudaStream_t is a Stream*, a cudaEvent_t an Event*.
#include "samples/virtual_gpu/cudart/call.h"

using namespace virtual_gpu;  // NOLINT: every function here is exported and global

namespace {

constexpr int kGreatestPriority = -5;

// `call` is open and is closed here.
cudaError_t create(Call& call, cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags != cudaStreamDefault && flags != cudaStreamNonBlocking)) {
    return call.done(cudaErrorInvalidValue);
  }
  // Priorities out of range are taken as the nearest one in it.
  priority = priority > 0 ? 0 : priority < kGreatestPriority ? kGreatestPriority : priority;
  *stream = reinterpret_cast<cudaStream_t>(
      gpu().create_stream(context(), flags, flags != cudaStreamNonBlocking, priority));
  return call.done(cudaSuccess);
}

cudaError_t create_event(Call& call, cudaEvent_t* event, unsigned flags) {
  constexpr unsigned kFlags =
      cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (event == nullptr || (flags & ~kFlags) != 0) return call.done(cudaErrorInvalidValue);
  context();
  *event = reinterpret_cast<cudaEvent_t>(
      gpu().create_event(static_cast<std::uint32_t>(thread_device()), flags));
  return call.done(cudaSuccess);
}

Event* as_event(cudaEvent_t event) {
  return reinterpret_cast<Event*>(event);
}

cudaError_t query(std::uint32_t cbid, bool per_thread, cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(gpu().query(target));
}

cudaError_t synchronize(std::uint32_t cbid, bool per_thread, cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(gpu().synchronize(target));
}

cudaError_t wait_event(std::uint32_t cbid, bool per_thread, cudaStream_t stream, cudaEvent_t event,
                       unsigned flags) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (flags > cudaEventWaitExternal) return call.done(cudaErrorInvalidValue);
  return call.done(gpu().wait_event(target, as_event(event)));
}

cudaError_t record(std::uint32_t cbid, bool per_thread, cudaEvent_t event, cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(gpu().record(as_event(event), target));
}

cudaError_t record_with_flags(std::uint32_t cbid, bool per_thread, cudaEvent_t event,
                              cudaStream_t stream, unsigned) {
  return record(cbid, per_thread, event, stream);
}

cudaError_t priority_of(std::uint32_t cbid, bool per_thread, cudaStream_t stream, int* priority) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (priority == nullptr) return call.done(cudaErrorInvalidValue);
  *priority = gpu().stream_facts(target).priority;
  return call.done(cudaSuccess);
}

cudaError_t flags_of(std::uint32_t cbid, bool per_thread, cudaStream_t stream, unsigned* flags) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (flags == nullptr) return call.done(cudaErrorInvalidValue);
  *flags = gpu().stream_facts(target).flags;
  return call.done(cudaSuccess);
}

}  // namespace

RUNTIME_API cudaStreamCreate(cudaStream_t* stream) {
  RUNTIME_CALL("cudaStreamCreate");
  return create(call, stream, cudaStreamDefault, 0);
}

RUNTIME_API cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  RUNTIME_CALL("cudaStreamCreateWithFlags");
  return create(call, stream, flags, 0);
}

RUNTIME_API cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  RUNTIME_CALL("cudaStreamCreateWithPriority");
  return create(call, stream, flags, priority);
}

RUNTIME_API cudaStreamDestroy(cudaStream_t stream) {
  RUNTIME_CALL("cudaStreamDestroy");
  // The default streams cannot be destroyed.
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) {
    return call.done(cudaErrorInvalidResourceHandle);
  }
  return call.done(gpu().destroy_stream(context(), reinterpret_cast<Stream*>(stream)));
}

RUNTIME_API cudaEventCreate(cudaEvent_t* event) {
  RUNTIME_CALL("cudaEventCreate");
  return create_event(call, event, cudaEventDefault);
}

RUNTIME_API cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  RUNTIME_CALL("cudaEventCreateWithFlags");
  return create_event(call, event, flags);
}

RUNTIME_API cudaEventDestroy(cudaEvent_t event) {
  RUNTIME_CALL("cudaEventDestroy");
  return call.done(gpu().destroy_event(as_event(event)));
}

RUNTIME_API cudaEventQuery(cudaEvent_t event) {
  RUNTIME_CALL("cudaEventQuery");
  return call.done(gpu().query(as_event(event)));
}

RUNTIME_API cudaEventSynchronize(cudaEvent_t event) {
  RUNTIME_CALL("cudaEventSynchronize");
  return call.done(gpu().synchronize(as_event(event)));
}

RUNTIME_API cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  RUNTIME_CALL("cudaEventElapsedTime");
  if (ms == nullptr) return call.done(cudaErrorInvalidValue);
  return call.done(gpu().elapsed_ms(ms, as_event(from), as_event(to)));
}

RUNTIME_TWINS(cudaStreamQuery, _ptsz, query, (cudaStream_t stream), stream)
RUNTIME_TWINS(cudaStreamSynchronize, _ptsz, synchronize, (cudaStream_t stream), stream)
RUNTIME_TWINS(cudaStreamWaitEvent, _ptsz, wait_event,
              (cudaStream_t stream, cudaEvent_t event, unsigned flags), stream, event, flags)
RUNTIME_TWINS(cudaEventRecord, _ptsz, record, (cudaEvent_t event, cudaStream_t stream), event,
              stream)
RUNTIME_TWINS(cudaEventRecordWithFlags, _ptsz, record_with_flags,
              (cudaEvent_t event, cudaStream_t stream, unsigned flags), event, stream, flags)
RUNTIME_TWINS(cudaStreamGetPriority, _ptsz, priority_of, (cudaStream_t stream, int* priority),
              stream, priority)
RUNTIME_TWINS(cudaStreamGetFlags, _ptsz, flags_of, (cudaStream_t stream, unsigned* flags), stream,
              flags)
