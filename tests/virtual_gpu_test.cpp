// The device model of the virtual GPU: times are given, so every result is exact.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "samples/virtual_gpu/engine/address_table.h"
#include "samples/virtual_gpu/engine/model.h"
#include "samples/virtual_gpu/engine/scheduler.h"
#include "samples/virtual_gpu/engine/truth_log.h"
#include "tests/catch.h"

using namespace virtual_gpu;  // NOLINT

namespace {

// 10 multiprocessors of 1000 threads; a kernel takes 100 ns, a copy 10 ns and 1 ns per byte.
Model plain_model() {
  Model model;
  std::string error;
  const bool parsed = parse_model(
      "name \"Simulated test\"\n"
      "multiprocessors 10\n"
      "threads-per-multiprocessor 1000\n"
      "concurrent-kernels 4\n"
      "launch-latency 50ns\n"
      "dispatch-gap 7ns\n"
      "kernel * fixed 100ns\n"
      "copy HtoD any latency 10ns bandwidth 1GB/s\n"
      "copy DtoH any latency 10ns bandwidth 1GB/s\n",
      "test.model", model, error);
  REQUIRE(parsed);
  return model;
}

// Keeps what has ended, in its order.
struct Ended {
  std::string name;
  std::uint64_t start_ns;
  std::uint64_t end_ns;
  bool operator==(const Ended& other) const {
    return name == other.name && start_ns == other.start_ns && end_ns == other.end_ns;
  }
};
std::ostream& operator<<(std::ostream& out, const Ended& ended) {
  return out << ended.name << " [" << ended.start_ns << ", " << ended.end_ns << ")";
}

class Bench {
 public:
  Bench() : model_(plain_model()) {
    scheduler.add_device(&model_);
    scheduler.listen(
        {nullptr,
         [](void* self, Task& task) {
           if (task.operation.work == Work::kMarker) return;
           static_cast<Bench*>(self)->ended.push_back(
               {task.operation.kernel != nullptr ? task.operation.kernel->mangled : "copy",
                task.start_ns, task.end_ns});
         },
         this});
    legacy = scheduler.add_stream(0, 1, 7, 0, false, 0);
  }

  Stream* stream(bool blocking = true, int priority = 0) {
    return scheduler.add_stream(0, 1, ++last_stream_, 0, blocking, priority);
  }
  void kernel(const char* name, Stream* on, std::uint64_t now, std::uint32_t blocks = 1) {
    auto* task = new Task;
    task->operation.work = Work::kKernel;
    task->operation.kernel = intern(name);
    task->operation.grid[0] = blocks;
    task->operation.block[0] = 100;
    scheduler.advance(now);
    scheduler.submit(task, on, nullptr, now);
  }
  void copy(CopyKind kind, std::uint64_t bytes, Stream* on, std::uint64_t now) {
    auto* task = new Task;
    task->operation.work = Work::kCopy;
    task->operation.copy = kind;
    task->operation.bytes = bytes;
    scheduler.advance(now);
    scheduler.submit(task, on, nullptr, now);
  }
  Task* record(Event& event, Stream* on, std::uint64_t now) {
    auto* task = new Task;
    task->event = &event;
    event.task = task;
    scheduler.advance(now);
    scheduler.submit(task, on, nullptr, now);
    return task;
  }
  void wait(Event& event, Stream* on, std::uint64_t now) {
    scheduler.advance(now);
    scheduler.submit(new Task, on, event.task, now);
  }

  Scheduler scheduler;
  Stream* legacy = nullptr;
  std::vector<Ended> ended;

