#include "collector/findings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "collector/idle_totals.h"
#include "collector/units.h"
#include "collector/verdict.h"

namespace profiler {
namespace {

struct Facts {
  const Summary& summary;
  IdleTotals totals;
};
using Finding = std::optional<FindingSummary>;

// --- Words ---------------------------------------------------------------------------------------

std::string time(std::uint64_t ns) {
  return format_duration(ns, true);
}

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
  return format_exact(count) + " " + std::string(count == 1 ? one : many);
}

// Names of templates are pages long; what a sentence needs is their beginning.
std::string brief(std::string_view name) {
  constexpr std::size_t kMost = 60;
  if (name.empty()) return "(no name)";
  if (name.size() <= kMost) return std::string(name);
  std::size_t end = kMost;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0U) == 0x80U) --end;
  return std::string(name.substr(0, end)) + "…";
}

std::string quoted(std::string_view name) {
  return "\"" + brief(name) + "\"";
}

// An upper bound, and said to be one.
std::string at_most(std::uint64_t ns, const IdleTotals& totals) {
  return "at most " + time(ns) + " of " + time(totals.recorded) + " (" +
         format_percent(ns, totals.recorded) + " %)";
}

bool worthwhile(std::uint64_t ns, const IdleTotals& totals) {
  return ns > 0 && at_least_percent(ns, totals.recorded, kWorthwhilePercent);
}

// " Longest: 19.0 ms at 1.20 s, after copy DtoH and before kernel gemm, in "epoch > step"."
template <typename Test>
std::string longest_gap(const Facts& facts, Test&& test) {
  const GapSummary* longest = nullptr;
  for (const DeviceSummary& device : facts.summary.devices) {
    if (!device.idle_reliable) continue;
    for (const GapSummary& gap : device.top_gaps) {
      if (test(device, gap) && (longest == nullptr || gap.duration_ns > longest->duration_ns))
        longest = &gap;
    }
  }
  if (longest == nullptr) return {};
  std::string text =
      " Longest gap: " + time(longest->duration_ns) + " at " + time(longest->start_ns);
  if (!longest->before.empty()) text += ", after " + brief(longest->before);
  if (!longest->after.empty()) text += ", before " + brief(longest->after);
  if (!longest->nvtx_path.empty()) text += ", in " + quoted(longest->nvtx_path);
  return text + ".";
}

std::string longest_gap_with(const Facts& facts, Cause cause) {
  return longest_gap(facts, [&](const DeviceSummary&, const GapSummary& gap) {
    return std::any_of(gap.pieces.begin(), gap.pieces.end(), [&](const GapPieceSummary& piece) {
      return piece.cause == cause_name(cause);
    });
  });
}

std::string longest_gap_opened_by(const Facts& facts, Cause opener) {
  return longest_gap(facts, [&](const DeviceSummary& device, const GapSummary& gap) {
    return std::any_of(device.idle_opened_by.begin(), device.idle_opened_by.end(),
                       [&](const OpenedBySummary& opened) {
                         return opened.call == gap.opened_by && opened.cause == cause_name(opener);
                       });
  });
}

