// Streams and events.
#include "samples/virtual_gpu/cuda/process.h"
#include "samples/virtual_gpu/cuda/results.h"
#include "samples/virtual_gpu/cuda/thread_state.h"
#include "samples/virtual_gpu/engine/clock.h"

namespace virtual_gpu {
namespace {

constexpr unsigned kEventDisableTiming = 2;

void describe(Synchronization& wait, const Event& event) {
  if (wait.kind == SyncKind::kEvent) wait.context = event.context;
  wait.event = event.id;
  wait.record = event.record;
}

}  // namespace

// --- Streams -----------------------------------------------------------------------------------

Stream* Process::find_stream(Context* context, void* handle, bool per_thread) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  const Lock lock(mutex_);
  if (number == 1 || (number == 0 && !per_thread)) return context->legacy;
  if (number == 2 || number == 0) {
    Stream*& stream = context->per_thread[thread_id()];
    if (stream == nullptr) {
      stream = scheduler_.add_stream(context->facts.device, context->facts.id, next_stream_++, 0,
                                     true, 0);
    }
    return stream;
  }
  return streams_.count(handle) != 0 ? static_cast<Stream*>(handle) : nullptr;
}

Stream* Process::create_stream(Context* context, unsigned flags, bool blocking, int priority) {
  Stream* stream = nullptr;
  {
    const Lock lock(mutex_);
    stream = scheduler_.add_stream(context->facts.device, context->facts.id, next_stream_++, flags,
                                   blocking, priority);
    streams_.insert(stream);
  }
  if (Tracer* tracer = tracer_) tracer->stream_created(context, stream);
  return stream;
}

int Process::destroy_stream(Context* context, Stream* stream) {
  {
    const Lock lock(mutex_);
    if (streams_.erase(stream) == 0) return kInvalidHandle;
  }
  if (Tracer* tracer = tracer_) tracer->stream_destroyed(context, stream);
  const Lock lock(mutex_);
  scheduler_.advance(now_ns());
  scheduler_.destroy_stream(stream);
  return kSuccess;
}

StreamFacts Process::stream_facts(const Stream* stream) const {
  return {stream->id,    stream->context,  stream->device,
          stream->flags, stream->priority, stream->is_legacy};
}

std::vector<Task*> Process::tails(const Stream* stream) {
  std::vector<Task*> tasks;
  const auto take = [&](const Stream* from) {
    if (from->tail == nullptr) return;
    ++from->tail->references;
    tasks.push_back(from->tail);
  };
  take(stream);
  // The legacy default stream stands for all blocking streams of its context.
  if (stream->is_legacy) {
    for (const Stream* other : scheduler_.streams()) {
      if (other != stream && other->context == stream->context && other->blocking) take(other);
    }
  }
  return tasks;
}

Synchronization Process::begin_wait(SyncKind kind, std::uint32_t context,
                                    std::uint32_t stream) const {
  Synchronization wait;
  wait.kind = kind;
  wait.context = context;
  wait.stream = stream;
  wait.start_ns = observed() ? timestamp() : 0;
  return wait;
}

int Process::end_wait(Synchronization& wait, int result) {
  if (wait.start_ns == 0 || state() != DriverState::kReady) return result;
  wait.end_ns = timestamp();
  wait.correlation = thread_correlation();
  wait.result = static_cast<std::uint32_t>(result);
  log_.synchronization(wait);
  if (Tracer* tracer = tracer_) tracer->synchronized(wait);
  return result;
}

int Process::query(Stream* stream) {
  Synchronization wait = begin_wait(SyncKind::kStream, stream->context, stream->id);
  Lock lock(mutex_);
  scheduler_.advance(now_ns());
  std::vector<Task*> tasks = tails(stream);
  for (Task* task : tasks) scheduler_.release(task);
  lock.unlock();
  return end_wait(wait, tasks.empty() ? kSuccess : kNotReady);
}

int Process::synchronize(Stream* stream) {
  Synchronization wait = begin_wait(SyncKind::kStream, stream->context, stream->id);
  Lock lock(mutex_);
  std::vector<Task*> tasks = tails(stream);
  wait_for_all(tasks, lock);
  return end_wait(wait, state() == DriverState::kReady ? kSuccess : kUnloading);
}

// --- Events ------------------------------------------------------------------------------------

Event* Process::create_event(Context* context, unsigned flags) {
  auto* event = new Event;
  event->flags = flags;
  event->device = context->facts.device;
  event->context = context->facts.id;
  const Lock lock(mutex_);
  event->id = ++next_event_;
  events_.insert(event);
  return event;
}

int Process::destroy_event(Event* event) {
  const Lock lock(mutex_);
  if (events_.erase(event) == 0) return kInvalidHandle;
  if (event->task != nullptr) event->task->event = nullptr;
  delete event;
  return kSuccess;
}

int Process::record(Event* event, Stream* stream) {
  Lock lock(mutex_);
  if (events_.count(event) == 0 || event->device != stream->device) return kInvalidHandle;
  if (event->task != nullptr) event->task->event = nullptr;
  auto* task = new Task;
  task->event = event;
  event->task = task;
  event->recorded = true;
  event->record = ++event_records_;
  EventRecording recording{stream->device, stream->context, stream->id,
                           event->id,      event->record,   thread_correlation()};
  const int result = enqueue(task, stream, nullptr, lock);
  if (result == kSuccess && observed()) {
    log_.event(recording);
    if (Tracer* tracer = tracer_) tracer->event_recorded(recording);
  }
  return result;
}

int Process::query(Event* event) {
  Synchronization wait = begin_wait(SyncKind::kEvent, 0, 0);
  Lock lock(mutex_);
  if (events_.count(event) == 0) return kInvalidHandle;
  describe(wait, *event);
  scheduler_.advance(now_ns());
  const int result = event->task != nullptr ? kNotReady : kSuccess;
  lock.unlock();
  return end_wait(wait, result);
}

int Process::synchronize(Event* event) {
  Synchronization wait = begin_wait(SyncKind::kEvent, 0, 0);
  Lock lock(mutex_);
  if (events_.count(event) == 0) return kInvalidHandle;
  describe(wait, *event);
  if (event->task != nullptr) {
    ++event->task->references;
    wait_for(event->task, lock);
  } else {
    lock.unlock();
  }
  return end_wait(wait, state() == DriverState::kReady ? kSuccess : kUnloading);
}

int Process::elapsed_ms(float* ms, Event* from, Event* to) {
  const Lock lock(mutex_);
  for (const Event* event : {from, to}) {
    if (events_.count(event) == 0 || !event->recorded ||
        (event->flags & kEventDisableTiming) != 0) {
      return kInvalidHandle;
    }
  }
  scheduler_.advance(now_ns());
  if (from->task != nullptr || to->task != nullptr) return kNotReady;
  *ms = static_cast<float>(static_cast<double>(static_cast<std::int64_t>(to->done_ns) -
                                               static_cast<std::int64_t>(from->done_ns)) *
                           1e-6);
  return kSuccess;
}

int Process::wait_event(Stream* stream, Event* event) {
  Synchronization wait = begin_wait(SyncKind::kStreamWaitEvent, stream->context, stream->id);
  Lock lock(mutex_);
  if (events_.count(event) == 0) return kInvalidHandle;
  describe(wait, *event);
  int result = kSuccess;
  if (event->task != nullptr) {
    result = enqueue(new Task, stream, event->task, lock);
  } else {
    lock.unlock();
  }
  return end_wait(wait, result);
}

}  // namespace virtual_gpu