 private:
  const Kernel* intern(const char* name) {
    kernels_.push_back(std::make_unique<Kernel>(Kernel{name, name, model_.kernels[0]}));
    return kernels_.back().get();
  }
  Model model_;
  std::uint32_t last_stream_ = 12;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

constexpr std::uint64_t kEnd = 1'000'000;

}  // namespace

TEST_CASE("virtual GPU: one stream runs in order, with latency first and gaps between") {
  Bench bench;
  Stream* s = bench.stream();
  bench.kernel("a", s, 1000);
  bench.kernel("b", s, 1010);
  bench.kernel("c", s, 2000);
  bench.scheduler.advance(kEnd);
  CHECK(bench.ended == std::vector<Ended>{{"a", 1050, 1150}, {"b", 1157, 1257}, {"c", 2050, 2150}});
  CHECK(bench.scheduler.pending() == 0);
  CHECK(bench.scheduler.next_event() == Scheduler::kNever);
}

TEST_CASE("virtual GPU: nothing happens before its time") {
  Bench bench;
  bench.kernel("a", bench.stream(), 1000);
  CHECK(bench.scheduler.next_event() == 1050);
  bench.scheduler.advance(1049);
  CHECK(bench.scheduler.next_event() == 1050);
  bench.scheduler.advance(1149);
  CHECK(bench.ended.empty());
  CHECK(bench.scheduler.next_event() == 1150);
  bench.scheduler.advance(1150);
  CHECK(bench.ended.size() == 1);
}

TEST_CASE("virtual GPU: the legacy default stream and blocking streams wait for each other") {
  Bench bench;
  Stream* blocking = bench.stream();
  Stream* free = bench.stream(false);
  bench.kernel("a", blocking, 1000);
  bench.kernel("default", bench.legacy, 1001);
  bench.kernel("b", blocking, 1002);
  bench.kernel("free", free, 1003);
  bench.scheduler.advance(kEnd);
  CHECK(bench.ended ==
        std::vector<Ended>{
            {"a", 1050, 1150}, {"free", 1053, 1153}, {"default", 1157, 1257}, {"b", 1264, 1364}});
}

TEST_CASE("virtual GPU: kernels share the device as far as their threads fit") {
  Bench bench;
  SECTION("small ones run at once, up to the limit") {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      bench.kernel(name, bench.stream(), 1000);
    }
    bench.scheduler.advance(kEnd);
    REQUIRE(bench.ended.size() == 5);
    CHECK(bench.ended[3].start_ns == 1050);
    CHECK(bench.ended[4] == Ended{"e", 1150, 1250});
  }
  SECTION("a full one holds back what comes after it") {
    bench.kernel("half", bench.stream(), 1000, 50);
    bench.kernel("full", bench.stream(), 1001, 1000);
    bench.kernel("small", bench.stream(), 1002);
    bench.scheduler.advance(kEnd);
    CHECK(bench.ended ==
          std::vector<Ended>{{"half", 1050, 1150}, {"full", 1150, 1250}, {"small", 1250, 1350}});
  }
  SECTION("the higher priority goes first") {
    bench.kernel("full", bench.stream(), 1000, 100);
    bench.kernel("low", bench.stream(), 1001, 100);
    bench.kernel("high", bench.stream(true, -5), 1002, 100);
    bench.scheduler.advance(kEnd);
    CHECK(bench.ended ==
          std::vector<Ended>{{"full", 1050, 1150}, {"high", 1150, 1250}, {"low", 1250, 1350}});
  }
}

TEST_CASE("virtual GPU: one copy engine per direction") {
  Bench bench;
  bench.copy(CopyKind::kHostToDevice, 90, bench.stream(), 1000);
  bench.copy(CopyKind::kHostToDevice, 40, bench.stream(), 1000);
  bench.copy(CopyKind::kDeviceToHost, 20, bench.stream(), 1000);
  bench.scheduler.advance(kEnd);
  CHECK(bench.ended ==
        std::vector<Ended>{{"copy", 1050, 1080}, {"copy", 1050, 1150}, {"copy", 1150, 1200}});
}

TEST_CASE("virtual GPU: an event makes another stream wait") {
  Bench bench;
  Stream* first = bench.stream();
  Stream* second = bench.stream(false);
  Event event;
  bench.kernel("a", first, 1000);
  bench.record(event, first, 1001);
  bench.wait(event, second, 1002);
  bench.kernel("b", second, 1003);
  bench.scheduler.advance(1149);
  CHECK(event.task != nullptr);
  bench.scheduler.advance(kEnd);
  CHECK(event.task == nullptr);
  CHECK(event.done_ns == 1150);
  CHECK(bench.ended == std::vector<Ended>{{"a", 1050, 1150}, {"b", 1150, 1250}});
}

TEST_CASE("virtual GPU: what follows a host call waits for its end") {
  Bench bench;
  Stream* s = bench.stream();
  bench.kernel("a", s, 1000);
  auto* call = new Task;
  call->operation.work = Work::kHostCall;
  bench.scheduler.submit(call, s, nullptr, 1001);
  bench.kernel("b", s, 1002);
  bench.scheduler.advance(1156);
  CHECK(bench.scheduler.take_host_call() == nullptr);
  bench.scheduler.advance(5000);
  CHECK(bench.ended.size() == 1);
  REQUIRE(bench.scheduler.take_host_call() == call);
  CHECK(call->start_ns == 1157);
  bench.scheduler.finish_host_call(call, 6000);
  CHECK_FALSE(bench.scheduler.has_host_calls());
  bench.scheduler.advance(kEnd);
  CHECK(bench.ended.back() == Ended{"b", 6007, 6107});
}

TEST_CASE("virtual GPU: a destroyed stream finishes its work first") {
  Bench bench;
  Stream* s = bench.stream();
  bench.kernel("a", s, 1000);
  bench.scheduler.destroy_stream(s);
  CHECK(bench.scheduler.streams().size() == 2);
  bench.scheduler.advance(kEnd);
  CHECK(bench.ended.size() == 1);
  CHECK(bench.scheduler.streams().size() == 1);
}