// The calls of one class that opened gaps, over all devices; the most expensive first.
std::vector<OpenedBySummary> openers(const Facts& facts, Cause cause) {
  std::vector<OpenedBySummary> calls;
  for (const DeviceSummary& device : facts.summary.devices) {
    if (!device.idle_reliable) continue;
    for (const OpenedBySummary& opened : device.idle_opened_by) {
      if (opened.cause != cause_name(cause)) continue;
      const auto same = std::find_if(calls.begin(), calls.end(), [&](const OpenedBySummary& call) {
        return call.call == opened.call;
      });
      if (same == calls.end()) {
        calls.push_back(opened);
      } else {
        same->total_ns = saturating_sum(same->total_ns, opened.total_ns);
        same->gap_count = saturating_sum(same->gap_count, opened.gap_count);
      }
    }
  }
  std::stable_sort(calls.begin(), calls.end(),
                   [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return calls;
}

std::string opener_name(const std::vector<OpenedBySummary>& calls, const char* otherwise) {
  return calls.empty() ? otherwise : brief(calls.front().call);
}

// "cudaStreamSynchronize opened 500 gaps, 312 ms in all."
std::string opened_gaps(const std::vector<OpenedBySummary>& calls) {
  if (calls.empty()) return {};
  const OpenedBySummary& call = calls.front();
  std::string text = brief(call.call) + " was open at the start of " +
                     counted(call.gap_count, "gap", "gaps") + ", " + time(call.total_ns) +
                     " in all";
  if (calls.size() > 1)
    text += "; " + counted(calls.size() - 1, "other call", "other calls") + " as well";
  return text + ".";
}

const NvtxIdleSummary* most_idle_range(const Facts& facts) {
  const NvtxIdleSummary* range = nullptr;
  for (const DeviceSummary& device : facts.summary.devices) {
    if (!device.idle_reliable) continue;
    for (const NvtxIdleSummary& each : device.idle_by_nvtx) {
      if (range == nullptr || each.total_ns > range->total_ns) range = &each;
    }
  }
  return range;
}

// The thread that the GPU waited for most, and the NVTX range.
std::string whom_it_waited_for(const Facts& facts) {
  const ThreadIdleSummary* thread = nullptr;
  const NvtxIdleSummary* range = most_idle_range(facts);
  for (const DeviceSummary& device : facts.summary.devices) {
    if (!device.idle_reliable) continue;
    for (const ThreadIdleSummary& each : device.idle_by_thread) {
      if (thread == nullptr || each.total_ns > thread->total_ns) thread = &each;
    }
  }
  std::string text;
  if (thread != nullptr) {
    text = "Thread " + std::to_string(thread->tid);
    if (!thread->name.empty()) text += " " + quoted(thread->name);
    text += " kept it waiting " + time(thread->total_ns) + " in " +
            counted(thread->gap_count, "gap", "gaps");
  }
  if (range != nullptr) {
    text += (text.empty() ? "It waited " : ", ") + time(range->total_ns) +
            (text.empty() ? " in NVTX range " : " of it in NVTX range ") + quoted(range->name);
  }
  return text.empty() ? text : text + ".";
}

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(' ') == std::string::npos ? text.size()
                                                                 : text.find_first_not_of(' '));
  return text;
}

bool sounds_like_data_loading(std::string name) {
  static constexpr auto kWords =
      std::to_array<std::string_view>({"data", "load", "batch", "input", "fetch", "decode"});
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return name.find(word) != std::string::npos; });
}

// --- The rules -----------------------------------------------------------------------------------
// Each returns nothing when its threshold is not reached.

// Idle times that are withheld, or that are mostly the profiler's own or of unknown origin.
Finding not_reliable(const Facts& facts) {
  const auto& devices = facts.summary.devices;
  const auto faulty = std::find_if(devices.begin(), devices.end(), [](const DeviceSummary& device) {
    return !device.idle_reliable;
  });
  const std::optional<Cause> untrusted = untrusted_cause(facts.totals);
  if (faulty == devices.end() && !untrusted) return std::nullopt;
  FindingSummary finding;
  if (faulty == devices.end()) {
    const std::uint64_t part = idle_of(facts.totals, *untrusted);
    finding.title = format_percent(part, facts.totals.idle) + " % of the idle time (" + time(part) +
                    " of " + time(facts.totals.idle) + ") is " +
                    std::string(cause_name(*untrusted)) + ", so nothing follows from it.";
    finding.evidence = trimmed(longest_gap_with(facts, *untrusted));
    finding.remedy =
        "Profile a longer run, in which what the profiler costs at the start is small.";
    return finding;
  }
  const ChecksSummary& checks = facts.summary.checks;
  std::uint64_t doubt = 0;
  for (const std::uint64_t n :
       {checks.unmatched, checks.untimed, checks.dropped, checks.unfinished, checks.late})
    doubt = saturating_sum(doubt, n);
  finding.title = "Idle time is withheld: " + counted(doubt, "record", "records") + " of " +
                  format_exact(saturating_sum(checks.device_operations, doubt)) +
                  " missing or faulty.";
  finding.evidence = faulty->idle_unreliable_reason;
  const std::uint64_t most =
      std::max({checks.unmatched, checks.untimed, checks.dropped, checks.unfinished, checks.late});
  finding.remedy =
      most > 0 && most == checks.unfinished
          ? "Let the program end by itself (return from main, or exit) after its GPU work is done."
          : "Profile a shorter run, or let no other profiler use the GPU at the same time.";
  return finding;
}

