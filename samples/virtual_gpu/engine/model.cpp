#include "samples/virtual_gpu/engine/model.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace virtual_gpu {
namespace {

struct Unit {
  const char* name;
  double factor;
};
constexpr Unit kTime[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}};
constexpr Unit kBytes[] = {
    {"B", 1}, {"KiB", 1024}, {"MiB", 1024.0 * 1024}, {"GiB", 1024.0 * 1024 * 1024}};
constexpr Unit kRate[] = {{"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
constexpr Unit kFrequency[] = {{"MHz", 1e3}, {"GHz", 1e6}};
constexpr Unit kShare[] = {{"%", 0.01}};
constexpr Unit kPlain[] = {{"", 1}};

// One line of the file, read word by word. The first failure is kept.
class Line {
 public:
  Line(const std::string& text, std::string where) : where_(std::move(where)) {
    std::size_t i = 0;
    while (i < text.size()) {
      if (std::isspace(static_cast<unsigned char>(text[i]))) {
        ++i;
      } else if (text[i] == '#') {
        break;
      } else if (text[i] == '"') {
        const std::size_t end = text.find('"', i + 1);
        if (end == std::string::npos) {
          fail("a closing quote");
          return;
        }
        words_.push_back(text.substr(i + 1, end - i - 1));
        i = end + 1;
      } else {
        std::size_t end = i;
        while (end < text.size() && !std::isspace(static_cast<unsigned char>(text[end]))) ++end;
        words_.push_back(text.substr(i, end - i));
        i = end;
      }
    }
  }

  bool empty() const { return words_.empty() && error_.empty(); }
  bool more() const { return next_ < words_.size() && error_.empty(); }
  const std::string& error() const { return error_; }

  std::string word(const char* expected) {
    if (!error_.empty()) return {};
    if (next_ >= words_.size()) {
      fail(expected);
      return {};
    }
    return words_[next_++];
  }

  template <std::size_t N>
  double number(const Unit (&units)[N], const char* expected) {
    const std::string text = word(expected);
    if (!error_.empty()) return 0;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (end != text.c_str() && std::isfinite(value) && value >= 0) {
      for (const Unit& unit : units) {
        // The largest number that every integer field can take.
        if (std::strcmp(end, unit.name) == 0 && value * unit.factor < 9e18) {
          return value * unit.factor;
        }
      }
    }
    fail(expected, text);
    return 0;
  }

  std::uint64_t count(const char* expected) {
    return static_cast<std::uint64_t>(number(kPlain, expected));
  }
  std::uint32_t small_count(const char* expected, double least, double most) {
    const double value = number(kPlain, expected);
    if (error_.empty() && (value < least || value > most || value != std::floor(value))) {
      fail(expected, words_[next_ - 1]);
    }
    return error_.empty() ? static_cast<std::uint32_t>(value) : 0;
  }

  void fail(const char* expected, const std::string& found = {}) {
    if (!error_.empty()) return;
    error_ = where_ + ": expected " + expected;
    error_ += found.empty() ? ", found the end of the line" : ", found \"" + found + "\"";
  }
  void finish() {
    if (more()) fail("the end of the line", words_[next_]);
  }

 private:
  std::string where_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
  std::string error_;
};

void read_uuid(Line& line, Model& model) {
  constexpr char kExpected[] = "a UUID such as GPU-01234567-89ab-cdef-0123-456789abcdef";
  const std::string text = line.word(kExpected);
  std::string digits;
  for (const char c : text.rfind("GPU-", 0) == 0 ? text.substr(4) : text) {
    if (c != '-') digits.push_back(c);
  }
  if (digits.size() != 32 ||
      digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    line.fail(kExpected, text);
    return;
  }
  for (std::size_t i = 0; i < 16; ++i) {
    model.uuid[i] =
        static_cast<std::uint8_t>(std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
  }
}

void read_capability(Line& line, Model& model) {
  constexpr char kExpected[] = "a compute capability such as 9.0";
  const std::string text = line.word(kExpected);
  unsigned major = 0;
  unsigned minor = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%2u.%1u%c", &major, &minor, &rest) != 2) {
    line.fail(kExpected, text);
    return;
  }
  model.capability_major = major;
  model.capability_minor = minor;
}

void read_kernel(Line& line, Model& model) {
  KernelCost cost;
  cost.base_ns = 0;
  cost.pattern = line.word("a pattern for kernel names");
  const std::string shape = line.word("fixed, linear, waves or power");
  if (shape == "fixed") {
    cost.base_ns = line.number(kTime, "a time such as 20us");
  } else if (shape == "linear") {
    cost.shape = KernelCost::Shape::kLinear;
  } else if (shape == "waves") {
    cost.shape = KernelCost::Shape::kWaves;
  } else if (shape == "power") {
    cost.shape = KernelCost::Shape::kPower;
  } else {
    line.fail("fixed, linear, waves or power", shape);
  }
  while (line.more()) {
    const std::string key = line.word("");
    if (key == "base") {
      cost.base_ns = line.number(kTime, "a time such as 2us");
    } else if (key == "per-block") {
      cost.per_block_ns = line.number(kTime, "a time such as 30ns");
    } else if (key == "per-thread") {
      cost.per_thread_ns = line.number(kTime, "a time such as 0.01ns");
    } else if (key == "per-wave") {
      cost.per_wave_ns = line.number(kTime, "a time such as 4us");
    } else if (key == "exponent") {
      cost.exponent = line.number(kPlain, "a number such as 1.5");
    } else if (key == "registers") {
      cost.registers = line.small_count("a number of registers from 1 to 255", 1, 255);
    } else if (key == "shared") {
      cost.shared_bytes = static_cast<std::uint32_t>(
          std::min(line.number(kBytes, "a size such as 2KiB"), double{1 << 30}));
    } else if (key == "local") {
      cost.local_bytes = static_cast<std::uint32_t>(
          std::min(line.number(kBytes, "a size such as 16B"), double{1 << 30}));
    } else {
      line.fail("base, per-block, per-thread, per-wave, exponent, registers, shared or local", key);
    }
  }
  model.kernels.push_back(std::move(cost));
}

void read_transfer(Line& line, TransferCost& cost) {
  while (line.more()) {
    const std::string key = line.word("");
    if (key == "latency") {
      cost.latency_ns = line.number(kTime, "a time such as 2us");
    } else if (key == "bandwidth") {
      cost.bytes_per_ns = line.number(kRate, "a rate such as 24GB/s") / 1e9;
      if (cost.bytes_per_ns <= 0) line.fail("a rate above zero", "0");
    } else {
      line.fail("latency or bandwidth", key);
    }
  }
}

void read_copy(Line& line, Model& model) {
  const std::string kind = line.word("HtoD, DtoH, DtoD or HtoH");
  for (std::size_t k = 0; k < 4; ++k) {
    if (kind != kCopyKindNames[k]) continue;
    const std::string memory =
        k == 2 ? "any" : line.word("pageable, pinned or any (the memory of the host)");
    TransferCost cost;
    read_transfer(line, cost);
    if (memory == "pageable" || memory == "any") model.copies[k][0] = cost;
    if (memory == "pinned" || memory == "any") model.copies[k][1] = cost;
    if (memory != "pageable" && memory != "pinned" && memory != "any") {
      line.fail("pageable, pinned or any (the memory of the host)", memory);
    }
    return;
  }
  line.fail("HtoD, DtoH, DtoD or HtoH", kind);
}

void read_line(Line& line, Model& model) {
  constexpr double kMany = 1e9;
  const std::string key = line.word("a keyword");
  if (key == "name") {
    model.name = line.word("a name in quotes");
  } else if (key == "uuid") {
    read_uuid(line, model);
  } else if (key == "compute-capability") {
    read_capability(line, model);
  } else if (key == "multiprocessors") {
    model.multiprocessors = line.small_count("a number from 1", 1, 65535);
  } else if (key == "threads-per-multiprocessor") {
    model.threads_per_multiprocessor = line.small_count("a number from 1", 1, 65535);
  } else if (key == "blocks-per-multiprocessor") {
    model.blocks_per_multiprocessor = line.small_count("a number from 1", 1, 65535);
  } else if (key == "concurrent-kernels") {
    model.concurrent_kernels = line.small_count("a number from 1", 1, 65535);
  } else if (key == "queue-depth") {
    model.queue_depth = line.small_count("a number from 1", 1, kMany);
  } else if (key == "core-clock") {
    model.core_clock_khz = static_cast<std::uint32_t>(
        std::min(line.number(kFrequency, "a frequency such as 1410MHz"), 4e9));
  } else if (key == "memory") {
    model.memory_bytes = static_cast<std::uint64_t>(line.number(kBytes, "a size such as 80GiB"));
  } else if (key == "memory-bandwidth") {
    model.memory_bandwidth = static_cast<std::uint64_t>(line.number(kRate, "a rate such as 2TB/s"));
  } else if (key == "l2-cache") {
    model.l2_bytes = static_cast<std::uint64_t>(line.number(kBytes, "a size such as 40MiB"));
  } else if (key == "launch-cost") {
    model.launch_cost_ns = static_cast<std::uint64_t>(line.number(kTime, "a time such as 2us"));
  } else if (key == "launch-latency") {
    model.launch_latency_ns = static_cast<std::uint64_t>(line.number(kTime, "a time such as 4us"));
  } else if (key == "dispatch-gap") {
    model.dispatch_gap_ns = static_cast<std::uint64_t>(line.number(kTime, "a time such as 1us"));
  } else if (key == "lazy-loading") {
    model.lazy_loading_ns = static_cast<std::uint64_t>(line.number(kTime, "a time such as 250us"));
  } else if (key == "module-loading") {
    model.module_loading_ns = static_cast<std::uint64_t>(line.number(kTime, "a time such as 1ms"));
  } else if (key == "jit") {
    model.jit_ns = static_cast<std::uint64_t>(line.number(kTime, "a time such as 20ms"));
  } else if (key == "staging-buffer") {
    model.staging_bytes = static_cast<std::uint64_t>(line.number(kBytes, "a size such as 1MiB"));
  } else if (key == "driver-records") {
    const std::string ids = line.word("own or shared");
    if (ids != "own" && ids != "shared") line.fail("own or shared", ids);
    model.driver_records = ids == "shared" ? DriverRecords::kShared : DriverRecords::kOwn;
  } else if (key == "jitter") {
    model.jitter = line.number(kShare, "a share such as 3%");
    if (model.jitter >= 1) line.fail("a share below 100%", "100%");
    if (line.more()) {
      const std::string seed = line.word("");
      if (seed != "seed") line.fail("seed", seed);
      model.seed = line.count("a number");
    }
  } else if (key == "kernel") {
    read_kernel(line, model);
  } else if (key == "copy") {
    read_copy(line, model);
  } else if (key == "memset") {
    read_transfer(line, model.set);
  } else {
    line.fail(
        "a keyword such as name, uuid, multiprocessors, memory, launch-cost, launch-latency, "
        "kernel, copy or "
        "memset",
        key);
  }
  line.finish();
}

double jitter(const Model& model, std::uint64_t sequence) {
  if (model.jitter <= 0) return 1;
  // splitmix64: a good spread from consecutive numbers, and the same on every machine.
  std::uint64_t x = model.seed + (sequence + 1) * 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  x ^= x >> 31;
  const double unit = static_cast<double>(x >> 11) * 0x1p-53;  // [0, 1)
  return 1 + model.jitter * (2 * unit - 1);
}

std::uint64_t whole_ns(double ns) {
  constexpr double kDay = 86400e9;  // keeps sums far from overflow, whatever a model says
  return static_cast<std::uint64_t>(std::clamp(std::round(ns), 1.0, kDay));
}

// "void ns::scale<float, 64>(float*, int)" → "ns::scale"
std::string bare_name(const std::string& demangled) {
  std::size_t end = 0;
  constexpr char kAnonymous[] = "(anonymous namespace)";
  while (end < demangled.size() && demangled[end] != '<' && demangled[end] != '(') {
    ++end;
    if (demangled.compare(end, sizeof kAnonymous - 1, kAnonymous) == 0) {
      end += sizeof kAnonymous - 1;
    }
  }
  std::string head = demangled.substr(0, end);
  const std::size_t space = head.rfind(' ');
  const std::size_t anonymous = head.rfind(kAnonymous);
  if (space == std::string::npos || (anonymous != std::string::npos && anonymous < space)) {
    return head;
  }
  return head.substr(space + 1);
}

}  // namespace

bool parse_model(const std::string& text, const std::string& path, Model& model,
                 std::string& error) {
  model.path = path;
  std::istringstream lines(text);
  std::string content;
  for (int number = 1; std::getline(lines, content); ++number) {
    Line line(content, path + ":" + std::to_string(number));
    if (line.empty()) continue;
    read_line(line, model);
    if (!line.error().empty()) {
      error = line.error();
      return false;
    }
  }
  if (model.name.rfind("Simulated", 0) != 0) {
    error = path + ": expected a name that begins with \"Simulated\", found \"" + model.name + "\"";
    return false;
  }
  return true;
}

bool read_model(const std::string& name, const std::string& folder, Model& model,
                std::string& error) {
  const bool is_path = name.find('/') != std::string::npos ||
                       (name.size() > 6 && name.compare(name.size() - 6, 6, ".model") == 0);
  const std::string path = is_path ? name : folder + "/" + name + ".model";
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    error = "no model \"" + name + "\": cannot read " + path;
    return false;
  }
  // A path is known by the name of its file.
  const std::size_t slash = name.rfind('/');
  model.key = slash == std::string::npos ? name : name.substr(slash + 1);
  if (model.key.ends_with(".model")) model.key.resize(model.key.size() - 6);
  return parse_model(text.str(), path, model, error);
}

