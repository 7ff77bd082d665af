#include "collector/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace profiler {
namespace {

constexpr int kCreateFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
constexpr mode_t kMode = 0666;  // less the umask
constexpr std::string_view kExtension = ".pftrace";
constexpr int kMostNumbers = 100000;

int open_retrying(const std::string& path, int flags) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags, kMode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

std::string quoted(const std::string& path) {
  return "'" + path + "'";
}

Error cannot_create(const std::string& path, int error_number) {
  const std::string subject = "The trace file " + quoted(path);
  switch (error_number) {
    case ENOENT:
      if (path.empty()) return {"The trace file has an empty name: give -o a file name."};
      return {subject + " cannot be made because its folder does not exist: make the folder, or " +
              "choose another file with -o."};
    case ENOTDIR:
      return {subject + " cannot be made because a part of its path is not a folder: choose " +
              "another file with -o."};
    case EACCES:
    case EPERM:
    case EROFS:
      return {subject + " cannot be made (" + std::strerror(error_number) +
              "): choose a place that you may write to with -o."};
    case ENOSPC:
    case EDQUOT:
      return {subject + " cannot be made (" + std::strerror(error_number) +
              "): free some space, or choose another place with -o."};
    default:
      return {subject + " cannot be made (" + std::strerror(error_number) +
              "): choose another file with -o."};
  }
}

Error exists(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return {"The trace file " + quoted(path) + " is a folder: name a file in it with -o."};
  }
  return {"The trace file " + quoted(path) +
          " exists: remove it, choose another file with -o, or overwrite it with --force."};
}

Error not_overwritable(const std::string& path, std::string_view what) {
  return {"The trace file " + quoted(path) + " is " + std::string(what) +
          ", which is never overwritten: choose another file with -o."};
}

// "train.pftrace", 2 → "train.2.pftrace"
std::string numbered(const std::string& path, int number) {
  std::string_view stem = path;
  std::string_view extension;
  if (stem.ends_with(kExtension)) {
    stem.remove_suffix(kExtension.size());
    extension = kExtension;
  }
  return std::string(stem) + "." + std::to_string(number) + std::string(extension);
}

}  // namespace

Result<TraceFile> TraceFile::create(const std::string& path, bool force) {
  int descriptor = open_retrying(path, kCreateFlags);
  if (descriptor >= 0) return TraceFile(path, descriptor);
  if (errno != EEXIST) return cannot_create(path, errno);
  if (!force) return exists(path);

  // Non-blocking, so that a pipe without a reader is an error and not a wait.
  descriptor = open_retrying(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    if (errno == ELOOP) return not_overwritable(path, "a symbolic link");
    if (errno == EISDIR) return exists(path);
    if (errno == ENXIO) return not_overwritable(path, "a pipe or socket");
    return cannot_create(path, errno);
  }
  TraceFile file(path, descriptor);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return cannot_create(path, errno);
  if (S_ISREG(status.st_mode)) {
    file.truncate_pending_ = true;
  } else if (!S_ISCHR(status.st_mode)) {
    return not_overwritable(path, "not a regular file");
  }
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags < 0 || ::fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return cannot_create(path, errno);
  }
  return file;
}

Result<TraceFile> TraceFile::create_numbered(const std::string& path, bool force) {
  if (force) return create(path, true);
  std::string candidate = path;
  for (int number = 2; number <= kMostNumbers; ++number) {
    const int descriptor = open_retrying(candidate, kCreateFlags);
    if (descriptor >= 0) return TraceFile(std::move(candidate), descriptor);
    if (errno != EEXIST) return cannot_create(candidate, errno);
    candidate = numbered(path, number);
  }
  return exists(path);
}

TraceFile::TraceFile(TraceFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      truncate_pending_(other.truncate_pending_) {}

TraceFile& TraceFile::operator=(TraceFile&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    path_ = std::move(other.path_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    truncate_pending_ = other.truncate_pending_;
  }
  return *this;
}

TraceFile::~TraceFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Error TraceFile::failure(int error_number) const {
  return {"The trace file " + quoted(path_) + " could not be written any further (" +
          std::strerror(error_number) + "); it holds what was written before."};
}

Status TraceFile::write(const void* bytes, std::size_t count) {
  if (descriptor_ < 0) return failure(EBADF);
  if (truncate_pending_) {
    if (::ftruncate(descriptor_, 0) != 0) return failure(errno);
    truncate_pending_ = false;
  }
  const auto* at = static_cast<const char*>(bytes);
  while (count != 0) {
    const ssize_t written = ::write(descriptor_, at, count);
    if (written < 0) {
      if (errno == EINTR) continue;
      return failure(errno);
    }
    at += written;
    count -= static_cast<std::size_t>(written);
  }
  return Done{};
}

Status TraceFile::close() {
  if (descriptor_ < 0) return Done{};
  // The descriptor is gone even when `close` fails, EINTR included.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) return failure(errno);
  return Done{};
}

void TraceFile::remove() {
  if (descriptor_ < 0) return;
  struct stat ours {};
  struct stat there {};
  const bool same = ::fstat(descriptor_, &ours) == 0 && ::lstat(path_.c_str(), &there) == 0 &&
                    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
  if (same && S_ISREG(ours.st_mode) && !truncate_pending_) ::unlink(path_.c_str());
  ::close(std::exchange(descriptor_, -1));
}

}  // namespace profiler
