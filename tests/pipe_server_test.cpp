// The collector's end of the pipes, against processes that behave and that do not.
#include "collector/pipe_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>

#include "tests/catch.h"
#include "tests/wire_stream.h"

namespace profiler {
namespace {

namespace fs = std::filesystem;
using test::WireStream;

std::uint64_t own_start_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return std::stoull(field);
}

void write_all(int fd, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t written = write(fd, bytes.data() + at, bytes.size() - at);
    if (written <= 0) _exit(9);
    at += static_cast<std::size_t>(written);
  }
}

// What the injector does: makes its FIFO, announces it, waits for the reader.
int connect_as_target(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  if (mkfifo(path.c_str(), 0600) != 0) _exit(8);
  wire::Announcement announcement;
  announcement.set_wire_version(session::kWireVersion);
  announcement.set_pid(static_cast<std::uint32_t>(getpid()));
  announcement.set_pipe(name);
  announcement.set_start_ticks(own_start_ticks());
  const int hello = open((directory + "/hello").c_str(), O_WRONLY | O_NONBLOCK);
  write_all(hello, test::framed(announcement));
  close(hello);
  return open(path.c_str(), O_WRONLY);
}

pid_t fork_target(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    body();
    _exit(0);
  }
  return pid;
}

// Steps until nothing is connected any more and `pids` ended; false when that takes too long.
bool drain(PipeServer& server, std::vector<pid_t> pids) {
  for (int i = 0; i < 2000; ++i) {
    server.step();
    std::erase_if(pids, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) == pid; });
    if (pids.empty() && server.open_connections() == 0) {
      server.step();
      if (server.open_connections() == 0) return true;
    }
    usleep(5000);
  }
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  return false;
}

RunFacts facts() {
  RunFacts facts;
  facts.command = {"test"};
  facts.start_ns = 1;
  facts.end_ns = 1000;
  return facts;
}

struct Fixture {
  fs::path parent = fs::temp_directory_path() / ("profiler-test-" + std::to_string(getpid()));
  Recording recording{nullptr};
  std::unique_ptr<PipeServer> server;

  Fixture() {
    fs::create_directories(parent);
    server = std::move(*PipeServer::create(parent.string(), recording));
  }
  ~Fixture() {
    server.reset();
    CHECK(fs::is_empty(parent));
    fs::remove_all(parent);
  }
};

TEST_CASE("several processes at once, each on its own pipe") {
  Fixture fixture;
  const std::string directory = fixture.server->directory();
  std::vector<pid_t> pids;
  for (int i = 0; i < 12; ++i) {
    pids.push_back(fork_target([&] {
      const auto pid = static_cast<std::uint32_t>(getpid());
      const WireStream wire(pid);
      const int fd = connect_as_target(directory, std::to_string(pid) + "-1.pipe");
      write_all(fd, wire.hello() + wire.definitions());
      for (std::uint32_t k = 1; k <= 500; ++k)
        write_all(fd, WireStream::api(k, k * 10, k * 10 + 2) +
                          WireStream::kernel(k, k * 10 + 3, k * 10 + 5));
      write_all(fd, WireStream::goodbye());
    }));
  }
  REQUIRE(drain(*fixture.server, pids));
  const Summary summary = fixture.recording.finish(facts());
  REQUIRE(summary.processes.size() == 12);
  REQUIRE(summary.checks.device_operations == 12 * 500);
  REQUIRE(summary.checks.launches == 12 * 500);
  REQUIRE(summary.checks.malformed == 0);
  for (const ProcessSummary& process : summary.processes) REQUIRE(process.said_goodbye);
}

TEST_CASE("a killed process: all that it wrote arrives") {
  Fixture fixture;
  const std::string directory = fixture.server->directory();
  const pid_t pid = fork_target([&] {
    const WireStream wire(static_cast<std::uint32_t>(getpid()));
    const int fd = connect_as_target(directory, "a.pipe");
    write_all(fd, wire.hello() + wire.definitions() + WireStream::kernel(1, 5, 6));
    const std::string half = WireStream::kernel(2, 7, 8);
    write_all(fd, half.substr(0, half.size() / 2));
    raise(SIGKILL);
  });
  REQUIRE(drain(*fixture.server, {pid}));
  const Summary summary = fixture.recording.finish(facts());
  REQUIRE(summary.checks.device_operations == 1);
  REQUIRE(summary.checks.malformed == 1);
  REQUIRE_FALSE(summary.processes[0].said_goodbye);
}

