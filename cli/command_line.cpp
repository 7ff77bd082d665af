#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/program.h"
#include "collector/partition.h"
#include "collector/summarize.h"
#include "collector/version.h"

namespace profiler {
namespace {

constexpr char kAbout[] =
    "profiler runs a CUDA program and says in words why the GPU was idle.\n"
    "A summary goes to stderr, a trace for https://ui.perfetto.dev beside it.";

constexpr char kExamples[] =
    "Examples:\n"
    "  profiler -- ./train --epochs 1           run, print the summary, write train.pftrace\n"
    "  profiler -- python train.py              write train.pftrace as well\n"
    "  profiler -o runs/a.pftrace -- ./train    choose where the trace goes\n"
    "  profiler --no-trace --json a.json -- ./train\n"
    "  profiler --virtual-gpu -- ./train        without a GPU: on a simulated H100\n"
    "  profiler report train.pftrace            print the summary again\n"
    "  profiler explain launch latency          what does that mean?\n"
    "\n"
    "Everything after -- belongs to the program; its exit status is kept.";

struct Sections {
  std::vector<std::string> ours;
  std::vector<std::string> program;  // after the first --
  bool separated = false;
};

Sections split(const std::vector<std::string>& arguments) {
  Sections sections;
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  sections.ours.assign(arguments.begin(), separator);
  sections.separated = separator != arguments.end();
  if (sections.separated) sections.program.assign(separator + 1, arguments.end());
  return sections;
}

// CLI11 makes up a usage line from what it knows, which lacks the "--".
class UsageFormatter : public CLI::Formatter {
 public:
  explicit UsageFormatter(std::string usage) : usage_(std::move(usage)) {}
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return usage_ + "\n";
  }

 private:
  std::string usage_;
};

void set_usage(CLI::App& app, const char* usage) {
  app.formatter(std::make_shared<UsageFormatter>(usage));
  constexpr std::size_t kOptionColumn = 26;
  app.get_formatter()->column_width(kOptionColumn);
}

PrintAndExit usage_error(const std::string& sentence) {
  return {"profiler: " + sentence + "\n", kExitUsage, true};
}

void add_view_options(CLI::App& app, ViewChoice& view, bool& no_advice) {
  app.add_option("--json", view.json, "Write all numbers as JSON to FILE (- = stdout)")
      ->type_name("FILE");
  app.add_option("--csv", view.csv,
                 "Write kernels, copies, API calls, gaps and operations as CSV files into DIR")
      ->type_name("DIR");
  app.add_option("--summary-file", view.summary_file,
                 "Write the summary to FILE instead of the screen (- = stdout)")
      ->type_name("FILE");
  app.add_option("--top", view.top, "Rows per table (default: as many as fit one screen)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100'000}));
  app.add_option("--top-gaps", view.top_gaps, "Show the N longest gaps (at most 100)")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100}));
  app.add_flag("--no-advice", no_advice, "Leave out the findings");
  app.add_flag("-q,--quiet", view.quiet, "Only the verdict, what went wrong, and the files");
}

// Parses `ours`; what CLI11 did not expect, from the first positional on, is in `app.remaining()`.
std::optional<PrintAndExit> parse(CLI::App& app, std::vector<std::string> ours) {
  std::reverse(ours.begin(), ours.end());  // CLI11 takes them from the back
  try {
    app.parse(ours);
  } catch (const CLI::CallForHelp&) {
    return PrintAndExit{app.help(), 0, false};
  } catch (const CLI::ParseError& error) {
    return usage_error(std::string(error.what()) + "; see `profiler --help`.");
  }
  return std::nullopt;
}

