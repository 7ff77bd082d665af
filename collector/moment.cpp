#include "collector/moment.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "collector/summarize.h"
#include "collector/units.h"

namespace profiler {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t ns;
  std::size_t decimals;  // digits after the point that are still whole ns; minutes: as seconds
};
// Longer names first: "ms" ends in "s".
constexpr std::array<Unit, 7> kUnits = {{{"min", 60'000'000'000, 9},
                                         {"ns", 1, 0},
                                         {"us", 1'000, 3},
                                         {"\xC2\xB5s", 1'000, 3},  // micro sign
                                         {"\xCE\xBCs", 1'000, 3},  // Greek mu
                                         {"ms", 1'000'000, 6},
                                         {"s", 1'000'000'000, 9}}};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// ns since the start of the run as seconds with all of their digits: "1.234567890 s".
std::string seconds(std::uint64_t ns) {
  std::string digits = std::to_string(ns % 1'000'000'000);
  digits.insert(0, 9 - digits.size(), '0');
  return std::to_string(ns / 1'000'000'000) + "." + digits + " s";
}

class Explanation {
 public:
  Explanation(const RunFacts& facts, const Catalog& catalog, const Timeline& timeline,
              Analysis& analysis, bool unicode)
      : facts_(facts),
        catalog_(catalog),
        timeline_(timeline),
        analysis_(analysis),
        unicode_(unicode) {}

  void line(const std::string& text) { text_ += text + "\n"; }

  void running(std::uint32_t index, std::uint64_t time) {
    const LaneOperation& operation = timeline_.operations()[index];
    line("  " + operation_label(catalog_, timeline_, index) + where(operation) + ": from " +
         moment(operation.start) + " to " + moment(operation.end) + " (" +
         duration(operation.end - operation.start) + "), for " + duration(time - operation.start) +
         " by then");
    const std::uint32_t call = analysis_.matches().call_of_operation[index];
    line("    " + (call == kNone ? std::string("its launch was not recorded") : launched(call)));
    if (call != kNone) path(timeline_.calls()[call].thread, timeline_.calls()[call].start);
  }

  void gap(const GapFacts& gap, std::uint64_t time) {
    for (const GapPiece& piece : gap.pieces) {
      if (time < piece.start || time >= piece.end) continue;
      std::string text = "  cause: " + std::string(cause_name(piece.cause));
      if (piece.thread != kNone) text += ", waiting for " + thread(piece.thread);
      if (piece.handed_over) text += ", which then handed over to the launching thread";
      line(text + "; from " + moment(piece.start) + " to " + moment(piece.end) + " (" +
           duration(piece.end - piece.start) + ")");
    }
    line("  the gap: from " + moment(gap.gap.start) + " to " + moment(gap.gap.end) + " (" +
         duration(gap.gap.end - gap.gap.start) + ")");
    std::string parts;
    for (const GapPiece& piece : gap.pieces) {
      if (!parts.empty()) parts += ", ";
      parts += std::string(cause_name(piece.cause)) + " " + duration(piece.end - piece.start);
    }
    if (gap.pieces.size() > 1) line("  in order of time: " + parts);
    if (gap.before != kNone) line("  after " + operation_label(catalog_, timeline_, gap.before));
    if (gap.opened_by != kNone) {
      const ApiCall& call = timeline_.calls()[gap.opened_by];
      line("  opened by " + function(call) + " of " + thread(call.thread) +
           ", which was open when it began");
    }
    if (gap.after == kNone) return;
    const LaneOperation& after = timeline_.operations()[gap.after];
    line("  ended by " + operation_label(catalog_, timeline_, gap.after) + where(after));
    if (gap.launch == kNone) {
      line("    its launch was not recorded");
      return;
    }
    line("    " + launched(gap.launch));
    path(timeline_.calls()[gap.launch].thread, gap.gap.start);
  }

  std::string moment(std::uint64_t time) const {
    return time >= facts_.start_ns ? seconds(time - facts_.start_ns)
                                   : "-" + seconds(facts_.start_ns - time);
  }
  std::string duration(std::uint64_t ns) const { return format_duration(ns, unicode_); }
  std::string take() { return std::move(text_); }

 private:
  std::string where(const LaneOperation& operation) const {
    const Queue& queue = catalog_.queues[operation.queue];
    std::string text = " on stream " + std::to_string(queue.stream);
    if (!queue.name.empty()) text += " " + queue.name;
    return text + " of context " + std::to_string(queue.context) + ", process " +
           std::to_string(catalog_.processes[queue.process].pid);
  }
  std::string thread(ThreadIndex index) const {
    const Thread& entry = catalog_.threads[index];
    std::string text = "thread " + std::to_string(entry.tid);
    if (!entry.name.empty()) text += " (" + entry.name + ")";
    return text;
  }
  std::string function(const ApiCall& call) const {
    return call.function < catalog_.api_functions.size()
               ? catalog_.api_functions[call.function].name
               : "a call of unknown name";
  }
  std::string launched(std::uint32_t index) const {
    const ApiCall& call = timeline_.calls()[index];
    return "submitted by " + function(call) + " of " + thread(call.thread) + ", from " +
           moment(call.start) + " to " + moment(call.end);
  }
  void path(ThreadIndex index, std::uint64_t time) {
    const std::string names = nvtx_path(catalog_, analysis_, index, time);
    if (!names.empty()) line("    NVTX: " + names);
  }

  const RunFacts& facts_;
  const Catalog& catalog_;
  const Timeline& timeline_;
  Analysis& analysis_;
  bool unicode_;
  std::string text_;
};

}  // namespace

Result<std::uint64_t> parse_time(std::string_view text) {
  const std::string quoted = "'" + std::string(text) + "'";
  const Error malformed{quoted +
                        " is no time: give a number and its unit, such as 1.234s, 250ms, "
                        "12.5us or 1500ns."};
  std::size_t end = 0;
  while (end < text.size() && (is_digit(text[end]) || text[end] == '.')) ++end;
  const std::string_view number = text.substr(0, end);
  std::string_view name = text.substr(end);
  while (name.starts_with(' ')) name.remove_prefix(1);
  const std::size_t point = number.find('.');
  const std::string_view whole = number.substr(0, point);
  const std::string_view fraction =
      point == std::string_view::npos ? std::string_view() : number.substr(point + 1);
  if (whole.empty() || fraction.find('.') != std::string_view::npos ||
      (point != std::string_view::npos && fraction.empty())) {
    return malformed;
  }
  if (name.empty()) {
    return Error{quoted + " has no unit: write " + std::string(number) + "s, " +
                 std::string(number) + "ms, " + std::string(number) + "us or " +
                 std::string(number) + "ns."};
  }
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(),
                                 [&](const Unit& entry) { return entry.name == name; });
  if (unit == kUnits.end()) return malformed;
  const std::size_t last = fraction.find_last_not_of('0');
  const std::string_view digits =
      last == std::string_view::npos ? std::string_view() : fraction.substr(0, last + 1);
  if (digits.size() > unit->decimals) return Error{quoted + " is finer than a nanosecond."};

  // Exact: whole and fraction as one integer, then times ns per 10^-digits of the unit.
  unsigned __int128 value = 0;
  std::uint64_t scale = unit->ns;
  for (const std::string_view part : {whole, digits}) {
    for (const char c : part) {
      value = value * 10 + static_cast<unsigned>(c - '0');
      if (value > UINT64_MAX) return Error{quoted + " is longer than any run."};
    }
  }
  for (std::size_t i = 0; i < digits.size(); ++i) scale /= 10;
  value *= scale;
  if (value > static_cast<std::uint64_t>(INT64_MAX)) {
    return Error{quoted + " is longer than any run."};
  }
  return static_cast<std::uint64_t>(value);
}

std::string nvtx_path(const Catalog& catalog, Analysis& analysis, ThreadIndex thread,
                      std::uint64_t time) {
  std::string path;
  for (const OpenRecord& record : analysis.lanes().ranges(thread, time, time + 1)) {
    const TextId text = analysis.ranges()[record.index].text;
    if (!path.empty()) path += " > ";
    path += text < catalog.texts.size() ? catalog.texts[text] : "(no message)";
  }
  return path;
}

std::string explain_moment(std::uint64_t at, const RunFacts& facts, const Catalog& catalog,
                           const Timeline& timeline, Analysis& analysis, const GapCollection& gaps,
                           bool unicode) {
  Explanation text(facts, catalog, timeline, analysis, unicode);
  text.line("At " + seconds(at) + " since the start of the run:");
  if (at > INT64_MAX || facts.start_ns > INT64_MAX) return text.take();
  const std::uint64_t time = facts.start_ns + at;
  if (facts.end_ns > facts.start_ns && time >= facts.end_ns) {
    text.line("The run had ended, at " + text.moment(facts.end_ns) + ".");
    return text.take();
  }
  if (analysis.devices().empty()) text.line("No GPU did anything in this run.");

  std::vector<std::vector<std::uint32_t>> running(catalog.devices.size());
  const std::vector<LaneOperation>& operations = timeline.operations();
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    const LaneOperation& operation = operations[i];
    if (operation.start > time || operation.end <= time || operation.queue == kNone) continue;
    const DeviceIndex device = catalog.queues[operation.queue].device;
    if (device != kNone) running[device].push_back(i);
  }
  for (const DeviceActivity& activity : analysis.devices()) {
    const Device& device = catalog.devices[activity.device];
    const std::string name =
        "GPU " + std::to_string(device.ordinal) + (device.name.empty() ? "" : ", " + device.name);
    std::vector<std::uint32_t>& now = running[activity.device];
    if (!now.empty()) {
      std::sort(now.begin(), now.end(), [&](std::uint32_t a, std::uint32_t b) {
        return std::pair{operations[a].start, a} < std::pair{operations[b].start, b};
      });
      text.line(name + ": busy with " +
                (now.size() == 1 ? "one operation" : std::to_string(now.size()) + " operations"));
      for (const std::uint32_t index : now) text.running(index, time);
      continue;
    }
    bool found = false;
    for (std::size_t i = 0; i < gaps.size() && !found; ++i) {
      const GapFacts gap = gaps.gap(i);
      if (gaps.device(i) != activity.device || time < gap.gap.start || time >= gap.gap.end) {
        continue;
      }
      // A gap that goes on past a hole has no piece there.
      found = std::any_of(gap.pieces.begin(), gap.pieces.end(), [&](const GapPiece& piece) {
        return time >= piece.start && time < piece.end;
      });
      if (!found) continue;
      text.line(name + ": idle");
      text.gap(gap, time);
    }
    if (found) continue;
    if (time < activity.first_start) {
      text.line(name + ": nothing to do yet; its first work began at " +
                text.moment(activity.first_start) + ", " +
                text.duration(activity.first_start - time) + " later");
    } else if (time >= activity.last_end) {
      text.line(name + ": nothing to do any more; its last work had ended at " +
                text.moment(activity.last_end) + ", " + text.duration(time - activity.last_end) +
                " earlier");
    } else {
      text.line(name + ": not recorded, records of this time were lost");
    }
  }
  return text.take();
}

}  // namespace profiler
