// The private directory through which target processes reach the collector: the control FIFO
// `hello`, the command file `control`, and one FIFO per process. Made with mode 0700 in TMPDIR,
// removed with everything in it when the object goes.
#pragma once

#include <cstdint>
#include <string>

#include "collector/result.h"
#include "proto/session.h"

namespace profiler {

// A file descriptor that is closed when its owner goes.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(other.release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;
  OwnedFd(const OwnedFd&) = delete;
  OwnedFd& operator=(const OwnedFd&) = delete;
  ~OwnedFd();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();

 private:
  int fd_ = -1;
};

class SessionDirectory {
 public:
  // `parent`: usually $TMPDIR or /tmp.
  static Result<SessionDirectory> create(const std::string& parent);

  SessionDirectory(SessionDirectory&& other) noexcept;
  SessionDirectory& operator=(SessionDirectory&&) = delete;
  SessionDirectory(const SessionDirectory&) = delete;
  SessionDirectory& operator=(const SessionDirectory&) = delete;
  ~SessionDirectory();

  const std::string& path() const { return path_; }
  int hello_fd() const { return hello_.get(); }  // readable, non-blocking, never at its end

  // Opens a process's FIFO for reading, without following links; invalid when there is no FIFO of
  // ours under that name.
  OwnedFd open_pipe(const std::string& name) const;
  // Takes the name away once the pipe is read to its end.
  void remove_pipe(const std::string& name) const;
  // Puts a command where all processes read it.
  void command(session::Command command);

 private:
  SessionDirectory() = default;

  std::string path_;
  OwnedFd directory_;
  OwnedFd hello_;
  OwnedFd control_;
  std::uint32_t sequence_ = 0;
};

}  // namespace profiler