TEST_CASE("virtual GPU: costs") {
  Model model = plain_model();
  KernelCost cost;
  cost.base_ns = 1000;
  SECTION("linear") {
    cost.shape = KernelCost::Shape::kLinear;
    cost.per_block_ns = 10;
    cost.per_thread_ns = 0.5;
    CHECK(kernel_duration(model, cost, 8, 100, 1) == 1000 + 80 + 400);
  }
  SECTION("waves: 10 multiprocessors hold 10 blocks of 100 threads each") {
    cost.shape = KernelCost::Shape::kWaves;
    cost.per_wave_ns = 300;
    CHECK(kernel_duration(model, cost, 100, 100, 1) == 1300);
    CHECK(kernel_duration(model, cost, 101, 100, 1) == 1600);
  }
  SECTION("power") {
    cost.shape = KernelCost::Shape::kPower;
    cost.per_thread_ns = 2;
    cost.exponent = 1.5;
    CHECK(kernel_duration(model, cost, 4, 25, 1) == 1000 + 2 * 1000);
  }
  SECTION("jitter stays within its share and does not depend on anything but the sequence") {
    model.jitter = 0.1;
    bool differ = false;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::uint64_t ns = kernel_duration(model, cost, 1, 1, i);
      CHECK(ns >= 900);
      CHECK(ns <= 1100);
      CHECK(ns == kernel_duration(model, cost, 1, 1, i));
      differ = differ || ns != 1000;
    }
    CHECK(differ);
  }
}

TEST_CASE("virtual GPU: kernel patterns") {
  Model model;
  std::string error;
  REQUIRE(
      parse_model("kernel matmul* fixed 1us\n"
                  "kernel *float* fixed 2us\n"
                  "kernel _Z5plainv fixed 3us\n"
                  "kernel * fixed 4us\n",
                  "test.model", model, error));
  CHECK(kernel_cost(model, "_Z6matmulPf", "matmul(float*)").base_ns == 1000);
  CHECK(kernel_cost(model, "_Z7matmul2IfEvv", "void matmul2<float>()").base_ns == 1000);
  CHECK(kernel_cost(model, "_Z5scaleIfEvPf", "void scale<float>(float*)").base_ns == 2000);
  CHECK(kernel_cost(model, "_Z5plainv", "plain()").base_ns == 3000);
  CHECK(
      kernel_cost(model, "_ZN12_GLOBAL__N_16matmulEv", "(anonymous namespace)::matmul()").base_ns ==
      4000);
}

TEST_CASE("virtual GPU: mistakes in a model name the line and what was expected") {
  const auto error_of = [](const std::string& text) {
    Model model;
    std::string error;
    CHECK_FALSE(parse_model(text, "x.model", model, error));
    return error;
  };
  CHECK(error_of("\n# fine\nmultiprocessors zero\n") ==
        "x.model:3: expected a number from 1, found \"zero\"");
  CHECK(error_of("memory 80\n") == "x.model:1: expected a size such as 80GiB, found \"80\"");
  CHECK(error_of("kernel *\n") ==
        "x.model:1: expected fixed, linear, waves or power, found the end of the line");
  CHECK(error_of("launch-latency 4us 5us\n") ==
        "x.model:1: expected the end of the line, found \"5us\"");
  CHECK(error_of("name \"Simulated\n") ==
        "x.model:1: expected a closing quote, found the end of the line");
  CHECK(error_of("name \"NVIDIA H100\"\n") ==
        "x.model: expected a name that begins with \"Simulated\", found \"NVIDIA H100\"");
  CHECK(error_of("copy HtoD pinned bandwidth 0GB/s\n") ==
        "x.model:1: expected a rate above zero, found \"0\"");
  CHECK(error_of("driver-records both\n") == "x.model:1: expected own or shared, found \"both\"");
  CHECK(error_of("driver-records\n") ==
        "x.model:1: expected own or shared, found the end of the line");
  CHECK(error_of("lazy-loading 300\n") ==
        "x.model:1: expected a time such as 250us, found \"300\"");
  CHECK(error_of("staging-buffer 1us\n") ==
        "x.model:1: expected a size such as 1MiB, found \"1us\"");
}

