// `profiler report`: prints the summary that a trace carries.
#pragma once

#include "cli/command_line.h"

namespace profiler {

// Returns the exit status.
int report_command(const ReportOptions& options);

}  // namespace profiler
