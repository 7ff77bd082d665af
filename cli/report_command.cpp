#include "cli/report_command.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "cli/csv_export.h"
#include "cli/program.h"
#include "cli/report_file.h"
#include "cli/screen.h"
#include "cli/terminal.h"
#include "collector/gap_collection.h"
#include "collector/moment.h"
#include "collector/replay.h"
#include "collector/summary_json.h"
#include "collector/trace_reader.h"

namespace profiler {
namespace {

constexpr int kExitUnreadable = 1;

int complain(const Error& error, int status) {
  spdlog::error("{}", error.message);
  return status;
}

// The summary that the trace carries, or what its events give where it carries none.
Result<Summary> stored_summary(const std::string& path) {
  const Result<std::string> text = read_summary(path);
  if (text) return summary_from_json(text.value());
  Result<std::unique_ptr<Replay>> replay = Replay::load(path);
  // What is no trace of ours is best described by the first error.
  if (!replay) return text.error();
  return (*replay)->analyse({});
}

int explain_at(const ReportOptions& options) {
  const Result<std::uint64_t> time = parse_time(options.at);
  if (!time) return complain(time.error(), kExitUsage);
  Result<std::unique_ptr<Replay>> replay = Replay::load(options.trace);
  if (!replay) return complain(replay.error(), kExitUnreadable);
  const std::uint64_t at = (*replay)->facts().run.start_ns + time.value();
  GapCollection gaps(at, at + 1);
  (*replay)->analyse(gaps.visitor());
  print(explain_moment(time.value(), (*replay)->facts().run, (*replay)->catalog(),
                       (*replay)->timeline(), (*replay)->analysis(), gaps,
                       terminal_facts(STDOUT_FILENO).unicode),
        STDOUT_FILENO);
  return 0;
}

}  // namespace

int report_command(const ReportOptions& options) {
  if (!options.at.empty()) return explain_at(options);

  std::optional<Summary> summary;
  if (options.recompute || !options.view.csv.empty()) {
    Result<std::unique_ptr<Replay>> replay = Replay::load(options.trace);
    if (!replay) return complain(replay.error(), kExitUnreadable);
    if (options.view.csv.empty()) {
      summary = (*replay)->analyse({});
    } else {
      Result<CsvWriter> writer = CsvWriter::create(options.view.csv, options.force);
      if (!writer) return complain(writer.error(), kExitFault);
      GapCollection gaps;
      summary = (*replay)->analyse(gaps.visitor());
      const Status status =
          export_csv(*writer, *summary, (*replay)->facts().run, (*replay)->catalog(),
                     (*replay)->timeline(), (*replay)->analysis(), gaps);
      if (!status) return complain(status.error(), kExitFault);
    }
  } else {
    Result<Summary> stored = stored_summary(options.trace);
    if (!stored) return complain(stored.error(), kExitUnreadable);
    summary = std::move(*stored);
  }

  std::optional<ReportFile> file;
  if (!options.view.summary_file.empty()) {
    Result<ReportFile> opened = ReportFile::open(options.view.summary_file);
    if (!opened) return complain(opened.error(), kExitFault);
    file = std::move(*opened);
  }
  if (!options.view.json.empty()) {
    Result<ReportFile> json = ReportFile::open(options.view.json);
    if (!json) return complain(json.error(), kExitFault);
    const Status status = json->write(to_json(*summary) + "\n");
    if (!status) return complain(status.error(), kExitFault);
  }
  show_summary(*summary, options.view, options.trace, file ? &*file : nullptr, STDOUT_FILENO);
  return 0;
}

}  // namespace profiler
