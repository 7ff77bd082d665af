#include "collector/wire_decoder.h"

#include <random>
#include <string>

#include "tests/catch.h"
#include "tests/wire_stream.h"

namespace profiler {
namespace {

using test::WireStream;

std::string body_of(const std::string& framed_bytes) {
  FrameSplitter splitter;
  const std::span<char> room = splitter.room();
  std::copy(framed_bytes.begin(), framed_bytes.end(), room.begin());
  splitter.commit(framed_bytes.size());
  return std::string(splitter.next().value());
}

struct Fixture {
  Catalog catalog;
  WireDecoder decoder{catalog};
  DecodedFrame frame;

  Fixture() {
    const WireStream wire(42);
    REQUIRE(decoder.decode(body_of(wire.hello()), frame).ok());
    REQUIRE(decoder.decode(body_of(wire.definitions()), frame).ok());
  }
};

TEST_CASE("a hello enters the process") {
  const Fixture fixture;
  REQUIRE(fixture.catalog.processes.size() == 1);
  const Process& process = fixture.catalog.processes[0];
  REQUIRE(process.pid == 42);
  REQUIRE(process.executable == "/bin/train");
  REQUIRE(process.driver_version == 13000);
  REQUIRE(fixture.catalog.threads[1].name == "worker");
  REQUIRE(fixture.catalog.queues[1].stream == 13);
  REQUIRE(fixture.catalog.api_functions[0].name == "cudaLaunchKernel");
  REQUIRE(fixture.catalog.kernel_functions[0].name == "gemm()");
}

TEST_CASE("any times travel unchanged") {
  Fixture fixture;
  const std::uint64_t values[] = {
      0, 1, 999, UINT64_MAX, UINT64_MAX - 1, std::uint64_t{1} << 63, 1'700'000'000'000'000'000};
  for (const std::uint64_t base : values) {
    for (const std::uint64_t start : values) {
      for (const std::uint64_t end : values) {
        wire::Frame message;
        message.set_base_ns(base);
        message.set_base_correlation(0xfffffff0U);
        wire::Kernel* kernel = message.add_kernels();
        kernel->set_start_delta(static_cast<std::int64_t>(start - base));
        kernel->set_duration(end - start);
        kernel->set_queue_id(2);
        kernel->set_function_id(2);
        kernel->set_correlation_delta(0x20);
        kernel->set_grid_y(3);
        REQUIRE(fixture.decoder.decode(message.SerializeAsString(), fixture.frame).ok());
        REQUIRE(fixture.frame.operations.size() == 1);
        const Operation& operation = fixture.frame.operations[0];
        REQUIRE(operation.start == start);
        REQUIRE(operation.end == end);
        REQUIRE(operation.correlation == 0x10);
        REQUIRE(operation.grid[0] == 1);
        REQUIRE(operation.grid[1] == 3);
        REQUIRE(operation.queue == 1);
      }
    }
  }
}

TEST_CASE("a name that changes is the same thread") {
  Fixture fixture;
  wire::Frame message;
  wire::Thread* thread = message.add_threads();
  thread->set_id(2);
  thread->set_tid(43);
  thread->set_name("loader");
  REQUIRE(fixture.decoder.decode(message.SerializeAsString(), fixture.frame).ok());
  REQUIRE(fixture.catalog.threads.size() == 2);
  REQUIRE(fixture.catalog.threads[1].name == "loader");
  REQUIRE(fixture.frame.renamed_threads == std::vector<ThreadIndex>{1});
}

TEST_CASE("ids that were not defined are faults") {
  const auto fault_of = [](const wire::Frame& message) {
    Fixture fixture;
    const Status status = fixture.decoder.decode(message.SerializeAsString(), fixture.frame);
    return status.ok() ? std::string() : status.error().message;
  };
  wire::Frame unknown_queue;
  unknown_queue.add_kernels()->set_queue_id(77);
  REQUIRE(fault_of(unknown_queue).find("before it was defined") != std::string::npos);
  wire::Frame unknown_thread;
  unknown_thread.add_api_calls()->set_function_id(1);
  REQUIRE(fault_of(unknown_thread).find("before it was defined") != std::string::npos);
  wire::Frame huge_id;
  huge_id.add_threads()->set_id(4'000'000'000U);
  REQUIRE(fault_of(huge_id).find("out of order") != std::string::npos);
  wire::Frame huge_device;
  huge_device.add_devices()->set_id(4'000'000'000U);
  REQUIRE(fault_of(huge_device).find("out of order") != std::string::npos);
  wire::Frame second_hello;
  second_hello.mutable_hello()->set_wire_version(1);
  REQUIRE(fault_of(second_hello).find("second hello") != std::string::npos);
}

TEST_CASE("records before the hello and other versions are faults") {
  Catalog catalog;
  DecodedFrame frame;
  WireDecoder early(catalog);
  REQUIRE_FALSE(early.decode(body_of(WireStream::kernel(1, 2, 3)), frame).ok());
  WireDecoder other(catalog);
  wire::Frame message;
  message.mutable_hello()->set_wire_version(2);
  const Status status = other.decode(message.SerializeAsString(), frame);
  REQUIRE_FALSE(status.ok());
  REQUIRE(status.error().message.find("different versions") != std::string::npos);
  REQUIRE(catalog.processes.empty());
}

TEST_CASE("no bytes crash the decoder") {
  std::mt19937 random(6);
  const WireStream wire(42);
  const std::string bodies[] = {
      body_of(wire.hello()), body_of(wire.definitions()), body_of(WireStream::api(1, 2, 3)),
      body_of(WireStream::kernel(1, 2, 3)), body_of(WireStream::copy(1, 2, 3, 4))};
  std::size_t accepted = 0;
  std::size_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    Catalog catalog;
    WireDecoder decoder(catalog);
    DecodedFrame frame;
    if (round % 4 != 0) REQUIRE(decoder.decode(bodies[0], frame).ok());
    if (round % 4 > 1) REQUIRE(decoder.decode(bodies[1], frame).ok());
    std::string body = bodies[random() % 5];
    for (std::size_t i = random() % 4; i > 0 && !body.empty(); --i)
      body[random() % body.size()] = static_cast<char>(random());
    if (random() % 4 == 0) body.resize(random() % (body.size() + 1));
    (decoder.decode(body, frame).ok() ? accepted : refused) += 1;
  }
  REQUIRE(accepted > 100);
  REQUIRE(refused > 100);
}

TEST_CASE("frames are cut wherever reads end") {
  std::string bytes;
  for (std::uint32_t i = 1; i <= 200; ++i) bytes += WireStream::kernel(i, i, i + 1);
  wire::Frame large;
  large.add_kernel_functions()->set_name(std::string(600'000, 'k'));
  bytes += test::framed(large);
  std::mt19937 random(7);
  FrameSplitter splitter;
  std::size_t frames = 0;
  std::size_t last_size = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::span<char> room = splitter.room();
    const std::size_t size =
        std::min({bytes.size() - at, room.size(), std::size_t{1} + random() % 5000});
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size, room.begin());
    splitter.commit(size);
    at += size;
    while (const auto body = splitter.next()) {
      ++frames;
      last_size = body->size();
    }
  }
  REQUIRE(frames == 201);
  REQUIRE(last_size > 600'000);
  REQUIRE(splitter.pending() == 0);
  REQUIRE_FALSE(splitter.fault());
}

TEST_CASE("a frame that is too long is a fault, not an allocation") {
  for (const std::string& prefix :
       {std::string("\xff\xff\xff\xff\x0f", 5), std::string("\x81\x80\x40", 3)}) {
    FrameSplitter splitter;
    const std::span<char> room = splitter.room();
    std::copy(prefix.begin(), prefix.end(), room.begin());
    splitter.commit(prefix.size());
    REQUIRE_FALSE(splitter.next().has_value());
    REQUIRE(splitter.fault());
  }
}

}  // namespace
}  // namespace profiler
