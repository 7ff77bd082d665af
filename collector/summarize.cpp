#include "collector/summarize.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include "collector/findings.h"
#include "collector/verdict.h"
#include "collector/version.h"

namespace profiler {
namespace {

// More than this share of faulty records, and idle time is not to be trusted.
constexpr std::uint64_t kFaultPercent = 1;

std::uint64_t since(std::uint64_t start, std::uint64_t at) {
  return at > start ? at - start : 0;
}

DistributionSummary summary_of(const Distribution& distribution) {
  DistributionSummary summary;
  summary.count = distribution.count();
  summary.total_ns = distribution.total();
  summary.mean_ns = distribution.mean();
  summary.median_ns = distribution.quantile(1, 2);
  summary.p99_ns = distribution.quantile(99, 100);
  summary.min_ns = distribution.min();
  summary.max_ns = distribution.max();
  summary.stddev_ns = distribution.stddev();
  return summary;
}

std::string text_of(const Catalog& catalog, TextId text) {
  return text < catalog.texts.size() ? catalog.texts[text] : std::string();
}

ChecksSummary make_checks(const Timeline& timeline, const Analysis& analysis) {
  const LaunchMatches& matches = analysis.matches();
  ChecksSummary checks;
  checks.launches = matches.launches;
  checks.device_operations = timeline.operations().size();
  checks.unmatched = matches.unmatched;
  checks.dropped = timeline.dropped();
  checks.untimed = timeline.untimed();
  checks.unfinished = timeline.unfinished();
  checks.malformed = timeline.malformed();
  checks.untimed += analysis.nvtx_pairs().untimed;
  checks.launches_without_operation = matches.launches_without_operation;
  checks.nvtx_unbalanced = analysis.nvtx_pairs().unbalanced;
  checks.nvtx_unclosed = analysis.nvtx_pairs().unclosed;
  checks.duplicates = timeline.duplicates();
  for (const DeviceActivity& device : analysis.devices())
    checks.clock_faults += device.clock_faults;
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

// Largest first; the last member of `key` breaks ties, so that the order is always the same.
template <typename Row, typename Name>
void sort_by_total(std::vector<Row>& rows, Name name) {
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : name(a) < name(b);
  });
}

GapSummary make_gap(const KeptGap& kept, const Catalog& catalog, const Timeline& timeline,
                    Analysis& analysis, const RunFacts& facts) {
  GapSummary gap;
  gap.start_ns = since(facts.start_ns, kept.facts.gap.start);
  gap.duration_ns = kept.facts.gap.end - kept.facts.gap.start;
  for (const GapPiece& piece : kept.pieces) {
    const std::string_view cause = cause_name(piece.cause);
    if (!gap.pieces.empty() && gap.pieces.back().cause == cause) {
      gap.pieces.back().duration_ns += piece.end - piece.start;
    } else {
      gap.pieces.push_back({std::string(cause), piece.end - piece.start});
    }
  }
  gap.before = operation_label(catalog, timeline, kept.facts.before);
  gap.after = operation_label(catalog, timeline, kept.facts.after);
  if (kept.facts.launch == kNone) return gap;
  const ThreadIndex thread = timeline.calls()[kept.facts.launch].thread;
  gap.pid = catalog.processes[catalog.threads[thread].process].pid;
  gap.tid = catalog.threads[thread].tid;
  gap.thread_name = catalog.threads[thread].name;
  const std::uint64_t at = kept.facts.gap.start;
  for (const OpenRecord& range : analysis.lanes().ranges(thread, at, at + 1)) {
    if (!gap.nvtx_path.empty()) gap.nvtx_path += " > ";
    gap.nvtx_path += text_of(catalog, analysis.ranges()[range.index].text);
  }
  if (kept.facts.opened_by != kNone)
    gap.opened_by = catalog.api_functions[timeline.calls()[kept.facts.opened_by].function].name;
  return gap;
}

DeviceSummary make_device(const DeviceActivity& activity, const Catalog& catalog,
                          const Timeline& timeline, Analysis& analysis, const RunFacts& facts,
                          const std::string& unreliable) {
  const Device& device = catalog.devices[activity.device];
  DeviceSummary summary;
  summary.name = device.name.empty() ? "GPU " + std::to_string(device.ordinal) : device.name;
  summary.uuid = uuid_text(device);
  summary.operations = activity.operations;
  summary.first_start_ns = since(facts.start_ns, activity.first_start);
  summary.lead_in_ns = summary.first_start_ns;
  summary.tail_ns = since(activity.last_end, facts.end_ns);
  summary.span_ns = activity.last_end - activity.first_start;
  summary.not_recorded_ns = activity.not_recorded_ns;
  summary.busy_ns = activity.busy_ns;
  summary.kernel_busy_ns = activity.kernel_busy_ns;
  summary.copy_busy_ns = activity.copy_busy_ns;
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
  sort_by_total(summary.idle_by_cause, [](const CauseSummary& row) { return row.cause; });
  for (const auto& [thread, totals] : activity.threads) {
    const Thread& known = catalog.threads[thread];
    summary.idle_by_thread.push_back({catalog.processes[known.process].pid, known.tid, known.name,
                                      totals.total_ns, totals.gap_count});
  }
  sort_by_total(summary.idle_by_thread, [](const ThreadIdleSummary& row) {
    return std::tuple{row.pid, row.tid};
  });
  for (const auto& [range, totals] : activity.nvtx)
    summary.idle_by_nvtx.push_back({catalog.nvtx_domains[range.first],
                                    text_of(catalog, range.second), totals.total_ns,
                                    totals.gap_count});
  sort_by_total(summary.idle_by_nvtx, [](const NvtxIdleSummary& row) {
    return std::tuple{row.domain, row.name};
  });
  for (const auto& [call, totals] : activity.opened_by)
    summary.idle_opened_by.push_back(
        {call.first, std::string(cause_name(call.second)), totals.total_ns, totals.gap_count});
  sort_by_total(summary.idle_opened_by, [](const OpenedBySummary& row) {
    return std::tuple{row.call, row.cause};
  });
  for (const KeptGap& gap : activity.top_gaps)
    summary.top_gaps.push_back(make_gap(gap, catalog, timeline, analysis, facts));
  return summary;
}

std::vector<KernelSummary> make_kernels(const OperationStatistics& statistics,
                                        const Catalog& catalog,
                                        const std::vector<std::uint64_t>& position_of_device) {
  // One function can have several entries in the catalog (other registers, another process).
  std::map<std::pair<std::string, std::uint64_t>, std::pair<KernelStatistics, std::string>> merged;
  for (const auto& [key, kernel] : statistics.kernels) {
    if (key.device == kNone || key.function == kNone) continue;
    const KernelFunction& function = catalog.kernel_functions[key.function];
    auto& entry = merged[{function.name, position_of_device[key.device]}];
    entry.first.merge(kernel);
    entry.second = function.short_name;
  }
  std::vector<KernelSummary> kernels;
  kernels.reserve(merged.size());
  for (const auto& [key, entry] : merged) {
    const DistributionSummary duration = summary_of(entry.first.duration);
    KernelSummary kernel;
    kernel.name = key.first;
    kernel.short_name = entry.second;
    kernel.device = key.second;
    kernel.count = duration.count;
    kernel.total_ns = duration.total_ns;
    kernel.mean_ns = duration.mean_ns;
    kernel.median_ns = duration.median_ns;
    kernel.p99_ns = duration.p99_ns;
    kernel.min_ns = duration.min_ns;
    kernel.max_ns = duration.max_ns;
    kernel.stddev_ns = duration.stddev_ns;
    kernel.launch_latency = summary_of(entry.first.launch_latency);
    kernel.queue_delay = summary_of(entry.first.queue_delay);
    kernel.shorter_than_launch = entry.first.shorter_than_launch;
    kernels.push_back(std::move(kernel));
  }
  sort_by_total(kernels, [](const KernelSummary& row) { return std::tie(row.name, row.device); });
  return kernels;
}

std::vector<CopySummary> make_copies(const OperationStatistics& statistics) {
  std::vector<CopySummary> copies;
  for (const auto& [key, totals] : statistics.copies) {
    CopySummary copy;
    copy.kind = key.is_set ? "memset" : copy_kind_name(key.kind);
    copy.source = key.is_set ? "" : memory_kind_name(key.source);
    copy.destination = memory_kind_name(key.destination);
    copy.count = totals.count;
    copy.bytes = totals.bytes;
    copy.total_ns = totals.total_ns;
    copies.push_back(std::move(copy));
  }
  sort_by_total(copies, [](const CopySummary& row) {
    return std::tie(row.kind, row.source, row.destination);
  });
  return copies;
}

std::vector<ApiSummary> make_api(const std::map<std::string, ApiTotals>& totals) {
  std::vector<ApiSummary> api;
  for (const auto& [name, sum] : totals) {
    ApiSummary row;
    row.name = name;
    row.count = sum.count;
    row.total_ns = sum.total_ns;
    row.self_ns = sum.self_ns;
    for (const auto& [code, count] : sum.failures) {
      row.failures += count;
      row.failures_by_code.push_back({code, count});
    }
    api.push_back(std::move(row));
  }
  sort_by_total(api, [](const ApiSummary& row) { return row.name; });
  return api;
}

std::vector<NvtxSummary> make_nvtx(const std::vector<NvtxTotals>& totals, const Catalog& catalog) {
  std::vector<NvtxSummary> nvtx;
  for (const NvtxTotals& sum : totals) {
    NvtxSummary row;
    row.domain = catalog.nvtx_domains[sum.domain];
    row.name = text_of(catalog, sum.text);
    row.nested = sum.is_nested;
    row.count = sum.count;
    row.total_ns = sum.total_ns;
    row.self_ns = sum.self_ns;
    row.min_ns = sum.min_ns;
    row.max_ns = sum.max_ns;
    row.operations = sum.operations;
    row.gpu_union_ns = sum.gpu_union_ns;
    row.gpu_sum_ns = sum.gpu_sum_ns;
    nvtx.push_back(std::move(row));
  }
  sort_by_total(nvtx, [](const NvtxSummary& row) {
    return std::tuple{row.domain, row.name, row.nested};
  });
  return nvtx;
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

// A zero explains itself.
void add_idle_process_note(const ProcessState& state, const Catalog& catalog,
                           std::vector<std::string>& notes) {
  if (state.process == kNone || !state.failure.empty() || !state.fault.empty()) return;
  const bool has_cuda = catalog.processes[state.process].cupti_version != 0;
  notes.push_back("Process " + std::to_string(state.pid) +
                  (has_cuda ? " started CUDA and ran nothing on a GPU."
                            : " used NVTX and made no CUDA call that starts the driver."));
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

std::vector<std::uint64_t> device_positions(const Analysis& analysis, const Catalog& catalog) {
  std::vector<DeviceIndex> order;
  for (const DeviceActivity& activity : analysis.devices()) order.push_back(activity.device);
  std::sort(order.begin(), order.end(), [&](DeviceIndex a, DeviceIndex b) {
    const Device& x = catalog.devices[a];
    const Device& y = catalog.devices[b];
    return std::tie(x.ordinal, x.uuid, a) < std::tie(y.ordinal, y.uuid, b);
  });
  std::vector<std::uint64_t> positions(catalog.devices.size(), 0);
  for (std::size_t i = 0; i < order.size(); ++i) positions[order[i]] = i;
  return positions;
}

std::string operation_label(const Catalog& catalog, const Timeline& timeline,
                            std::uint32_t operation) {
  if (operation == kNone) return {};
  const LaneOperation& what = timeline.operations()[operation];
  switch (what.kind) {
    case OperationKind::kKernel:
      return "kernel " + (what.what < catalog.kernel_functions.size()
                              ? catalog.kernel_functions[what.what].short_name
                              : std::string("of unknown name"));
    case OperationKind::kMemcpy:
      return "copy " + copy_kind_name(timeline.transfers()[what.what].copy_kind);
    case OperationKind::kMemset:
      return "memset";
  }
  return {};
}

Summary summarize(const RunFacts& facts, const Catalog& catalog, const Timeline& timeline,
                  Analysis& analysis, std::span<const ProcessState> processes) {
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
    process.hello_ns = state.hello_ns;
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

  summary.checks = make_checks(timeline, analysis);
  const std::string unreliable = unreliable_reason(summary.checks);

  const std::vector<std::uint64_t> position_of_device = device_positions(analysis, catalog);
  summary.devices.resize(analysis.devices().size());
  for (const DeviceActivity& activity : analysis.devices())
    summary.devices[position_of_device[activity.device]] =
        make_device(activity, catalog, timeline, analysis, facts, unreliable);
  if (summary.devices.empty() && summary.checks.unfinished == 0 && summary.checks.untimed == 0) {
    for (const ProcessState& state : processes)
      add_idle_process_note(state, catalog, summary.notes);
  }
  const OperationStatistics& operations = analysis.operations();
  summary.kernels = make_kernels(operations, catalog, position_of_device);
  summary.copies = make_copies(operations);
  summary.api = make_api(analysis.api());
  summary.nvtx = make_nvtx(analysis.nvtx(), catalog);
  summary.launch_latency = summary_of(operations.launch_latency);
  summary.queue_delay = summary_of(operations.queue_delay);
  summary.kernels_shorter_than_launch = operations.kernels_shorter_than_launch;
  summary.kernels_with_launch = operations.kernels_with_launch;
  for (const OverheadRecord& overhead : timeline.overheads()) {
    (is_program_overhead(overhead.kind) ? summary.program_overhead_ns
                                        : summary.profiler_overhead_ns) +=
        overhead.end - overhead.start;
  }
  summary.verdict = judge(summary);
  summary.findings = find(summary);
  return summary;
}

}  // namespace profiler
