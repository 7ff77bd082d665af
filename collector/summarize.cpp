#include "collector/summarize.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "collector/api_activity.h"
#include "collector/version.h"

namespace profiler {
namespace {

// More than this share of faulty records, and idle time is not to be trusted.
constexpr std::uint64_t kFaultPercent = 1;

std::uint64_t since(std::uint64_t start, std::uint64_t at) {
  return at > start ? at - start : 0;
}

ChecksSummary make_checks(const Timeline& timeline, const LaunchMatches& matches,
                          std::span<const DeviceActivity> devices) {
  ChecksSummary checks;
  checks.launches = matches.launches;
  checks.device_operations = timeline.operations().size();
  checks.unmatched = matches.unmatched;
  checks.dropped = timeline.dropped();
  checks.untimed = timeline.untimed();
  checks.unfinished = timeline.unfinished();
  checks.malformed = timeline.malformed();
  for (const DeviceActivity& device : devices) checks.clock_faults += device.clock_faults;
  return checks;
}

// Empty = reliable.
std::string unreliable_reason(const ChecksSummary& checks) {
  const std::uint64_t faults =
      checks.unmatched + checks.untimed + checks.dropped + checks.unfinished + checks.late;
  const std::uint64_t all = checks.device_operations + faults;
  if (faults * 100 <= all * kFaultPercent) return {};
  std::string parts;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count == 0) return;
    if (!parts.empty()) parts += ", ";
    parts += std::to_string(count) + " " + what;
  };
  add(checks.unmatched, "unmatched");
  add(checks.untimed, "untimed");
  add(checks.dropped, "dropped");
  add(checks.unfinished, "unfinished");
  add(checks.late, "late");
  return "More than 1 % of " + std::to_string(all) + " records are faulty: " + parts + ".";
}

DeviceSummary make_device(const DeviceActivity& activity, const Device& device,
                          const RunFacts& facts, const std::string& unreliable) {
  DeviceSummary summary;
  summary.name = device.name.empty() ? "GPU " + std::to_string(device.ordinal) : device.name;
  summary.uuid = uuid_text(device);
  summary.operations = activity.operations;
  summary.first_start_ns = since(facts.start_ns, activity.first_start);
  summary.lead_in_ns = summary.first_start_ns;
  summary.tail_ns = since(activity.last_end, facts.end_ns);
  summary.span_ns = activity.last_end - activity.first_start;
  summary.busy_ns = activity.busy_ns;
  summary.idle_ns = activity.idle_ns;
  summary.gap_count = activity.gap_count;
  summary.longest_gap_ns = activity.longest_gap_ns;
  summary.idle_reliable = unreliable.empty();
  summary.idle_unreliable_reason = unreliable;
  for (std::size_t i = 0; i < kCauseCount; ++i) {
    const CauseTotals& totals = activity.causes[i];
    if (totals.total_ns == 0) continue;
    summary.idle_by_cause.push_back({std::string(cause_name(static_cast<Cause>(i))),
                                     totals.total_ns, totals.gap_count, totals.longest_ns});
  }
  std::sort(summary.idle_by_cause.begin(), summary.idle_by_cause.end(),
            [](const CauseSummary& a, const CauseSummary& b) {
              return std::tie(b.total_ns, a.cause) < std::tie(a.total_ns, b.cause);
            });
  return summary;
}

std::vector<KernelSummary> make_kernels(const Timeline& timeline, const Catalog& catalog,
                                        const std::vector<std::uint64_t>& position_of_device) {
  // One function can have several entries in the catalog (other registers, another process).
  std::map<std::pair<std::string, std::uint64_t>, std::pair<Distribution, std::string>> merged;
  for (const auto& [key, distribution] : timeline.kernels()) {
    if (key.device == kNone || key.function == kNone) continue;
    const KernelFunction& function = catalog.kernel_functions[key.function];
    auto& entry = merged[{function.name, position_of_device[key.device]}];
    entry.first.merge(distribution);
    entry.second = function.short_name;
  }
  std::vector<KernelSummary> kernels;
  kernels.reserve(merged.size());
  for (const auto& [key, entry] : merged) {
    const Distribution& distribution = entry.first;
    KernelSummary kernel;
    kernel.name = key.first;
    kernel.short_name = entry.second;
    kernel.device = key.second;
    kernel.count = distribution.count();
    kernel.total_ns = distribution.total();
    kernel.mean_ns = distribution.mean();
    kernel.median_ns = distribution.quantile(1, 2);
    kernel.p99_ns = distribution.quantile(99, 100);
    kernel.min_ns = distribution.min();
    kernel.max_ns = distribution.max();
    kernel.stddev_ns = distribution.stddev();
    kernels.push_back(std::move(kernel));
  }
  std::stable_sort(
      kernels.begin(), kernels.end(),
      [](const KernelSummary& a, const KernelSummary& b) { return a.total_ns > b.total_ns; });
  return kernels;
}

std::vector<CopySummary> make_copies(const Timeline& timeline) {
  std::vector<CopySummary> copies;
  for (const auto& [key, totals] : timeline.copies()) {
    CopySummary copy;
    copy.kind = key.is_set ? "memset" : copy_kind_name(key.kind);
    copy.source = key.is_set ? "" : memory_kind_name(key.source);
    copy.destination = memory_kind_name(key.destination);
    copy.count = totals.count;
    copy.bytes = totals.bytes;
    copy.total_ns = totals.total_ns;
    copies.push_back(std::move(copy));
  }
  std::stable_sort(copies.begin(), copies.end(), [](const CopySummary& a, const CopySummary& b) {
    return a.total_ns > b.total_ns;
  });
  return copies;
}

