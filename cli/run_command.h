// `profiler run`: starts the program, records it, and leaves summary and trace.
#pragma once

#include "cli/command_line.h"

namespace profiler {

// Returns the exit status: the program's, or our own when it did not start.
int run_command(const RunOptions& options);

}  // namespace profiler