// Any call that failed; "not ready" (600) is an answer to a query and no failure.
Finding failing_calls(const Facts& facts) {
  constexpr std::uint64_t kNotReady = 600;
  std::uint64_t failed = 0;
  std::uint64_t calls = 0;
  const ApiSummary* worst = nullptr;
  std::uint64_t worst_failed = 0;
  for (const ApiSummary& call : facts.summary.api) {
    calls = saturating_sum(calls, call.count);
    std::uint64_t own = call.failures;
    for (const FailureSummary& failure : call.failures_by_code) {
      if (failure.code == kNotReady) own -= std::min(own, failure.count);
    }
    failed = saturating_sum(failed, own);
    if (own > worst_failed) {
      worst = &call;
      worst_failed = own;
    }
  }
  if (worst == nullptr) return std::nullopt;
  FindingSummary finding;
  finding.title =
      format_exact(failed) + " of " + counted(calls, "API call", "API calls") + " failed.";
  finding.evidence = brief(worst->name) + " failed " + counted(worst_failed, "time", "times");
  std::string codes;
  for (const FailureSummary& failure : worst->failures_by_code) {
    if (failure.code == kNotReady) continue;
    codes += (codes.empty() ? ": " : ", ") + format_exact(failure.count) + " × code " +
             std::to_string(failure.code);
  }
  finding.evidence += codes + ".";
  finding.remedy = "Check every result: what follows a failed call may not have run at all.";
  return finding;
}

// Busy for kBusyPercent of the recorded time, and not with copies: only faster kernels help.
Finding gpu_bound(const Facts& facts) {
  const IdleTotals& totals = facts.totals;
  if (totals.recorded == 0 || !is_busy(totals) || is_copying(totals)) return std::nullopt;
  FindingSummary finding;
  finding.title = "The GPU is busy " + format_percent(totals.busy, totals.recorded) + " % of " +
                  time(totals.recorded) + ": waiting is not what costs time here.";
  if (facts.summary.kernels.empty()) {
    finding.remedy = "Only less work on the GPU makes this faster.";
    return finding;
  }
  const KernelSummary& kernel = facts.summary.kernels.front();
  const std::string name = brief(kernel.short_name.empty() ? kernel.name : kernel.short_name);
  finding.evidence = "Kernel " + name + " takes " +
                     format_percent(kernel.total_ns, totals.kernels) +
                     " % of kernel time: " + time(kernel.total_ns) + " in " +
                     counted(kernel.count, "launch", "launches") + ".";
  finding.remedy =
      "Look into " + name + " with Nsight Compute (ncu); try lower precision or a library.";
  return finding;
}

