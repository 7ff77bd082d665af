// A mutex and a wait with a timeout that need libc alone. pthread_cond_timedwait is avoided: its
// monotonic form is newer than the oldest libc we load into.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

namespace profiler::injector {

class Mutex {
 public:
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

class Lock {
 public:
  explicit Lock(Mutex& mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

// A number that threads wait for. Wake-ups may be spurious: callers check what they wait for.
class Counter {
 public:
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }

  void increment() {
    value_.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
  }

  // Returns when the value is no longer `seen`, after `timeout_ns` of CLOCK_MONOTONIC, or earlier.
  void wait_beyond(std::uint32_t seen, std::uint64_t timeout_ns) const {
    const timespec timeout{static_cast<time_t>(timeout_ns / 1'000'000'000),
                           static_cast<long>(timeout_ns % 1'000'000'000)};
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
  }

 private:
  std::atomic<std::uint32_t> value_{0};
};

}  // namespace profiler::injector