Command parse_run(Sections sections, bool spelled_out) {
  RunOptions options;
  bool version = false;
  CLI::App app(kAbout, "profiler");
  set_usage(app,
            "Usage: profiler [OPTIONS] -- PROGRAM [ARGUMENTS]\n"
            "       profiler report FILE.pftrace [OPTIONS]\n"
            "       profiler explain [TERM]");
  app.footer(kExamples);
  app.prefix_command();
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_flag("--version", version, "Print the version and exit");
  app.add_option("-o,--output", options.output,
                 "Where the trace goes (default: PROGRAM.pftrace in this folder)")
      ->type_name("FILE");
  app.add_flag("-f,--force", options.force, "Overwrite the trace file if it exists");
  app.add_flag("--no-trace", options.no_trace, "Write no trace, only the summary");
  bool no_advice = false;
  add_view_options(app, options.view, no_advice);
  app.add_flag("--virtual-gpu{h100}", options.model,
               "Simulate a GPU of this model (h100, a100, or a model file; default h100)")
      ->type_name("[=MODEL]");
  app.add_flag("--replace-injection", options.replace_injection,
               "Take the place of another tool that set CUDA_INJECTION64_PATH");

  std::uint64_t launch_window_us = kDefaultLaunchWindowNs / 1000;
  app.add_option("--launch-window", launch_window_us,
                 "Microseconds in which an undisturbed launch reaches the GPU (default 10)")
      ->type_name("US")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1'000'000}));

  const std::vector<std::string> ours = sections.ours;
  if (ours.empty() && !sections.separated) return PrintAndExit{app.help(), kExitUsage, true};
  if (auto stop = parse(app, ours)) return *stop;
  if (version) return PrintAndExit{std::string("profiler ") + kProfilerVersion + "\n", 0, false};

  std::vector<std::string> rest = app.remaining();
  // prefix_command leaves a "--" of its own in front when it stops at one.
  if (!rest.empty()) {
    if (rest.front().starts_with("-"))
      return usage_error("unknown option " + rest.front() + "; see `profiler --help`.");
    std::vector<std::string> corrected = {"profiler"};
    if (spelled_out) corrected.emplace_back("run");
    corrected.insert(corrected.end(), ours.begin(),
                     ours.end() - static_cast<std::ptrdiff_t>(rest.size()));
    corrected.emplace_back("--");
    corrected.insert(corrected.end(), rest.begin(), rest.end());
    if (sections.separated) {
      corrected.emplace_back("--");
      corrected.insert(corrected.end(), sections.program.begin(), sections.program.end());
    }
    return usage_error("put -- before the program:\n  " + shell_quoted(corrected));
  }
  if (sections.program.empty())
    return usage_error("name the program after --, for example: profiler -- ./train");
  options.command = std::move(sections.program);
  options.virtual_gpu = !options.model.empty();
  if (options.virtual_gpu && options.model == "true") options.model = kDefaultModel;
  options.view.advice = !no_advice;
  options.launch_window_ns = launch_window_us * 1000;
  if (options.no_trace && !options.output.empty())
    return usage_error("--no-trace and -o contradict each other: leave one out.");
  return options;
}

Command parse_report(const Sections& sections) {
  ReportOptions options;
  CLI::App app("Prints the summary of a trace that `profiler` wrote, number for number.",
               "profiler report");
  set_usage(app, "Usage: profiler report FILE.pftrace [OPTIONS]");
  app.footer("Example:\n  profiler report train.pftrace --top 20");
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_option("FILE", options.trace, "The trace")->type_name("");
  app.add_flag("--recompute", options.recompute,
               "Analyse the events anew instead of printing the summary in the trace");
  app.add_option("--at", options.at,
                 "Explain what the GPU did at TIME (1.25s, 300ms, 40us; since the run's start)")
      ->type_name("TIME");
  app.add_flag("-f,--force", options.force, "Overwrite CSV files that exist");
  bool no_advice = false;
  add_view_options(app, options.view, no_advice);
  const std::vector<std::string> ours(sections.ours.begin() + 1, sections.ours.end());
  // `report -- FILE` names a file that begins with a dash.
  if (sections.separated) {
    if (sections.program.size() != 1)
      return usage_error("report takes one trace: profiler report FILE.pftrace");
    if (auto stop = parse(app, ours)) return *stop;
    if (!options.trace.empty())
      return usage_error("report takes one trace: profiler report FILE.pftrace");
    options.trace = sections.program.front();
  } else if (auto stop = parse(app, ours)) {
    return *stop;
  }
  options.view.advice = !no_advice;
  if (options.trace.empty())
    return usage_error("name the trace to report: profiler report FILE.pftrace");
  return options;
}

Command parse_explain(const Sections& sections) {
  ExplainOptions options;
  CLI::App app("Explains a term of the summary, a cause of idle time, or a finding.",
               "profiler explain");
  set_usage(app, "Usage: profiler explain [TERM]\n       profiler explain --list");
  app.footer("Example:\n  profiler explain launch latency");
  app.set_help_flag("-h,--help", "Print this help and exit");
  std::vector<std::string> words;
  app.add_option("TERM", words, "What to explain; several words are one term")->type_name("");
  app.add_flag("--list", options.list, "Only name the terms, one a line");
  if (auto stop = parse(app, {sections.ours.begin() + 1, sections.ours.end()})) return *stop;
  words.insert(words.end(), sections.program.begin(), sections.program.end());
  for (const std::string& word : words) options.term += (options.term.empty() ? "" : " ") + word;
  return options;
}

}  // namespace

Command parse_command_line(const std::vector<std::string>& arguments) {
  Sections sections = split(arguments);
  if (!sections.ours.empty() && sections.ours.front() == "report") return parse_report(sections);
  if (!sections.ours.empty() && sections.ours.front() == "explain") return parse_explain(sections);
  const bool spelled_out = !sections.ours.empty() && sections.ours.front() == "run";
  if (spelled_out) sections.ours.erase(sections.ours.begin());
  return parse_run(std::move(sections), spelled_out);
}

}  // namespace profiler
