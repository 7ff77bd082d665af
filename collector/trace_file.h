// The output file: made safely, never overwriting anything unasked, and removable again when there
// turns out to be nothing to trace.
#pragma once

#include <cstddef>
#include <string>

#include "collector/result.h"

namespace profiler {

class TraceFile {
 public:
  // Makes `path` with the usual permissions (0666 less the umask). If it exists, that is an error,
  // unless `force`: then a regular file is overwritten, and a character device such as /dev/null is
  // written to; folders, pipes and symbolic links are refused. The old content of a file goes with
  // the first write, not before.
  static Result<TraceFile> create(const std::string& path, bool force);

  // For a default name: where "train.pftrace" exists, "train.2.pftrace", "train.3.pftrace" ... is
  // made instead; with `force` as `create`.
  static Result<TraceFile> create_numbered(const std::string& path, bool force);

  TraceFile(TraceFile&& other) noexcept;
  TraceFile& operator=(TraceFile&& other) noexcept;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  const std::string& path() const { return path_; }

  // Appends all bytes. After an error the file may end in the middle of them.
  Status write(const void* bytes, std::size_t count);
  // Reports what the system found out late; the file takes no more writes.
  Status close();
  // Undoes the creation: removes the file, unless it is an older one whose content is still there,
  // or the path has become another file meanwhile. Nothing can be written afterwards.
  void remove();

 private:
  TraceFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  Error failure(int error_number) const;

  std::string path_;
  int descriptor_ = -1;
  bool truncate_pending_ = false;  // an existing file that still has its old content
};

}  // namespace profiler
