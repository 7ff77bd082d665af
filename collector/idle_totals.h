// What the verdict and the findings reason about: the idle time of all devices with reliable
// numbers, added up, and how much of it each way of working could win. ns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "collector/cause.h"
#include "collector/summary.h"

namespace profiler {

// A GPU that is busy this much of the recorded time has no idle time worth a word.
inline constexpr std::uint64_t kBusyPercent = 90;
// Copies between host and device below this size take as long as their latency, whatever the
// memory.
inline constexpr std::uint64_t kLargeCopyBytes = 64 * 1024;
// A mean gap up to this length is of the order of a launch (5 to 20 us), not of work on the CPU.
inline constexpr std::uint64_t kShortGapNs = 50'000;
// Every second kernel shorter than its launch: the CPU cannot keep ahead of the GPU.
inline constexpr std::uint64_t kShortKernelPercent = 50;
// Copies between host and device that take half of the recorded time are what the GPU is used for.
inline constexpr std::uint64_t kTransferPercent = 50;

// When half of the idle time is the profiler's own or of unknown origin, nothing follows from it.
inline constexpr std::uint64_t kUntrustedPercent = 50;

struct IdleTotals {
  std::uint64_t devices = 0;   // with reliable idle times
  std::uint64_t recorded = 0;  // spans less holes: the denominator
  std::uint64_t span = 0;
  std::uint64_t busy = 0;
  std::uint64_t idle = 0;
  std::uint64_t gaps = 0;
  std::uint64_t outside = 0;  // before the first and after the last work
  std::map<std::string, CauseSummary, std::less<>> causes;

  // Whole gaps by the class of the call that was open when they began.
  std::uint64_t opened = 0;                // all of them
  std::uint64_t opened_by_wait = 0;        // synchronizing
  std::uint64_t opened_by_readback = 0;    // copying, towards the host
  std::uint64_t opened_by_upload = 0;      // copying, other
  std::uint64_t opened_by_allocation = 0;  // allocating/freeing
  std::uint64_t opened_by_loading = 0;     // loading modules/JIT
  std::uint64_t allocation_gaps = 0;  // number of those opened by it, or of which it has a part

  std::uint64_t kernels = 0;         // sums of durations: what overlaps counts twice
  std::uint64_t host_copies = 0;     // between host and device, either direction
  std::uint64_t large_pageable = 0;  // of them large ones from or to pageable memory
  std::uint64_t large_pageable_bytes = 0;
  std::uint64_t large_pinned = 0;  // and those from or to other memory
};

IdleTotals add_up_idle(const Summary& summary);

// 0 when there is none.
std::uint64_t idle_of(const IdleTotals& totals, std::string_view cause);
std::uint64_t idle_of(const IdleTotals& totals, Cause cause);

// The cause, if any, that makes the idle time worthless: profiler overhead or unknown launches.
std::optional<Cause> untrusted_cause(const IdleTotals& totals);
bool is_busy(const IdleTotals& totals);
// Copies between host and device are what the GPU is used for.
bool is_copying(const IdleTotals& totals);

// Many short gaps, most not opened by a wait, between kernels that are shorter than their launch.
bool launches_too_slow(const Summary& summary, const IdleTotals& totals);

// Upper bounds of what could be won.
// Work of the CPU between the calls; none when it is but the way from one short launch to the next.
std::uint64_t host_at_stake(const Summary& summary, const IdleTotals& totals);
// Launches and their way to the device, in gaps that no wait had opened; 0 unless
// `launches_too_slow`.
std::uint64_t launch_at_stake(const Summary& summary, const IdleTotals& totals);
// `gaps` that a wait opened: without it, CPU and GPU would at best work all of the time side by
// side, so that the longer of both remains.
std::uint64_t overlap_at_stake(const IdleTotals& totals, std::uint64_t gaps);
// Large copies from and to pageable memory, and what the GPU waited for them.
std::uint64_t pageable_at_stake(const IdleTotals& totals);
// Allocating, loading: their own time, or the gaps that they opened.
std::uint64_t allocation_at_stake(const IdleTotals& totals);
std::uint64_t loading_at_stake(const IdleTotals& totals);

std::uint64_t saturating_sum(std::uint64_t a, std::uint64_t b);
// part * 100 >= whole * percent, without overflow.
bool at_least_percent(std::uint64_t part, std::uint64_t whole, std::uint64_t percent);

}  // namespace profiler