std::string uuid_text(const Model& model) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", model.uuid[i]);
    text += digits;
  }
  return text;
}

bool matches(const char* pattern, const char* text) {
  const char* star = nullptr;
  const char* resume = nullptr;
  while (*text != 0) {
    if (*pattern == '*') {
      star = pattern++;
      resume = text;
    } else if (*pattern == '?' || *pattern == *text) {
      ++pattern;
      ++text;
    } else if (star != nullptr) {
      pattern = star + 1;
      text = ++resume;
    } else {
      return false;
    }
  }
  while (*pattern == '*') ++pattern;
  return *pattern == 0;
}

const KernelCost& kernel_cost(const Model& model, const std::string& mangled,
                              const std::string& demangled) {
  const std::string bare = bare_name(demangled);
  for (const KernelCost& cost : model.kernels) {
    const char* pattern = cost.pattern.c_str();
    if (matches(pattern, bare.c_str()) || matches(pattern, demangled.c_str()) ||
        matches(pattern, mangled.c_str())) {
      return cost;
    }
  }
  static const KernelCost kDefault;
  return kDefault;
}

std::uint64_t kernel_duration(const Model& model, const KernelCost& cost, std::uint64_t blocks,
                              std::uint64_t threads_per_block, std::uint64_t sequence) {
  const double all_blocks = static_cast<double>(blocks);
  const double threads = all_blocks * static_cast<double>(threads_per_block);
  double ns = cost.base_ns;
  switch (cost.shape) {
    case KernelCost::Shape::kFixed:
      break;
    case KernelCost::Shape::kLinear:
      ns += cost.per_block_ns * all_blocks + cost.per_thread_ns * threads;
      break;
    case KernelCost::Shape::kWaves: {
      const std::uint64_t per_multiprocessor = std::clamp<std::uint64_t>(
          model.threads_per_multiprocessor / std::max<std::uint64_t>(threads_per_block, 1), 1,
          model.blocks_per_multiprocessor);
      const auto resident = static_cast<double>(per_multiprocessor * model.multiprocessors);
      ns += cost.per_wave_ns * std::ceil(all_blocks / resident);
      break;
    }
    case KernelCost::Shape::kPower:
      ns += cost.per_thread_ns * std::pow(threads, cost.exponent);
      break;
  }
  return whole_ns(ns * jitter(model, sequence));
}

std::uint64_t transfer_duration(const Model& model, const TransferCost& cost, std::uint64_t bytes,
                                std::uint64_t sequence) {
  const double ns = cost.latency_ns + static_cast<double>(bytes) / cost.bytes_per_ns;
  return whole_ns(ns * jitter(model, sequence));
}

std::uint64_t staging_duration(const Model& model, std::uint64_t bytes) {
  const std::uint64_t ahead = std::min(bytes, model.staging_bytes);
  if (ahead == 0) return 0;
  const TransferCost& host = model.copies[static_cast<int>(CopyKind::kHostToHost)][0];
  return whole_ns(host.latency_ns + static_cast<double>(ahead) / host.bytes_per_ns);
}

}  // namespace virtual_gpu
