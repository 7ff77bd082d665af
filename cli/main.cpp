#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <clocale>
#include <cstdio>
#include <exception>

#include "cli/command_line.h"
#include "cli/program.h"
#include "cli/report_command.h"
#include "cli/run_command.h"

namespace {

int dispatch(const std::vector<std::string>& arguments) {
  const auto command = profiler::parse_command_line(arguments);
  if (const auto* print = std::get_if<profiler::PrintAndExit>(&command)) {
    std::fputs(print->text.c_str(), print->on_stderr ? stderr : stdout);
    return print->exit_status;
  }
  if (const auto* report = std::get_if<profiler::ReportOptions>(&command))
    return profiler::report_command(*report);
  if (const auto* explain = std::get_if<profiler::ExplainOptions>(&command))
    return profiler::explain_command(*explain);
  return profiler::run_command(std::get<profiler::RunOptions>(command));
}

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_CTYPE, "");
  spdlog::set_default_logger(spdlog::stderr_logger_st("profiler"));
  spdlog::set_pattern("profiler: %v");
  try {
    return dispatch({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "profiler: internal fault: %s\n", error.what());
    return profiler::kExitFault;
  }
}
