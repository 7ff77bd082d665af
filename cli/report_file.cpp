#include "cli/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace profiler {

Result<ReportFile> ReportFile::open(const std::string& path) {
  ReportFile file;
  file.path_ = path;
  if (path == "-") {
    file.fd_ = OwnedFd(dup(STDOUT_FILENO));
  } else {
    file.fd_ = OwnedFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    file.created_ = file.fd_.valid();
    if (!file.created_ && errno == EEXIST)
      file.fd_ = OwnedFd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  }
  if (!file.fd_.valid())
    return Error{"cannot write " + path + ": " + std::strerror(errno) +
                 "; choose a path in a folder that exists and is writable"};
  return file;
}

Status ReportFile::write(std::string_view text) {
  struct stat status = {};
  const bool regular = fstat(fd_.get(), &status) == 0 && S_ISREG(status.st_mode);
  // Standard output may be a file that holds what came before: append to that one.
  if (regular && path_ != "-" && ftruncate(fd_.get(), 0) != 0)
    return Error{"cannot write " + path_ + ": " + std::strerror(errno)};
  while (!text.empty()) {
    const ssize_t written = ::write(fd_.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return Error{"cannot write " + path_ + ": " + std::strerror(errno)};
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return Done{};
}

void ReportFile::discard() {
  if (created_) unlink(path_.c_str());
  created_ = false;
}

}  // namespace profiler
