#include "collector/glossary.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <utility>

#include "collector/cause.h"
#include "collector/findings.h"
#include "collector/idle_totals.h"
#include "collector/verdict.h"

namespace profiler {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string number(std::uint64_t n) {
  return std::to_string(n);
}

std::string cause(Cause which) {
  return std::string(cause_name(which));
}

void add_times(std::vector<Term>& terms) {
  const auto add = [&](std::string name, std::string definition,
                       std::vector<std::string> aliases = {}) {
    terms.push_back({std::move(name), TermGroup::kTime, std::move(definition), std::move(aliases)});
  };
  add("operation",
      "A piece of work on a GPU: a kernel, a copy or a memset. Its times are begin and end on the "
      "GPU, not of the call that asked for it.",
      {"operations", "device operation"});
  add("busy",
      "The time in which at least one operation ran on the GPU, of whatever process; operations "
      "that "
      "run at the same time count once. Busy says nothing about how much of the GPU an operation "
      "uses.",
      {"busy_ns"});
  add("idle",
      "The time between the first and the last operation in which none ran. It is the sum of the "
      "gaps, and each of its nanoseconds has exactly one cause.",
      {"idle_ns", "Idle by GPU and cause", "idle_by_cause"});
  add("gap",
      "One unbroken stretch of idle time between two operations. The API call that submitted the "
      "operation at its end decides about the cause: what kept that call from being made earlier?",
      {"gaps", "gap_count", "Longest gaps", "top_gaps"});
  add("span",
      "From the start of the first operation on a GPU to the end of the last. Busy, idle and not "
      "recorded time add up to it.",
      {"span_ns"});
  add("recorded time",
      "The span less the times in which records were lost. Busy and idle are taken within it, and "
      "it "
      "is the denominator of their percentages.",
      {"recorded"});
  add("not recorded",
      "Times within the span in which records were lost. They are neither busy nor idle; a gap "
      "that "
      "touches one is cut there.",
      {"not recorded time", "not_recorded_ns"});
  add("Not idle time",
      "What lies outside the span: before the first operation (the lead-in: starting, reading, "
      "making "
      "a CUDA context) and after the last (the tail). Nobody kept the GPU waiting there, so it is "
      "not "
      "counted as idle.",
      {"before", "after", "lead-in", "tail", "lead_in_ns", "tail_ns"});
  add("launch",
      "An API call that submits work to a GPU: cudaLaunchKernel, cudaMemcpyAsync, cudaMemsetAsync "
      "and "
      "the like. A kernel starts some microseconds after its launch began, if the GPU is free.",
      {"launches"});
  add("launch window",
      "How long an undisturbed launch may take to reach the GPU: 10 µs unless an option says "
      "otherwise. Waiting beyond it is called scheduling.",
      {"launch_window_ns", "W"});
  add("queue delay",
      "From the end of the call that submitted an operation to its start on the GPU. Long is good "
      "when "
      "the GPU is busy meanwhile: the CPU is ahead.",
      {"queue_delay"});
  add("opened by",
      "The synchronizing, copying, allocating or loading call in which the thread was when a gap "
      "began. What follows such a wait (code of the CPU, the next launch) is exposed by it, so "
      "findings add up whole gaps by it, while the table of causes stays exact to the nanosecond.",
      {"opened_by", "idle_opened_by"});
  add("at stake",
      "The most that a finding could win: an upper bound, not a forecast. What several findings "
      "could "
      "win overlaps, so their times must not be added up.",
      {"at most", "at_stake_ns"});
  add("simulated", "The virtual GPU was used: kernels were timed by a model and not executed.",
      {"virtual GPU"});
}

void add_causes(std::vector<Term>& terms) {
  const auto add = [&](std::string name, std::string definition,
                       std::vector<std::string> aliases = {}) {
    terms.push_back(
        {std::move(name), TermGroup::kCause, std::move(definition), std::move(aliases)});
  };
  add(cause(Cause::kCpuCode),
      "The next operation had not been submitted, and the thread that was to submit it was in no "
      "CUDA "
      "call: it prepared data, read a file, ran Python, waited for a lock.",
      {"host", "CPU code"});
  add(cause(Cause::kSynchronizing),
      "The thread that was to submit the next operation was still in a call that waits for the "
      "GPU, "
      "such as cudaDeviceSynchronize, cudaStreamSynchronize or cudaEventQuery in a loop: the time "
      "to "
      "notice that the GPU was done. What follows such a wait has other causes; see 'opened by'.");
  add(cause(Cause::kCopying),
      "The thread that was to submit the next operation was in a copy that blocks it, such as "
      "cudaMemcpy, or cudaMemcpyAsync from or to pageable memory.");
  add(cause(Cause::kAllocating),
      "The thread that was to submit the next operation was allocating, freeing, pinning or "
      "mapping "
      "memory (cudaMalloc, cudaFree, cudaMallocHost ...). cudaFree waits for the GPU as well.",
      {"allocating", "freeing"});
  add(cause(Cause::kLoading),
      "Code was being loaded onto the GPU or compiled for it. With lazy loading this happens at "
      "the "
      "first launch of each kernel.",
      {"loading", "JIT"});
  add(cause(Cause::kLaunching),
      "The thread was submitting other work, to another stream or GPU for example, before it came "
      "to "
      "the operation that this GPU waited for.",
      {"launching"});
  add(cause(Cause::kOtherCall),
      "The thread was in a CUDA call of no other class, such as cudaEventRecord or cudaSetDevice.");
  add(cause(Cause::kProfilerOverhead),
      "CUPTI, with which this profiler records, kept the thread: instrumenting, flushing buffers. "
      "Without the profiler this time would not be there.",
      {"profiler_overhead_ns"});
  add(cause(Cause::kQueueFull),
      "The thread could not submit more, since the queue to the GPU was full. The CPU is as far "
      "ahead "
      "as it can be. As a finding it is a fact without advice.",
      {"command buffer full"});
  add(cause(Cause::kProcessStarting),
      "The process that was to submit the next operation had not loaded CUDA yet, while another "
      "process had used this GPU before.");
  add(cause(Cause::kStaging),
      "The gap was ended by a copy from or to pageable memory, and the driver was moving the data "
      "through a buffer of its own. Pinned memory avoids it.",
      {"staging"});
  add(cause(Cause::kLaunchLatency),
      "The call that submits the work had begun, and the work was on its way: up to the end of the "
      "call, or the launch window. As a distribution: from the start of the call to the start of "
      "the "
      "operation on the GPU.",
      {"launch_latency"});
  add(cause(Cause::kScheduling),
      "The work had been submitted in time and had not begun although the GPU was idle: the GPU "
      "was "
      "switching between operations, or the work had to wait for other work.");
  add(cause(Cause::kUnknownLaunch),
      "The record of the call that submitted the operation is missing, so nobody can tell what it "
      "waited for.");
  add("inside a graph", "Between two nodes of one CUDA graph launch: the CPU has no part in it.");
  add("dependency",
      "The stream had been told to wait for work elsewhere, on another GPU or on the CPU, which "
      "had "
      "not ended yet.");
}

void add_verdicts(std::vector<Term>& terms) {
  const auto add = [&](std::string name, std::string definition,
                       TermGroup group = TermGroup::kVerdict,
                       std::vector<std::string> aliases = {}) {
    terms.push_back({std::move(name), group, std::move(definition), std::move(aliases)});
  };
  add("verdict",
      "One sentence on what kept the GPU from working: the way of working that could win most, "
      "from "
      "the same numbers as the findings.");
  add("finding",
      "Advice from one rule: a number, the evidence for it, one remedy, and the time at stake. At "
      "most " +
          number(kMostFindings) + ", the most at stake first.",
      TermGroup::kVerdict, {"findings", "What to do", "remedy", "evidence"});
  add(kGpuBound,
      "Verdict and finding: the GPU is busy for at least " + number(kBusyPercent) +
          " % of the recorded time, and not with copies: only faster kernels make the program "
          "faster. "
          "The verdict is also given when the rest is the way from one submitted operation to the "
          "next.");
  add(kLaunchBound,
      "Verdict and finding: the GPU waits for the next launch again and again. Gaps are short (up "
      "to " +
          number(kShortGapNs / 1000) +
          " µs on average), most were not opened by a wait, and at least " +
          number(kShortKernelPercent) +
          " % of the kernels are shorter than their launch. At stake are launch latency, "
          "scheduling, "
          "launching other work, and the code between launches, for a finding at least " +
          number(kWorthwhilePercent) +
          " % of the recorded time. Give each launch more work, fuse kernels, or use CUDA graphs.");
  add(kHostBound,
      "Verdict and finding: the GPU waits for the CPU, which is doing something else. The finding "
      "is "
      "given from " +
          number(kWorthwhilePercent) +
          " % of the recorded time on that went to CPU code outside CUDA. Work ahead: other "
          "threads, "
          "prefetching, submitting before preparing.");
  add(kSynchronizationBound,
      "Verdict and finding: gaps that began while the CPU waited for the GPU. Without the wait, "
      "CPU and "
      "GPU could work side by side; at stake is what that could win at best, for a finding at "
      "least " +
          number(kWorthwhilePercent) +
          " % of the recorded time. Wait less often, and order GPU work by streams and events.");
  add(kTransferBound, "Verdict: copies between host and device take at least " +
                          number(kTransferPercent) +
                          " % of the recorded time, alone or with the gaps that waited for them.");
  add(kOutside, "Verdict: the span of GPU work is less than half of the run, and at least " +
                    number(kOutsideMinimumNs / 1'000'000'000) +
                    " s lie outside it. Look there first: importing, reading, preparing, or "
                    "writing results.");
  add(kNotReliable,
      "Verdict and finding: more than 1 % of the records are missing or faulty, or at least " +
          number(kUntrustedPercent) +
          " % of the idle time is the profiler's own or of unknown origin. No advice follows from "
          "such "
          "numbers.",
      TermGroup::kVerdict, {"withheld", "idle_reliable", "idle_unreliable_reason"});
  add(kNoGpuWork,
      "Verdict: no operation was recorded, or all took no time. The notes say why, as far as is "
      "known.");

  const auto rule = [&](std::string name, std::string definition,
                        std::vector<std::string> aliases = {}) {
    add(std::move(name), "Finding: " + std::move(definition), TermGroup::kFinding,
        std::move(aliases));
  };
  const std::string worthwhile =
      ", for at least " + number(kWorthwhilePercent) + " % of the recorded time";
  rule("readback",
       "gaps that began while the CPU copied a result back to the host and waited for it, as "
       ".item() "
       "and cudaMemcpy do" +
           worthwhile +
           ". Read back less often, or asynchronously into pinned memory and one step later.");
  rule(
      "pageable copies",
      "copies from or to pageable memory of " + number(kLargeCopyBytes / 1024) +
          " KiB and more, with the gaps that waited for them" + worthwhile +
          ". The CPU stages such copies through a buffer. Pin the memory and copy asynchronously.");
  rule("serialized copies",
       "large copies from or to pinned memory and kernels that run one after the other though they "
       "could overlap" +
           worthwhile + ". Copy on a stream of its own, one step ahead.");
  rule("allocation in the loop", "allocating or freeing memory keeps the GPU waiting" + worthwhile +
                                     ", in at least " + number(kLoopGaps) +
                                     " gaps. Allocate once, or use a pool.");
  rule("module loading",
       "kernels are loaded or compiled while the GPU waits" + worthwhile +
           ". Warm up, set CUDA_MODULE_LOADING=EAGER, and build for the GPU at hand.");
  rule("failing API calls",
       "API calls returned an error. 'Not ready' (600) is an answer to a query and not counted.");
}

void add_columns(std::vector<Term>& terms) {
  const auto add = [&](std::string name, std::string definition,
                       std::vector<std::string> aliases = {}) {
    terms.push_back(
        {std::move(name), TermGroup::kColumn, std::move(definition), std::move(aliases)});
  };
  add("Idle by cause",
      "The idle time by what the GPU waited for. The causes add up to the idle time exactly.");
  add("% of idle", "The share of the idle time.");
  add("% of span", "The share of the recorded time: of the span, less what was not recorded.");
  add("longest", "The largest share that the cause has in one gap.", {"longest_ns"});
  add("time", "The sum of durations, for a cause of its shares in the gaps.", {"total_ns"});
  add("total", "The sum of the durations; what overlaps or is nested counts twice.");
  add("self", "The total less what is nested directly in it: no time is in two rows.", {"self_ns"});
  add("count", "How many there were.");
  add("mean", "The total divided by the count.", {"mean_ns"});
  add("median", "Half of them were shorter. Exact below 256 ns, else to 1/256 of the value.",
      {"median_ns"});
  add("p99", "99 of 100 were not longer. Exact below 256 ns, else to 1/256 of the value.",
      {"p99_ns"});
  add("min", "The shortest.", {"min_ns"});
  add("max", "The longest.", {"max_ns"});
  add("% of kernel time",
      "The share of the sum of all kernel times of all GPUs; kernels that overlap count twice in "
      "it.");
  add("Kernel", "A function that runs on the GPU, by a short form of its name.", {"kernels"});
  add("GPU", "The number of the GPU in this summary, from 0 on.", {"device", "devices"});
  add("Copies",
      "Copies and memsets by direction (HtoD: host to device, DtoH: back, DtoD: within, PtoP: "
      "between "
      "GPUs) and by the memory they read and write.",
      {"copy", "HtoD", "DtoH", "DtoD", "PtoP", "memset"});
  add("pageable",
      "Ordinary memory, as malloc gives it. The GPU cannot read it directly, so the driver copies "
      "it "
      "through a buffer of its own, and the call blocks.");
  add("pinned",
      "Memory from cudaMallocHost or cudaHostRegister (in PyTorch pin_memory). The GPU reads it "
      "directly, while the CPU goes on.");
  add("bytes", "How much was copied, in powers of ten (1 kB = 1000 B).");
  add("each", "Bytes divided by count.");
  add("throughput", "Bytes divided by the time of the copies.");
  add("API calls",
      "Calls of the CUDA runtime and driver, with the time that threads spent in them; a call that "
      "waits for the GPU has its waiting time in here.",
      {"API"});
  add("failed", "How many calls returned an error.", {"failures"});
  add("codes",
      "The errors that were returned, each with its number of calls: 2 × 3 is code 2, three times. "
      "Codes are those of cudaError_t, or CUresult for driver calls.",
      {"failures_by_code"});
  add("NVTX ranges",
      "Parts of the program that it named itself, with nvtxRangePush and the like (in PyTorch "
      "torch.cuda.nvtx). Ranges of one domain and name are one row.",
      {"NVTX", "NVTX range"});
  add("GPU time",
      "The time in which at least one operation ran that was submitted within the range; "
      "operations "
      "that overlap count once.",
      {"gpu_union_ns"});
  add("GPU sum", "The sum of the durations of the operations that were submitted within the range.",
      {"gpu_sum_ns"});
  add("GPU waited",
      "Idle time in which the GPU waited for a thread that had this range open innermost.",
      {"idle_by_nvtx"});
  add("shorter than their launch",
      "Kernels whose launching call took longer than they ran. When most are, the CPU cannot keep "
      "the "
      "GPU busy with such launches.",
      {"kernels_shorter_than_launch", "shorter_than_launch"});
  add("at", "When the gap began, from the start of the run.", {"start_ns"});
  add("cause", "The causes of the gap, the largest first.", {"pieces"});
  add("between", "The operation that ended last before the gap, and the one that ended it.");
  add("thread", "The thread that submitted the operation at the gap's end, and its NVTX ranges.",
      {"nvtx_path", "idle_by_thread"});
  add("Process", "The id of a process that used CUDA.", {"processes", "pid"});
  add("ended", "How the process ended.", {"exit"});
  add("data",
      "Whether all that the process recorded has arrived. One that is killed loses what CUPTI "
      "still "
      "held.",
      {"complete_until_ns", "Incomplete", "said_goodbye"});
  add("command", "The program and its arguments.");
}

void add_checks(std::vector<Term>& terms) {
  const auto add = [&](std::string name, std::string definition,
                       std::vector<std::string> aliases = {}) {
    terms.push_back(
        {std::move(name), TermGroup::kCheck, std::move(definition), std::move(aliases)});
  };
  add("Checks",
      "What was recorded, and everything that could make a number wrong. If more than 1 % of the "
      "operations are in doubt, idle time is not shown.");
  add("nothing lost", "All of the checks are zero.");
  add("in doubt",
      "Unmatched, dropped, untimed, unfinished and late records, as a share of all operations.",
      {"of operations in doubt"});
  add("unmatched", "Operations whose launching call was not recorded.");
  add("dropped", "Records that were lost, in CUPTI, in our buffers or on the way.");
  add("untimed", "Records without valid times.");
  add("unfinished", "Operations that had begun and not ended when the program did.");
  add("late", "Records that came after their time had been accounted.");
  add("clock faults", "Launches that seem to begin after their own operation.",
      {"clock fault", "clock_faults"});
  add("malformed", "Messages that arrived and could not be read.", {"unreadable messages"});
  add("launches without kernel", "Successful kernel launches whose kernel was not recorded.",
      {"launch without kernel", "launches_without_operation"});
  add("NVTX unbalanced", "NVTX pops without a push, and ends without a start.",
      {"nvtx_unbalanced"});
  add("NVTX unclosed", "NVTX ranges that nobody closed; they end with their process.",
      {"nvtx_unclosed"});
  add("duplicates", "Operations that arrived twice and were counted once.", {"duplicate"});
}

// Edits that turn one into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

const std::vector<Term>& glossary() {
  static const std::vector<Term> terms = [] {
    std::vector<Term> all;
    add_times(all);
    add_causes(all);
    add_verdicts(all);
    add_columns(all);
    add_checks(all);
    return all;
  }();
  return terms;
}

std::string_view group_title(TermGroup group) {
  switch (group) {
    case TermGroup::kTime:
      return "Time and the GPU";
    case TermGroup::kCause:
      return "Causes of idle time";
    case TermGroup::kVerdict:
      return "Verdicts, most of them findings too";
    case TermGroup::kFinding:
      return "More findings";
    case TermGroup::kColumn:
      return "Tables";
    case TermGroup::kCheck:
      return "Checks";
  }
  return "";
}

TermMatch find_term(std::string_view text) {
  constexpr std::size_t kSuggestions = 5;
  constexpr std::size_t kLongest = 100;  // no term is near to a longer text
  const std::string wanted = lower(text);
  std::multimap<std::size_t, const Term*> near;
  std::vector<const Term*> beginning;
  for (const Term& term : glossary()) {
    std::vector<std::string> names = term.aliases;
    names.insert(names.begin(), term.name);
    std::size_t best = SIZE_MAX;
    bool begins = false;
    for (const std::string& name : names) {
      const std::string known = lower(name);
      if (known == wanted) return {&term, {}};
      if (wanted.empty() || wanted.size() > kLongest) continue;
      begins = begins || known.starts_with(wanted);
      if (known.find(wanted) != std::string::npos) {
        best = 0;
      } else if (const std::size_t edits = distance(wanted, known);
                 edits <= std::max<std::size_t>(wanted.size() / 3, 1)) {
        best = std::min(best, edits);
      }
    }
    if (begins) beginning.push_back(&term);
    if (best != SIZE_MAX) near.emplace(best, &term);
  }
  if (beginning.size() == 1) return {beginning.front(), {}};
  TermMatch match;
  for (const auto& [edits, term] : near) {
    if (match.suggestions.size() < kSuggestions) match.suggestions.push_back(term->name);
  }
  return match;
}

}  // namespace profiler