// `launches_too_slow` (mean gap and share of short kernels), and worth it.
Finding launch_bound(const Facts& facts) {
  const Summary& summary = facts.summary;
  const std::uint64_t stake = launch_at_stake(summary, facts.totals);
  if (!worthwhile(stake, facts.totals)) return std::nullopt;
  FindingSummary finding;
  finding.title = "The GPU waits for launches: " + at_most(stake, facts.totals) + ".";
  finding.evidence =
      format_exact(summary.kernels_shorter_than_launch) + " of " +
      format_exact(summary.kernels_with_launch) + " kernels are shorter than their launch; " +
      counted(facts.totals.gaps, "gap", "gaps") + " of " +
      time(facts.totals.idle / std::max<std::uint64_t>(facts.totals.gaps, 1)) + " on average";
  if (summary.launch_latency.count > 0)
    finding.evidence += "; launch latency " + time(summary.launch_latency.median_ns) + " (median)";
  const auto most = std::max_element(summary.kernels.begin(), summary.kernels.end(),
                                     [](const KernelSummary& a, const KernelSummary& b) {
                                       return a.shorter_than_launch < b.shorter_than_launch;
                                     });
  if (most != summary.kernels.end() && most->shorter_than_launch > 0) {
    finding.evidence += "; mostly " +
                        brief(most->short_name.empty() ? most->name : most->short_name) + " (" +
                        time(most->median_ns) + ")";
  }
  finding.evidence += ".";
  finding.remedy = "Use larger batches, fused kernels, or a CUDA graph (torch.compile).";
  finding.at_stake_ns = stake;
  return finding;
}

// CPU code outside CUDA, unless it is but the way from one short launch to the next.
Finding host_bound(const Facts& facts) {
  const std::uint64_t stake = host_at_stake(facts.summary, facts.totals);
  if (!worthwhile(stake, facts.totals)) return std::nullopt;
  FindingSummary finding;
  finding.title = "The GPU waits for CPU code: " + at_most(stake, facts.totals) + ".";
  finding.evidence = trimmed(whom_it_waited_for(facts) + longest_gap_with(facts, Cause::kCpuCode));
  const NvtxIdleSummary* range = most_idle_range(facts);
  finding.remedy =
      range != nullptr && sounds_like_data_loading(range->name)
          ? "Prepare the next batch in other threads while the GPU works (num_workers)."
          : "Do this after the next GPU work was submitted, or in another thread.";
  finding.at_stake_ns = stake;
  return finding;
}

// Gaps that began in a synchronizing call.
Finding synchronization_bound(const Facts& facts) {
  const std::uint64_t stake = overlap_at_stake(facts.totals, facts.totals.opened_by_wait);
  if (!worthwhile(stake, facts.totals)) return std::nullopt;
  const std::vector<OpenedBySummary> calls = openers(facts, Cause::kSynchronizing);
  FindingSummary finding;
  finding.title = opener_name(calls, "Waiting for the GPU") +
                  " makes CPU and GPU take turns: " + at_most(stake, facts.totals) + ".";
  finding.evidence = opened_gaps(calls) + longest_gap_opened_by(facts, Cause::kSynchronizing);
  finding.remedy = "Wait once per many steps; let streams wait for events (cudaStreamWaitEvent).";
  finding.at_stake_ns = stake;
  return finding;
}

// Gaps that began in a blocking copy to the host.
Finding readback(const Facts& facts) {
  const std::uint64_t stake = overlap_at_stake(facts.totals, facts.totals.opened_by_readback);
  if (!worthwhile(stake, facts.totals)) return std::nullopt;
  const std::vector<OpenedBySummary> calls = openers(facts, Cause::kCopying);
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  for (const CopySummary& copy : facts.summary.copies) {
    if (copy.kind != "DtoH") continue;
    count = saturating_sum(count, copy.count);
    bytes = saturating_sum(bytes, copy.bytes);
  }
  FindingSummary finding;
  finding.title = "The CPU waits for results: " + at_most(stake, facts.totals) + ".";
  finding.evidence = opened_gaps(calls);
  if (count > 0) {
    finding.evidence += " " + counted(count, "copy", "copies") + " DtoH of " +
                        format_bytes(bytes / count) + " each (in PyTorch .item(), .cpu()).";
  }
  finding.evidence += longest_gap_opened_by(facts, Cause::kCopying);
  finding.remedy = "Read back less often, or one step later: cudaMemcpyAsync into pinned memory.";
  finding.at_stake_ns = stake;
  return finding;
}

