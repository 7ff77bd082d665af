// Puts a summary where the user wants it: on the screen, or in a file, plain.
#pragma once

#include <string>
#include <string_view>

#include "cli/command_line.h"
#include "cli/report_file.h"
#include "collector/summary.h"

namespace profiler {

// `trace_path`: the trace to name; empty = none.
// `file` null: printed on `fd`, with colour and width as it can take them.
void show_summary(const Summary& summary, const ViewChoice& choice, const std::string& trace_path,
                  ReportFile* file, int fd);

void print(std::string_view text, int fd);

}  // namespace profiler
