#include "collector/idle_totals.h"

#include <algorithm>

namespace profiler {
namespace {

// Which way the copies went that opened a device's gaps, as far as its longest gaps tell. Per mille
// that went to the host.
std::uint64_t readback_per_mille(const Summary& summary, const DeviceSummary& device) {
  const auto names = [](const GapSummary& gap, std::string_view direction) {
    return gap.before.find(direction) != std::string::npos ||
           gap.after.find(direction) != std::string::npos;
  };
  constexpr std::uint64_t kMostWeight = std::uint64_t{1} << 40;  // so that sums stay sums
  std::uint64_t readback = 0;
  std::uint64_t known = 0;
  for (const GapSummary& gap : device.top_gaps) {
    const bool is_copy = std::any_of(device.idle_opened_by.begin(), device.idle_opened_by.end(),
                                     [&](const OpenedBySummary& opened) {
                                       return opened.call == gap.opened_by &&
                                              opened.cause == cause_name(Cause::kCopying);
                                     });
    const bool to_host = names(gap, "DtoH");
    if (!is_copy || !(to_host || names(gap, "HtoD"))) continue;
    const std::uint64_t weight = std::min(gap.duration_ns, kMostWeight);
    known = saturating_sum(known, weight);
    if (to_host) readback = saturating_sum(readback, weight);
  }
  if (known == 0) {
    // None of the longest gaps tells: by the number of copies.
    for (const CopySummary& copy : summary.copies) {
      if (copy.kind != "DtoH" && copy.kind != "HtoD") continue;
      const std::uint64_t weight = std::min(copy.count, kMostWeight);
      known = saturating_sum(known, weight);
      if (copy.kind == "DtoH") readback = saturating_sum(readback, weight);
    }
  }
  if (known == 0) return 0;
  return static_cast<std::uint64_t>(1000.0 * static_cast<double>(readback) /
                                    static_cast<double>(known));
}

void add_opened(const Summary& summary, const DeviceSummary& device, IdleTotals& totals) {
  std::uint64_t copying = 0;
  for (const OpenedBySummary& opened : device.idle_opened_by) {
    totals.opened = saturating_sum(totals.opened, opened.total_ns);
    std::uint64_t* sum = nullptr;
    if (opened.cause == cause_name(Cause::kSynchronizing)) sum = &totals.opened_by_wait;
    if (opened.cause == cause_name(Cause::kCopying)) sum = &copying;
    if (opened.cause == cause_name(Cause::kLoading)) sum = &totals.opened_by_loading;
    if (opened.cause == cause_name(Cause::kAllocating)) {
      sum = &totals.opened_by_allocation;
      totals.allocation_gaps = saturating_sum(totals.allocation_gaps, opened.gap_count);
    }
    if (sum != nullptr) *sum = saturating_sum(*sum, opened.total_ns);
  }
  const std::uint64_t per_mille = readback_per_mille(summary, device);
  const std::uint64_t readback = copying / 1000 * per_mille + copying % 1000 * per_mille / 1000;
  totals.opened_by_readback = saturating_sum(totals.opened_by_readback, readback);
  totals.opened_by_upload = saturating_sum(totals.opened_by_upload, copying - readback);
}

}  // namespace

std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

bool at_least_percent(std::uint64_t part, std::uint64_t whole, std::uint64_t percent) {
  __extension__ using Wide = unsigned __int128;
  return Wide{part} * 100 >= Wide{whole} * percent;
}

IdleTotals add_up_idle(const Summary& summary) {
  IdleTotals totals;
  const auto add = [](std::uint64_t& sum, std::uint64_t more) { sum = saturating_sum(sum, more); };
  for (const DeviceSummary& device : summary.devices) {
    if (!device.idle_reliable) continue;
    ++totals.devices;
    add(totals.span, device.span_ns);
    add(totals.recorded, device.span_ns - std::min(device.span_ns, device.not_recorded_ns));
    add(totals.busy, device.busy_ns);
    add(totals.idle, device.idle_ns);
    add(totals.gaps, device.gap_count);
    add(totals.outside, saturating_sum(device.lead_in_ns, device.tail_ns));
    for (const CauseSummary& cause : device.idle_by_cause) {
      CauseSummary& sum = totals.causes[cause.cause];
      sum.cause = cause.cause;
      add(sum.total_ns, cause.total_ns);
      add(sum.gap_count, cause.gap_count);
      sum.longest_ns = std::max(sum.longest_ns, cause.longest_ns);
      if (cause.cause == cause_name(Cause::kAllocating))
        totals.allocation_gaps = std::max(totals.allocation_gaps, cause.gap_count);
    }
    add_opened(summary, device, totals);
  }
  for (const KernelSummary& kernel : summary.kernels) add(totals.kernels, kernel.total_ns);
  for (const CopySummary& copy : summary.copies) {
    if (copy.kind != "HtoD" && copy.kind != "DtoH") continue;
    add(totals.host_copies, copy.total_ns);
    if (copy.count == 0 || copy.bytes / copy.count < kLargeCopyBytes) continue;
    if (copy.source == "pageable" || copy.destination == "pageable") {
      add(totals.large_pageable, copy.total_ns);
      add(totals.large_pageable_bytes, copy.bytes);
    } else {
      add(totals.large_pinned, copy.total_ns);
    }
  }
  return totals;
}

std::uint64_t idle_of(const IdleTotals& totals, std::string_view cause) {
  const auto found = totals.causes.find(cause);
  return found == totals.causes.end() ? 0 : found->second.total_ns;
}

std::uint64_t idle_of(const IdleTotals& totals, Cause cause) {
  return idle_of(totals, cause_name(cause));
}

std::optional<Cause> untrusted_cause(const IdleTotals& totals) {
  if (totals.idle == 0 || is_busy(totals)) return std::nullopt;
  for (const Cause cause : {Cause::kProfilerOverhead, Cause::kUnknownLaunch}) {
    if (at_least_percent(idle_of(totals, cause), totals.idle, kUntrustedPercent)) return cause;
  }
  return std::nullopt;
}

bool is_busy(const IdleTotals& totals) {
  return at_least_percent(totals.busy, totals.recorded, kBusyPercent);
}

bool is_copying(const IdleTotals& totals) {
  return totals.host_copies > 0 && at_least_percent(std::min(totals.host_copies, totals.busy),
                                                    totals.recorded, kTransferPercent);
}

bool launches_too_slow(const Summary& summary, const IdleTotals& totals) {
  return totals.gaps > 0 && totals.idle / totals.gaps <= kShortGapNs &&
         totals.opened <= totals.idle / 2 && summary.kernels_with_launch > 0 &&
         at_least_percent(summary.kernels_shorter_than_launch, summary.kernels_with_launch,
                          kShortKernelPercent);
}

namespace {

// CPU code in pieces as short as the way from one launch to the next belongs to launching.
bool cpu_code_is_launching(const Summary& summary, const IdleTotals& totals) {
  const auto code = totals.causes.find(cause_name(Cause::kCpuCode));
  return code != totals.causes.end() && code->second.gap_count > 0 &&
         code->second.total_ns / code->second.gap_count <= kShortGapNs &&
         launches_too_slow(summary, totals);
}

}  // namespace

std::uint64_t host_at_stake(const Summary& summary, const IdleTotals& totals) {
  const std::uint64_t code = idle_of(totals, Cause::kCpuCode);
  return cpu_code_is_launching(summary, totals) ? 0 : code;
}

std::uint64_t launch_at_stake(const Summary& summary, const IdleTotals& totals) {
  if (!launches_too_slow(summary, totals)) return 0;
  std::uint64_t sum = idle_of(totals, Cause::kLaunchLatency);
  sum = saturating_sum(sum, idle_of(totals, Cause::kLaunching));
  sum = saturating_sum(sum, idle_of(totals, Cause::kScheduling));
  if (cpu_code_is_launching(summary, totals))
    sum = saturating_sum(sum, idle_of(totals, Cause::kCpuCode));
  return std::min(sum, totals.idle - std::min(totals.idle, totals.opened));
}

std::uint64_t overlap_at_stake(const IdleTotals& totals, std::uint64_t gaps) {
  std::uint64_t work = 0;
  for (const Cause cause :
       {Cause::kCpuCode, Cause::kAllocating, Cause::kLoading, Cause::kOtherCall}) {
    work = saturating_sum(work, idle_of(totals, cause));
  }
  work = std::min(work, gaps);
  return std::min(gaps, totals.recorded - std::min(totals.recorded, work));
}

std::uint64_t pageable_at_stake(const IdleTotals& totals) {
  if (totals.large_pageable == 0) return 0;
  std::uint64_t sum = saturating_sum(totals.large_pageable, totals.opened_by_upload);
  // A small copy back that follows a wait is staged as well; its gaps belong to the wait.
  if (totals.opened_by_readback == 0)
    sum = saturating_sum(sum, std::min(idle_of(totals, Cause::kStaging),
                                       totals.idle - std::min(totals.idle, totals.opened)));
  return std::min(sum, totals.recorded);
}

std::uint64_t allocation_at_stake(const IdleTotals& totals) {
  return std::max(idle_of(totals, Cause::kAllocating), totals.opened_by_allocation);
}

std::uint64_t loading_at_stake(const IdleTotals& totals) {
  return std::max(idle_of(totals, Cause::kLoading), totals.opened_by_loading);
}

}  // namespace profiler
