// The command line as plain data.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace profiler {

struct RunOptions {
  std::vector<std::string> command;  // program and arguments
  std::string output;                // -o; empty = named after the program
  bool force = false;
  bool no_trace = false;
  std::string json;          // --json; empty = none
  std::string summary_file;  // empty = the summary goes to the screen
  std::size_t top = 0;       // rows per table; 0 = as fits one screen
  bool quiet = false;
  bool virtual_gpu = false;
  std::string model;  // with virtual_gpu
  bool replace_injection = false;
};

struct ReportOptions {
  std::string trace;
  std::string json;
  std::string summary_file;
  std::size_t top = 0;
  bool quiet = false;
};

// Something to print instead of a command: help, the version, or what is wrong.
struct PrintAndExit {
  std::string text;
  int exit_status = 0;
  bool on_stderr = false;
};

inline constexpr char kDefaultModel[] = "h100";

std::variant<RunOptions, ReportOptions, PrintAndExit> parse_command_line(
    const std::vector<std::string>& arguments);

}  // namespace profiler
