#include "collector/pipe_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "proto/wire.pb.h"

namespace profiler {
namespace {

// What epoll hands back: which connection, and whether its pipe or its process.
constexpr std::uint64_t kHelloToken = 0;
constexpr std::uint64_t pipe_token(std::uint64_t id) {
  return id * 2;
}
constexpr std::uint64_t pidfd_token(std::uint64_t id) {
  return id * 2 + 1;
}

constexpr std::size_t kBytesPerTurn = 4 * 1024 * 1024;
// No pipe holds more; what comes after it from an ended process is not its own.
constexpr std::size_t kBytesAfterEnd = 16 * 1024 * 1024;

// Field 22 of /proc/PID/stat; 0 = no such process here.
std::uint64_t start_ticks(std::uint64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  const std::size_t after_name = line.rfind(')');
  if (after_name == std::string::npos) return 0;
  std::istringstream fields(line.substr(after_name + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) {
    if (!(fields >> field)) return 0;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

// A pidfd of exactly the process that announced itself, invalid when it cannot be had: its pid may
// belong to another PID namespace, or have been taken by another process since.
OwnedFd open_pidfd(std::uint64_t pid, std::uint64_t announced_ticks) {
  OwnedFd fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (!fd.valid() || announced_ticks == 0 || start_ticks(pid) != announced_ticks) return OwnedFd{};
  return fd;
}

}  // namespace

Result<std::unique_ptr<PipeServer>> PipeServer::create(const std::string& parent_directory,
                                                       Recording& recording) {
  Result<SessionDirectory> directory = SessionDirectory::create(parent_directory);
  if (!directory) return directory.error();
  OwnedFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return Error{std::string("cannot make an epoll: ") + std::strerror(errno)};
  return std::unique_ptr<PipeServer>(
      new PipeServer(std::move(*directory), std::move(epoll), recording));
}

PipeServer::PipeServer(SessionDirectory directory, OwnedFd epoll, Recording& recording)
    : directory_(std::move(directory)), epoll_(std::move(epoll)), recording_(&recording) {
  watch(directory_.hello_fd(), kHelloToken);
}

void PipeServer::watch(int fd, std::uint64_t token) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = token;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

std::vector<std::uint64_t> PipeServer::open_pids() const {
  std::vector<std::uint64_t> pids;
  pids.reserve(connections_.size());
  for (const auto& [token, connection] : connections_) pids.push_back(connection->pid);
  return pids;
}

void PipeServer::step() {
  std::array<epoll_event, 64> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < ready; ++i) {
    const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;
    if (token == kHelloToken) {
      read_announcements();
      continue;
    }
    const auto found = std::find_if(connections_.begin(), connections_.end(),
                                    [&](const auto& entry) { return entry.first == token / 2; });
    if (found == connections_.end()) continue;
    Connection& connection = *found->second;
    if (token == pidfd_token(found->first)) {
      connection.gone = true;
      connection.pidfd = OwnedFd{};
    }
    read_pipe(connection);
  }
  std::erase_if(connections_, [&](const auto& entry) {
    if (!entry.second->finished) return false;
    recording_->close(*entry.second->stream);
    directory_.remove_pipe(entry.second->name);
    return true;
  });
}

void PipeServer::read_announcements() {
  while (true) {
    const std::span<char> room = announcements_.room();
    const ssize_t bytes = read(directory_.hello_fd(), room.data(), room.size());
    if (bytes <= 0) return;
    announcements_.commit(static_cast<std::size_t>(bytes));
    while (const auto body = announcements_.next()) connect(*body);
    // Garbage on the control FIFO must not cut off those who announce themselves properly later.
    if (announcements_.fault()) announcements_ = FrameSplitter{};
  }
}

void PipeServer::connect(std::string_view announcement) {
  wire::Announcement message;
  if (!message.ParseFromArray(announcement.data(), static_cast<int>(announcement.size()))) return;
  if (message.wire_version() != session::kWireVersion) return;
  auto connection = std::make_unique<Connection>();
  connection->name = message.pipe();
  connection->pid = message.pid();
  connection->pipe = directory_.open_pipe(connection->name);
  if (!connection->pipe.valid()) return;
  const bool known = std::any_of(connections_.begin(), connections_.end(), [&](const auto& entry) {
    return entry.second->name == connection->name;
  });
  if (known) return;
  connection->pidfd = open_pidfd(message.pid(), message.start_ticks());
  connection->stream = recording_->open(message.pid());
  const std::uint64_t id = next_token_++;
  watch(connection->pipe.get(), pipe_token(id));
  if (connection->pidfd.valid()) watch(connection->pidfd.get(), pidfd_token(id));
  connections_.emplace_back(id, std::move(connection));
}

void PipeServer::read_pipe(Connection& connection) {
  const std::size_t most = connection.gone ? kBytesAfterEnd : kBytesPerTurn;
  for (std::size_t total = 0; total < most;) {
    const std::span<char> room = connection.stream->splitter.room();
    const ssize_t bytes = read(connection.pipe.get(), room.data(), room.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0 && errno == EAGAIN) {
      // Others may hold the write end; the process itself can write no more.
      connection.finished = connection.gone;
      return;
    }
    if (bytes <= 0) {
      connection.finished = true;
      return;
    }
    total += static_cast<std::size_t>(bytes);
    recording_->receive(*connection.stream, static_cast<std::size_t>(bytes));
    if (connection.stream->ended) {
      connection.finished = true;
      return;
    }
  }
  connection.finished = connection.gone;
}

}  // namespace profiler
