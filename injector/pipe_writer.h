// Our end of the pipe to the collector: announces this process on the control FIFO, makes the
// process's own FIFO and writes frames into it, without ever blocking in write.
//
// The file belongs to a program that may do anything with its descriptors. So each descriptor is
// close-on-exec and, where the limit allows, above 900, out of the way of programs that count on
// low numbers; and before each write its identity is checked, as a program that closed all its
// files may have got the same number for a file of its own.
//
// One owner thread, except `close_in_child`. SIGPIPE must be blocked in that thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace profiler::injector {

class PipeWriter {
 public:
  static constexpr std::uint64_t kOpenBudget = 5'000'000'000;  // ns

  enum class Outcome {
    kWritten,
    kTimeout,  // not a byte was written
    kLost,     // no further write will succeed
  };

  // Whether a collector listens in `directory`. Any thread, does not wait.
  static bool is_listened_to(const char* directory);

  // Announces and opens the pipe. Retries while the collector has not opened its end, until the
  // open budget is used up or `*deadline_ns` (CLOCK_MONOTONIC, may be changed meanwhile) is past.
  bool connect(const char* directory, std::uint32_t pid, std::uint64_t start_ticks,
               const std::atomic<std::uint64_t>* deadline_ns);

  // Waits while the pipe is full, until `*deadline_ns`.
  Outcome write(const std::uint8_t* bytes, std::size_t size,
                const std::atomic<std::uint64_t>* deadline_ns);

  bool connected() const { return fd_.load(std::memory_order_relaxed) >= 0; }
  const char* pipe_path() const { return path_; }

  void close();
  // In a forked child: our copy of the descriptor must not keep the pipe open. System calls only.
  void close_in_child();

 private:
  bool make_pipe(const char* directory, std::uint32_t pid, std::uint64_t start_ticks);
  bool announce(const char* directory, std::uint32_t pid, std::uint64_t start_ticks,
                const std::atomic<std::uint64_t>* deadline_ns);
  bool open_pipe();
  bool is_ours(int fd) const;

  std::atomic<int> fd_{-1};
  dev_t device_ = 0;
  ino_t inode_ = 0;
  char path_[4096] = "";
  const char* name_ = "";  // the last part of path_
};

}  // namespace profiler::injector
