#include "collector/session_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace profiler {
namespace {

Error system_error(const std::string& what) {
  return Error{what + ": " + std::strerror(errno)};
}

}  // namespace

OwnedFd& OwnedFd::operator=(OwnedFd&& other) noexcept {
  if (this != &other) {
    if (valid()) close(fd_);
    fd_ = other.release();
  }
  return *this;
}

OwnedFd::~OwnedFd() {
  if (valid()) close(fd_);
}

int OwnedFd::release() {
  return std::exchange(fd_, -1);
}

Result<SessionDirectory> SessionDirectory::create(const std::string& parent) {
  SessionDirectory directory;
  std::string pattern = parent + "/profiler-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return system_error("cannot make a directory in " + parent +
                        " (set TMPDIR to a folder that is writable and has room)");
  }
  directory.path_ = pattern;
  directory.directory_ =
      OwnedFd(open(pattern.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory.directory_.valid()) return system_error("cannot open " + pattern);
  const int at = directory.directory_.get();
  if (mkfifoat(at, session::kHelloName, 0600) != 0)
    return system_error("cannot make a FIFO in " + pattern);
  // Open for writing too, so that it never reports its end between two processes.
  directory.hello_ =
      OwnedFd(openat(at, session::kHelloName, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!directory.hello_.valid()) return system_error("cannot open the FIFO in " + pattern);
  directory.control_ = OwnedFd(
      openat(at, session::kControlName, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!directory.control_.valid()) return system_error("cannot make a file in " + pattern);
  directory.command(session::kNoCommand);
  return directory;
}

SessionDirectory::SessionDirectory(SessionDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      directory_(std::move(other.directory_)),
      hello_(std::move(other.hello_)),
      control_(std::move(other.control_)),
      sequence_(other.sequence_) {}

SessionDirectory::~SessionDirectory() {
  if (path_.empty()) return;
  if (directory_.valid()) {
    std::vector<std::string> names;
    DIR* stream = fdopendir(dup(directory_.get()));
    if (stream != nullptr) {
      rewinddir(stream);
      while (const dirent* entry = readdir(stream)) names.emplace_back(entry->d_name);
      closedir(stream);
    }
    for (const std::string& name : names) {
      if (name != "." && name != "..") unlinkat(directory_.get(), name.c_str(), 0);
    }
  }
  rmdir(path_.c_str());
}

OwnedFd SessionDirectory::open_pipe(const std::string& name) const {
  if (name.empty() || name.find('/') != std::string::npos || !name.ends_with(session::kPipeSuffix))
    return OwnedFd{};
  OwnedFd fd(
      openat(directory_.get(), name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat status = {};
  if (!fd.valid() || fstat(fd.get(), &status) != 0 || !S_ISFIFO(status.st_mode)) return OwnedFd{};
  // A larger pipe rides out longer pauses of ours; the default does when this is refused.
  constexpr int kPipeBytes = 1024 * 1024;
  fcntl(fd.get(), F_SETPIPE_SZ, kPipeBytes);
  return fd;
}

void SessionDirectory::remove_pipe(const std::string& name) const {
  unlinkat(directory_.get(), name.c_str(), 0);
}

void SessionDirectory::command(session::Command command) {
  const session::Control control{++sequence_, command};
  // Eight bytes in one page: readers see the old or the new pair.
  [[maybe_unused]] const ssize_t written = pwrite(control_.get(), &control, sizeof control, 0);
}

}  // namespace profiler