std::vector<ApiSummary> make_api(const Timeline& timeline, const Catalog& catalog) {
  std::vector<ApiSummary> api;
  for (const auto& [name, totals] : total_api_calls(timeline.calls(), catalog))
    api.push_back({name, totals.count, totals.total_ns, totals.self_ns, totals.failures});
  std::stable_sort(api.begin(), api.end(), [](const ApiSummary& a, const ApiSummary& b) {
    return a.total_ns > b.total_ns;
  });
  return api;
}

// Only what no other member of the summary says: killed processes and failures have theirs.
void add_process_notes(const ProcessState& state, const ProcessSummary& process,
                       std::vector<std::string>& notes) {
  const std::string who = "Process " + std::to_string(process.pid);
  if (!state.fault.empty())
    notes.push_back(who + " was recorded only in part: " + state.fault + ".");
  if (state.process == kNone && state.fault.empty() &&
      process.exit.kind != ExitState::Kind::kRunning)
    notes.push_back(who + " announced itself and ended before it sent anything.");
}

}  // namespace

std::string uuid_text(const Device& device) {
  if (!device.has_uuid) return {};
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[device.uuid[i] >> 4];
    text += kDigits[device.uuid[i] & 15];
  }
  return text;
}

std::string shell_quoted(const std::vector<std::string>& arguments) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%^";
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += ' ';
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) {
      if (c == '\'') {
        line += "'\\''";
      } else {
        line += c;
      }
    }
    line += '\'';
  }
  return line;
}

std::string copy_kind_name(std::uint8_t kind) {
  constexpr std::array<const char*, 11> kNames = {"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                  "AtoD",    "DtoA", "DtoD", "HtoH", "PtoP"};
  return kind < kNames.size() ? kNames[kind] : "unknown";
}

std::string memory_kind_name(std::uint8_t kind) {
  constexpr std::array<const char*, 8> kNames = {"unknown",       "pageable",      "pinned",
                                                 "device",        "array",         "managed",
                                                 "device static", "managed static"};
  return kind < kNames.size() ? kNames[kind] : "unknown";
}

Summary summarize(const RunFacts& facts, const Catalog& catalog, const Timeline& timeline,
                  const LaunchMatches& matches, std::span<const DeviceActivity> devices,
                  std::span<const ProcessState> processes) {
  Summary summary;
  summary.profiler_version = kProfilerVersion;
  summary.command = shell_quoted(facts.command);
  summary.hostname = facts.hostname;
  summary.exit = facts.exit;
  summary.wall_ns = since(facts.start_ns, facts.end_ns);
  summary.trace_start_ns = facts.start_ns;
  summary.start_realtime_ns = facts.start_realtime_ns;
  summary.launch_window_ns = facts.launch_window_ns;
  summary.simulated = !facts.simulated_model.empty();
  summary.simulated_model = facts.simulated_model;
  summary.notes = facts.notes;

  for (const ProcessState& state : processes) {
    ProcessSummary process;
    process.pid = state.pid;
    process.said_goodbye = state.said_goodbye;
    process.failure = state.failure;
    if (state.pid == facts.root_pid) {
      process.exit = facts.exit;
    } else if (!state.closed) {
      process.exit.kind = ExitState::Kind::kRunning;
    }
    if (!state.said_goodbye && state.complete_until_ns != 0)
      process.complete_until_ns = since(facts.start_ns, state.complete_until_ns);
    if (state.process != kNone) {
      const Process& known = catalog.processes[state.process];
      process.command = shell_quoted(known.command_line);
      summary.simulated |= known.simulated;
      if (summary.simulated_model.empty()) summary.simulated_model = known.simulated_model;
      if (summary.driver_version == 0) summary.driver_version = known.driver_version;
      if (summary.cupti_version == 0) {
        summary.cupti_version = known.cupti_version;
        summary.cupti_path = known.cupti_path;
      }
    }
    add_process_notes(state, process, summary.notes);
    summary.processes.push_back(std::move(process));
  }

  summary.checks = make_checks(timeline, matches, devices);
  const std::string unreliable = unreliable_reason(summary.checks);

  std::vector<const DeviceActivity*> order;
  for (const DeviceActivity& activity : devices) order.push_back(&activity);
  std::sort(order.begin(), order.end(), [&](const DeviceActivity* a, const DeviceActivity* b) {
    const Device& x = catalog.devices[a->device];
    const Device& y = catalog.devices[b->device];
    return std::tie(x.ordinal, x.uuid, a->device) < std::tie(y.ordinal, y.uuid, b->device);
  });
  std::vector<std::uint64_t> position_of_device(catalog.devices.size(), 0);
  for (const DeviceActivity* activity : order) {
    position_of_device[activity->device] = summary.devices.size();
    summary.devices.push_back(
        make_device(*activity, catalog.devices[activity->device], facts, unreliable));
  }
  summary.kernels = make_kernels(timeline, catalog, position_of_device);
  summary.copies = make_copies(timeline);
  summary.api = make_api(timeline, catalog);
  return summary;
}

}  // namespace profiler
