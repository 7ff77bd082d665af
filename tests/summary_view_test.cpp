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
#include "cli/units.h"
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
  gpu.idle_by_cause = {{"host", 912 * kMs, 1'204, 19 * kMs},
                       {"launch latency", 210'300 * kUs, 3'100, 9'300},
                       {"scheduling", 31'299'400, 412, 1'100 * kUs},
                       {"unknown launch", 600, 1, 600}};
  summary.devices = {gpu};
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
  summary.api = {{"cudaMemcpy", 100, 901 * kMs, 901 * kMs, 0},
                 {"cudaLaunchKernel", 8'650, 31 * kMs, 31 * kMs, 0},
                 {"cudaMemcpyAsync", 50, 410 * kUs, 410 * kUs, 0},
                 {"cudaMalloc", 12, 300 * kUs, 300 * kUs, 0},
                 {"cudaMemsetAsync", 100, 210 * kUs, 210 * kUs, 0},
                 {"cudaFree", 12, 120 * kUs, 120 * kUs, 0},
                 {"cudaGetDevice", 3, 900, 900, 0}};
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
  summary.api = {{"cudaDeviceSynchronize", 2, 89 * kSecond, 89 * kSecond, 0},
                 {"cudaLaunchKernel", 202, 1'400 * kUs, 1'100 * kUs, 0}};
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
  gpu.span_ns = 20 * kMs;
  gpu.busy_ns = 18 * kMs;
  gpu.idle_ns = 2 * kMs;
  gpu.gap_count = 20'000;
  gpu.idle_by_cause = {{"launch latency", 1'999'900, 20'000, 100}, {"scheduling", 100, 1, 100}};
  summary.devices = {gpu};
  summary.kernels = {kernel("bias(float*)", "bias", 20'000, 900)};
  summary.api = {{"cudaLaunchKernel", 20'000, 120 * kMs, 120 * kMs, 3}};
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
  second.idle_by_cause = {{"host", 400 * kMs, 900, 19 * kMs},
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
  return {{"training", training()},
          {"compute_bound", compute_bound()},
          {"launch_bound", launch_bound()},
          {"two_devices", two_devices()},
          {"nothing", nothing()},
          {"unreliable", unreliable()},
          {"killed", killed()},
          {"long_names", long_names()},
          {"hostile", hostile()}};
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
  compare_with_golden("training_ascii_80", render_summary(training(), ascii));
  check_shape(render_summary(hostile(), ascii), ascii);
  ViewOptions quiet;
  quiet.quiet = true;
  compare_with_golden("killed_quiet_80", render_summary(killed(), quiet));
  ViewOptions color;
  color.color = true;
  compare_with_golden("killed_color_80", render_summary(killed(), color));
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
  const std::string text = render_summary(training(), options);
  CHECK(contains(text, "SIMULATED"));
  CHECK(contains(text, "exit 0"));
  // A sentence is broken between words, so compare it on one line.
  options.width = 200;
  const std::string wide = render_summary(training(), options);
  CHECK(contains(wide,
                 "The GPU was idle 61 % of the 1.90 s between its first and last work; for "
                 "48 % of this span it waited for the CPU."));
  CHECK(contains(wide, "212 ms before the first, 3.40 ms after the last GPU work"));
  CHECK(contains(render_summary(launch_bound(), options), "900 ns"));
  CHECK(contains(wide, "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1"));
  CHECK(!contains(wide, "Trace:"));
  CHECK(!contains(text, "4242"));

  CHECK(contains(render_summary(launch_bound(), options), "failed"));
  CHECK(contains(render_summary(killed(), options), "killed by SIGKILL (9)"));
  CHECK(contains(render_summary(killed(), options), "missing from 1.90 s on"));

  const std::string compute = render_summary(compute_bound(), options);
  CHECK(contains(compute, "idle <0.1 % of the 1 min 30 s"));
  CHECK(contains(compute, ">99"));
  CHECK(contains(compute, "self"));
  CHECK(!contains(text, "self"));

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
  const std::string all_busy = render_summary(busy, options);
  CHECK(contains(all_busy, "busy 100 % of the 1 min 30 s"));
  CHECK(!contains(all_busy, "Idle by cause"));
}

TEST_CASE("nothing recorded shows its reason and no empty table", "[summary_view]") {
  const std::string text = render_summary(nothing(), {});
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
  const std::string text = render_summary(unreliable(), options);
  CHECK(contains(text, "Idle time is withheld: 12 % of the operations"));
  CHECK(!contains(text, "Idle by cause"));
  CHECK(!contains(text, "busy 744 ms"));
  CHECK(!contains(text, "was idle"));
  CHECK(contains(text, "1,400 dropped"));
  CHECK(contains(text, "1,400 records dropped"));
  CHECK(contains(text, "failed with CUPTI error 7 (process 4242)"));

  Summary two = two_devices();
  two.devices[1].idle_reliable = false;
  two.devices[1].idle_unreliable_reason = "Records came too late.";
  const std::string one_of_two = render_summary(two, options);
  CHECK(contains(one_of_two, "Idle time of GPU 1 is withheld: Records came too late."));
  CHECK(contains(one_of_two, "1 of 2 GPUs were idle 61 % of the 1.90 s"));
}

TEST_CASE("several devices and processes have their tables", "[summary_view]") {
  ViewOptions options;
  options.width = 200;
  const std::string text = render_summary(two_devices(), options);
  CHECK(contains(text,
                 "The 2 GPUs were idle 42 % of the 3.80 s between first and last work of each"));
  CHECK(contains(text, "python train.py --local-rank 1"));
  CHECK(contains(text, "failed: exit 1"));
  CHECK(contains(text, "2 × NVIDIA A100-SXM4-80GB"));
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
    for (const Summary& summary : {long_names(), training()}) {
      const std::vector<std::string> lines = lines_of(render_summary(summary, options));
      std::set<std::string> names;
      std::size_t rows = 0;
      bool inside = false;
      for (const std::string& line : lines) {
        if (line.empty() || line.compare(0, 3, "…") == 0) inside = false;
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
  static const std::vector<std::string> kCauses = {"host", "launch latency", "scheduling",
                                                   "unknown launch"};
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
        {dice.text(), dice.number(), dice.number(), dice.number(), dice.number()});
  }
  if (dice.coin()) {
    summary.checks = {dice.number(), dice.number(), dice.number(), dice.number(), dice.number(),
                      dice.number(), dice.number(), dice.number(), dice.number()};
  }
  for (std::size_t i = dice.rows(); i > 0; --i) {
    summary.cupti_failures.push_back({dice.number(), dice.text(), dice.number()});
  }
  for (std::size_t i = dice.rows(); i > 0; --i) summary.notes.push_back(dice.text());
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
