// The command line as plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cli/explain_command.h"

namespace profiler {

// How the summary is shown, whatever it comes from.
struct ViewChoice {
  std::string json;          // --json; empty = none
  std::string summary_file;  // empty = the summary goes to the screen
  std::string csv;           // --csv: a folder; empty = none
  std::size_t top = 0;       // rows per table; 0 = as fits one screen
  std::size_t top_gaps = 0;  // 0 = a few if there is room
  bool quiet = false;
  bool advice = true;
};

struct RunOptions {
  std::vector<std::string> command;  // program and arguments
  std::string output;                // -o; empty = named after the program
  bool force = false;
  bool no_trace = false;
  ViewChoice view;
  std::uint64_t launch_window_ns = 0;
  bool virtual_gpu = false;
  std::string model;  // with virtual_gpu
  bool replace_injection = false;
};

struct ReportOptions {
  std::string trace;
  ViewChoice view;
  bool force = false;      // overwrite CSV files
  bool recompute = false;  // analyse the events instead of printing the summary in the trace
  std::string at;          // a moment to explain; empty = none
};

// Something to print instead of a command: help, the version, or what is wrong.
struct PrintAndExit {
  std::string text;
  int exit_status = 0;
  bool on_stderr = false;
};

inline constexpr char kDefaultModel[] = "h100";

using Command = std::variant<RunOptions, ReportOptions, ExplainOptions, PrintAndExit>;

Command parse_command_line(const std::vector<std::string>& arguments);

}  // namespace profiler
