#include "cli/summary_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/labels.h"
#include "cli/table.h"
#include "cli/text.h"
#include "collector/idle_totals.h"
#include "collector/units.h"
#include "collector/verdict.h"

namespace profiler {
namespace {

constexpr std::size_t kMaxBar = 50;
constexpr std::size_t kDeviceBar = 12;
constexpr std::size_t kFewGaps = 3;
constexpr std::size_t kWide = 120;
constexpr std::uint64_t kWorthALine = 5;  // %

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  return saturating_sum(a, b);
}

std::string signal_name(std::uint64_t number) {
  struct Name {
    int number;
    const char* name;
  };
  static constexpr auto kNames = std::to_array<Name>({
      {SIGHUP, "SIGHUP"},
      {SIGINT, "SIGINT"},
      {SIGQUIT, "SIGQUIT"},
      {SIGILL, "SIGILL"},
      {SIGTRAP, "SIGTRAP"},
      {SIGABRT, "SIGABRT"},
      {SIGBUS, "SIGBUS"},
      {SIGFPE, "SIGFPE"},
      {SIGKILL, "SIGKILL"},
      {SIGUSR1, "SIGUSR1"},
      {SIGSEGV, "SIGSEGV"},
      {SIGUSR2, "SIGUSR2"},
      {SIGPIPE, "SIGPIPE"},
      {SIGALRM, "SIGALRM"},
      {SIGTERM, "SIGTERM"},
      {SIGXCPU, "SIGXCPU"},
      {SIGXFSZ, "SIGXFSZ"},
      {SIGSYS, "SIGSYS"},
  });
  for (const Name& name : kNames) {
    if (static_cast<std::uint64_t>(name.number) == number) {
      return std::string(name.name) + " (" + std::to_string(number) + ")";
    }
  }
  return "signal " + std::to_string(number);
}

Run exit_text(const ExitState& exit) {
  switch (exit.kind) {
    case ExitState::Kind::kExited:
      if (exit.code == 0) return {"exit 0", Style::kPlain};
      return {"failed: exit " + std::to_string(exit.code), Style::kTrouble};
    case ExitState::Kind::kSignalled:
      return {"killed by " + signal_name(exit.code), Style::kTrouble};
    case ExitState::Kind::kRunning:
      return {"still running", Style::kWarning};
    case ExitState::Kind::kUnknown:
      break;
  }
  return {"end not seen", Style::kDim};
}

bool has_failed(const ExitState& exit) {
  return exit.kind == ExitState::Kind::kSignalled ||
         (exit.kind == ExitState::Kind::kExited && exit.code != 0);
}

std::string plural(std::uint64_t count, std::string_view one, std::string_view many) {
  return format_exact(count) + " " + std::string(count == 1 ? one : many);
}

std::string cuda_version(std::int64_t version) {
  if (version <= 0) return "driver unknown";
  return "driver CUDA " + std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

std::string cupti_version(std::uint64_t version) {
  if (version == 0) return "CUPTI unknown";
  // Up to CUDA 12 a plain counter, since 13.0 the toolkit's version and update.
  if (version < 100'000) return "CUPTI API " + std::to_string(version);
  std::string text =
      "CUPTI " + std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100);
  if (version % 100 != 0) text += "." + std::to_string(version % 100);
  return text;
}

std::string shell_quoted(std::string_view path) {
  const bool plain = !path.empty() && std::all_of(path.begin(), path.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_-./+:=@%,").find(c) != std::string_view::npos ||
           (static_cast<unsigned char>(c) & 0x80U) != 0;
  });
  if (plain) return std::string(path);
  std::string out = "'";
  for (const char c : path) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Cells of `full` out of `cells`; neither part vanishes while there is any of it.
std::size_t bar_cells(std::uint64_t part, std::uint64_t whole, std::size_t cells) {
  if (whole == 0 || part == 0) return 0;
  if (part >= whole) return cells;
  const double share = static_cast<double>(part) / static_cast<double>(whole);
  const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(cells)));
  return std::clamp<std::size_t>(full, 1, cells - 1);
}

std::string repeat(std::string_view text, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}

// How many rows (findings, lines) each part of the screen may take.
enum Part : std::size_t {
  kProcesses,
  kGaps,
  kApi,
  kCopies,
  kEvidence,  // findings that are shown with it
  kNvtx,
  kKernels,
  kDevices,
  kCauses,
  kFindings,
  kTrouble,
  kNotes,
  kParts
};
using Limits = std::array<std::size_t, kParts>;
constexpr Limits kGenerous = {5, 3, 5, 5, 5, 6, 8, 8, 14, 5, 4, 10};
constexpr Limits kModest = {2, 1, 3, 3, 1, 3, 4, 4, 5, 3, 2, 6};
constexpr Limits kLeast = {1, 0, 1, 1, 1, 1, 2, 1, 3, 2, 1, 3};
constexpr Limits kBare = {0, 0, 0, 0, 0, 0, 1, 1, 2, 1, 1, 2};
constexpr Limits kLast = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2};
// What stays when there is not enough room, step by step.
constexpr std::array<Limits, 4> kSteps = {kModest, kLeast, kBare, kLast};

// One that stands for "and 1 more" can as well be shown.
std::size_t rows_shown(std::size_t rows, std::size_t limit) {
  return limit > 0 && rows <= limit + 1 ? rows : limit;
}

class Screen {
 public:
  Screen(const Summary& summary, const ViewOptions& options)
      : summary_(summary),
        options_(options),
        width_(std::max(options.width, kMinimumWidth)),
        glyphs_(glyphs(options.unicode)) {
    for (const KernelSummary& kernel : summary.kernels) {
      kernel_time_ = add(kernel_time_, kernel.total_ns);
    }
  }

