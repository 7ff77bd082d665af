#include "samples/virtual_gpu/cupti/buffers.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "samples/virtual_gpu/cupti/session.h"

namespace virtual_gpu {
namespace {

thread_local bool in_complete_callback = false;
thread_local bool reporting = false;  // the cost of a buffer is

}  // namespace

BufferStore& BufferStore::instance() {
  static auto* const store = new BufferStore;  // used until the process is gone
  return *store;
}

void BufferStore::set_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                CUpti_BuffersCallbackCompleteFunc complete) {
  const std::lock_guard lock(mutex_);
  request_ = request;
  complete_ = complete;
}

BufferStore::ThreadExit::~ThreadExit() {
  // The main thread's buffer is flushed by whoever ends the session.
  if (source == nullptr || syscall(SYS_gettid) == getpid()) return;
  BufferStore& store = instance();
  const std::lock_guard lock(store.mutex_);
  store.retire(*source);
  store.sources_.erase(std::find(store.sources_.begin(), store.sources_.end(), source));
  delete source;
  source = nullptr;
}

BufferStore::Source& BufferStore::source() {
  if (!per_thread_) return shared_;
  static thread_local ThreadExit mine;
  if (mine.source == nullptr) {
    mine.source = new Source;
    sources_.push_back(mine.source);
  }
  return *mine.source;
}

void BufferStore::retire(Source& source) {
  Buffer* buffer = source.current;
  if (buffer == nullptr) return;
  source.current = nullptr;
  buffer->retired = true;
  retired_.push_back(buffer);
  if (buffer->incomplete == 0) {
    ++complete_retired_;
    wake_.notify_one();
  }
  start_worker();
}

Overhead BufferStore::begin_overhead(OverheadKind kind) {
  const VirtualGpu& gpu = session().gpu();
  Overhead overhead;
  overhead.kind = kind;
  overhead.correlation = gpu.thread_correlation();
  overhead.start_ns = gpu.timestamp();
  return overhead;
}

void BufferStore::end_overhead(Overhead& overhead) {
  overhead.end_ns = session().gpu().timestamp();
}

void BufferStore::report(const Overhead& overhead) {
  // The record of a cost may itself cost a buffer, of which no more is said.
  if (overhead.end_ns == 0 || reporting) return;
  reporting = true;
  session().gpu().report(overhead);
  reporting = false;
}

bool BufferStore::append(const void* record, std::size_t size, Slot* slot) {
  Overhead cost;
  const bool kept = append(record, size, slot, cost);
  report(cost);
  return kept;
}

bool BufferStore::append(const void* record, std::size_t size, Slot* slot, Overhead& cost) {
  std::unique_lock lock(mutex_);
  Source& source = this->source();
  const auto fits = [&](const Buffer* buffer) {
    return buffer != nullptr && buffer->used + size <= buffer->size &&
           (buffer->record_limit == 0 || buffer->records < buffer->record_limit);
  };
  while (!fits(source.current)) {
    retire(source);
    const auto request = request_;
    if (request == nullptr) {
      ++dropped_;
      return false;
    }
    lock.unlock();
    std::uint8_t* data = nullptr;
    std::size_t bytes = 0;
    std::size_t limit = 0;
    cost = begin_overhead(OverheadKind::kBufferRequest);
    request(&data, &bytes, &limit);
    if (data != nullptr && !zeroed_) std::memset(data, 0, bytes);
    end_overhead(cost);
    lock.lock();
    if (data == nullptr || bytes < size) {
      // Too small is as good as none; it goes back as it came.
      ++dropped_;
      cost = {};  // its record would be dropped just so
      if (data != nullptr) {
        auto* empty = new Buffer;
        empty->data = data;
        empty->size = bytes;
        retired_.push_back(empty);
        ++complete_retired_;
        start_worker();
        wake_.notify_one();
      }
      return false;
    }
    auto* buffer = new Buffer;
    buffer->data = data;
    buffer->size = bytes;
    buffer->record_limit = limit;
    // Without per-thread buffers another thread may have been as fast: its buffer goes first.
    retire(source);
    source.current = buffer;
  }
  Buffer* buffer = source.current;
  std::memcpy(buffer->data + buffer->used, record, size);
  if (slot != nullptr) {
    slot->buffer = buffer;
    slot->offset = buffer->used;
    ++buffer->incomplete;
  }
  buffer->substantial = buffer->substantial || !reporting;
  buffer->used += size;
  ++buffer->records;
  return true;
}