TEST_CASE("virtual GPU: what loading takes, and whose ids nested driver calls carry") {
  Model model = plain_model();
  SECTION("nothing, and their own, if a model does not say") {
    CHECK(model.lazy_loading_ns == 0);
    CHECK(model.module_loading_ns == 0);
    CHECK(model.jit_ns == 0);
    CHECK(model.driver_records == DriverRecords::kOwn);
  }
  SECTION("as the model says") {
    std::string error;
    REQUIRE(
        parse_model("lazy-loading 300us\nmodule-loading 1.5ms\njit 20ms\ndriver-records shared\n",
                    "test.model", model, error));
    CHECK(model.lazy_loading_ns == 300'000);
    CHECK(model.module_loading_ns == 1'500'000);
    CHECK(model.jit_ns == 20'000'000);
    CHECK(model.driver_records == DriverRecords::kShared);
    REQUIRE(parse_model("driver-records own\n", "test.model", model, error));
    CHECK(model.driver_records == DriverRecords::kOwn);
  }
}

TEST_CASE("virtual GPU: pageable memory is staged, up to the size of the buffer") {
  Model model = plain_model();
  std::string error;
  REQUIRE(
      parse_model("copy HtoH any latency 100ns bandwidth 2GB/s\n"
                  "staging-buffer 4KiB\n",
                  "test.model", model, error));
  CHECK(staging_duration(model, 1000) == 100 + 500);
  CHECK(staging_duration(model, 4096) == 100 + 2048);
  CHECK(staging_duration(model, 1 << 30) == 100 + 2048);
  CHECK(staging_duration(model, 0) == 0);
  REQUIRE(parse_model("staging-buffer 0B\n", "test.model", model, error));
  CHECK(staging_duration(model, 1000) == 0);
}

TEST_CASE("virtual GPU: the truth log says what its reference says") {
  char path[] = "/tmp/virtual_gpu_test.XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  setenv("PROFILER_VIRTUAL_GPU_LOG", path, 1);
  TruthLog log;
  log.open();
  unsetenv("PROFILER_VIRTUAL_GPU_LOG");

  Synchronization wait;
  wait.kind = SyncKind::kStreamWaitEvent;
  wait.context = 1;
  wait.stream = 13;
  wait.event = 3;
  wait.record = 8;
  wait.correlation = 30;
  wait.start_ns = 1000;
  wait.end_ns = 1500;
  wait.result = 600;
  log.synchronization(wait);
  log.event({0, 1, 13, 3, 8, 31});
  Overhead overhead;
  overhead.kind = OverheadKind::kModuleLoading;
  overhead.correlation = 19;
  overhead.start_ns = 2000;
  overhead.end_ns = ~std::uint64_t{0};
  log.overhead(overhead);
  log.flush();

  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  unlink(path);
  const std::string pid = std::to_string(getpid());
  CHECK(lines ==
        std::vector<std::string>{
            "{\"type\":\"sync\",\"pid\":" + pid +
                ",\"kind\":\"stream wait event\",\"context\":1,\"stream\":13,\"event\":3,"
                "\"correlation\":30,\"start_ns\":1000,\"end_ns\":1500,\"result\":600}",
            "{\"type\":\"event\",\"pid\":" + pid +
                ",\"context\":1,\"stream\":13,\"event\":3,\"correlation\":31}",
            "{\"type\":\"overhead\",\"pid\":" + pid + ",\"tid\":" + std::to_string(gettid()) +
                ",\"kind\":\"runtime triggered module loading\",\"start_ns\":2000,"
                "\"end_ns\":18446744073709551615,\"correlation\":19}"});
}

TEST_CASE("virtual GPU: memory is known by its addresses") {
  AddressTable table;
  char* device = static_cast<char*>(table.allocate(MemoryKind::kDevice, 100'000, 1));
  char* pinned = static_cast<char*>(table.allocate(MemoryKind::kPinned, 10, 2));
  REQUIRE(device != nullptr);
  REQUIRE(pinned != nullptr);
  pinned[9] = 1;  // real memory
  CHECK(table.find(device + 99'999).kind == MemoryKind::kDevice);
  CHECK(table.find(device + 100'000).kind == MemoryKind::kPageable);
  CHECK(table.find(pinned).kind == MemoryKind::kPinned);
  CHECK(table.device_bytes() == 100'000);

  char own[64];
  CHECK(table.find(own).kind == MemoryKind::kPageable);
  CHECK(table.register_host(own, 64, 1));
  CHECK_FALSE(table.register_host(own + 63, 10, 1));
  CHECK(table.find(own + 5).kind == MemoryKind::kPinned);

  const auto any = [](const MemoryRange&) { return true; };
  CHECK_FALSE(table.remove(device + 1, any, nullptr));
  CHECK_FALSE(table.remove(
      device, [](const MemoryRange&) { return false; }, nullptr));
  table.remove_context(1);
  CHECK(table.find(device).kind == MemoryKind::kPageable);
  CHECK(table.find(own).kind == MemoryKind::kPageable);
  CHECK(table.device_bytes() == 0);
  CHECK(table.find(pinned).kind == MemoryKind::kPinned);
  CHECK(table.remove(pinned, any, nullptr));
}