TEST_CASE("a stray child that keeps the pipe open delays nobody") {
  Fixture fixture;
  const std::string directory = fixture.server->directory();
  int hold[2];
  REQUIRE(pipe(hold) == 0);
  const pid_t pid = fork_target([&] {
    const WireStream wire(static_cast<std::uint32_t>(getpid()));
    const int fd = connect_as_target(directory, "a.pipe");
    write_all(fd, wire.hello() + wire.definitions() + WireStream::kernel(1, 5, 6));
    if (fork() == 0) {
      // Holds both ends until the test lets go.
      close(hold[1]);
      char byte = 0;
      [[maybe_unused]] const ssize_t bytes = read(hold[0], &byte, 1);
      _exit(0);
    }
    _exit(0);
  });
  REQUIRE(drain(*fixture.server, {pid}));
  close(hold[0]);
  close(hold[1]);
  const Summary summary = fixture.recording.finish(facts());
  REQUIRE(summary.checks.device_operations == 1);
}

TEST_CASE("garbage on the control FIFO cuts nobody off") {
  Fixture fixture;
  const std::string directory = fixture.server->directory();
  const int hello = open((directory + "/hello").c_str(), O_WRONLY | O_NONBLOCK);
  REQUIRE(hello >= 0);
  for (const char* name : {"../hello", "nothing.pipe", "hello", "", "a/b.pipe"}) {
    wire::Announcement announcement;
    announcement.set_wire_version(session::kWireVersion);
    announcement.set_pid(1);
    announcement.set_pipe(name);
    write_all(hello, test::framed(announcement));
  }
  write_all(hello, "\x05garba");
  write_all(hello, "\xff\xff\xff\xff\xff");
  fixture.server->step();
  REQUIRE(fixture.server->open_connections() == 0);
  close(hello);
  const pid_t pid = fork_target([&] {
    const WireStream wire(static_cast<std::uint32_t>(getpid()));
    const int fd = connect_as_target(directory, "a.pipe");
    write_all(fd, wire.hello() + WireStream::goodbye());
  });
  REQUIRE(drain(*fixture.server, {pid}));
  REQUIRE(fixture.recording.processes().size() == 1);
}

TEST_CASE("a link in place of a FIFO is not followed") {
  Fixture fixture;
  const std::string directory = fixture.server->directory();
  REQUIRE(symlink("/dev/zero", (directory + "/evil.pipe").c_str()) == 0);
  wire::Announcement announcement;
  announcement.set_wire_version(session::kWireVersion);
  announcement.set_pid(static_cast<std::uint32_t>(getpid()));
  announcement.set_pipe("evil.pipe");
  const int hello = open((directory + "/hello").c_str(), O_WRONLY | O_NONBLOCK);
  write_all(hello, test::framed(announcement));
  close(hello);
  fixture.server->step();
  REQUIRE(fixture.server->open_connections() == 0);
}

TEST_CASE("commands are seen in the control file") {
  Fixture fixture;
  const auto read_control = [&] {
    session::Control control{};
    std::ifstream file(fixture.server->directory() + "/control", std::ios::binary);
    file.read(reinterpret_cast<char*>(&control), sizeof control);
    REQUIRE(file.gcount() == sizeof control);
    return control;
  };
  const session::Control before = read_control();
  fixture.server->command(session::kStop);
  const session::Control after = read_control();
  REQUIRE(after.sequence == before.sequence + 1);
  REQUIRE(after.command == session::kStop);
}

TEST_CASE("the session directory is private, and a bad TMPDIR is said") {
  const Fixture fixture;
  struct stat status = {};
  REQUIRE(stat(fixture.server->directory().c_str(), &status) == 0);
  REQUIRE((status.st_mode & 0777) == 0700);
  Recording recording(nullptr);
  const auto server = PipeServer::create("/nonexistent/folder", recording);
  REQUIRE_FALSE(server.ok());
  REQUIRE(server.error().message.find("TMPDIR") != std::string::npos);
}

}  // namespace
}  // namespace profiler
