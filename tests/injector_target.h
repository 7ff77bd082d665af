// For tests of the injector: targets in child processes, and the collector's end of their pipes.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "injector/session.h"
#include "proto/session.h"
#include "proto/wire.pb.h"
#include "tests/catch.h"
#include "tests/fake_cupti.h"

namespace profiler::test {

using injector::SessionSettings;

// Splits a pipe's bytes into frames; `rest` is what is left at the end.
inline std::vector<wire::Frame> decode(const std::string& bytes, std::size_t* rest = nullptr) {
  std::vector<wire::Frame> frames;
  std::size_t at = 0;
  for (;;) {
    std::uint64_t length = 0;
    std::size_t cursor = at;
    unsigned shift = 0;
    bool complete = false;
    while (cursor < bytes.size() && shift < 64) {
      const auto byte = static_cast<unsigned char>(bytes[cursor++]);
      length |= std::uint64_t{byte & 0x7fU} << shift;
      shift += 7;
      if (byte < 0x80) {
        complete = true;
        break;
      }
    }
    if (!complete || bytes.size() - cursor < length) break;
    REQUIRE(length <= session::kMaxFrameBytes);
    wire::Frame frame;
    REQUIRE(frame.ParseFromArray(bytes.data() + cursor, static_cast<int>(length)));
    REQUIRE(frame.unknown_fields().empty());
    frames.push_back(frame);
    at = cursor + length;
  }
  if (rest != nullptr) {
    *rest = bytes.size() - at;
  } else {
    REQUIRE(at == bytes.size());
  }
  return frames;
}

// The collector's part: a session directory with a listened-to `hello`.
class Directory {
 public:
  Directory() {
    char path[] = "/tmp/profiler-injector-test-XXXXXX";
    REQUIRE(mkdtemp(path) != nullptr);
    path_ = path;
    REQUIRE(mkfifo(file("hello").c_str(), 0600) == 0);
    hello_ = open(file("hello").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(hello_ >= 0);
  }
  ~Directory() {
    stop_listening();
    const std::string command = "rm -rf " + path_;
    if (std::system(command.c_str()) != 0) std::perror("rm");
  }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  void stop_listening() {
    if (hello_ >= 0) close(hello_);
    hello_ = -1;
  }

  SessionSettings settings() const {
    SessionSettings settings{};
    std::snprintf(settings.directory, sizeof settings.directory, "%s", path_.c_str());
    settings.buffer_cap = 64 << 20;
    settings.drain_budget = 20'000'000'000;
    return settings;
  }

  // Waits for the next process to announce itself.
  wire::Announcement announcement() {
    pollfd ready{hello_, POLLIN, 0};
    REQUIRE(poll(&ready, 1, 20'000) == 1);
    // Two may be there already, one after the other.
    unsigned char length = 0;
    REQUIRE(read(hello_, &length, 1) == 1);
    unsigned char bytes[128];
    REQUIRE(length <= sizeof bytes);
    REQUIRE(read(hello_, bytes, length) == length);
    wire::Announcement announcement;
    REQUIRE(announcement.ParseFromArray(bytes, length));
    return announcement;
  }
  bool is_quiet() const {
    pollfd ready{hello_, POLLIN, 0};
    return poll(&ready, 1, 0) == 0;
  }
  int open_pipe(const wire::Announcement& announcement) const {
    const int fd = open(file(announcement.pipe()).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    REQUIRE(fd >= 0);
    fcntl(fd, F_SETFL, 0);  // from here on reads wait
    return fd;
  }

 private:
  std::string path_;
  int hello_ = -1;
};

// Reads up to the end of the pipe, or until `enough` says so.
inline std::string read_pipe(
    int fd,
    const std::function<bool(const std::string&)>& enough = [](const auto&) { return false; }) {
  // The writer may not have opened its end yet: wait for data or its hang-up.
  pollfd ready{fd, POLLIN, 0};
  REQUIRE(poll(&ready, 1, 20'000) == 1);
  std::string bytes;
  char part[65536];
  ssize_t size = 0;
  while (!enough(bytes) && (size = read(fd, part, sizeof part)) > 0) {
    bytes.append(part, static_cast<std::size_t>(size));
  }
  return bytes;
}

// Runs `body` in a child that then ends with exit(status): the target.
inline pid_t start_target(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    fake_cupti::reset();
    std::exit(body());
  }
  REQUIRE(pid > 0);
  return pid;
}

inline int wait_for(pid_t pid) {
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return status;
}

}  // namespace profiler::test
