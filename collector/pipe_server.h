// Reads the pipes of all processes under profile and hands what arrives to the Recording.
// Single-threaded: the owner polls `poll_fd()` and calls `step()`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collector/recording.h"
#include "collector/result.h"
#include "collector/session_directory.h"

namespace profiler {

class PipeServer {
 public:
  // `recording` must outlive the server.
  static Result<std::unique_ptr<PipeServer>> create(const std::string& parent_directory,
                                                    Recording& recording);

  const std::string& directory() const { return directory_.path(); }
  int poll_fd() const { return epoll_.get(); }  // readable when `step` has something to do

  // Handles what is ready now, without waiting, and no more than a bounded amount of it.
  void step();
  // Processes that announced themselves and are not yet read to their end.
  std::size_t open_connections() const { return connections_.size(); }
  std::vector<std::uint64_t> open_pids() const;
  void command(session::Command command) { directory_.command(command); }

 private:
  struct Connection {
    OwnedFd pipe;
    OwnedFd pidfd;  // invalid: unknown (another PID namespace)
    std::string name;
    std::uint64_t pid = 0;
    std::unique_ptr<ProcessStream> stream;
    bool gone = false;      // the process ended: drain what is there and close
    bool finished = false;  // read to its end
  };

  PipeServer(SessionDirectory directory, OwnedFd epoll, Recording& recording);
  void watch(int fd, std::uint64_t token);
  void read_announcements();
  void connect(std::string_view announcement);
  void read_pipe(Connection& connection);

  SessionDirectory directory_;
  OwnedFd epoll_;
  Recording* recording_;
  FrameSplitter announcements_;
  std::uint64_t next_token_ = 1;
  std::vector<std::pair<std::uint64_t, std::unique_ptr<Connection>>> connections_;
};

}  // namespace profiler