Slot* BufferStore::reserve(const void* record, std::size_t size) {
  auto* slot = new Slot;
  if (append(record, size, slot)) return slot;
  delete slot;
  return nullptr;
}

void BufferStore::started(Slot* slot, std::uint64_t start_ns,
                          void (*set_times)(void* record, Times times)) {
  const std::lock_guard lock(mutex_);
  if (slot->buffer->delivered) return;
  slot->start_ns = start_ns;
  set_times(slot->buffer->data + slot->offset, {start_ns, 0});
}

Times BufferStore::ended(Slot* slot, Times times, void (*set_times)(void* record, Times times)) {
  const std::lock_guard lock(mutex_);
  Buffer* buffer = slot->buffer;
  if (buffer->delivered) {
    times = {slot->start_ns, 0};
  } else {
    set_times(buffer->data + slot->offset, times);
  }
  delete slot;
  if (--buffer->incomplete > 0) return times;
  if (buffer->delivered) {
    delete buffer;
  } else if (buffer->retired) {
    ++complete_retired_;
    wake_.notify_one();
  }
  return times;
}

// Locked by the caller. Marks what it returns as delivered.
std::vector<Buffer*> BufferStore::take_complete(bool force) {
  std::vector<Buffer*> taken;
  std::vector<Buffer*> kept;
  for (Buffer* buffer : retired_) {
    (force || buffer->incomplete == 0 ? taken : kept).push_back(buffer);
  }
  retired_ = std::move(kept);
  complete_retired_ = 0;
  for (Buffer* buffer : taken) buffer->delivered = true;
  return taken;
}

void BufferStore::deliver(std::vector<Buffer*>& buffers, bool costs) {
  const auto complete = complete_;
  // A buffer that holds nothing but the cost of the last flush would cost the next one: no end.
  const bool substantial = std::any_of(buffers.begin(), buffers.end(),
                                       [](const Buffer* buffer) { return buffer->substantial; });
  Overhead cost = begin_overhead(OverheadKind::kBufferFlush);
  const bool nested = std::exchange(in_complete_callback, true);
  for (const Buffer* buffer : buffers) {
    if (complete != nullptr) complete(nullptr, 0, buffer->data, buffer->size, buffer->used);
  }
  in_complete_callback = nested;
  if (substantial && costs) end_overhead(cost);
  {
    const std::lock_guard lock(mutex_);
    for (Buffer* buffer : buffers) {
      if (buffer->incomplete == 0) delete buffer;
    }
  }
  report(cost);
}

void BufferStore::flush(bool force) {
  flush_once(force, true);
  // What the worker is just handing over belongs to this flush, too.
  if (in_complete_callback) return;
  {
    std::unique_lock lock(mutex_);
    delivered_.wait(lock, [this] { return delivering_ == 0; });
  }
  // The last flush also gives what it cost itself, so that nothing is left behind.
  if (force) flush_once(true, false);
}

void BufferStore::flush_once(bool force, bool costs) {
  std::vector<Buffer*> taken;
  {
    const std::lock_guard lock(mutex_);
    taken = take_complete(force);
    std::vector<Source*> sources = sources_;
    sources.push_back(&shared_);
    for (Source* source : sources) {
      Buffer* buffer = source->current;
      if (buffer == nullptr || buffer->used == 0 || (!force && buffer->incomplete > 0)) continue;
      source->current = nullptr;
      buffer->delivered = true;
      taken.push_back(buffer);
    }
  }
  deliver(taken, costs);
}

void BufferStore::set_period(std::uint32_t ms) {
  const std::lock_guard lock(mutex_);
  period_ms_ = ms;
  if (ms != 0) start_worker();
  wake_.notify_one();
}

std::uint64_t BufferStore::take_dropped() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, 0);
}

void BufferStore::start_worker() {
  if (worker_runs_) return;
  worker_runs_ = true;
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
    pthread_setname_np(thread, "virtual-cupti");
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

void BufferStore::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto wanted = [this] { return complete_retired_ > 0; };
    if (period_ms_ == 0) {
      wake_.wait(lock, [&] { return wanted() || period_ms_ != 0; });
    } else if (!wake_.wait_for(lock, std::chrono::milliseconds(period_ms_), wanted)) {
      lock.unlock();
      session().gpu().advance();
      lock.lock();
    }
    std::vector<Buffer*> taken = take_complete(false);
    if (taken.empty()) continue;
    ++delivering_;
    lock.unlock();
    deliver(taken, true);
    lock.lock();
    --delivering_;
    delivered_.notify_all();
  }
}

}  // namespace virtual_gpu
