// The program to be profiled, before it runs: where it is, what kind of file it is, and how its
// trace is named.
#pragma once

#include <string>
#include <vector>

#include "collector/result.h"

namespace profiler {

// Exit statuses of a shell, which `profiler` keeps.
inline constexpr int kExitUsage = 2;
inline constexpr int kExitFault = 125;  // our own fault or refusal
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

struct ProgramFile {
  std::string path;     // what exec will get; empty = not found
  int exit_status = 0;  // 126 or 127 when it cannot be run, with `message`
  std::string message;
};

// Looks in PATH as execvp does.
ProgramFile find_program(const std::string& name);

struct ElfFacts {
  bool is_elf = false;
  bool has_fat_binary = false;        // holds device code (.nvFatBinSegment)
  bool needs_shared_runtime = false;  // NEEDED libcudart.so.*
  bool has_rpath = false;             // old DT_RPATH, which wins over LD_LIBRARY_PATH
  bool is_setuid = false;             // or setgid, for another user than the caller
};
ElfFacts inspect_elf(const std::string& path);

// "./train --epochs 1" → "train", "python -u train.py" → "train", "python -m pkg.tool" → "tool".
std::string trace_stem(const std::vector<std::string>& command);

}  // namespace profiler
