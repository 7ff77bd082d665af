#include "cli/report_command.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <optional>

#include "cli/program.h"
#include "cli/report_file.h"
#include "cli/screen.h"
#include "collector/summary_json.h"
#include "collector/trace_reader.h"

namespace profiler {
namespace {

constexpr int kExitUnreadable = 1;

}  // namespace

int report_command(const ReportOptions& options) {
  const Result<std::string> text = read_summary(options.trace);
  if (!text) {
    spdlog::error("{}", text.error().message);
    return kExitUnreadable;
  }
  Result<Summary> summary = summary_from_json(text.value());
  if (!summary) {
    spdlog::error("{}", summary.error().message);
    return kExitUnreadable;
  }
  std::optional<ReportFile> file;
  if (!options.summary_file.empty()) {
    Result<ReportFile> opened = ReportFile::open(options.summary_file);
    if (!opened) {
      spdlog::error("{}", opened.error().message);
      return kExitFault;
    }
    file = std::move(*opened);
  }
  if (!options.json.empty()) {
    Result<ReportFile> json = ReportFile::open(options.json);
    if (!json) {
      spdlog::error("{}", json.error().message);
      return kExitFault;
    }
    const Status status = json->write(text.value() + "\n");
    if (!status) {
      spdlog::error("{}", status.error().message);
      return kExitFault;
    }
  }
  show_summary(*summary, {options.top, options.quiet, options.trace}, file ? &*file : nullptr,
               STDOUT_FILENO);
  return 0;
}

}  // namespace profiler