// Large copies from or to pageable memory: they are staged by the CPU, and block it.
Finding pageable_copies(const Facts& facts) {
  const std::uint64_t stake = pageable_at_stake(facts.totals);
  if (!worthwhile(stake, facts.totals)) return std::nullopt;
  FindingSummary finding;
  finding.title = "The CPU stages them: " + at_most(stake, facts.totals) + ".";
  std::uint64_t pinned_bytes = 0;
  std::uint64_t pinned_ns = 0;
  const CopySummary* largest = nullptr;
  for (const CopySummary& copy : facts.summary.copies) {
    if (copy.count == 0 || copy.bytes / copy.count < kLargeCopyBytes) continue;
    if (copy.kind != "HtoD" && copy.kind != "DtoH") continue;
    if (copy.source != "pageable" && copy.destination != "pageable") {
      pinned_bytes = saturating_sum(pinned_bytes, copy.bytes);
      pinned_ns = saturating_sum(pinned_ns, copy.total_ns);
    } else if (largest == nullptr || copy.total_ns > largest->total_ns) {
      largest = &copy;
    }
  }
  if (largest != nullptr) {
    finding.evidence = counted(largest->count, "copy ", "copies ") + largest->kind + " of " +
                       format_bytes(largest->bytes / largest->count) + " each ran at " +
                       format_throughput(largest->bytes, largest->total_ns);
    if (pinned_ns > 0)
      finding.evidence += " (pinned ones at " + format_throughput(pinned_bytes, pinned_ns) + ")";
    finding.evidence += ".";
  }
  finding.evidence += longest_gap_with(facts, Cause::kStaging);
  finding.remedy = "Pin the memory (pin_memory=True) and use cudaMemcpyAsync (non_blocking=True).";
  finding.at_stake_ns = stake;
  return finding;
}

// Large pinned copies and kernels that hardly overlap: the shorter of the two could be hidden.
Finding serialized_copies(const Facts& facts) {
  const IdleTotals& totals = facts.totals;
  const std::uint64_t work = saturating_sum(totals.kernels, totals.host_copies);
  const std::uint64_t overlap = work > totals.busy ? work - totals.busy : 0;
  const std::uint64_t shorter = std::min(totals.kernels, totals.large_pinned);
  const std::uint64_t stake = shorter - std::min(shorter, overlap);
  if (!worthwhile(stake, totals)) return std::nullopt;
  FindingSummary finding;
  finding.title = "Kernels and copies take turns: " + at_most(stake, totals) + ".";
  finding.evidence = "Large copies from or to pinned memory take " + time(totals.large_pinned) +
                     ", kernels " + time(totals.kernels) + ", and they overlap for at most " +
                     time(overlap) + ".";
  finding.remedy = "Copy the next data on a stream of its own while the kernels work on the last.";
  finding.at_stake_ns = stake;
  return finding;
}

// Allocating or freeing, in more gaps than setting up explains.
Finding allocation(const Facts& facts) {
  const std::uint64_t stake = allocation_at_stake(facts.totals);
  if (!worthwhile(stake, facts.totals) || facts.totals.allocation_gaps < kLoopGaps)
    return std::nullopt;
  const std::vector<OpenedBySummary> calls = openers(facts, Cause::kAllocating);
  FindingSummary finding;
  finding.title = "The GPU waits for " + opener_name(calls, "memory") + ": " +
                  at_most(stake, facts.totals) + ".";
  finding.evidence = opened_gaps(calls);
  const ApiSummary* most = nullptr;
  for (const ApiSummary& call : facts.summary.api) {
    const bool allocates = call.name.find("Malloc") != std::string::npos ||
                           call.name.find("Free") != std::string::npos ||
                           call.name.find("MemAlloc") != std::string::npos;
    if (allocates && (most == nullptr || call.total_ns > most->total_ns)) most = &call;
  }
  if (most != nullptr) {
    finding.evidence += " " + brief(most->name) + " was called " +
                        counted(most->count, "time", "times") + " and took " +
                        time(most->total_ns) + ".";
  }
  finding.evidence = trimmed(finding.evidence + longest_gap_with(facts, Cause::kAllocating));
  finding.remedy = "Allocate once before the loop, or use a pool (cudaMallocAsync).";
  finding.at_stake_ns = stake;
  return finding;
}

