#include "collector/verdict.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "collector/idle_totals.h"
#include "collector/units.h"

namespace profiler {
namespace {

std::string time(std::uint64_t ns) {
  return format_duration(ns, true);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "0 %" : format_percent(part, whole) + " %";
}

struct Words {
  std::string subject;  // "the GPU was"
  std::string pronoun;  // "it"
  std::string between;  // "between its first and last work"
};

Words words_for(const Summary& summary, const IdleTotals& totals) {
  if (summary.devices.size() == 1) return {"the GPU was", "it", "between its first and last work"};
  std::string subject;
  if (totals.devices == summary.devices.size()) {
    subject = "the " + format_exact(totals.devices) + " GPUs were";
  } else {
    subject = format_exact(totals.devices) + " of " + format_exact(summary.devices.size()) +
              (totals.devices == 1 ? " GPUs was" : " GPUs were");
  }
  return {subject, totals.devices == 1 ? "it" : "they",
          totals.devices == 1 ? "between its first and last work"
                              : "between first and last work of each, taken together"};
}

std::string of_span(const Words& words, const IdleTotals& totals) {
  std::string text = "of the " + time(totals.recorded) + " " + words.between;
  if (totals.recorded < totals.span)
    text += " (" + time(totals.span - totals.recorded) + " of which were not recorded)";
  return text;
}

std::string idle_part(const Words& words, const IdleTotals& totals) {
  return words.subject + " idle " + percent(totals.idle, totals.recorded) + " " +
         of_span(words, totals);
}

std::string of_this(std::uint64_t part, const IdleTotals& totals) {
  return percent(part, totals.recorded) + " of this time";
}

VerdictSummary unreliable() {
  return {
      kNotReliable,
      "Not reliable: too many records are missing or faulty to tell how much the GPU was idle."};
}

VerdictSummary gpu_bound(const Words& words, const IdleTotals& totals) {
  return {kGpuBound, "GPU-bound: " + words.subject + " busy " +
                         percent(totals.busy, totals.recorded) + " " + of_span(words, totals) +
                         "."};
}

VerdictSummary outside(const Summary& summary, const Words& words, const IdleTotals& totals) {
  std::string text = "Idle before and after: between first and last GPU work lie only " +
                     time(totals.span) + " of " + time(saturating_sum(totals.span, totals.outside));
  if (summary.devices.size() == 1) {
    const DeviceSummary& device = summary.devices.front();
    text +=
        "; " + time(device.lead_in_ns) + " passed before and " + time(device.tail_ns) + " after it";
  } else {
    text += ", all GPUs taken together";
  }
  return {kOutside, text + ". Within it " + words.subject + " idle " +
                        percent(totals.idle, totals.recorded) + "."};
}

VerdictSummary launch_bound(const Summary& summary, const Words& words, const IdleTotals& totals) {
  return {kLaunchBound, "Launch-bound: " + idle_part(words, totals) + ", in " +
                            format_exact(totals.gaps) + " short gaps (mean " +
                            time(totals.idle / std::max<std::uint64_t>(totals.gaps, 1)) +
                            "), and " + format_exact(summary.kernels_shorter_than_launch) + " of " +
                            format_exact(summary.kernels_with_launch) +
                            " kernels were shorter than their launch."};
}

VerdictSummary host_bound(const Words& words, const IdleTotals& totals) {
  struct Clause {
    Cause cause;
    const char* text;
  };
  static constexpr auto kClauses = std::to_array<Clause>({
      {Cause::kCpuCode, "waited for CPU code outside CUDA"},
      {Cause::kAllocating, "waited for the CPU to allocate or free memory"},
      {Cause::kLoading, "waited for the CPU to load or compile code for the GPU"},
      {Cause::kOtherCall, "waited for other CUDA calls of the CPU"},
      {Cause::kProcessStarting, "waited for a process to start"},
      {Cause::kQueueFull, "waited while the CPU found the launch queue full"},
      {Cause::kLaunching, "waited while the CPU launched other work"},
      {Cause::kLaunchLatency, "waited for launched work to arrive"},
      {Cause::kSynchronizing, "waited for the CPU to return from a synchronizing call"},
      {Cause::kCopying, "waited for the CPU to return from a copy"},
      {Cause::kStaging, "waited for copies from or to pageable memory to be staged"},
  });
  const Clause& most =
      *std::max_element(kClauses.begin(), kClauses.end(), [&](const Clause& a, const Clause& b) {
        return idle_of(totals, a.cause) < idle_of(totals, b.cause);
      });
  return {kHostBound, "Host-bound: " + idle_part(words, totals) + "; for " +
                          of_this(idle_of(totals, most.cause), totals) + " " + words.pronoun + " " +
                          most.text + "."};
}

VerdictSummary synchronization_bound(const Words& words, const IdleTotals& totals) {
  const std::uint64_t waits = saturating_sum(totals.opened_by_wait, totals.opened_by_readback);
  const char* what = totals.opened_by_readback > totals.opened_by_wait
                         ? "copying a result back to the host"
                         : "in a synchronizing call";
  return {kSynchronizationBound, "Synchronization-bound: " + idle_part(words, totals) + "; for " +
                                     of_this(waits, totals) +
                                     " in gaps that began while the CPU was " + what + "."};
}

VerdictSummary transfer_bound(const Words& words, const IdleTotals& totals) {
  std::string text = "Transfer-bound: copies between host and device took " +
                     percent(totals.host_copies, totals.recorded) + " " + of_span(words, totals);
  if (totals.idle > 0) text += "; " + words.subject + " idle " + of_this(totals.idle, totals);
  return {kTransferBound, text + "."};
}

VerdictSummary supplied(const Words& words, const IdleTotals& totals, std::uint64_t waiting) {
  return {kGpuBound, "GPU-bound: the CPU kept ahead; " + idle_part(words, totals) + ", for " +
                         of_this(waiting, totals) + " between operations already submitted."};
}

VerdictSummary unexplained(const Words& words, const IdleTotals& totals, Cause cause) {
  const char* why = cause == Cause::kProfilerOverhead ? "was waiting for the profiler itself"
                                                      : "was ended by work whose launch is unknown";
  return {kNotReliable, "Not reliable: " + idle_part(words, totals) + ", and " +
                            percent(idle_of(totals, cause), totals.idle) + " of the idle time " +
                            why + "."};
}

}  // namespace

VerdictSummary judge(const Summary& summary) {
  if (summary.devices.empty()) return {kNoGpuWork, "No GPU work was recorded."};
  const IdleTotals totals = add_up_idle(summary);
  if (totals.devices == 0) return unreliable();
  const Words words = words_for(summary, totals);
  if (totals.recorded == 0) {
    return {kNoGpuWork, "The GPU was used, but all of its work took no time at all."};
  }
  if (const std::optional<Cause> cause = untrusted_cause(totals))
    return unexplained(words, totals, *cause);
  if (totals.outside / totals.devices >= kOutsideMinimumNs &&
      !at_least_percent(totals.span, saturating_sum(totals.span, totals.outside),
                        100 - kOutsidePercent)) {
    return outside(summary, words, totals);
  }
  if (is_copying(totals)) return transfer_bound(words, totals);
  if (is_busy(totals)) return gpu_bound(words, totals);

  // The kind that could win most; of equals the one that is listed first.
  enum Kind : std::size_t { kLaunch, kWait, kTransfer, kHost, kSupplied, kKinds };
  std::array<std::uint64_t, kKinds> stake{};
  stake[kLaunch] = launch_at_stake(summary, totals);
  stake[kWait] =
      overlap_at_stake(totals, saturating_sum(totals.opened_by_wait, totals.opened_by_readback));
  stake[kTransfer] = at_least_percent(pageable_at_stake(totals), totals.recorded, kTransferPercent)
                         ? pageable_at_stake(totals)
                         : 0;
  stake[kHost] = host_at_stake(summary, totals);
  for (const std::uint64_t part :
       {allocation_at_stake(totals), loading_at_stake(totals), idle_of(totals, Cause::kOtherCall),
        idle_of(totals, Cause::kProcessStarting)}) {
    stake[kHost] = std::max(stake[kHost], part);
  }
  stake[kSupplied] = saturating_sum(
      idle_of(totals, Cause::kScheduling),
      saturating_sum(idle_of(totals, "inside a graph"), idle_of(totals, "dependency")));
  const auto most = std::max_element(stake.begin(), stake.end());
  switch (static_cast<Kind>(most - stake.begin())) {
    case kLaunch:
      // All zero: none of these, so the CPU was late in some other way.
      if (*most > 0) return launch_bound(summary, words, totals);
      break;
    case kWait:
      return synchronization_bound(words, totals);
    case kTransfer:
      return transfer_bound(words, totals);
    case kSupplied:
      return supplied(words, totals, *most);
    case kHost:
    case kKinds:
      break;
  }
  return host_bound(words, totals);
}

}  // namespace profiler
