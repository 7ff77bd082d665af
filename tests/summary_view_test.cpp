// The screen as a person sees it. The golden files in tests/data/golden are written anew by
// running this test with PROFILER_UPDATE_GOLDEN=1 in the environment; read the difference before
// it is committed.
#include "cli/summary_view.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cli/table.h"
#include "cli/text.h"
#include "collector/findings.h"
#include "collector/units.h"
#include "collector/verdict.h"
#include "tests/catch.h"

namespace profiler {
namespace {

constexpr std::uint64_t kUs = 1'000;
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1'000'000'000;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

std::string without_colors(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
      if (i == std::string::npos) break;
    } else {
      out += text[i];
    }
  }
  return out;
}

ProcessSummary process(std::uint64_t pid, std::string command) {
  ProcessSummary result;
  result.pid = pid;
  result.command = std::move(command);
  result.exit = {ExitState::Kind::kExited, 0};
  result.said_goodbye = true;
  return result;
}

KernelSummary kernel(std::string name, std::string short_name, std::uint64_t count,
                     std::uint64_t mean_ns, std::uint64_t device = 0) {
  KernelSummary result;
  result.name = std::move(name);
  result.short_name = std::move(short_name);
  result.device = device;
  result.count = count;
  result.total_ns = count * mean_ns;
  result.mean_ns = mean_ns;
  result.median_ns = mean_ns - mean_ns / 50;
  result.p99_ns = mean_ns + mean_ns / 10;
  result.min_ns = mean_ns - mean_ns / 20;
  result.max_ns = mean_ns + mean_ns / 2;
  return result;
}

Summary judged(Summary summary) {
  summary.verdict = judge(summary);
  summary.findings = find(summary);
  return summary;
}

Summary base(std::string command) {
  Summary summary;
  summary.command = std::move(command);
  summary.exit = {ExitState::Kind::kExited, 0};
  summary.wall_ns = 2'113 * kMs;
  summary.driver_version = 13'000;
  summary.cupti_version = 130'001;
  summary.processes = {process(4242, summary.command)};
  return summary;
}

