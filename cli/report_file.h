// A text file that the user asked for by name: opened before the program starts, so that a bad path
// is known in time, and written at the end. "-" is standard output.
#pragma once

#include <string>
#include <string_view>

#include "collector/result.h"
#include "collector/session_directory.h"

namespace profiler {

class ReportFile {
 public:
  // An existing file keeps its content until `write`.
  static Result<ReportFile> open(const std::string& path);

  // Replaces the content by `text`.
  Status write(std::string_view text);
  // Removes the file if `open` made it: there was nothing to report.
  void discard();

 private:
  ReportFile() = default;

  std::string path_;
  OwnedFd fd_;
  bool created_ = false;
};

}  // namespace profiler
