// Verdicts and findings on summaries made by hand: each rule has one that triggers it first, and
// one just below its threshold.
#include "collector/findings.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "collector/idle_totals.h"
#include "collector/verdict.h"
#include "tests/catch.h"

namespace profiler {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1'000 * kMs;

std::string name(Cause cause) {
  return std::string(cause_name(cause));
}

// One second of which the GPU is busy with one kernel for 400 ms; of the idle time `ns` go to
// `cause` and the rest to the way between operations that were queued in time.
Summary half_idle(Cause cause, std::uint64_t ns, std::uint64_t gaps = 10) {
  Summary summary;
  summary.wall_ns = kSecond;
  DeviceSummary device;
  device.name = "GPU";
  device.operations = 11;
  device.span_ns = kSecond;
  device.busy_ns = 400 * kMs;
  device.idle_ns = 600 * kMs;
  device.gap_count = 10;
  if (ns > 0) device.idle_by_cause.push_back({name(cause), ns, gaps, ns});
  if (ns < device.idle_ns)
    device.idle_by_cause.push_back({"scheduling", device.idle_ns - ns, 10, 100 * kMs});
  summary.devices = {device};
  KernelSummary kernel;
  kernel.name = "work(float*)";
  kernel.short_name = "work";
  kernel.count = 11;
  kernel.total_ns = 400 * kMs;
  summary.kernels = {kernel};
  summary.kernels_with_launch = 11;
  summary.api = {{"cudaLaunchKernel", 11, kMs, kMs, 0, {}}};
  summary.checks.device_operations = 11;
  return summary;
}

Summary opened(Cause opener, const std::string& call, std::uint64_t ns, std::uint64_t gaps = 10) {
  Summary summary = half_idle(Cause::kScheduling, 0);
  summary.devices[0].idle_opened_by = {{call, name(opener), ns, gaps}};
  return summary;
}

Summary launch_bound() {
  Summary summary = half_idle(Cause::kLaunchLatency, 600 * kMs, 20'000);
  summary.devices[0].gap_count = 20'000;
  summary.kernels_with_launch = 1'000;
  summary.kernels_shorter_than_launch = 500;
  return summary;
}

Summary readback(std::uint64_t ns) {
  Summary summary = opened(Cause::kCopying, "cudaMemcpy", ns);
  summary.copies = {{"DtoH", "device", "pageable", 50, 200, 50'000}};
  GapSummary gap;
  gap.start_ns = 250 * kMs;
  gap.duration_ns = ns / 10;
  gap.before = "kernel work";
  gap.after = "copy DtoH";
  gap.opened_by = "cudaMemcpy";
  summary.devices[0].top_gaps = {gap};
  return summary;
}

Summary uploads(std::uint64_t ns, const char* source) {
  Summary summary = half_idle(Cause::kScheduling, 0);
  summary.copies = {{"HtoD", source, "device", 10, 10 * kLargeCopyBytes, ns}};
  return summary;
}

std::vector<std::string> rules_of(const Summary& summary) {
  std::vector<std::string> rules;
  for (const FindingSummary& finding : find(summary)) rules.push_back(finding.rule);
  return rules;
}

std::string first_rule(const Summary& summary) {
  const std::vector<std::string> rules = rules_of(summary);
  return rules.empty() ? "" : rules.front();
}

bool gives(const Summary& summary, const std::string& rule) {
  const std::vector<std::string> rules = rules_of(summary);
  return std::find(rules.begin(), rules.end(), rule) != rules.end();
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

constexpr std::uint64_t kEnough = kSecond / 100 * kWorthwhilePercent;

TEST_CASE("nothing to say about a summary of the way between operations", "[findings]") {
  CHECK(rules_of(half_idle(Cause::kScheduling, 0)).empty());
}

TEST_CASE("GPU-bound", "[findings]") {
  Summary summary = half_idle(Cause::kScheduling, 0);
  summary.devices[0].busy_ns = kSecond / 100 * kBusyPercent;
  summary.devices[0].idle_ns = kSecond - summary.devices[0].busy_ns;
  summary.devices[0].idle_by_cause[0].total_ns = summary.devices[0].idle_ns;
  CHECK(first_rule(summary) == "GPU-bound");
  CHECK(find(summary)[0].at_stake_ns == 0);
  CHECK(contains(find(summary)[0].remedy, "work"));
  CHECK(judge(summary).kind == "GPU-bound");
  CHECK(contains(judge(summary).sentence, "busy 90 % of the 1.00 s"));
  summary.devices[0].busy_ns -= 1;
  summary.devices[0].idle_ns += 1;
  CHECK(!gives(summary, "GPU-bound"));
}

TEST_CASE("launch-bound", "[findings]") {
  Summary summary = launch_bound();
  CHECK(first_rule(summary) == "launch-bound");
  CHECK(find(summary)[0].at_stake_ns == 600 * kMs);
  CHECK(contains(find(summary)[0].title, "at most 600 ms of 1.00 s (60 %)"));
  CHECK(contains(find(summary)[0].evidence, "500 of 1,000 kernels"));
  CHECK(judge(summary).kind == "launch-bound");

  Summary longer = summary;
  longer.kernels_shorter_than_launch = 499;
  CHECK(!gives(longer, "launch-bound"));
  CHECK(judge(longer).kind != "launch-bound");

  Summary fewer = summary;
  fewer.devices[0].gap_count = 600 * kMs / kShortGapNs;
  CHECK(gives(fewer, "launch-bound"));
  fewer.devices[0].gap_count = 600 * kMs / (kShortGapNs + 1);
  CHECK(!gives(fewer, "launch-bound"));

  // Gaps that waits opened are theirs.
  Summary waiting = summary;
  waiting.devices[0].idle_opened_by = {{"cudaDeviceSynchronize", "synchronizing", 301 * kMs, 10}};
  CHECK(!gives(waiting, "launch-bound"));
  CHECK(first_rule(waiting) == "synchronization-bound");

  Summary little = summary;
  little.devices[0].idle_by_cause = {{"launch latency", kEnough, 20'000, 1'000},
                                     {"other CUDA call", 600 * kMs - kEnough, 10, 1'000}};
  CHECK(gives(little, "launch-bound"));
  little.devices[0].idle_by_cause[0].total_ns -= 1;
  CHECK(!gives(little, "launch-bound"));
}

TEST_CASE("code between short launches is part of launching", "[findings]") {
  Summary summary = launch_bound();
  summary.devices[0].idle_by_cause = {{"CPU code outside CUDA", 400 * kMs, 20'000, 30'000},
                                      {"launch latency", 200 * kMs, 20'000, 10'000}};
  CHECK(rules_of(summary) == std::vector<std::string>{"launch-bound"});
  CHECK(find(summary)[0].at_stake_ns == 600 * kMs);
  // The same time in few pieces is work.
  summary.devices[0].idle_by_cause[0].gap_count = 400 * kMs / (kShortGapNs + 1);
  CHECK(first_rule(summary) == "host-bound");
}

TEST_CASE("host-bound", "[findings]") {
  Summary summary = half_idle(Cause::kCpuCode, kEnough);
  CHECK(first_rule(summary) == "host-bound");
  CHECK(find(summary)[0].at_stake_ns == kEnough);
  CHECK(!gives(half_idle(Cause::kCpuCode, kEnough - 1), "host-bound"));

  summary = half_idle(Cause::kCpuCode, 500 * kMs);
  CHECK(judge(summary).kind == "host-bound");
  CHECK(contains(judge(summary).sentence, "for 50 % of this time it waited for CPU code"));
  DeviceSummary& device = summary.devices[0];
  device.idle_by_thread = {{7, 8, "main", 450 * kMs, 9}};
  device.idle_by_nvtx = {{"", "Load batch", 440 * kMs, 9}};
  GapSummary gap;
  gap.start_ns = 300 * kMs;
  gap.duration_ns = 90 * kMs;
  gap.pieces = {{"CPU code outside CUDA", 90 * kMs}};
  gap.before = "kernel work";
  gap.after = "copy HtoD";
  gap.nvtx_path = "step > Load batch";
  device.top_gaps = {gap};
  const FindingSummary finding = find(summary)[0];
  CHECK(finding.evidence ==
        "Thread 8 \"main\" kept it waiting 450 ms in 9 gaps, 440 ms of it in NVTX range \"Load "
        "batch\". Longest gap: 90.0 ms at 300 ms, after kernel work, before copy HtoD, in \"step > "
        "Load batch\".");
  CHECK(contains(finding.remedy, "num_workers"));
  device.idle_by_nvtx = {{"", "checkpoint", 440 * kMs, 9}};
  CHECK(!contains(find(summary)[0].remedy, "num_workers"));
}

TEST_CASE("synchronization-bound", "[findings]") {
  Summary summary = opened(Cause::kSynchronizing, "cudaStreamSynchronize", kEnough);
  CHECK(first_rule(summary) == "synchronization-bound");
  CHECK(contains(find(summary)[0].title, "cudaStreamSynchronize"));
  CHECK(contains(find(summary)[0].evidence, "10 gaps"));
  CHECK(!gives(opened(Cause::kSynchronizing, "cudaStreamSynchronize", kEnough - 1),
               "synchronization-bound"));
  summary = opened(Cause::kSynchronizing, "cudaStreamSynchronize", 600 * kMs);
  summary.devices[0].idle_by_cause = {{"synchronizing", 600 * kMs, 10, kMs}};
  CHECK(judge(summary).kind == "synchronization-bound");
  CHECK(find(summary)[0].at_stake_ns == 600 * kMs);

  // Without the wait the CPU still has its own work to do: only the GPU's part can be hidden.
  summary.devices[0].busy_ns = 300 * kMs;
  summary.devices[0].idle_ns = 700 * kMs;
  summary.devices[0].idle_opened_by[0].total_ns = 700 * kMs;
  summary.devices[0].idle_by_cause = {{"CPU code outside CUDA", 700 * kMs, 10, 70 * kMs}};
  CHECK(rules_of(summary) == std::vector<std::string>{"host-bound", "synchronization-bound"});
  CHECK(find(summary)[1].at_stake_ns == 300 * kMs);
  CHECK(judge(summary).kind == "host-bound");
}

TEST_CASE("readback", "[findings]") {
  CHECK(first_rule(readback(kEnough)) == "readback");
  CHECK(contains(find(readback(kEnough))[0].evidence, "50 copies DtoH of 4 B each"));
  CHECK(!gives(readback(kEnough - 1), "readback"));
  CHECK(judge(readback(600 * kMs)).kind == "synchronization-bound");
  CHECK(contains(judge(readback(600 * kMs)).sentence, "copying a result back"));
  // A gap that a copy to the device opened is none.
  Summary upload = readback(600 * kMs);
  upload.devices[0].top_gaps[0].after = "copy HtoD";
  CHECK(!gives(upload, "readback"));
  // Without gaps that tell, the number of copies does.
  Summary unknown = readback(600 * kMs);
  unknown.devices[0].top_gaps.clear();
  CHECK(first_rule(unknown) == "readback");
  unknown.copies[0].kind = "HtoD";
  CHECK(!gives(unknown, "readback"));
}

TEST_CASE("pageable copies", "[findings]") {
  CHECK(first_rule(uploads(kEnough, "pageable")) == "pageable copies");
  CHECK(!gives(uploads(kEnough - 1, "pageable"), "pageable copies"));
  CHECK(!gives(uploads(kEnough, "pinned"), "pageable copies"));
  Summary small = uploads(kEnough, "pageable");
  small.copies[0].bytes -= 1;
  CHECK(!gives(small, "pageable copies"));
  // What the GPU waited for the staging counts.
  Summary staged = uploads(kEnough / 2, "pageable");
  staged.devices[0].idle_by_cause = {{"copying (staging)", kEnough / 2, 10, kMs},
                                     {"scheduling", 600 * kMs - kEnough / 2, 10, kMs}};
  CHECK(first_rule(staged) == "pageable copies");
  CHECK(find(staged)[0].at_stake_ns == kEnough);

  const std::uint64_t most = kSecond / 100 * kTransferPercent;
  Summary full = uploads(most, "pageable");
  full.devices[0].busy_ns = most;
  CHECK(judge(full).kind == "transfer-bound");
  full.devices[0].busy_ns = 400 * kMs;
  full.copies[0].total_ns = most - 1;
  CHECK(judge(full).kind != "transfer-bound");
  // Busy, but with copies: not bound by kernels.
  full.devices[0].busy_ns = 950 * kMs;
  full.devices[0].idle_ns = 50 * kMs;
  full.devices[0].idle_by_cause = {{"scheduling", 50 * kMs, 10, kMs}};
  full.copies[0].total_ns = 600 * kMs;
  CHECK(judge(full).kind == "transfer-bound");
  CHECK(!gives(full, "GPU-bound"));
}

TEST_CASE("serialized copies", "[findings]") {
  Summary summary = uploads(kEnough, "pinned");
  summary.devices[0].busy_ns = 400 * kMs + kEnough;
  CHECK(first_rule(summary) == "serialized copies");
  CHECK(find(summary)[0].at_stake_ns == kEnough);
  summary.devices[0].busy_ns -= 1;  // they overlap for a nanosecond
  CHECK(!gives(summary, "serialized copies"));
}

TEST_CASE("allocation in the loop", "[findings]") {
  CHECK(first_rule(half_idle(Cause::kAllocating, kEnough, kLoopGaps)) == "allocation in the loop");
  CHECK(!gives(half_idle(Cause::kAllocating, kEnough - 1, kLoopGaps), "allocation in the loop"));
  CHECK(!gives(half_idle(Cause::kAllocating, kEnough, kLoopGaps - 1), "allocation in the loop"));
  const Summary freed = opened(Cause::kAllocating, "cudaFree", kEnough, kLoopGaps);
  CHECK(first_rule(freed) == "allocation in the loop");
  CHECK(contains(find(freed)[0].title, "cudaFree"));
  CHECK(judge(half_idle(Cause::kAllocating, 600 * kMs)).kind == "host-bound");
  CHECK(contains(judge(half_idle(Cause::kAllocating, 600 * kMs)).sentence, "allocate"));
}

TEST_CASE("module loading", "[findings]") {
  CHECK(first_rule(half_idle(Cause::kLoading, kEnough, 1)) == "module loading");
  CHECK(contains(find(half_idle(Cause::kLoading, kEnough, 1))[0].evidence, "50.0 ms in 1 gap"));
  CHECK(!gives(half_idle(Cause::kLoading, kEnough - 1, 1), "module loading"));
}

TEST_CASE("launch queue full", "[findings]") {
  const std::uint64_t enough = kSecond / 100 * kQueueFullPercent;
  CHECK(first_rule(half_idle(Cause::kQueueFull, enough)) == "launch queue full");
  CHECK(find(half_idle(Cause::kQueueFull, enough))[0].at_stake_ns == 0);
  CHECK(!gives(half_idle(Cause::kQueueFull, enough - 1), "launch queue full"));
}

TEST_CASE("failing API calls", "[findings]") {
  Summary summary = half_idle(Cause::kScheduling, 0);
  summary.api[0].failures = 3;
  summary.api[0].failures_by_code = {{2, 1}, {700, 2}};
  CHECK(first_rule(summary) == "failing API calls");
  CHECK(find(summary)[0].title == "3 of 11 API calls failed.");
  CHECK(find(summary)[0].evidence == "cudaLaunchKernel failed 3 times: 1 × code 2, 2 × code 700.");
  // "Not ready" is an answer.
  summary.api[0].failures_by_code = {{600, 3}};
  CHECK(!gives(summary, "failing API calls"));
  summary.api[0].failures = 4;
  CHECK(contains(find(summary)[0].title, "1 of 11"));
}

TEST_CASE("not reliable", "[findings]") {
  Summary summary = half_idle(Cause::kCpuCode, 500 * kMs);
  summary.devices[0].idle_reliable = false;
  summary.devices[0].idle_unreliable_reason = "2 dropped.";
  summary.checks.dropped = 2;
  CHECK(rules_of(summary) == std::vector<std::string>{"not reliable"});
  CHECK(contains(find(summary)[0].title, "2 records of 13"));
  CHECK(judge(summary).kind == "not reliable");
  summary.api[0].failures = 1;
  CHECK(rules_of(summary) == std::vector<std::string>{"not reliable", "failing API calls"});

  for (const Cause cause : {Cause::kProfilerOverhead, Cause::kUnknownLaunch}) {
    CHECK(rules_of(half_idle(cause, 300 * kMs)) == std::vector<std::string>{"not reliable"});
    CHECK(judge(half_idle(cause, 300 * kMs)).kind == "not reliable");
    CHECK(!gives(half_idle(cause, 300 * kMs - 1), "not reliable"));
    CHECK(judge(half_idle(cause, 300 * kMs - 1)).kind != "not reliable");
  }
}

TEST_CASE("at most five findings, the most at stake first", "[findings]") {
  Summary summary = half_idle(Cause::kCpuCode, 200 * kMs);
  summary.devices[0].idle_by_cause.push_back({"allocating/freeing", 100 * kMs, 10, kMs});
  summary.devices[0].idle_by_cause.push_back({"loading modules/JIT", 90 * kMs, 10, kMs});
  summary.devices[0].idle_opened_by = {{"cudaDeviceSynchronize", "synchronizing", 80 * kMs, 9}};
  summary.copies = {{"HtoD", "pageable", "device", 10, 10 * kLargeCopyBytes, 70 * kMs}};
  summary.api[0].failures = 1;
  const std::vector<FindingSummary> findings = find(summary);
  REQUIRE(findings.size() == kMostFindings);
  for (std::size_t i = 1; i < findings.size(); ++i)
    CHECK(findings[i - 1].at_stake_ns >= findings[i].at_stake_ns);
  const std::vector<std::string_view> rules = finding_rules();
  CHECK(std::set<std::string_view>(rules.begin(), rules.end()).size() == rules.size());
  for (const FindingSummary& finding : findings) {
    INFO(finding.rule);
    CHECK(std::find(rules.begin(), rules.end(), finding.rule) != rules.end());
    CHECK(!finding.title.empty());
    CHECK(!finding.remedy.empty());
    CHECK(contains(finding.title, "at most"));
  }
}

TEST_CASE("idle before and after", "[verdict]") {
  Summary summary = half_idle(Cause::kCpuCode, 500 * kMs);
  summary.devices[0].lead_in_ns = kSecond + 1;
  CHECK(judge(summary).kind == "idle before and after");
  CHECK(contains(judge(summary).sentence, "1.00 s of 2.00 s"));
  summary.devices[0].lead_in_ns = kSecond;  // exactly half
  CHECK(judge(summary).kind == "host-bound");
  // What a context takes to be made is nobody's fault.
  summary = half_idle(Cause::kCpuCode, 500 * kMs);
  DeviceSummary& device = summary.devices[0];
  for (std::uint64_t* ns : {&device.span_ns, &device.busy_ns, &device.idle_ns}) *ns /= 100;
  for (CauseSummary& cause : device.idle_by_cause) cause.total_ns /= 100;
  device.lead_in_ns = kOutsideMinimumNs - 1;
  CHECK(judge(summary).kind == "host-bound");
  device.tail_ns = 1;
  CHECK(judge(summary).kind == "idle before and after");
}

TEST_CASE("verdicts of nothing, of holes and of several devices", "[verdict]") {
  CHECK(judge({}).kind == "no GPU work");
  CHECK(judge({}).sentence == "No GPU work was recorded.");
  CHECK(find({}).empty());
  Summary summary = half_idle(Cause::kCpuCode, 500 * kMs);
  summary.devices[0].span_ns = 0;
  CHECK(judge(summary).kind == "no GPU work");

  summary = half_idle(Cause::kCpuCode, 500 * kMs);
  summary.devices[0].span_ns = 2 * kSecond;
  summary.devices[0].not_recorded_ns = kSecond;
  CHECK(contains(judge(summary).sentence, "idle 60 % of the 1.00 s"));
  CHECK(contains(judge(summary).sentence, "not recorded"));

  summary = half_idle(Cause::kCpuCode, 500 * kMs);
  summary.devices.push_back(summary.devices[0]);
  CHECK(contains(judge(summary).sentence, "the 2 GPUs were idle 60 % of the 2.00 s"));
  summary.devices[1].idle_reliable = false;
  CHECK(contains(judge(summary).sentence, "1 of 2 GPUs was idle 60 % of the 1.00 s"));

  // Queued in time: the CPU is not to blame.
  CHECK(judge(half_idle(Cause::kScheduling, 0)).kind == "GPU-bound");
}

}  // namespace
}  // namespace profiler
