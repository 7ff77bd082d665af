// Starts the program under profile and says how it ended.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "collector/result.h"
#include "collector/session_directory.h"
#include "collector/summary.h"

namespace profiler {

struct LaunchFailure {
  int exit_status = 0;  // 125, 126 or 127
  std::string message;
};

struct LaunchedProgram {
  pid_t pid = 0;
  OwnedFd pidfd;  // readable once the program ended
};

// Forks and executes `path` with exactly these arguments and environment entries ("NAME=value").
// The program gets `signal_mask` and default dispositions. Whether exec succeeded is known when
// this returns: the child reports its errno through a pipe that a successful exec closes.
std::variant<LaunchedProgram, LaunchFailure> launch(const std::string& path,
                                                    const std::vector<std::string>& arguments,
                                                    const std::vector<std::string>& environment,
                                                    const sigset_t& signal_mask);

// Reaps the program if it ended; kRunning otherwise.
ExitState poll_exit(pid_t pid);

// What a shell would return: the status, or 128 + signal.
int shell_status(const ExitState& exit);

}  // namespace profiler
