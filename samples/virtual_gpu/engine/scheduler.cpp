#include "samples/virtual_gpu/engine/scheduler.h"

#include <algorithm>

namespace virtual_gpu {
namespace {

std::uint64_t product(const std::uint32_t (&size)[3]) {
  return std::uint64_t{size[0]} * size[1] * size[2];
}

}  // namespace

std::uint32_t Scheduler::add_device(const Model* model) {
  Device device;
  device.model = model;
  device.free_threads = std::uint64_t{model->multiprocessors} * model->threads_per_multiprocessor;
  devices_.push_back(std::move(device));
  return static_cast<std::uint32_t>(devices_.size() - 1);
}

Stream* Scheduler::add_stream(std::uint32_t device, std::uint32_t context, std::uint32_t id,
                              unsigned flags, bool blocking, int priority) {
  auto* stream = new Stream;
  stream->id = id;
  stream->device = device;
  stream->context = context;
  stream->flags = flags;
  stream->blocking = blocking;
  stream->priority = priority;
  stream->is_legacy = std::none_of(streams_.begin(), streams_.end(),
                                   [&](const Stream* s) { return s->context == context; });
  streams_.push_back(stream);
  return stream;
}

void Scheduler::destroy_stream(Stream* stream) {
  stream->destroyed = true;
  if (stream->head == nullptr) erase_stream(stream);
}

void Scheduler::erase_stream(Stream* stream) {
  streams_.erase(std::find(streams_.begin(), streams_.end(), stream));
  delete stream;
}

void Scheduler::block_on(Task* task, Task* before) {
  ++task->blockers;
  before->dependents.push_back(task);
  const std::uint64_t gap = devices_[task->stream->device].model->dispatch_gap_ns;
  task->estimate_ns = std::max(task->estimate_ns, before->estimate_ns + gap);
}

void Scheduler::submit(Task* task, Stream* stream, Task* after, std::uint64_t now) {
  const Model& model = *devices_[stream->device].model;
  const Operation& operation = task->operation;
  task->stream = stream;
  task->sequence = ++sequence_;
  task->priority = stream->priority;
  task->ready_ns = now + model.launch_latency_ns;
  task->estimate_ns = task->ready_ns;
  switch (operation.work) {
    case Work::kKernel:
      task->duration_ns = kernel_duration(model, operation.kernel->cost, product(operation.grid),
                                          product(operation.block), task->sequence);
      task->share =
          std::min(product(operation.grid) * product(operation.block),
                   std::uint64_t{model.multiprocessors} * model.threads_per_multiprocessor);
      break;
    case Work::kCopy: {
      const bool pageable = operation.source == MemoryKind::kPageable ||
                            operation.destination == MemoryKind::kPageable;
      const TransferCost& cost = model.copies[static_cast<int>(operation.copy)][pageable ? 0 : 1];
      task->duration_ns = transfer_duration(model, cost, operation.bytes, task->sequence);
      break;
    }
    case Work::kSet:
      task->duration_ns = transfer_duration(model, model.set, operation.bytes, task->sequence);
      break;
    case Work::kMarker:
      task->ready_ns = now;
      task->estimate_ns = now;
      break;
    case Work::kHostCall:
      ++host_calls_;
      break;
  }

  if (stream->tail != nullptr) {
    ++task->blockers;
    stream->tail->next_in_stream = task;
    task->estimate_ns =
        std::max(task->estimate_ns, stream->tail->estimate_ns + model.dispatch_gap_ns);
  }
  if (after != nullptr && after->state != TaskState::kDone) block_on(task, after);
  // The legacy default stream waits for all blocking streams of its context, and they for it.
  if (stream->is_legacy || stream->blocking) {
    for (Stream* other : streams_) {
      if (other == stream || other->context != stream->context || other->tail == nullptr) continue;
      if (stream->is_legacy ? other->blocking : other->is_legacy) block_on(task, other->tail);
    }
  }
  task->estimate_ns += task->duration_ns;

  if (stream->head == nullptr) stream->head = task;
  stream->tail = task;
  ++stream->length;
  ++pending_;
  if (task->blockers == 0) make_ready(task);
}

void Scheduler::make_ready(Task* task) {
  task->state = TaskState::kReady;
  events_.push({task->ready_ns, Kind::kReady, task->sequence, task});
}

void Scheduler::advance(std::uint64_t now) {
  while (!events_.empty() && events_.top().time_ns <= now) {
    const Happening next = events_.top();
    events_.pop();
    if (next.kind == Kind::kReady) {
      begin(next.task, next.time_ns);
    } else {
      finish(next.task, next.time_ns);
    }
  }
}

void Scheduler::begin(Task* task, std::uint64_t now) {
  Device& device = devices_[task->stream->device];
  switch (task->operation.work) {
    case Work::kKernel:
      device.waiting.push(task);
      start_kernels(device, now);
      break;
    case Work::kCopy: {
      if (task->operation.copy == CopyKind::kHostToHost) {
        start(task, now);
        break;
      }
      CopyEngine& engine = device.engines[static_cast<int>(task->operation.copy)];
      if (engine.busy) {
        engine.waiting.push_back(task);
      } else {
        engine.busy = true;
        start(task, now);
      }
      break;
    }
    case Work::kSet:
      start(task, now);
      break;
    case Work::kMarker:
      task->start_ns = now;
      finish(task, now);
      break;
    case Work::kHostCall:
      task->start_ns = now;
      task->state = TaskState::kRunning;
      due_host_calls_.push_back(task);
      break;
  }
}

void Scheduler::start_kernels(Device& device, std::uint64_t now) {
  // No overtaking: a large kernel at the head waits until the device has drained enough.
  while (!device.waiting.empty() && device.waiting.top()->share <= device.free_threads &&
         device.kernels < device.model->concurrent_kernels) {
    Task* task = device.waiting.top();
    device.waiting.pop();
    device.free_threads -= task->share;
    ++device.kernels;
    start(task, now);
  }
}

void Scheduler::start(Task* task, std::uint64_t now) {
  task->state = TaskState::kRunning;
  task->start_ns = now;
  task->end_ns = now + task->duration_ns;
  task->estimate_ns = task->end_ns;
  events_.push({task->end_ns, Kind::kEnd, task->sequence, task});
  if (listener_.started != nullptr) listener_.started(listener_.self, *task);
}

void Scheduler::finish(Task* task, std::uint64_t now) {
  Device& device = devices_[task->stream->device];
  task->state = TaskState::kDone;
  task->end_ns = now;
  if (task->operation.work == Work::kKernel) {
    device.free_threads += task->share;
    --device.kernels;
    start_kernels(device, now);
  } else if (task->operation.work == Work::kCopy && task->operation.copy != CopyKind::kHostToHost) {
    CopyEngine& engine = device.engines[static_cast<int>(task->operation.copy)];
    engine.busy = !engine.waiting.empty();
    if (engine.busy) {
      Task* next = engine.waiting.front();
      engine.waiting.pop_front();
      start(next, now);
    }
  }
  if (task->event != nullptr) {
    if (task->event->task == task) {
      task->event->task = nullptr;
      task->event->done_ns = now;
    }
    task->event = nullptr;
  }
  if (listener_.ended != nullptr) listener_.ended(listener_.self, *task);

  Stream* stream = task->stream;
  stream->head = task->next_in_stream;
  if (stream->head == nullptr) stream->tail = nullptr;
  --stream->length;
  --pending_;
  if (task->next_in_stream != nullptr) unblock(task->next_in_stream, *task);
  for (Task* dependent : task->dependents) unblock(dependent, *task);
  task->dependents.clear();
  task->next_in_stream = nullptr;
  task->stream = nullptr;
  if (stream->destroyed && stream->head == nullptr) erase_stream(stream);
  release(task);
}

void Scheduler::unblock(Task* task, const Task& done) {
  // Markers are no work, so there is no gap before or after them.
  const bool gap = task->operation.work != Work::kMarker && done.operation.work != Work::kMarker;
  const std::uint64_t earliest =
      done.end_ns + (gap ? devices_[task->stream->device].model->dispatch_gap_ns : 0);
  task->ready_ns = std::max(task->ready_ns, earliest);
  if (--task->blockers == 0) make_ready(task);
}

Task* Scheduler::take_host_call() {
  if (due_host_calls_.empty()) return nullptr;
  Task* task = due_host_calls_.front();
  due_host_calls_.pop_front();
  return task;
}

void Scheduler::finish_host_call(Task* task, std::uint64_t now) {
  advance(now);
  --host_calls_;
  finish(task, now);
}

void Scheduler::release(Task* task) {
  if (--task->references == 0) delete task;
}

}  // namespace virtual_gpu