  std::vector<Line> draw(const Limits& limits) {
    limits_ = limits;
    lines_.clear();
    head();
    gap();
    verdict();
    trouble();
    if (!options_.quiet && options_.advice) findings();
    const bool nothing_ran = summary_.devices.empty();
    if (nothing_ran) notes();
    if (!options_.quiet) {
      causes();
      nvtx();
      kernels();
      gaps();
      copies();
      api();
      processes();
    }
    gap();
    checks();
    if (!nothing_ran) notes();
    file();
    while (!lines_.empty() && lines_.back().empty()) lines_.pop_back();
    return std::move(lines_);
  }

  Limits row_counts() const {
    Limits rows{};
    rows[kProcesses] = summary_.processes.size();
    rows[kGaps] = longest_gaps().size();
    rows[kApi] = summary_.api.size();
    rows[kCopies] = summary_.copies.size();
    rows[kEvidence] = rows[kFindings] = summary_.findings.size();
    rows[kNvtx] = summary_.nvtx.size();
    rows[kKernels] = summary_.kernels.size();
    rows[kDevices] = summary_.devices.size();
    rows[kCauses] = most_causes();
    rows[kTrouble] = kGenerous[kTrouble];
    rows[kNotes] = kGenerous[kNotes];
    return rows;
  }

 private:
  std::string safe(std::string_view text) const { return printable(text, options_.unicode); }
  std::string time(std::uint64_t ns) const { return format_duration(ns, options_.unicode); }
  std::string share(std::uint64_t part, std::uint64_t whole) const {
    return whole == 0 ? glyphs_.none : format_percent(part, whole);
  }
  std::string percent(std::uint64_t part, std::uint64_t whole) const {
    return share(part, whole) + " %";
  }

  void gap() {
    if (!lines_.empty() && !lines_.back().empty()) lines_.emplace_back();
  }
  void put(Line line) { lines_.push_back(std::move(line)); }
  void put(std::vector<Line> lines) {
    for (Line& line : lines) lines_.push_back(std::move(line));
  }
  void put_text(std::string text, Style style = Style::kPlain, std::size_t indent = 0) {
    put(wrap({std::move(text), style}, width_, indent));
  }
  void put_table(const Table& table) {
    if (!table.rows.empty()) put(layout(table, width_, options_.unicode));
  }
  // "… and 12 more kernels (3.2 % of kernel time)".
  void put_rest(std::size_t count, std::string_view one, std::string_view many,
                const std::string& what) {
    std::string text = std::string(glyphs_.ellipsis) + " and " + format_exact(count) + " more " +
                       std::string(count == 1 ? one : many);
    if (!what.empty()) text += " (" + what + ")";
    put(Line{{elide_middle(text, width_, options_.unicode), Style::kDim}});
  }

  std::size_t most_causes() const {
    std::size_t most = 0;
    for (const DeviceSummary& device : summary_.devices)
      most = std::max(most, device.idle_by_cause.size());
    return most;
  }

  void head() {
    const std::string name = "profiler: ";
    const std::string command =
        summary_.command.empty() ? "(command unknown)" : safe(summary_.command);
    put({{name, Style::kDim},
         {elide_middle(command, width_ - name.size(), options_.unicode), Style::kBold}});

    std::vector<Run> facts = {exit_text(summary_.exit),
                              {"ran " + time(summary_.wall_ns), Style::kPlain}};
    if (summary_.processes.size() > 1) {
      const auto failed =
          std::count_if(summary_.processes.begin(), summary_.processes.end(),
                        [](const ProcessSummary& process) { return has_failed(process.exit); });
      std::string text = format_exact(summary_.processes.size()) + " processes";
      if (failed > 0) text += " (" + std::to_string(failed) + " failed)";
      facts.push_back({std::move(text), failed > 0 ? Style::kTrouble : Style::kPlain});
    }
    for (auto& [device, count] : device_names()) {
      std::string text =
          count == 1 ? device : format_exact(count) + " " + glyphs_.times + " " + device;
      facts.push_back({std::move(text), Style::kPlain});
    }
    facts.push_back({cuda_version(summary_.driver_version), Style::kDim});
    facts.push_back({cupti_version(summary_.cupti_version), Style::kDim});
    put(flow(facts, width_, options_.unicode));
    if (summary_.simulated) {
      std::string text = label(Label::kSimulated) + " on the virtual GPU";
      const std::string model = elide_middle(safe(summary_.simulated_model), 24, options_.unicode);
      if (!model.empty()) text += " \"" + model + "\"";
      put_text(text + ": GPU times come from a model, no GPU ran.", Style::kWarning);
    }
  }

