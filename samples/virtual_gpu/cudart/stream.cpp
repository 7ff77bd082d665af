// Streams and events. A cudaStream_t is a Stream*, a cudaEvent_t an Event*.
#include "samples/virtual_gpu/cudart/call.h"

using namespace virtual_gpu;  // NOLINT: every function here is exported and global

namespace {

constexpr int kGreatestPriority = -5;

constexpr DriverFunction kStreamCreate = driver_function("cuStreamCreate");
constexpr DriverFunction kStreamCreateWithPriority = driver_function("cuStreamCreateWithPriority");
constexpr DriverFunction kStreamQuery = driver_function("cuStreamQuery", "cuStreamQuery_ptsz");
constexpr DriverFunction kStreamSynchronize =
    driver_function("cuStreamSynchronize", "cuStreamSynchronize_ptsz");
constexpr DriverFunction kStreamWaitEvent =
    driver_function("cuStreamWaitEvent", "cuStreamWaitEvent_ptsz");
constexpr DriverFunction kEventRecord = driver_function("cuEventRecord", "cuEventRecord_ptsz");
constexpr DriverFunction kEventRecordWithFlags =
    driver_function("cuEventRecordWithFlags", "cuEventRecordWithFlags_ptsz");

// `call` is open and is closed here.
cudaError_t create(Call& call, const DriverFunction& driver, cudaStream_t* stream, unsigned flags,
                   int priority) {
  if (stream == nullptr || (flags != cudaStreamDefault && flags != cudaStreamNonBlocking)) {
    return call.done(cudaErrorInvalidValue);
  }
  // Priorities out of range are taken as the nearest one in it.
  priority = priority > 0 ? 0 : priority < kGreatestPriority ? kGreatestPriority : priority;
  Context* here = context();
  return call.done(in_driver(driver.plain, [&] {
    *stream = reinterpret_cast<cudaStream_t>(
        gpu().create_stream(here, flags, flags != cudaStreamNonBlocking, priority));
    return 0;
  }));
}

cudaError_t create_event(Call& call, cudaEvent_t* event, unsigned flags) {
  constexpr unsigned kFlags =
      cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (event == nullptr || (flags & ~kFlags) != 0) return call.done(cudaErrorInvalidValue);
  constexpr DriverFunction kCreate = driver_function("cuEventCreate");
  Context* here = context();
  return call.done(in_driver(kCreate.plain, [&] {
    *event = reinterpret_cast<cudaEvent_t>(gpu().create_event(here, flags));
    return 0;
  }));
}

Event* as_event(cudaEvent_t event) {
  return reinterpret_cast<Event*>(event);
}

cudaError_t query(std::uint32_t cbid, bool per_thread, cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(in_driver(kStreamQuery.number(per_thread), [&] { return gpu().query(target); }));
}

cudaError_t synchronize(std::uint32_t cbid, bool per_thread, cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(
      in_driver(kStreamSynchronize.number(per_thread), [&] { return gpu().synchronize(target); }));
}

cudaError_t wait_event(std::uint32_t cbid, bool per_thread, cudaStream_t stream, cudaEvent_t event,
                       unsigned flags) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (flags > cudaEventWaitExternal) return call.done(cudaErrorInvalidValue);
  return call.done(in_driver(kStreamWaitEvent.number(per_thread),
                             [&] { return gpu().wait_event(target, as_event(event)); }));
}

cudaError_t record_as(const DriverFunction& driver, std::uint32_t cbid, bool per_thread,
                      cudaEvent_t event, cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(
      in_driver(driver.number(per_thread), [&] { return gpu().record(as_event(event), target); }));
}

cudaError_t record(std::uint32_t cbid, bool per_thread, cudaEvent_t event, cudaStream_t stream) {
  return record_as(kEventRecord, cbid, per_thread, event, stream);
}

cudaError_t record_with_flags(std::uint32_t cbid, bool per_thread, cudaEvent_t event,
                              cudaStream_t stream, unsigned) {
  return record_as(kEventRecordWithFlags, cbid, per_thread, event, stream);
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
  return create(call, kStreamCreate, stream, cudaStreamDefault, 0);
}

RUNTIME_API cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  RUNTIME_CALL("cudaStreamCreateWithFlags");
  return create(call, kStreamCreate, stream, flags, 0);
}

RUNTIME_API cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  RUNTIME_CALL("cudaStreamCreateWithPriority");
  return create(call, kStreamCreateWithPriority, stream, flags, priority);
}

RUNTIME_API cudaStreamDestroy(cudaStream_t stream) {
  RUNTIME_CALL("cudaStreamDestroy");
  // The default streams cannot be destroyed.
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) {
    return call.done(cudaErrorInvalidResourceHandle);
  }
  constexpr DriverFunction kDestroy = driver_function("cuStreamDestroy_v2");
  Context* here = context();
  return call.done(in_driver(kDestroy.plain, [&] {
    return gpu().destroy_stream(here, reinterpret_cast<Stream*>(stream));
  }));
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
  constexpr DriverFunction kDestroy = driver_function("cuEventDestroy_v2");
  return call.done(in_driver(kDestroy.plain, [&] { return gpu().destroy_event(as_event(event)); }));
}

RUNTIME_API cudaEventQuery(cudaEvent_t event) {
  RUNTIME_CALL("cudaEventQuery");
  constexpr DriverFunction kQuery = driver_function("cuEventQuery");
  return call.done(in_driver(kQuery.plain, [&] { return gpu().query(as_event(event)); }));
}

RUNTIME_API cudaEventSynchronize(cudaEvent_t event) {
  RUNTIME_CALL("cudaEventSynchronize");
  constexpr DriverFunction kSynchronize = driver_function("cuEventSynchronize");
  return call.done(
      in_driver(kSynchronize.plain, [&] { return gpu().synchronize(as_event(event)); }));
}

RUNTIME_API cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  RUNTIME_CALL("cudaEventElapsedTime");
  if (ms == nullptr) return call.done(cudaErrorInvalidValue);
  constexpr DriverFunction kElapsed = driver_function("cuEventElapsedTime_v2");
  return call.done(in_driver(kElapsed.plain,
                             [&] { return gpu().elapsed_ms(ms, as_event(from), as_event(to)); }));
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
