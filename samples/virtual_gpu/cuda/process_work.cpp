// Submission, waiting, and the thread that keeps the simulation moving.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "samples/virtual_gpu/cuda/process.h"
#include "samples/virtual_gpu/cuda/results.h"
#include "samples/virtual_gpu/cuda/thread_state.h"
#include "samples/virtual_gpu/engine/clock.h"

namespace virtual_gpu {
namespace {

constexpr std::uint64_t kWorkerTickNs = 5'000'000;
constexpr std::uint64_t kWorkerRestNs = 50'000'000;
constexpr std::uint64_t kLogFlushNs = 100'000'000;

std::chrono::steady_clock::time_point time_point(std::uint64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

}  // namespace

int Process::enqueue(Task* task, Stream* stream, Task* after, Lock& lock) {
  if (state() != DriverState::kReady) {
    if (task->event != nullptr) task->event->task = nullptr;
    delete task;
    return kUnloading;
  }
  if (after != nullptr) ++after->references;  // it may end right now
  const std::uint64_t now = now_ns();
  scheduler_.advance(now);
  scheduler_.submit(task, stream, after, now);
  if (after != nullptr) scheduler_.release(after);
  if (!worker_runs_) start_worker();
  const bool wake = worker_rests_ || task->operation.work == Work::kHostCall;
  worker_rests_ = false;
  lock.unlock();
  if (wake) work_.notify_one();
  return kSuccess;
}

int Process::submit(Operation operation, Stream* stream, bool wait) {
  operation.device = stream->device;
  operation.context = stream->context;
  operation.stream = stream->id;
  operation.correlation = thread_correlation();
  const Model& model = *models_[operation.device];
  if (operation.work == Work::kKernel) {
    if (__atomic_load_n(&operation.kernel->loaded_in, __ATOMIC_ACQUIRE) != operation.context) {
      load_kernel(operation.context, operation.kernel);
    }
    // Real drivers take their time to put a launch together; ours would be done too soon.
    sleep_until(now_ns() + model.launch_cost_ns);
  } else if (operation.work == Work::kCopy && operation.copy == CopyKind::kHostToDevice &&
             operation.source == MemoryKind::kPageable) {
    // The device cannot read pageable memory: the host copies it to where it can, piece by piece,
    // and what follows the first piece runs beside the copy on the device.
    sleep_until(now_ns() + staging_duration(model, operation.bytes));
  }
  auto* task = new Task;
  if (Tracer* tracer = tracer_.load(std::memory_order_acquire)) {
    task->slot = tracer->submitted(operation);
  }
  task->operation = operation;
  if (wait) ++task->references;
  Overhead full;
  Lock lock(mutex_);
  if (stream->length >= model.queue_depth) scheduler_.advance(now_ns());
  if (stream->length >= model.queue_depth) {
    full = begin_overhead(OverheadKind::kCommandBufferFull);
    full.stream = operation.stream;
    while (stream->length >= model.queue_depth && state() == DriverState::kReady) {
      ++stream->head->references;
      wait_for(stream->head, lock);
      lock.lock();
    }
    full.end_ns = timestamp();
  }
  const int result = enqueue(task, stream, nullptr, lock);
  if (result != kSuccess) return result;
  report(full);
  if (wait) {
    lock.lock();
    wait_for(task, lock);
  }
  return state() == DriverState::kReady ? kSuccess : kUnloading;
}

int Process::call_host(Stream* stream, void (*function)(void*), void* data) {
  auto* task = new Task;
  task->operation.work = Work::kHostCall;
  task->host_function = function;
  task->host_data = data;
  Lock lock(mutex_);
  return enqueue(task, stream, nullptr, lock);
}

void Process::wait_for_all(std::vector<Task*>& tasks, Lock& lock) {
  // The longest first: the others have mostly ended by then.
  std::sort(tasks.begin(), tasks.end(),
            [](const Task* a, const Task* b) { return a->estimate_ns > b->estimate_ns; });
  for (Task* task : tasks) {
    if (!lock.owns_lock()) lock.lock();
    wait_for(task, lock);
  }
}

void Process::wait_for(Task* task, Lock& lock) {
  while (state() == DriverState::kReady) {
    const std::uint64_t now = now_ns();
    scheduler_.advance(now);
    if (task->state == TaskState::kDone) break;
    // Nothing can make the task end before its estimate; after it, the next event tells more.
    std::uint64_t target = task->estimate_ns;
    if (target <= now) target = scheduler_.next_event();
    if (target <= now) continue;
    if (scheduler_.has_host_calls()) {
      // The end of a host call cannot be foreseen, so sleep where it can wake us.
      target = std::min(target, now + kWorkerTickNs);
      done_.wait_until(lock, time_point(target));
      continue;
    }
    if (target == Scheduler::kNever) target = now + kWorkerTickNs;
    lock.unlock();
    sleep_until(target);
    lock.lock();
  }
  scheduler_.release(task);
  lock.unlock();
}

void Process::advance() {
  if (state() != DriverState::kReady) return;
  const Lock lock(mutex_);
  scheduler_.advance(now_ns());
}

void Process::start_worker() {
  worker_runs_ = true;
  // Signals of the program are for the program's threads.
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread{};
  if (pthread_create(
          &thread, nullptr,
          [](void*) -> void* {
            instance().work();
            return nullptr;
          },
          nullptr) == 0) {
    pthread_setname_np(thread, "virtual-gpu");
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

// Runs host functions in time, and keeps the simulation moving while the program does not call.
void Process::work() {
  Lock lock(mutex_);
  std::uint64_t busy_ns = now_ns();
  std::uint64_t flushed_ns = busy_ns;
  while (state() == DriverState::kReady) {
    const std::uint64_t now = now_ns();
    scheduler_.advance(now);
    if (Task* task = scheduler_.take_host_call()) {
      lock.unlock();
      thread_state.in_host_function = true;
      task->host_function(task->host_data);
      thread_state.in_host_function = false;
      lock.lock();
      scheduler_.finish_host_call(task, now_ns());
      done_.notify_all();
      continue;
    }
    if (scheduler_.pending() > 0) busy_ns = now;
    if (now - flushed_ns >= kLogFlushNs || now - busy_ns >= kWorkerRestNs) {
      flushed_ns = now;
      log_.flush();
    }
    if (now - busy_ns >= kWorkerRestNs) {
      worker_rests_ = true;
      work_.wait(lock, [this] { return !worker_rests_; });
      busy_ns = now_ns();
      continue;
    }
    std::uint64_t wake = now + kWorkerTickNs;
    if (scheduler_.has_host_calls()) wake = std::min(wake, scheduler_.next_event());
    work_.wait_until(lock, time_point(wake));
  }
}

}  // namespace virtual_gpu