// Loading code onto the GPU, or compiling it, while the GPU waits.
Finding module_loading(const Facts& facts) {
  const std::uint64_t stake = loading_at_stake(facts.totals);
  if (!worthwhile(stake, facts.totals)) return std::nullopt;
  FindingSummary finding;
  finding.title = "The GPU waits for its code: " + at_most(stake, facts.totals) + ".";
  const auto found = facts.totals.causes.find(cause_name(Cause::kLoading));
  if (found != facts.totals.causes.end()) {
    finding.evidence = "Kernels were loaded or compiled for " + time(found->second.total_ns) +
                       " in " + counted(found->second.gap_count, "gap", "gaps") + ", up to " +
                       time(found->second.longest_ns) + " in one.";
  }
  finding.evidence = trimmed(finding.evidence + longest_gap_with(facts, Cause::kLoading));
  finding.remedy =
      "Run each kernel once to warm up, or set CUDA_MODULE_LOADING=EAGER; build for this GPU (nvcc "
      "-arch) so that nothing is compiled at run time.";
  finding.at_stake_ns = stake;
  return finding;
}

// From kQueueFullPercent on. Nothing to win: the CPU is ahead as far as it can be.
Finding launch_queue_full(const Facts& facts) {
  const std::uint64_t full = idle_of(facts.totals, Cause::kQueueFull);
  if (full == 0 || !at_least_percent(full, facts.totals.recorded, kQueueFullPercent))
    return std::nullopt;
  FindingSummary finding;
  finding.title = "Launches found the queue of the GPU full while it was idle for " + time(full) +
                  " of " + time(facts.totals.recorded) + " (" +
                  format_percent(full, facts.totals.recorded) + " %).";
  finding.evidence =
      "The CPU is as far ahead as it can be." + longest_gap_with(facts, Cause::kQueueFull);
  finding.remedy = "Nothing to do for the CPU; fewer and longer kernels keep the queue short.";
  return finding;
}

struct Rule {
  std::string_view name;
  Finding (*find)(const Facts&);
  bool needs_idle;  // makes no sense without idle times that can be trusted
};

constexpr auto kRules = std::to_array<Rule>({
    {kNotReliable, not_reliable, false},
    {"failing API calls", failing_calls, false},
    {kLaunchBound, launch_bound, true},
    {kSynchronizationBound, synchronization_bound, true},
    {"readback", readback, true},
    {"pageable copies", pageable_copies, true},
    {"serialized copies", serialized_copies, true},
    {"allocation in the loop", allocation, true},
    {"module loading", module_loading, true},
    {kHostBound, host_bound, true},
    {kGpuBound, gpu_bound, true},
    {"launch queue full", launch_queue_full, true},
});

}  // namespace

std::vector<FindingSummary> find(const Summary& summary) {
  const Facts facts = {summary, add_up_idle(summary)};
  const bool trusted = facts.totals.devices > 0 && !untrusted_cause(facts.totals);
  std::vector<FindingSummary> findings;
  for (const Rule& rule : kRules) {
    if (rule.needs_idle && !trusted) continue;
    if (Finding finding = rule.find(facts)) {
      finding->rule = rule.name;
      findings.push_back(std::move(*finding));
    }
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const auto& a, const auto& b) { return a.at_stake_ns > b.at_stake_ns; });
  if (findings.size() > kMostFindings) findings.resize(kMostFindings);
  return findings;
}

std::vector<std::string_view> finding_rules() {
  std::vector<std::string_view> names;
  names.reserve(kRules.size());
  for (const Rule& rule : kRules) names.push_back(rule.name);
  return names;
}

}  // namespace profiler
