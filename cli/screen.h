// Puts a summary where the user wants it: on the screen, or in a file, plain.
#pragma once

#include <cstddef>
#include <string>

#include "cli/report_file.h"
#include "collector/summary.h"

namespace profiler {

struct ShowOptions {
  std::size_t top = 0;  // 0 = as fits one screen
  bool quiet = false;
  std::string trace_path;  // empty = none
};

// `file` null: printed on `fd`, with colour and width as it can take them.
void show_summary(const Summary& summary, const ShowOptions& options, ReportFile* file, int fd);

}  // namespace profiler