  // The kinds of device, each with its number; at most three kinds.
  std::vector<std::pair<std::string, std::size_t>> device_names() const {
    std::vector<std::pair<std::string, std::size_t>> names;
    const std::size_t cells = std::min<std::size_t>(width_ - 8, 40);
    std::size_t others = 0;
    for (const DeviceSummary& device : summary_.devices) {
      const std::string name = elide_middle(device_name(device), cells, options_.unicode);
      const auto same =
          std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == name; });
      if (same != names.end()) {
        ++same->second;
      } else if (names.size() < 3) {
        names.emplace_back(name, 1);
      } else {
        ++others;
      }
    }
    if (others > 0) names.emplace_back("other GPUs", others);
    return names;
  }

  std::string device_name(const DeviceSummary& device) const {
    return device.name.empty() ? "unnamed GPU" : safe(device.name);
  }

  // For a table: nearly every name begins with the vendor's.
  std::string brief_name(const DeviceSummary& device) const {
    const std::string name = device_name(device);
    constexpr std::string_view kVendor = "NVIDIA ";
    return name.compare(0, kVendor.size(), kVendor) == 0 ? name.substr(kVendor.size()) : name;
  }

  void verdict() {
    const std::string sentence = elide_middle(
        own_words(summary_.verdict.sentence, options_.unicode), 6 * width_, options_.unicode);
    if (summary_.devices.size() == 1) bar(summary_.devices.front());
    if (!sentence.empty()) put_text(sentence, Style::kBold);
    if (summary_.devices.empty()) return;
    if (summary_.devices.size() > 1) {
      many_devices();
      return;
    }
    const DeviceSummary& device = summary_.devices.front();
    if (!device.idle_reliable && !says_why_withheld()) withheld("", device);
    outside("", device.lead_in_ns, device.tail_ns);
  }

  // Whether a finding below gives the reason.
  bool says_why_withheld() const {
    return options_.advice && !options_.quiet && !summary_.findings.empty() &&
           summary_.findings.front().rule == kNotReliable;
  }

  void withheld(const std::string& whose, const DeviceSummary& device) {
    const std::string reason =
        device.idle_unreliable_reason.empty()
            ? std::string("too much is missing.")
            : elide_middle(safe(device.idle_unreliable_reason), 2 * width_, options_.unicode);
    put_text("Idle time" + whose + " is " + label(Label::kWithheld) + ": " + reason,
             Style::kTrouble, 2);
  }

  // Busy and idle add up to it.
  static std::uint64_t recorded(const DeviceSummary& device) {
    return device.span_ns - std::min(device.span_ns, device.not_recorded_ns);
  }

  void bar(const DeviceSummary& device) {
    if (!device.idle_reliable) return;
    std::string numbers = "  " + label(Label::kBusy) + " " + time(device.busy_ns) +
                          glyphs_.separator + label(Label::kIdle) + " " + time(device.idle_ns) +
                          " in " + plural(device.gap_count, "gap", "gaps");
    if (device.not_recorded_ns > 0) {
      numbers += std::string(glyphs_.separator) + label(Label::kNotRecorded) + " " +
                 time(device.not_recorded_ns);
    }
    const std::size_t taken = display_width(numbers);
    const std::size_t cells = std::min(width_ - std::min(width_, taken), kMaxBar);
    if (cells >= 10) {
      const std::size_t full = bar_cells(device.busy_ns, recorded(device), cells);
      put({{repeat(glyphs_.bar_full, full), Style::kBusy},
           {repeat(glyphs_.bar_empty, cells - full), Style::kIdle},
           {numbers, Style::kPlain}});
    } else {
      put_text(numbers.substr(2));
    }
  }

  // Number, rule and title; evidence for the first ones; the remedy.
  void findings() {
    const auto& findings = summary_.findings;
    const std::size_t shown = rows_shown(findings.size(), limits_[kFindings]);
    if (shown > 0) gap();
    // Whole sentences as far as they fit; the first one loses its middle if it must.
    const auto words = [&](const std::string& text, std::size_t lines) {
      std::string kept = own_words(text, options_.unicode);
      const std::size_t room = lines * (width_ - 3) - 8;
      while (display_width(kept) > room) {
        const std::size_t end = kept.rfind(". ", kept.size() - 2);
        if (end == std::string::npos) break;
        kept.resize(end + 1);
      }
      return elide_middle(kept, room, options_.unicode);
    };
    for (std::size_t i = 0; i < shown; ++i) {
      const FindingSummary& finding = findings[i];
      put_text(std::to_string(i + 1) + ". " + words(finding.rule + ": " + finding.title, 2),
               Style::kBold, 3);
      if (i < rows_shown(findings.size(), limits_[kEvidence]) && !finding.evidence.empty())
        put_indented(words(finding.evidence, 3), "   ");
      if (!finding.remedy.empty())
        put_indented(words(finding.remedy, 3), std::string(" ") + glyphs_.arrow + " ");
    }
    if (shown < findings.size() && shown > 0)
      put_rest(findings.size() - shown, "finding", "findings", "all with --json");
  }

  void put_indented(const std::string& text, const std::string& first) {
    const std::size_t indent = display_width(first);
    bool is_first = true;
    for (Line& line : wrap({text, Style::kPlain}, width_ - std::min(width_ - 1, indent), 0)) {
      line.insert(line.begin(), {is_first ? first : std::string(indent, ' '), Style::kPlain});
      is_first = false;
      put(std::move(line));
    }
  }

  void outside(const std::string& most, std::uint64_t lead_in_ns, std::uint64_t tail_ns) {
    put_text(label(Label::kNotIdleTime) + ": " + most + time(lead_in_ns) + " before the first, " +
                 time(tail_ns) + " after the last GPU work.",
             Style::kDim);
  }

  // Causes of all devices with reliable numbers, added up; the largest first.
  std::vector<CauseSummary> causes_of_all() const {
    std::map<std::string, std::uint64_t> totals;
    for (const DeviceSummary& device : summary_.devices) {
      if (!device.idle_reliable) continue;
      for (const CauseSummary& cause : device.idle_by_cause) {
        totals[cause.cause] = add(totals[cause.cause], cause.total_ns);
      }
    }
    std::vector<CauseSummary> causes;
    causes.reserve(totals.size());
    for (const auto& [name, total] : totals) causes.push_back({name, total, 0, 0});
    std::stable_sort(causes.begin(), causes.end(),
                     [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
    return causes;
  }

  void many_devices() {
    const std::vector<CauseSummary> causes = causes_of_all();
    const std::size_t shown = rows_shown(summary_.devices.size(), limits_[kDevices]);
    std::size_t withheld_shown = 0;
    for (std::size_t i = 0; i < shown && withheld_shown < limits_[kTrouble] && !says_why_withheld();
         ++i) {
      const DeviceSummary& device = summary_.devices[i];
      if (device.idle_reliable) continue;
      withheld(" of GPU " + std::to_string(i), device);
      ++withheld_shown;
    }
    if (!options_.quiet) device_table(causes, shown);
  }

  void device_table(const std::vector<CauseSummary>& causes, std::size_t shown) {
    gap();
    Table table;
    table.columns = {{label(Label::kGpu), Align::kLeft, 0, 10, true},
                     {label(Label::kBusy), Align::kLeft, 9},
                     {label(Label::kSpan), Align::kRight, 10},
                     {label(Label::kIdle), Align::kRight, 0},
                     {label(Label::kOfSpan), Align::kDecimal, 0}};
    // Causes without weight share a column, so that the bar keeps its place.
    std::uint64_t span = 0;
    for (const DeviceSummary& device : summary_.devices) span = add(span, device.span_ns);
    std::size_t columns = std::min(causes.size(), limits_[kCauses]);
    while (columns > 1 && causes[columns - 1].total_ns < span / 100) --columns;
    for (std::size_t c = 0; c < columns; ++c) {
      table.columns.push_back(
          {elide_middle(safe(causes[c].cause), 24, options_.unicode), Align::kDecimal,
           c == 0 ? 1U : static_cast<std::uint32_t>(std::min<std::size_t>(c + 1, 8))});
    }
    const bool others = columns < causes.size();
    if (others) table.columns.push_back({"other", Align::kDecimal, 10});
    table.columns.push_back({label(Label::kBefore), Align::kRight, 11});
    table.columns.push_back({label(Label::kAfter), Align::kRight, 12});
    for (std::size_t i = 0; i < shown; ++i) {
      const DeviceSummary& device = summary_.devices[i];
      const bool known = device.idle_reliable;
      const std::size_t full = bar_cells(device.busy_ns, recorded(device), kDeviceBar);
      std::vector<Cell> row = {
          {std::to_string(i) + " " + brief_name(device)},
          {known ? repeat(glyphs_.bar_full, full) + repeat(glyphs_.bar_empty, kDeviceBar - full)
                 : label(Label::kWithheld),
           known ? Style::kBusy : Style::kTrouble},
          {time(device.span_ns)},
          {known ? time(device.idle_ns) : label(Label::kWithheld),
           known ? Style::kPlain : Style::kTrouble},
          {known ? share(device.idle_ns, recorded(device)) : glyphs_.none}};
      std::uint64_t rest = 0;
      for (std::size_t c = 0; c < causes.size(); ++c) {
        const auto own =
            std::find_if(device.idle_by_cause.begin(), device.idle_by_cause.end(),
                         [&](const CauseSummary& cause) { return cause.cause == causes[c].cause; });
        const std::uint64_t total = own == device.idle_by_cause.end() ? 0 : own->total_ns;
        if (c < columns) {
          row.push_back({known ? share(total, recorded(device)) : glyphs_.none});
        } else {
          rest = add(rest, total);
        }
      }
      if (others) row.push_back({known ? share(rest, recorded(device)) : glyphs_.none});
      row.push_back({time(device.lead_in_ns), Style::kDim});
      row.push_back({time(device.tail_ns), Style::kDim});
      table.rows.push_back(std::move(row));
    }
    put(Line{{elide_middle(label(Label::kIdleByGpu) + ", in % of the GPU's span", width_,
                           options_.unicode),
              Style::kBold}});
    put_table(table);
    if (shown < summary_.devices.size()) {
      put_rest(summary_.devices.size() - shown, "GPU", "GPUs", "");
    }
    if (fits(table, width_)) return;  // the table has all columns
    std::uint64_t lead_in = 0;
    std::uint64_t tail = 0;
    for (const DeviceSummary& device : summary_.devices) {
      lead_in = std::max(lead_in, device.lead_in_ns);
      tail = std::max(tail, device.tail_ns);
    }
    outside("up to ", lead_in, tail);
  }

  // What makes the numbers below smaller than the truth.
  void trouble() {
    const ChecksSummary& checks = summary_.checks;
    std::vector<std::string> lost;
    const auto count = [&](std::uint64_t n, std::string_view one, std::string_view many) {
      if (n > 0) lost.push_back(plural(n, one, many));
    };
    count(checks.dropped, "record dropped", "records dropped");
    count(checks.untimed, "record without times", "records without times");
    count(checks.unfinished, "operation unfinished", "operations unfinished");
    count(checks.malformed, "unreadable message", "unreadable messages");
    std::vector<std::string> whose;
    for (const ProcessSummary& process : summary_.processes) {
      if (!process.failure.empty()) {
        whose.push_back("process " + std::to_string(process.pid) +
                        " was not recorded: " + safe(process.failure));
      } else if (!process.said_goodbye) {
        std::string text = "process " + std::to_string(process.pid);
        text += process.exit.kind == ExitState::Kind::kRunning ? " was still running"
                                                               : " ended without a goodbye";
        text += process.complete_until_ns == 0
                    ? "; all of its data may be incomplete"
                    : "; its data may be missing from " + time(process.complete_until_ns) + " on";
        whose.push_back(std::move(text));
      }
    }
    const std::size_t shown = rows_shown(whose.size(), limits_[kTrouble]);
    if (!lost.empty() || !whose.empty()) {
      std::string text = label(Label::kIncomplete) + ", so counts and times are lower bounds: ";
      for (std::size_t i = 0; i < lost.size(); ++i) text += (i == 0 ? "" : ", ") + lost[i];
      for (std::size_t i = 0; i < shown; ++i) {
        text += (i == 0 && lost.empty() ? "" : "; ") +
                elide_middle(whose[i], 2 * width_, options_.unicode);
      }
      if (shown < whose.size()) {
        text += "; and " + plural(whose.size() - shown, "more process", "more processes");
      }
      if (text.back() != '.') text += '.';
      put_text(text, Style::kTrouble, 2);
    }
    cupti_failures();
  }

  void cupti_failures() {
    std::map<std::pair<std::string, std::uint64_t>, std::vector<std::uint64_t>> calls;
    for (const CuptiFailureSummary& failure : summary_.cupti_failures) {
      calls[{failure.function, failure.result}].push_back(failure.pid);
    }
    const std::size_t shown = rows_shown(calls.size(), limits_[kTrouble]);
    std::size_t drawn = 0;
    for (const auto& [call, pids] : calls) {
      if (drawn++ == shown) break;
      const std::string where = pids.size() == 1 ? "process " + std::to_string(pids.front())
                                                 : plural(pids.size(), "call", "calls");
      put_text(elide_middle(safe(call.first), 60, options_.unicode) + " failed with CUPTI error " +
                   std::to_string(call.second) + " (" + where + ").",
               Style::kTrouble, 2);
    }
    if (shown < calls.size())
      put_rest(calls.size() - shown, "failed CUPTI call", "failed CUPTI calls", "");
  }

  void causes() {
    if (summary_.devices.size() != 1) return;
    const DeviceSummary& device = summary_.devices.front();
    const std::size_t shown = rows_shown(device.idle_by_cause.size(), limits_[kCauses]);
    if (!device.idle_reliable || shown == 0) return;
    gap();
    Table table;
    table.columns = {{label(Label::kIdleByCause), Align::kLeft, 0, 14, true},
                     {label(Label::kTime), Align::kRight, 0},
                     {label(Label::kOfIdle), Align::kDecimal, 1},
                     {label(Label::kOfSpan), Align::kDecimal, 2},
                     {label(Label::kGaps), Align::kRight, 3},
                     {label(Label::kLongest), Align::kRight, 4},
                     {"", Align::kLeft, 5}};
    for (std::size_t i = 0; i < shown; ++i) {
      const CauseSummary& cause = device.idle_by_cause[i];
      const CauseText* known = find_cause_text(cause.cause);
      table.rows.push_back({{safe(cause.cause)},
                            {time(cause.total_ns)},
                            {share(cause.total_ns, device.idle_ns)},
                            {share(cause.total_ns, recorded(device))},
                            {format_count(cause.gap_count)},
                            {time(cause.longest_ns)},
                            {std::string(known == nullptr ? "" : known->text), Style::kDim}});
    }
    put_table(table);
    if (shown < device.idle_by_cause.size()) {
      std::uint64_t rest = 0;
      for (std::size_t i = shown; i < device.idle_by_cause.size(); ++i) {
        rest = add(rest, device.idle_by_cause[i].total_ns);
      }
      put_rest(device.idle_by_cause.size() - shown, "cause", "causes",
               percent(rest, device.idle_ns) + " of idle");
    }
  }

  // Short names, and whole ones where the short name is not the only one of its kind.
  std::vector<std::string> kernel_names(std::size_t shown) const {
    std::map<std::string_view, std::vector<std::size_t>> by_short;
    for (std::size_t i = 0; i < shown; ++i) by_short[summary_.kernels[i].short_name].push_back(i);
    std::vector<std::string> names(shown);
    for (const auto& same : by_short) {
      const std::vector<std::size_t>& rows = same.second;
      const bool ambiguous = std::any_of(rows.begin(), rows.end(), [&](std::size_t i) {
        return summary_.kernels[i].name != summary_.kernels[rows.front()].name;
      });
      for (const std::size_t i : rows) {
        const KernelSummary& kernel = summary_.kernels[i];
        const bool whole = kernel.short_name.empty() || (ambiguous && !kernel.name.empty());
        names[i] = safe(whole ? kernel.name : kernel.short_name);
        if (names[i].empty()) names[i] = "(no name)";
      }
    }
    return names;
  }

  void kernels() {
    const auto& kernels = summary_.kernels;
    const std::size_t shown = rows_shown(kernels.size(), limits_[kKernels]);
    if (shown == 0) return;
    gap();
    const std::size_t name_cells = width_ < 100 ? 28 : width_ < 160 ? 40 : 60;
    const bool several = summary_.devices.size() > 1;
    Table table;
    table.columns = {{label(Label::kTotal), Align::kRight, 0},
                     {label(Label::kOfKernelTime), Align::kDecimal, 0},
                     {label(Label::kCount), Align::kRight, 1},
                     {label(Label::kMean), Align::kRight, 8},
                     {label(Label::kMedian), Align::kRight, 6},
                     {label(Label::kP99), Align::kRight, 5},
                     {label(Label::kMin), Align::kRight, 9},
                     {label(Label::kMax), Align::kRight, 7}};
    if (several) table.columns.push_back({label(Label::kGpu), Align::kRight, 4});
    table.columns.push_back({label(Label::kKernel), Align::kLeft, 0, name_cells, true});
    const std::vector<std::string> names = kernel_names(shown);
    for (std::size_t i = 0; i < shown; ++i) {
      const KernelSummary& kernel = kernels[i];
      std::vector<Cell> row = {{time(kernel.total_ns)},      {share(kernel.total_ns, kernel_time_)},
                               {format_count(kernel.count)}, {time(kernel.mean_ns)},
                               {time(kernel.median_ns)},     {time(kernel.p99_ns)},
                               {time(kernel.min_ns)},        {time(kernel.max_ns)}};
      if (several) row.push_back({std::to_string(kernel.device)});
      row.push_back({names[i]});
      table.rows.push_back(std::move(row));
    }
    put_table(table);
    std::uint64_t rest = 0;
    for (std::size_t i = shown; i < kernels.size(); ++i) rest = add(rest, kernels[i].total_ns);
    if (shown < kernels.size()) {
      put_rest(kernels.size() - shown, "kernel", "kernels",
               percent(rest, kernel_time_) + " of kernel time, " + time(kernel_time_) + " in all");
    }
    launches();
  }

  void launches() {
    std::vector<Run> items;
    if (summary_.launch_latency.count > 0) {
      items.push_back({label(Label::kLaunchLatency) + ": " + label(Label::kMedian) + " " +
                           time(summary_.launch_latency.median_ns) + ", " + label(Label::kP99) +
                           " " + time(summary_.launch_latency.p99_ns),
                       Style::kPlain});
    }
    // A few are in every program.
    if (summary_.kernels_with_launch > 0 &&
        at_least_percent(summary_.kernels_shorter_than_launch, summary_.kernels_with_launch,
                         kWorthALine)) {
      items.push_back({format_exact(summary_.kernels_shorter_than_launch) + " of " +
                           plural(summary_.kernels_with_launch, "kernel", "kernels") + " " +
                           label(Label::kShorterThanLaunch),
                       Style::kPlain});
    }
    if (!items.empty()) put(flow(items, width_, options_.unicode));
  }

  // Idle time in which the GPU waited for a thread within the range.
  std::uint64_t waited_for(const NvtxSummary& range) const {
    std::uint64_t waited = 0;
    for (const DeviceSummary& device : summary_.devices) {
      if (!device.idle_reliable) continue;
      for (const NvtxIdleSummary& idle : device.idle_by_nvtx) {
        if (idle.domain == range.domain && idle.name == range.name)
          waited = add(waited, idle.total_ns);
      }
    }
    return waited;
  }

  void nvtx() {
    const auto& ranges = summary_.nvtx;
    const std::size_t shown = rows_shown(ranges.size(), limits_[kNvtx]);
    if (shown == 0) return;
    gap();
    Table table;
    table.columns = {{label(Label::kNvtxRanges), Align::kLeft, 0, 20, true},
                     {label(Label::kCount), Align::kRight, 1},
                     {label(Label::kTotal), Align::kRight, 0},
                     {label(Label::kSelf), Align::kRight, 3},
                     {label(Label::kGpuTime), Align::kRight, 0},
                     {label(Label::kGpuSum), Align::kRight, 4},
                     {label(Label::kGpuWaited), Align::kRight, 2}};
    const bool reliable =
        std::any_of(summary_.devices.begin(), summary_.devices.end(),
                    [](const DeviceSummary& device) { return device.idle_reliable; });
    // Those that the GPU waited for first; the others by total, as they come.
    std::vector<std::pair<std::uint64_t, const NvtxSummary*>> order;
    order.reserve(ranges.size());
    for (const NvtxSummary& range : ranges) order.emplace_back(waited_for(range), &range);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (std::size_t i = 0; i < shown; ++i) {
      const auto& [waited, known] = order[i];
      const NvtxSummary& range = *known;
      std::string name = range.name.empty() ? "(no name)" : safe(range.name);
      if (!range.domain.empty()) name.insert(0, safe(range.domain).append(": "));
      table.rows.push_back({{std::move(name)},
                            {format_count(range.count)},
                            {time(range.total_ns)},
                            {time(range.self_ns)},
                            {time(range.gpu_union_ns)},
                            {time(range.gpu_sum_ns)},
                            {reliable ? time(waited) : glyphs_.none}});
    }
    put_table(table);
    if (shown < ranges.size()) put_rest(ranges.size() - shown, "range", "ranges", "");
  }

  struct PlacedGap {
    const GapSummary* gap;
    std::size_t device;
  };

  // Of all devices with reliable numbers, the longest first.
  std::vector<PlacedGap> longest_gaps() const {
    std::vector<PlacedGap> gaps;
    for (std::size_t i = 0; i < summary_.devices.size(); ++i) {
      if (!summary_.devices[i].idle_reliable) continue;
      for (const GapSummary& gap : summary_.devices[i].top_gaps) gaps.push_back({&gap, i});
    }
    std::stable_sort(gaps.begin(), gaps.end(), [](const PlacedGap& a, const PlacedGap& b) {
      return a.gap->duration_ns > b.gap->duration_ns;
    });
    return gaps;
  }

  // "CPU code outside CUDA 92 %, launch latency 8 %"; the largest only where room is short.
  std::string causes_of(const GapSummary& gap) const {
    std::map<std::string_view, std::uint64_t> sums;
    for (const GapPieceSummary& piece : gap.pieces)
      sums[piece.cause] = add(sums[piece.cause], piece.duration_ns);
    std::vector<std::pair<std::string_view, std::uint64_t>> order(sums.begin(), sums.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text;
    for (const auto& [cause, ns] : order) {
      if (!text.empty() && width_ < kWide) break;
      if (!text.empty()) text += ", ";
      text += elide_middle(safe(cause), 40, options_.unicode) + " " + percent(ns, gap.duration_ns);
    }
    return text.empty() ? glyphs_.none : text;
  }

  void gaps() {
    const std::vector<PlacedGap> gaps = longest_gaps();
    const std::size_t shown = std::min(gaps.size(), limits_[kGaps]);
    if (shown == 0) return;
    gap();
    const bool several = summary_.devices.size() > 1;
    Table table;
    table.columns = {{label(Label::kLongestGaps), Align::kRight, 0},
                     {label(Label::kAt), Align::kRight, 0}};
    if (several) table.columns.push_back({label(Label::kGpu), Align::kRight, 0});
    table.columns.push_back({label(Label::kCause), Align::kLeft, 0, 21});
    table.columns.push_back({label(Label::kBetween), Align::kLeft, 2, 26});
    table.columns.push_back({label(Label::kThread), Align::kLeft, 3, 12});
    for (std::size_t i = 0; i < shown; ++i) {
      const GapSummary& gap = *gaps[i].gap;
      std::vector<Cell> row = {{time(gap.duration_ns)}, {time(gap.start_ns)}};
      if (several) row.push_back({std::to_string(gaps[i].device)});
      row.push_back({causes_of(gap)});
      row.push_back({safe(gap.before) + " " + glyphs_.arrow + " " + safe(gap.after)});
      std::string thread = gap.tid == 0 ? std::string(glyphs_.none) : std::to_string(gap.tid);
      if (!gap.thread_name.empty()) thread += " " + safe(gap.thread_name);
      if (!gap.nvtx_path.empty()) thread += ": " + safe(gap.nvtx_path);
      row.push_back({std::move(thread)});
      table.rows.push_back(std::move(row));
    }
    put_table(table);
  }

  std::string copy_kind(const CopySummary& copy) const {
    std::string text = copy.kind.empty() ? "copy" : safe(copy.kind);
    if (!copy.source.empty()) text += " " + safe(copy.source);
    if (!copy.destination.empty())
      text += std::string(" ") + glyphs_.arrow + " " + safe(copy.destination);
    return text;
  }

  void copies() {
    const auto& copies = summary_.copies;
    const std::size_t shown = rows_shown(copies.size(), limits_[kCopies]);
    if (shown == 0) return;
    gap();
    Table table;
    table.columns = {{label(Label::kCopies), Align::kLeft, 0, 16, true},
                     {label(Label::kCount), Align::kRight, 1},
                     {label(Label::kBytes), Align::kRight, 0},
                     {label(Label::kEach), Align::kRight, 3},
                     {label(Label::kTime), Align::kRight, 0},
                     {label(Label::kThroughput), Align::kRight, 2}};
    for (std::size_t i = 0; i < shown; ++i) {
      const CopySummary& copy = copies[i];
      const std::string throughput = format_throughput(copy.bytes, copy.total_ns);
      table.rows.push_back(
          {{copy_kind(copy)},
           {format_count(copy.count)},
           {format_bytes(copy.bytes)},
           {copy.count == 0 ? glyphs_.none : format_bytes(copy.bytes / copy.count)},
           {time(copy.total_ns)},
           {throughput.empty() ? glyphs_.none : throughput}});
    }
    put_table(table);
    if (shown < copies.size()) {
      std::uint64_t bytes = 0;
      for (std::size_t i = shown; i < copies.size(); ++i) bytes = add(bytes, copies[i].bytes);
      put_rest(copies.size() - shown, "kind", "kinds", format_bytes(bytes));
    }
  }

  // "2 × 3, 700": code 2 three times, code 700 once.
  std::string codes_of(const ApiSummary& call) const {
    std::string text;
    for (const FailureSummary& failure : call.failures_by_code) {
      if (!text.empty()) text += ", ";
      text += std::to_string(failure.code);
      if (failure.count != 1)
        text += " " + std::string(glyphs_.times) + " " + format_count(failure.count);
    }
    return text;
  }

  void api() {
    const auto& api = summary_.api;
    const std::size_t shown = rows_shown(api.size(), limits_[kApi]);
    if (shown == 0) return;
    gap();
    const auto any = [&](auto&& test) {
      return std::any_of(api.begin(), api.begin() + static_cast<std::ptrdiff_t>(shown), test);
    };
    const bool nested = any([](const ApiSummary& call) { return call.self_ns != call.total_ns; });
    const bool failing = any([](const ApiSummary& call) { return call.failures > 0; });
    Table table;
    table.columns = {{label(Label::kApiCalls), Align::kLeft, 0, 20, true},
                     {label(Label::kCount), Align::kRight, 1},
                     {label(Label::kTotal), Align::kRight, 0}};
    if (nested) table.columns.push_back({label(Label::kSelf), Align::kRight, 3});
    table.columns.push_back({label(Label::kMean), Align::kRight, 4});
    if (failing) {
      table.columns.push_back({label(Label::kFailed), Align::kRight, 0});
      table.columns.push_back({label(Label::kCodes), Align::kLeft, 2, 12});
    }
    for (std::size_t i = 0; i < shown; ++i) {
      const ApiSummary& call = api[i];
      std::vector<Cell> row = {
          {safe(call.name)}, {format_count(call.count)}, {time(call.total_ns)}};
      if (nested) row.push_back({time(call.self_ns)});
      row.push_back({call.count == 0 ? glyphs_.none : time(call.total_ns / call.count)});
      if (failing) {
        row.push_back(
            {format_count(call.failures), call.failures > 0 ? Style::kTrouble : Style::kDim});
        row.push_back({codes_of(call)});
      }
      table.rows.push_back(std::move(row));
    }
    put_table(table);
    if (shown < api.size()) {
      std::uint64_t calls = 0;
      std::uint64_t failures = 0;
      for (std::size_t i = shown; i < api.size(); ++i) {
        calls = add(calls, api[i].count);
        failures = add(failures, api[i].failures);
      }
      std::string what = plural(calls, "call", "calls");
      if (failures > 0) what += ", " + format_exact(failures) + " failed";
      put_rest(api.size() - shown, "function", "functions", what);
    }
  }

  void processes() {
    const auto& processes = summary_.processes;
    const std::size_t shown = rows_shown(processes.size(), limits_[kProcesses]);
    if (processes.size() < 2 || shown == 0) return;
    gap();
    Table table;
    table.columns = {{label(Label::kProcess), Align::kRight, 0},
                     {label(Label::kEnded), Align::kLeft, 1},
                     {label(Label::kData), Align::kLeft, 0},
                     {label(Label::kCommand), Align::kLeft, 0, 16}};
    std::vector<const ProcessSummary*> order;  // those with trouble first
    order.reserve(processes.size());
    for (const ProcessSummary& process : processes) order.push_back(&process);
    std::stable_partition(order.begin(), order.end(), [](const ProcessSummary* process) {
      return has_failed(process->exit) || !process->failure.empty() || !process->said_goodbye;
    });
    for (std::size_t i = 0; i < shown; ++i) {
      const ProcessSummary& process = *order[i];
      Cell data = {"complete", Style::kDim};
      if (!process.failure.empty()) {
        data = {"none", Style::kTrouble};
      } else if (!process.said_goodbye) {
        data = {process.complete_until_ns == 0 ? "incomplete"
                                               : "until " + time(process.complete_until_ns),
                Style::kTrouble};
      }
      Run ended = exit_text(process.exit);
      table.rows.push_back({{std::to_string(process.pid)},
                            {std::move(ended.text), ended.style},
                            std::move(data),
                            {safe(process.command)}});
    }
    put_table(table);
    if (shown < processes.size()) put_rest(processes.size() - shown, "process", "processes", "");
  }

  void checks() {
    const ChecksSummary& checks = summary_.checks;
    const std::uint64_t doubt =
        add(add(add(checks.unmatched, checks.untimed), add(checks.dropped, checks.unfinished)),
            checks.late);
    const bool clean = doubt == 0 && checks.clock_faults == 0 && checks.malformed == 0 &&
                       checks.launches_without_operation == 0 && checks.nvtx_unbalanced == 0 &&
                       checks.duplicates == 0;
    std::vector<Run> items = {
        {label(Label::kChecks) + ": " + plural(checks.launches, "launch", label(Label::kLaunches)),
         Style::kPlain},
        {plural(checks.device_operations, "device operation",
                "device " + label(Label::kOperations)),
         Style::kPlain}};
    if (clean) items.push_back({label(Label::kNothingLost), Style::kPlain});
    const auto item = [&](std::uint64_t n, const std::string& what) {
      items.push_back({format_exact(n) + " " + what, n == 0 ? Style::kDim : Style::kTrouble});
    };
    const auto rare = [&](std::uint64_t n, const std::string& one, const std::string& many) {
      if (n > 0) items.push_back({plural(n, one, many), Style::kTrouble});
    };
    item(checks.unmatched, label(Label::kUnmatched));
    item(checks.dropped, label(Label::kDropped));
    item(checks.untimed, label(Label::kUntimed));
    item(checks.unfinished, label(Label::kUnfinished));
    item(checks.late, label(Label::kLate));
    item(checks.clock_faults,
         checks.clock_faults == 1 ? "clock fault" : label(Label::kClockFaults));
    item(checks.malformed, label(Label::kMalformed));
    rare(checks.launches_without_operation, "launch without kernel",
         label(Label::kLaunchesWithoutKernel));
    rare(checks.nvtx_unbalanced, label(Label::kNvtxUnbalanced), label(Label::kNvtxUnbalanced));
    rare(checks.nvtx_unclosed, label(Label::kNvtxUnclosed), label(Label::kNvtxUnclosed));
    rare(checks.duplicates, "duplicate", label(Label::kDuplicates));
    if (doubt > 0) {
      items.push_back({percent(doubt, add(checks.device_operations, doubt)) + " of operations " +
                           label(Label::kInDoubt),
                       Style::kTrouble});
    }
    if (summary_.profiler_overhead_ns > 0 &&
        at_least_percent(summary_.profiler_overhead_ns, summary_.wall_ns, 1)) {
      items.push_back({label(Label::kProfilerOverhead) + " " + time(summary_.profiler_overhead_ns),
                       Style::kDim});
    }
    put(flow(items, width_, options_.unicode));
  }

  void notes() {
    std::vector<Line> lines;
    std::size_t complete = 0;  // notes that lie within the limit as a whole
    for (const std::string& note : summary_.notes) {
      if (lines.size() > limits_[kNotes]) break;
      // A note of many screens need not be wrapped to its end.
      const std::string text = elide_middle(safe(note), width_ * kScreenLines, options_.unicode);
      for (Line& line : wrap({glyphs_.bullet + text, Style::kPlain}, width_, 2))
        lines.push_back(std::move(line));
      if (lines.size() < limits_[kNotes]) ++complete;
    }
    if (lines.size() <= limits_[kNotes]) {
      put(std::move(lines));
      return;
    }
    lines.resize(limits_[kNotes] - 1);
    put(std::move(lines));
    put_rest(summary_.notes.size() - complete, "note, in full with --json",
             "notes, in full with --json", "");
  }

  void file() {
    if (options_.trace_path.empty()) return;
    const std::string quoted = safe(shell_quoted(options_.trace_path));
    const std::size_t room = width_ - 7;
    const std::string path = elide_middle(quoted, room, options_.unicode);
    put(flow(
        {{"Trace: " + path, Style::kBold}, {"open it at https://ui.perfetto.dev", Style::kPlain}},
        width_, options_.unicode));
    const bool whole = display_width(quoted) + 36 <= width_;
    put_text("profiler report " + (whole ? quoted : std::string("FILE")) + " prints this again.",
             Style::kDim);
  }

  const Summary& summary_;
  const ViewOptions& options_;
  std::size_t width_;
  const Glyphs& glyphs_;
  std::uint64_t kernel_time_ = 0;
  Limits limits_{};
  std::vector<Line> lines_;
};

// The part that has the most rows beyond `floor`; kParts = none has.
std::size_t longest_part(const Limits& limits, const Limits& floor) {
  std::size_t longest = kParts;
  for (std::size_t i = 0; i < kParts; ++i) {
    if (limits[i] <= floor[i]) continue;
    if (longest == kParts || limits[i] - floor[i] > limits[longest] - floor[longest]) longest = i;
  }
  return longest;
}

}  // namespace

std::string render_summary(const Summary& summary, const ViewOptions& options) {
  Screen screen(summary, options);
  Limits limits = kGenerous;
  std::vector<Line> lines;
  if (options.top > 0) {
    limits.fill(options.top);
    limits[kTrouble] = limits[kNotes] = 1000;
    limits[kCauses] = limits[kDevices] = 1000;
    limits[kFindings] = limits[kEvidence] = 1000;
    limits[kGaps] = options.top_gaps > 0 ? options.top_gaps : std::min(options.top, kFewGaps);
    lines = screen.draw(limits);
  } else {
    const Limits rows = screen.row_counts();
    limits[kGaps] = std::max(limits[kGaps], options.top_gaps);
    for (std::size_t i = 0; i < kParts; ++i) limits[i] = std::min(limits[i], rows[i]);
    const std::size_t gaps_asked_for = options.top_gaps > 0 ? limits[kGaps] : 0;
    lines = screen.draw(limits);
    while (lines.size() > kScreenLines) {
      std::size_t part = kParts;
      for (std::size_t step = 0; part == kParts && step < kSteps.size(); ++step) {
        Limits floor = kSteps[step];
        floor[kGaps] = std::max(floor[kGaps], gaps_asked_for);
        part = longest_part(limits, floor);
      }
      if (part == kParts) break;
      --limits[part];
      lines = screen.draw(limits);
    }
    // Still too long: air is what can be missed best.
    for (auto line = lines.end(); lines.size() > kScreenLines && line != lines.begin();) {
      --line;
      if (line->empty()) line = lines.erase(line);
    }
  }
  const std::size_t width = std::max(options.width, kMinimumWidth);
  std::string text;
  for (const Line& line : lines)
    text += to_terminal(line, width, options.color, options.unicode) + '\n';
  return text;
}

}  // namespace profiler
