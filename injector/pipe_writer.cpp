#include "injector/pipe_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "injector/clock.h"
#include "proto/encoder.h"
#include "proto/session.h"

namespace profiler::injector {
namespace {

constexpr int kHighDescriptor = 900;
constexpr int kPipeBytes = 1024 * 1024;
constexpr int kPollMs = 20;  // how soon a changed deadline is noticed
constexpr int kMaxPipesOfOneName = 1000;

// The libc wrapper has no version that is old enough.
bool read_status(int fd, struct stat& status) {
  return syscall(SYS_fstat, fd, &status) == 0;
}

bool is_past(const std::atomic<std::uint64_t>* deadline_ns) {
  return now_ns() >= deadline_ns->load(std::memory_order_relaxed);
}

int open_hello(const char* directory) {
  char path[4096];
  const int length = std::snprintf(path, sizeof path, "%s/%s", directory, session::kHelloName);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path) return -1;
  // Fails with ENXIO when nobody reads: a session that has ended.
  return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

}  // namespace

bool PipeWriter::is_listened_to(const char* directory) {
  const int fd = open_hello(directory);
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

bool PipeWriter::connect(const char* directory, std::uint32_t pid, std::uint64_t start_ticks,
                         const std::atomic<std::uint64_t>* deadline_ns) {
  if (!make_pipe(directory, pid, start_ticks)) return false;
  if (!announce(directory, pid, start_ticks, deadline_ns)) {
    unlink(path_);
    return false;
  }
  const std::uint64_t give_up = now_ns() + kOpenBudget;
  int pause_ms = 1;
  while (!open_pipe()) {
    if (errno != ENXIO && errno != EINTR) return false;
    if (now_ns() >= give_up || is_past(deadline_ns)) return false;
    poll(nullptr, 0, pause_ms);
    if (pause_ms < kPollMs) ++pause_ms;
  }
  return true;
}

bool PipeWriter::make_pipe(const char* directory, std::uint32_t pid, std::uint64_t start_ticks) {
  // A program that replaced itself by exec has kept pid and start time: the next number is free.
  for (int number = 1; number <= kMaxPipesOfOneName; ++number) {
    char suffix[16] = "";
    if (number > 1) std::snprintf(suffix, sizeof suffix, "-%d", number);
    const int length =
        std::snprintf(path_, sizeof path_, "%s/%u-%llu%s%s", directory, pid,
                      static_cast<unsigned long long>(start_ticks), suffix, session::kPipeSuffix);
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof path_) return false;
    if (mkfifo(path_, 0600) == 0) {
      name_ = std::strrchr(path_, '/') + 1;
      return true;
    }
    if (errno != EEXIST) return false;
  }
  return false;
}

bool PipeWriter::announce(const char* directory, std::uint32_t pid, std::uint64_t start_ticks,
                          const std::atomic<std::uint64_t>* deadline_ns) {
  std::uint8_t message[session::kMaxAnnouncementBytes];
  proto::Encoder encoder(message, sizeof message);
  const std::size_t body = encoder.open_length();
  encoder.field_varint(1, session::kWireVersion);
  encoder.field_varint(2, pid);
  encoder.field_string(3, name_);
  encoder.field_varint(4, start_ticks);
  encoder.close(body);
  if (!encoder.ok()) return false;

  const int fd = open_hello(directory);
  if (fd < 0) return false;
  // At most PIPE_BUF bytes: written whole or, when the pipe is full, not at all.
  ssize_t written = -1;
  while ((written = ::write(fd, encoder.data(), encoder.size())) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN || is_past(deadline_ns)) break;
    pollfd ready{fd, POLLOUT, 0};
    poll(&ready, 1, kPollMs);
  }
  ::close(fd);
  return written == static_cast<ssize_t>(encoder.size());
}

bool PipeWriter::open_pipe() {
  int fd = open(path_, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat status {};
  if (!read_status(fd, status)) {
    ::close(fd);
    errno = EBADF;
    return false;
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
  // Known at once, so that a child forked from here on closes its copy. (One forked in the few
  // instructions around each change keeps it; the collector does not wait for such children.)
  fd_.store(fd, std::memory_order_relaxed);
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kHighDescriptor);
  if (high >= 0) {
    fd_.store(high, std::memory_order_relaxed);
    ::close(fd);
    fd = high;
  }
  // Refused where the user's pipes exceed their limit: 64 KiB will do then.
  fcntl(fd, F_SETPIPE_SZ, kPipeBytes);
  return true;
}

bool PipeWriter::is_ours(int fd) const {
  struct stat status {};
  return read_status(fd, status) && status.st_dev == device_ && status.st_ino == inode_;
}

PipeWriter::Outcome PipeWriter::write(const std::uint8_t* bytes, std::size_t size,
                                      const std::atomic<std::uint64_t>* deadline_ns) {
  std::size_t done = 0;
  bool reopened = false;
  while (done < size) {
    int fd = fd_.load(std::memory_order_relaxed);
    if (fd < 0) return Outcome::kLost;
    if (!is_ours(fd)) {
      // The program closed it. The reader may not have noticed yet: try once more, and go on in
      // the middle of the frame.
      fd_.store(-1, std::memory_order_relaxed);
      if (reopened || !open_pipe()) return Outcome::kLost;
      reopened = true;
      continue;
    }
    const ssize_t written = ::write(fd, bytes + done, size - done);
    if (written >= 0) {
      done += static_cast<std::size_t>(written);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EBADF) continue;  // closed since the check
    if (errno != EAGAIN) {
      close();
      return Outcome::kLost;
    }
    if (is_past(deadline_ns)) {
      if (done == 0) return Outcome::kTimeout;
      close();  // half a frame: what would follow could not be read
      return Outcome::kLost;
    }
    pollfd ready{fd, POLLOUT, 0};
    poll(&ready, 1, kPollMs);
  }
  return Outcome::kWritten;
}

void PipeWriter::close() {
  const int fd = fd_.exchange(-1, std::memory_order_relaxed);
  if (fd >= 0 && is_ours(fd)) ::close(fd);
}

void PipeWriter::close_in_child() {
  close();
}

}  // namespace profiler::injector