Summary training() {
  Summary summary = base("./train_loop --steps 50");
  summary.simulated = true;
  summary.simulated_model = "a100";
  DeviceSummary gpu;
  gpu.name = "NVIDIA A100-SXM4-80GB";
  gpu.operations = 12'400;
  gpu.lead_in_ns = 212 * kMs;
  gpu.tail_ns = 3'400 * kUs;
  gpu.span_ns = 1'897'600 * kUs;
  gpu.busy_ns = 744 * kMs;
  gpu.idle_ns = gpu.span_ns - gpu.busy_ns;
  gpu.gap_count = 3'204;
  gpu.longest_gap_ns = 19 * kMs;
  gpu.idle_by_cause = {{"CPU code outside CUDA", 812 * kMs, 1'204, 19 * kMs},
                       {"copying (staging)", 190 * kMs, 100, 2'100 * kUs},
                       {"launch latency", 90'300 * kUs, 3'100, 9'300},
                       {"scheduling", 31'299'400, 412, 1'100 * kUs},
                       {"copying", 30 * kMs, 100, 600 * kUs},
                       {"unknown launch", 600, 1, 600}};
  gpu.idle_by_thread = {{4242, 4242, "train_loop", 842 * kMs, 1'204}};
  gpu.idle_by_nvtx = {{"", "load batch", 640 * kMs, 50}, {"", "step", 170 * kMs, 1'100}};
  gpu.idle_opened_by = {{"cudaMemcpy", "copying", 870 * kMs, 100},
                        {"cudaStreamSynchronize", "synchronizing", 12 * kMs, 50}};
  gpu.top_gaps = {
      {1'204 * kMs,
       19'400 * kUs,
       {{"copying", 300 * kUs}, {"CPU code outside CUDA", 19 * kMs}, {"launch latency", 100 * kUs}},
       "copy DtoH",
       "copy HtoD",
       4242,
       4242,
       "train_loop",
       "epoch > step > load batch",
       "cudaMemcpy"},
      {812 * kMs,
       14 * kMs,
       {{"CPU code outside CUDA", 14 * kMs}},
       "kernel sgd",
       "copy HtoD",
       4242,
       4242,
       "train_loop",
       "epoch > step",
       ""}};
  summary.devices = {gpu};
  summary.nvtx = {
      {"", "epoch", true, 1, 1'890 * kMs, 20 * kMs, 1'890 * kMs, 1'890 * kMs, 12'400, 744 * kMs,
       931 * kMs},
      {"", "step", true, 50, 1'870 * kMs, 1'190 * kMs, 30 * kMs, 44 * kMs, 12'400, 744 * kMs,
       931 * kMs},
      {"", "load batch", true, 50, 680 * kMs, 680 * kMs, 11 * kMs, 19 * kMs, 100, 338 * kMs,
       338 * kMs},
      {"loader", "decode", false, 400, 5'020 * kMs, 5'020 * kMs, 9 * kMs, 31 * kMs, 0, 0, 0}};
  summary.launch_latency = {12'400, 148'800 * kUs, 12 * kUs, 8'100, 61 * kUs, 4'100, 9 * kMs, 900};
  summary.kernels_with_launch = 8'651;
  summary.kernels_shorter_than_launch = 151;
  summary.profiler_overhead_ns = 2'310 * kUs;
  const auto elementwise = [](const std::string& functor, std::uint64_t count, std::uint64_t mean) {
    return kernel("void at::native::vectorized_elementwise_kernel<4, at::native::" + functor +
                      "<float>, at::detail::Array<char*, 3> >(int, at::native::" + functor + ")",
                  "vectorized_elementwise_kernel<4, " + functor + "<float>, Array<char*, 3>>",
                  count, mean);
  };
  summary.kernels = {
      kernel("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1>(P)",
             "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1", 2'400, 151'300),
      kernel("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn", 1'200, 92'000),
      elementwise("AddFunctor", 2'400, 14'200),
      elementwise("MulFunctor", 2'400, 13'900),
      kernel("softmax(float*)", "softmax", 50, 31'000),
      kernel("loss(float*)", "loss", 50, 4'200),
      kernel("sgd(float*)", "sgd", 50, 3'100),
      kernel("scale(float*)", "scale", 50, 2'500),
      kernel("zero(float*)", "zero", 50, 1'100),
      kernel("nop()", "nop", 50, 900),
      kernel("tiny()", "tiny", 1, 900)};
  summary.copies = {{"HtoD", "pageable", "device", 50, 3'355'443'200, 268 * kMs},
                    {"HtoD", "pinned", "device", 50, 1'677'721'600, 70 * kMs},
                    {"DtoH", "device", "pageable", 50, 200, 75'250},
                    {"memset", "", "device", 100, 409'600, 120'000}};
  summary.api = {{"cudaMemcpy", 100, 901 * kMs, 901 * kMs, 0, {}},
                 {"cudaLaunchKernel", 8'650, 31 * kMs, 31 * kMs, 0, {}},
                 {"cudaMemcpyAsync", 50, 410 * kUs, 410 * kUs, 0, {}},
                 {"cudaMalloc", 12, 300 * kUs, 300 * kUs, 0, {}},
                 {"cudaMemsetAsync", 100, 210 * kUs, 210 * kUs, 0, {}},
                 {"cudaFree", 12, 120 * kUs, 120 * kUs, 0, {}},
                 {"cudaGetDevice", 3, 900, 900, 0, {}}};
  summary.checks.launches = 8'900;
  summary.checks.device_operations = 12'400;
  return summary;
}

Summary compute_bound() {
  Summary summary = base("./matmul_bias --size 4096");
  DeviceSummary gpu;
  gpu.name = "NVIDIA H100 80GB HBM3";
  gpu.operations = 202;
  gpu.lead_in_ns = 301 * kMs;
  gpu.span_ns = 90 * kSecond;
  gpu.busy_ns = gpu.span_ns - 812 * kUs;
  gpu.idle_ns = 812 * kUs;
  gpu.gap_count = 201;
  gpu.idle_by_cause = {{"scheduling", 790 * kUs, 201, 6'100},
                       {"launch latency", 22 * kUs, 1, 22 * kUs}};
  summary.devices = {gpu};
  summary.wall_ns = 91 * kSecond;
  summary.kernels = {
      kernel("matmul(float const*, float const*, float*, int)", "matmul", 101, 890 * kMs),
      kernel("bias(float*)", "bias", 101, 120 * kUs)};
  summary.api = {{"cudaDeviceSynchronize", 2, 89 * kSecond, 89 * kSecond, 0, {}},
                 {"cudaLaunchKernel", 202, 1'400 * kUs, 1'100 * kUs, 0, {}}};
  summary.checks.launches = 202;
  summary.checks.device_operations = 202;
  return summary;
}

Summary launch_bound() {
  Summary summary = base("./matmul_bias --size 64");
  DeviceSummary gpu;
  gpu.name = "NVIDIA A100-SXM4-80GB";
  gpu.operations = 20'000;
  gpu.lead_in_ns = 180 * kMs;
  gpu.span_ns = 120 * kMs;
  gpu.busy_ns = 18 * kMs;
  gpu.idle_ns = 102 * kMs;
  gpu.gap_count = 20'000;
  gpu.idle_by_cause = {{"launch latency", 90 * kMs, 20'000, 5'100},
                       {"CPU code outside CUDA", 11'999'900, 19'000, 900},
                       {"scheduling", 100, 1, 100}};
  summary.devices = {gpu};
  summary.launch_latency = {20'000, 122 * kMs, 6'100, 6'080, 9'020, 5'900, 21'000, 400};
  summary.kernels_with_launch = 20'000;
  summary.kernels_shorter_than_launch = 19'998;
  summary.kernels = {kernel("bias(float*)", "bias", 20'000, 900)};
  summary.api = {{"cudaLaunchKernel", 20'000, 120 * kMs, 120 * kMs, 3, {{1, 1}, {701, 2}}}};
  summary.checks.launches = 19'997;
  summary.checks.device_operations = 20'000;
  return summary;
}

Summary two_devices() {
  Summary summary = training();
  summary.simulated = false;
  summary.command = "torchrun --nproc 2 train.py";
  summary.processes = {process(4242, "torchrun --nproc 2 train.py"),
                       process(4250, "python train.py --local-rank 0 --config configs/large.yaml"),
                       process(4251, "python train.py --local-rank 1 --config configs/large.yaml")};
  summary.processes[2].exit = {ExitState::Kind::kExited, 1};
  DeviceSummary second = summary.devices.front();
  second.busy_ns += 700 * kMs;
  second.idle_ns -= 700 * kMs;
  second.idle_opened_by.clear();
  second.top_gaps.pop_back();
  second.idle_by_cause = {{"CPU code outside CUDA", 400 * kMs, 900, 19 * kMs},
                          {"launch latency", 53'600 * kUs, 300, 9'300}};
  summary.devices.push_back(second);
  KernelSummary other = summary.kernels[0];
  other.device = 1;
  summary.kernels.insert(summary.kernels.begin() + 1, other);
  return summary;
}

Summary nothing() {
  Summary summary = base("./hello");
  summary.wall_ns = 1'204 * kUs;
  summary.driver_version = 0;
  summary.cupti_version = 0;
  summary.processes.clear();
  summary.notes = {
      "The program made no CUDA call: it ended before it loaded the CUDA driver, so there is "
      "nothing "
      "to show. If it starts another program that uses the GPU, profile that one."};
  return summary;
}

Summary unreliable() {
  Summary summary = training();
  summary.devices[0].idle_reliable = false;
  summary.devices[0].idle_unreliable_reason =
      "12 % of the operations are missing or have no times, so a gap may be none.";
  summary.checks.dropped = 1'400;
  summary.checks.untimed = 210;
  summary.checks.unmatched = 3;
  summary.checks.clock_faults = 1;
  summary.checks.malformed = 2;
  summary.cupti_failures = {{4242, "cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY2)", 7}};
  return summary;
}

Summary killed() {
  Summary summary = training();
  summary.exit = {ExitState::Kind::kSignalled, 9};
  summary.processes[0].exit = summary.exit;
  summary.processes[0].said_goodbye = false;
  summary.processes[0].complete_until_ns = 1'903 * kMs;
  summary.checks.unfinished = 1;
  summary.notes = {"The last 210 ms of the run are not in the trace."};
  return summary;
}

Summary long_names() {
  Summary summary = launch_bound();
  summary.kernels.clear();
  for (const char c : {'b', 'c'}) {
    std::string name(10 * 1024, 'a');
    name[9'000] = c;
    summary.kernels.push_back(kernel("void f<" + name + ">(int)", "", 10, 1'234));
  }
  summary.kernels.push_back(kernel("f(float*)", "f", 10, 1'000));
  summary.kernels.push_back(kernel("f(double*)", "f", 10, 999));
  summary.command = "./" + std::string(2'000, 'p');
  summary.devices[0].name = "NVIDIA " + std::string(300, 'G');
  return summary;
}

Summary hostile() {
  Summary summary = launch_bound();
  summary.command =
      "./run '\xe2\x80\xae"
      "gnp.exe' \x1b[31mred\x1b[0m \r\n\t\x07";
  summary.kernels = {
      kernel("漢字カーネル<ä, ñ>", "漢字カーネル<ä, ñ>", 10, 5'000),
      kernel("evil\x1b[2J\xe2\x80\xae\xff\xfe", "evil\x1b[2J\xe2\x80\xae\xff\xfe", 10, 4'000),
      kernel("", "", 1, 900)};
  summary.copies = {{"HtoD", "pin\ned", "de\x9bvice", 1, 1, 1}};
  summary.notes = {"A note\nwith\x1b[1m two lines."};
  return summary;
}

struct Golden {
  const char* name;
  Summary summary;
};

std::vector<Golden> goldens() {
  return {{"training", judged(training())},
          {"compute_bound", judged(compute_bound())},
          {"launch_bound", judged(launch_bound())},
          {"two_devices", judged(two_devices())},
          {"nothing", judged(nothing())},
          {"unreliable", judged(unreliable())},
          {"killed", judged(killed())},
          {"long_names", judged(long_names())},
          {"hostile", judged(hostile())}};
}

void compare_with_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(PROFILER_TEST_DATA) + "/golden/" + name + ".txt";
  const char* update = std::getenv("PROFILER_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream(path, std::ios::binary) << text;
    WARN("wrote " << path);
  }
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.is_open());
  const std::string expected((std::istreambuf_iterator<char>(file)), {});
  CHECK(text == expected);
}

void check_shape(const std::string& text, const ViewOptions& options) {
  const std::vector<std::string> lines = lines_of(text);
  if (options.top == 0 && options.width >= kDefaultWidth) CHECK(lines.size() <= kScreenLines);
  CHECK(!lines.empty());
  CHECK(text.back() == '\n');
  for (const std::string& line : lines) {
    INFO(line);
    REQUIRE(display_width(line) <= std::max(options.width, kMinimumWidth));
    // What has to be escaped is gone already, so escaping changes nothing.
    REQUIRE(printable(line, options.unicode) == line);
    REQUIRE((line.empty() || line.back() != ' '));
  }
}

TEST_CASE("the screen, against golden text", "[summary_view]") {
  for (const Golden& golden : goldens()) {
    for (const std::size_t width : {80U, 120U, 200U}) {
      ViewOptions options;
      options.width = width;
      options.trace_path = "train_loop.pftrace";
      const std::string text = render_summary(golden.summary, options);
      compare_with_golden(std::string(golden.name) + "_" + std::to_string(width), text);
      check_shape(text, options);
    }
  }
  ViewOptions ascii;
  ascii.unicode = false;
  ascii.trace_path = "my traces/it's.pftrace";
  compare_with_golden("training_ascii_80", render_summary(judged(training()), ascii));
  check_shape(render_summary(judged(hostile()), ascii), ascii);
  ViewOptions quiet;
  quiet.quiet = true;
  compare_with_golden("killed_quiet_80", render_summary(judged(killed()), quiet));
  ViewOptions color;
  color.color = true;
  compare_with_golden("killed_color_80", render_summary(judged(killed()), color));
}

TEST_CASE("colour adds nothing but colour", "[summary_view]") {
  for (const Golden& golden : goldens()) {
    ViewOptions options;
    const std::string plain = render_summary(golden.summary, options);
    CHECK(!contains(plain, "\x1b"));
    options.color = true;
    const std::string colored = render_summary(golden.summary, options);
    CHECK(contains(colored, "\x1b[1m"));
    CHECK(without_colors(colored) == plain);
  }
}

TEST_CASE("what the screen says", "[summary_view]") {
  ViewOptions options;
  const std::string text = render_summary(judged(training()), options);
  CHECK(contains(text, "SIMULATED"));
  CHECK(contains(text, "exit 0"));
  // A sentence is broken between words, so compare it on one line.
  options.width = 200;
  const std::string wide = render_summary(judged(training()), options);
  CHECK(contains(wide,
                 "Synchronization-bound: the GPU was idle 61 % of the 1.90 s between its first and "
                 "last work; for 46 % of this time in gaps that began while"));
  CHECK(contains(wide, "212 ms before the first, 3.40 ms after the last GPU work"));
  CHECK(contains(render_summary(judged(launch_bound()), options), "900 ns"));
  CHECK(contains(wide, "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1"));
  CHECK(!contains(wide, "Trace:"));
  CHECK(!contains(text, "4242"));

  CHECK(contains(render_summary(judged(launch_bound()), options), "failed"));
  CHECK(contains(render_summary(judged(killed()), options), "killed by SIGKILL (9)"));
  CHECK(contains(render_summary(judged(killed()), options), "missing from 1.90 s on"));

  const std::string compute = render_summary(judged(compute_bound()), options);
  CHECK(contains(compute, "GPU-bound: the GPU was busy >99 % of the 1 min 30 s"));
  CHECK(contains(compute, ">99"));
  CHECK(contains(compute, "self"));
  CHECK(!contains(render_summary(judged(launch_bound()), options), "self"));

  Summary failed = training();
  failed.exit.code = 3;
  CHECK(contains(render_summary(failed, options), "failed: exit 3"));
  failed.exit = {ExitState::Kind::kSignalled, 64};
  CHECK(contains(render_summary(failed, options), "killed by signal 64"));
  failed.exit.kind = ExitState::Kind::kRunning;
  CHECK(contains(render_summary(failed, options), "still running"));

  Summary busy = compute_bound();
  busy.devices[0].idle_ns = 0;
  busy.devices[0].gap_count = 0;
  busy.devices[0].busy_ns = busy.devices[0].span_ns;
  busy.devices[0].idle_by_cause.clear();
  const std::string all_busy = render_summary(judged(busy), options);
  CHECK(contains(all_busy, "busy 100 % of the 1 min 30 s"));
  CHECK(!contains(all_busy, "Idle by cause"));
}

TEST_CASE("nothing recorded shows its reason and no empty table", "[summary_view]") {
  const std::string text = render_summary(judged(nothing()), {});
  CHECK(contains(text, "No GPU work was recorded."));
  CHECK(contains(text, "The program made no CUDA call"));
  for (const char* head :
       {"Idle by cause", "kernel time", "Copies", "API calls", "Not idle time"}) {
    CHECK(!contains(text, head));
  }
}

TEST_CASE("unreliable idle is withheld", "[summary_view]") {
  ViewOptions options;
  options.width = 200;
  const std::string text = render_summary(judged(unreliable()), options);
  CHECK(contains(text, "Not reliable: too many records are missing or faulty"));
  CHECK(contains(text, "Idle time is withheld: 1,613 records of 14,013"));
  CHECK(contains(text, "12 % of the operations"));
  options.advice = false;
  CHECK(contains(render_summary(judged(unreliable()), options),
                 "Idle time is withheld: 12 % of the operations"));
  options.advice = true;
  CHECK(!contains(text, "Idle by cause"));
  CHECK(!contains(text, "busy 744 ms"));
  CHECK(!contains(text, "Longest gaps"));
  CHECK(contains(text, "1,400 dropped"));
  CHECK(contains(text, "1,400 records dropped"));
  CHECK(contains(text, "failed with CUPTI error 7 (process 4242)"));

  Summary two = two_devices();
  two.devices[1].idle_reliable = false;
  two.devices[1].idle_unreliable_reason = "Records came too late.";
  const std::string one_of_two = render_summary(judged(two), options);
  CHECK(contains(one_of_two, "Idle time of GPU 1 is withheld: Records came too late."));
  CHECK(contains(one_of_two, "1 of 2 GPUs was idle 61 % of the 1.90 s"));
}

TEST_CASE("several devices and processes have their tables", "[summary_view]") {
  ViewOptions options;
  options.width = 200;
  const std::string text = render_summary(judged(two_devices()), options);
  CHECK(contains(text,
                 "the 2 GPUs were idle 42 % of the 3.80 s between first and last work of each"));
  CHECK(contains(text, "2 × NVIDIA A100-SXM4-80GB"));
  CHECK(contains(text, "3 processes (1 failed)"));
  options.top = 5;  // as many as there are, however long the screen becomes
  const std::string all = render_summary(judged(two_devices()), options);
  CHECK(contains(all, "python train.py --local-rank 1"));
  CHECK(contains(all, "failed: exit 1"));
}

TEST_CASE("findings, ranges, gaps and failures", "[summary_view]") {
  ViewOptions options;
  options.width = 200;
  options.top = 9;
  const std::string text = render_summary(judged(training()), options);
  CHECK(contains(text, "1. readback: The CPU waits for results: at most 870 ms of 1.90 s (46 %)."));
  CHECK(contains(text, " → Read back less often"));
  CHECK(contains(text, "NVTX ranges"));
  CHECK(contains(text, "loader: decode"));
  CHECK(contains(text, "Longest gaps"));
  CHECK(contains(text, "CPU code outside CUDA 98 %, copying 1.5 %, launch latency 0.5 %"));
  CHECK(contains(text, "copy DtoH → copy HtoD"));
  CHECK(contains(text, "4242 train_loop: epoch > step > load batch"));
  CHECK(contains(text, "14.0 ms  812 ms"));
  options.top_gaps = 1;
  CHECK(!contains(render_summary(judged(training()), options), "14.0 ms  812 ms"));
  options.top = 0;  // gaps that were asked for are shown, whatever has to go
  options.top_gaps = 2;
  options.width = 80;
  const std::string asked = render_summary(judged(training()), options);
  INFO(asked);
  CHECK(contains(asked, "14.0 ms  812 ms"));

  options.advice = false;
  const std::string plain = render_summary(judged(training()), options);
  CHECK(!contains(plain, "readback"));
  CHECK(contains(plain, "Synchronization-bound"));
  options.advice = true;
  options.quiet = true;
  CHECK(!contains(render_summary(judged(training()), options), "readback"));

  options = {};
  const std::string launches = render_summary(judged(launch_bound()), options);
  CHECK(contains(launches, "1, 701 × 2"));
  CHECK(contains(launches, "19,998 of 20,000 kernels shorter than their launch"));
  Summary holes = judged(training());
  holes.devices[0].not_recorded_ns = 600 * kUs;
  CHECK(contains(render_summary(holes, options), "not recorded 600 µs"));
  holes.checks.nvtx_unclosed = 2;
  holes.checks.duplicates = 1;
  options.width = 200;
  CHECK(contains(render_summary(holes, options), "2 NVTX unclosed · 1 duplicate"));
}

TEST_CASE("rows that are left out are counted", "[summary_view]") {
  Summary summary = training();
  ViewOptions options;
  options.width = 200;
  options.top = 3;
  const std::string text = render_summary(summary, options);
  CHECK(contains(text, "… and 8 more kernels ("));
  CHECK(contains(text, "… and 4 more functions (127 calls"));
  // One that is left out would take a line as well.
  CHECK(contains(text, "memset"));
  summary.api[5].failures = 2;
  CHECK(contains(render_summary(summary, options), "2 failed"));
  options.top = 1'000;
  CHECK(!contains(render_summary(summary, options), " more "));
}

TEST_CASE("names that are cut stay different", "[summary_view]") {
  for (const std::size_t width : {40U, 80U, 120U, 200U}) {
    ViewOptions options;
    options.width = width;
    options.top = 8;
    for (const Summary& summary : {judged(long_names()), judged(training())}) {
      const std::vector<std::string> lines = lines_of(render_summary(summary, options));
      std::set<std::string> names;
      std::size_t rows = 0;
      bool inside = false;
      for (const std::string& line : lines) {
        if (line.empty() || line.compare(0, 3, "…") == 0 || contains(line, "Launch latency"))
          inside = false;
        if (inside) {
          ++rows;
          names.insert(line.substr(line.rfind("  ")));
        }
        if (contains(line, "% of kernel time")) inside = true;
      }
      CHECK(rows >= 4);
      CHECK(names.size() == rows);
    }
  }
}

// Small numbers, and now and then the largest there are.
class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}

  std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }

  std::uint64_t number() {
    switch (below(12)) {
      case 0:
        return 0;
      case 1:
        return std::numeric_limits<std::uint64_t>::max();
      default:
        return engine_() >> below(64);
    }
  }

  std::string text() {
    static const std::vector<std::string> kPieces = {"a",
                                                     "kernel",
                                                     "::",
                                                     "<",
                                                     ">",
                                                     "(",
                                                     ")",
                                                     " ",
                                                     "漢",
                                                     "é",
                                                     "e\xcc\x81",
                                                     "\n",
                                                     "\x1b[",
                                                     "\r",
                                                     "\t",
                                                     "\xff",
                                                     "\xe2\x80\xae",
                                                     "\xe2\x81\xa6",
                                                     "😀",
                                                     "\xc2\x9b",
                                                     "\xe2\x80\x8d",
                                                     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
                                                     "\xcc\x81",
                                                     "\xe2\x80\xa8",
                                                     std::string(1, '\0')};
    std::string out;
    const std::uint64_t length = below(8) == 0 ? 3'000 : below(30);
    while (out.size() < length) out += kPieces[below(kPieces.size())];
    return out;
  }

  std::size_t rows() { return below(4) == 0 ? below(40) : below(6); }

  bool coin() { return below(2) == 0; }

  ExitState exit() { return {static_cast<ExitState::Kind>(below(4)), below(70)}; }

 private:
  std::mt19937_64 engine_;
};

Summary random_summary(Dice& dice) {
  static const std::vector<std::string> kCauses = {"CPU code outside CUDA", "launch latency",
                                                   "scheduling", "unknown launch"};
  Summary summary;
  summary.command = dice.text();
  summary.simulated = dice.coin();
  summary.simulated_model = dice.text();
  summary.exit = dice.exit();
  summary.wall_ns = dice.number();
  summary.driver_version = static_cast<std::int64_t>(dice.number());
  summary.cupti_version = dice.number();
  for (std::size_t i = dice.rows(); i > 0; --i) {
    ProcessSummary process;
    process.pid = dice.number();
    process.command = dice.text();
    process.exit = dice.exit();
    process.said_goodbye = dice.coin();
    process.complete_until_ns = dice.number();
    if (dice.coin()) process.failure = dice.text();
    summary.processes.push_back(process);
  }
  for (std::size_t i = dice.rows(); i > 0; --i) {
    DeviceSummary device;
    device.name = dice.text();
    device.lead_in_ns = dice.number();
    device.tail_ns = dice.number();
    device.span_ns = dice.number();
    device.busy_ns = dice.number();
    device.idle_ns = dice.number();
    device.gap_count = dice.number();
    device.idle_reliable = dice.below(3) != 0;
    if (!device.idle_reliable) device.idle_unreliable_reason = dice.text();
    for (std::size_t c = dice.rows(); c > 0; --c) {
      device.idle_by_cause.push_back({dice.coin() ? kCauses[dice.below(4)] : dice.text(),
                                      dice.number(), dice.number(), dice.number()});
    }
    summary.devices.push_back(device);
  }
  for (std::size_t i = dice.rows(); i > 0; --i) {
    KernelSummary kernel;
    kernel.name = dice.text();
    kernel.short_name = dice.coin() ? dice.text() : "kernel";
    kernel.device = dice.number();
    kernel.count = dice.number();
    kernel.total_ns = dice.number();
    kernel.mean_ns = dice.number();
    kernel.median_ns = dice.number();
    kernel.p99_ns = dice.number();
    kernel.min_ns = dice.number();
    kernel.max_ns = dice.number();
    summary.kernels.push_back(kernel);
  }
  for (std::size_t i = dice.rows(); i > 0; --i) {
    summary.copies.push_back(
        {dice.text(), dice.text(), dice.text(), dice.number(), dice.number(), dice.number()});
  }
  for (std::size_t i = dice.rows(); i > 0; --i) {
    summary.api.push_back(
        {dice.text(), dice.number(), dice.number(), dice.number(), dice.number(), {}});
    for (std::size_t c = dice.rows(); c > 0; --c)
      summary.api.back().failures_by_code.push_back({dice.number(), dice.number()});
  }
  for (std::size_t i = dice.rows(); i > 0; --i) {
    NvtxSummary range;
    range.domain = dice.text();
    range.name = dice.text();
    range.count = dice.number();
    range.total_ns = dice.number();
    range.gpu_union_ns = dice.number();
    summary.nvtx.push_back(range);
  }
  for (DeviceSummary& device : summary.devices) {
    if (dice.coin()) device.not_recorded_ns = dice.number();
    for (std::size_t i = dice.rows(); i > 0; --i) {
      GapSummary gap;
      gap.start_ns = dice.number();
      gap.duration_ns = dice.number();
      for (std::size_t c = dice.rows(); c > 0; --c)
        gap.pieces.push_back({dice.coin() ? kCauses[dice.below(4)] : dice.text(), dice.number()});
      gap.before = dice.text();
      gap.after = dice.text();
      gap.tid = dice.number();
      gap.thread_name = dice.text();
      gap.nvtx_path = dice.text();
      gap.opened_by = dice.coin() ? "cudaMemcpy" : dice.text();
      device.top_gaps.push_back(gap);
    }
    for (std::size_t i = dice.rows(); i > 0; --i) {
      device.idle_opened_by.push_back({dice.coin() ? "cudaMemcpy" : dice.text(),
                                       dice.coin() ? "copying" : "synchronizing", dice.number(),
                                       dice.number()});
      device.idle_by_thread.push_back(
          {dice.number(), dice.number(), dice.text(), dice.number(), dice.number()});
      device.idle_by_nvtx.push_back({dice.text(), dice.text(), dice.number(), dice.number()});
    }
  }
  summary.kernels_with_launch = dice.number();
  summary.kernels_shorter_than_launch = dice.number();
  summary.launch_latency.count = dice.number();
  summary.launch_latency.p99_ns = dice.number();
  summary.profiler_overhead_ns = dice.number();
  if (dice.coin()) {
    summary.checks = {dice.number(), dice.number(), dice.number(), dice.number(), dice.number(),
                      dice.number(), dice.number(), dice.number(), dice.number(), dice.number(),
                      dice.number(), dice.number(), dice.number()};
  }
  for (std::size_t i = dice.rows(); i > 0; --i) {
    summary.cupti_failures.push_back({dice.number(), dice.text(), dice.number()});
  }
  for (std::size_t i = dice.rows(); i > 0; --i) summary.notes.push_back(dice.text());
  if (dice.coin()) return judged(summary);
  summary.verdict = {dice.text(), dice.text()};
  for (std::size_t i = dice.rows(); i > 0; --i)
    summary.findings.push_back({dice.text(), dice.text(), dice.text(), dice.text(), dice.number()});
  return summary;
}

TEST_CASE("any summary fits", "[summary_view]") {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const Summary summary = random_summary(dice);
    ViewOptions options;
    static const std::vector<std::size_t> kWidths = {80, 80, 80, 60, 120, 200, 40, 20, 0, 61};
    options.width = kWidths[dice.below(kWidths.size())];
    options.unicode = dice.below(4) != 0;
    options.quiet = dice.below(8) == 0;
    options.advice = dice.below(4) != 0;
    options.top = dice.below(8) == 0 ? dice.below(50) : 0;
    if (dice.coin()) options.trace_path = dice.text();
    const std::string text = render_summary(summary, options);
    check_shape(text, options);
    options.color = true;
    CHECK(without_colors(render_summary(summary, options)) == text);
  }
}

TEST_CASE("durations", "[units]") {
  const std::vector<std::pair<std::uint64_t, std::string>> cases = {
      {0, "0 ns"},
      {1, "1 ns"},
      {900, "900 ns"},
      {999, "999 ns"},
      {1'000, "1.00 µs"},
      {1'004, "1.00 µs"},
      {1'005, "1.01 µs"},
      {9'994, "9.99 µs"},
      {9'995, "10.0 µs"},
      {99'949, "99.9 µs"},
      {99'950, "100 µs"},
      {999'499, "999 µs"},
      {999'500, "1.00 ms"},
      {kMs, "1.00 ms"},
      {999'500'000, "1.00 s"},
      {12'340'000'000, "12.3 s"},
      {59'940'000'000, "59.9 s"},
      {59'990'000'000, "1 min 0 s"},
      {60 * kSecond, "1 min 0 s"},
      {90 * kSecond, "1 min 30 s"},
      {3'599'400'000'000, "59 min 59 s"},
      {3'599'500'000'000, "1 h 00 min"},
      {3'900 * kSecond, "1 h 05 min"},
      {86'369'999'999'999, "23 h 59 min"},
      {86'370'000'000'000, "1 d 0 h"},
      {std::numeric_limits<std::uint64_t>::max(), "213504 d 0 h"}};
  for (const auto& [ns, text] : cases) {
    INFO(ns);
    CHECK(format_duration(ns, true) == text);
  }
  CHECK(format_duration(1'000, false) == "1.00 us");
}

TEST_CASE("bytes, throughput and counts", "[units]") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(999) == "999 B");
  CHECK(format_bytes(1'000) == "1.00 kB");
  CHECK(format_bytes(999'499) == "999 kB");
  CHECK(format_bytes(999'500) == "1.00 MB");
  CHECK(format_bytes(3'355'443'200) == "3.36 GB");
  CHECK(format_bytes(std::numeric_limits<std::uint64_t>::max()) == "18.4 EB");
  CHECK(format_throughput(0, 5) == "0 B/s");
  CHECK(format_throughput(5, 0).empty());
  CHECK(format_throughput(12'500'000'000, kSecond) == "12.5 GB/s");
  CHECK(format_throughput(1, kSecond) == "1 B/s");
  CHECK(format_throughput(std::numeric_limits<std::uint64_t>::max(), 1) == "18446744074 EB/s");
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1'000) == "1,000");
  CHECK(format_count(12'345'678) == "12,345,678");
  CHECK(format_count(999'999'999'999) == "999,999,999,999");
  CHECK(format_count(1'000'000'000'000) == "1.00e12");
  CHECK(format_count(9'996'000'000'000) == "1.00e13");
  CHECK(format_count(std::numeric_limits<std::uint64_t>::max()) == "1.84e19");
  CHECK(format_exact(std::numeric_limits<std::uint64_t>::max()) == "18,446,744,073,709,551,615");
}

TEST_CASE("percentages", "[units]") {
  CHECK(format_percent(1, 0).empty());
  CHECK(format_percent(0, 7) == "0");
  CHECK(format_percent(1, 10'000'000) == "<0.1");
  CHECK(format_percent(499, 1'000'000) == "<0.1");
  CHECK(format_percent(500, 1'000'000) == "0.1");
  CHECK(format_percent(27, 1'000) == "2.7");
  CHECK(format_percent(9'949, 100'000) == "9.9");
  CHECK(format_percent(9'950, 100'000) == "10");
  CHECK(format_percent(10'499, 100'000) == "10");
  CHECK(format_percent(10'500, 100'000) == "11");
  CHECK(format_percent(99'499, 100'000) == "99");
  CHECK(format_percent(99'500, 100'000) == ">99");
  CHECK(format_percent(99'999, 100'000) == ">99");
  CHECK(format_percent(100'000, 100'000) == "100");
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  CHECK(format_percent(most, most) == "100");
  CHECK(format_percent(most / 2, most) == "50");
  CHECK(format_percent(2, 1) == ">100");  // never of sound numbers
}

TEST_CASE("cells of text", "[text]") {
  CHECK(display_width("") == 0);
  CHECK(display_width("abc") == 3);
  CHECK(display_width("µ…█→") == 4);
  CHECK(display_width("漢字") == 4);
  CHECK(display_width("😀") == 2);
  CHECK(display_width("e\xcc\x81") == 1);
  CHECK(display_width("\xff") == 1);
  CHECK(display_width("\xe6\xbc") == 2);  // cut off: one cell per byte
}

TEST_CASE("what would act on a terminal is escaped", "[text]") {
  CHECK(printable("plain ä 漢", true) == "plain ä 漢");
  CHECK(printable("ä→", false) == "\\u{e4}\\u{2192}");
  CHECK(printable("a\nb\tc\rd", true) == "a\\nb\\tc\\rd");
  CHECK(printable("\x1b[31m\x7f", true) == "\\x1b[31m\\x7f");
  CHECK(printable(std::string(1, '\0'), true) == "\\x00");
  CHECK(printable("\xc2\x9b", true) == "\\u{9b}");
  CHECK(printable("\xe2\x80\xae\xe2\x81\xa6\xe2\x80\x8f", true) == "\\u{202e}\\u{2066}\\u{200f}");
  CHECK(printable("\xd8\x9c\xef\xbb\xbf\xe2\x80\x8b", true) == "\\u{61c}\\u{feff}\\u{200b}");
  CHECK(printable("\xff\xc0\x80\xed\xa0\x80", true) == "\\xff\\xc0\\x80\\xed\\xa0\\x80");
  CHECK(printable("\xcc\x81", true) == "\\u{301}");
  std::string marks = "e";
  for (int i = 0; i < 5; ++i) marks += "\xcc\x81";
  CHECK(printable(marks, true) == "e\xcc\x81\xcc\x81\xcc\x81\\u{301}\\u{301}");
}

TEST_CASE("text is shortened in the middle", "[text]") {
  CHECK(elide_middle("abcdefghij", 10, true) == "abcdefghij");
  CHECK(elide_middle("abcdefghij", 9, true) == "abcd…ghij");
  CHECK(elide_middle("abcdefghij", 9, false) == "abc...hij");
  CHECK(elide_middle("abcdefghij", 2, true) == "ab");
  CHECK(elide_middle("abcdefghij", 0, true).empty());
  CHECK(elide_middle("漢字漢字漢字", 8, true) == "漢…漢字");
  for (std::size_t cells = 0; cells < 14; ++cells) {
    CHECK(display_width(elide_middle("漢a字b漢c字d漢", cells, true)) <= cells);
    CHECK(display_width(elide_around("漢a字b漢c字d漢", cells, 6, true)) <= cells);
  }
  const std::string name = "vectorized_elementwise_kernel<4, AddFunctor<float>, Array<char*, 3>>";
  CHECK(elide_around(name, 30, name.find("Add"), true) == "vectorized…AddFunctor<float>,…");
}

TEST_CASE("labels differ where names do", "[text]") {
  const std::string add = "vectorized_elementwise_kernel<4, AddFunctor<float>, Array<char*, 3>>";
  const std::string mul = "vectorized_elementwise_kernel<4, MulFunctor<float>, Array<char*, 3>>";
  CHECK(
      distinct_labels({add, mul}, 30, true) ==
      std::vector<std::string>{"vectorized…AddFunctor<float>,…", "vectorized…MulFunctor<float>,…"});
  CHECK(distinct_labels({add, add}, 12, true)[0] == distinct_labels({add, add}, 12, true)[1]);

  std::vector<std::string> many;
  for (int i = 0; i < 200; ++i) {
    std::string name(9'000, 'a');
    name[static_cast<std::size_t>(i) * 40 + 100] = 'b';
    many.push_back(name);
  }
  for (const std::size_t cells : {8U, 20U, 60U}) {
    const std::vector<std::string> labels = distinct_labels(many, cells, true);
    CHECK(std::set<std::string>(labels.begin(), labels.end()).size() == many.size());
    for (const std::string& label : labels) CHECK(display_width(label) <= cells);
  }
}

TEST_CASE("tables drop columns before they shorten numbers", "[table]") {
  Table table;
  table.columns = {{"time", Align::kRight, 0},
                   {"mean", Align::kRight, 2},
                   {"%", Align::kDecimal, 1},
                   {"name", Align::kLeft, 0, 6}};
  table.rows = {{{"1.00 ms"}, {"10 ns"}, {"48"}, {"long_kernel_name"}},
                {{"900 ns"}, {"9 ns"}, {"2.7"}, {"f"}}};
  const auto text = [&](std::size_t width) {
    std::vector<std::string> lines;
    for (const Line& line : layout(table, width, true))
      lines.push_back(to_terminal(line, width, false, true));
    return lines;
  };
  CHECK(text(80) == std::vector<std::string>{"   time   mean     %  name",
                                             "1.00 ms  10 ns  48    long_kernel_name",
                                             " 900 ns   9 ns   2.7  f"});
  CHECK(text(28) == std::vector<std::string>{"   time   mean     %  name",
                                             "1.00 ms  10 ns  48    lo…ame",
                                             " 900 ns   9 ns   2.7  f"});
  CHECK(text(24) == std::vector<std::string>{"   time     %  name", "1.00 ms  48    long…name",
                                             " 900 ns   2.7  f"});
  CHECK(text(16) == std::vector<std::string>{"   time  name", "1.00 ms  lon…ame", " 900 ns  f"});
  CHECK(fits(table, 28));
  CHECK(!fits(table, 27));
}

}  // namespace
}  // namespace profiler
