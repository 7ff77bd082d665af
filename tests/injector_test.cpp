#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "injector/activity_kinds.h"
#include "injector/buffer_pool.h"
#include "injector/session.h"
#include "proto/session.h"
#include "proto/wire.pb.h"
#include "tests/catch.h"
#include "tests/fake_cupti.h"
#include "tests/injector_target.h"

extern "C" int InitializeInjection() noexcept;
extern "C" int InitializeInjectionNvtx2(void*) noexcept;

namespace {

using namespace profiler;
using namespace profiler::injector;
using namespace profiler::test;

// ---- Records and frames -------------------------------------------------------------------------

// A record of CUDA 13.0's length, through the struct that the injector reads it with.
template <typename Record>
struct Padded {
  union {
    Record record;
    unsigned char bytes[256];
  };
  Padded() : bytes{} {}
  Record* operator->() { return &record; }
  const CUpti_Activity* get() const { return reinterpret_cast<const CUpti_Activity*>(bytes); }
  bool append() const { return fake_cupti::append(bytes, fake_cupti::record_size(record.kind)); }
};

Padded<CUpti_ActivityAPI> api_call(std::uint64_t start, std::uint64_t end,
                                   std::uint32_t correlation) {
  Padded<CUpti_ActivityAPI> call;
  call->kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call->cbid = 211;
  call->start = start;
  call->end = end;
  call->processId = static_cast<std::uint32_t>(getpid());
  call->threadId = static_cast<std::uint32_t>(getpid());
  call->correlationId = correlation;
  return call;
}

Padded<CUpti_ActivityKernel8> kernel(std::uint64_t start, std::uint64_t end,
                                     std::uint32_t correlation, const char* name) {
  Padded<CUpti_ActivityKernel8> kernel;
  kernel->kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel->start = start;
  kernel->end = end;
  kernel->correlationId = correlation;
  kernel->name = name;
  kernel->deviceId = 0;
  kernel->contextId = 1;
  kernel->streamId = 7;
  kernel->gridX = 4096;
  kernel->gridY = kernel->gridZ = 1;
  kernel->blockX = 256;
  kernel->blockY = kernel->blockZ = 1;
  kernel->registersPerThread = 24;
  return kernel;
}

struct EncoderFixture {
  EncoderFixture() : cupti(fake_cupti::functions()), encoder(cupti, FrameSink{&take, this}) {
    fake_cupti::reset();
    cupti.read_version();
  }
  static bool take(void* self, const std::uint8_t* bytes, std::size_t size) {
    auto* fixture = static_cast<EncoderFixture*>(self);
    fixture->bytes.append(reinterpret_cast<const char*>(bytes), size);
    return !fixture->refuse;
  }
  std::vector<wire::Frame> frames() {
    encoder.send();
    return decode(bytes);
  }
  std::string bytes;
  bool refuse = false;
  CuptiApi cupti;
  RecordEncoder encoder;
};

}  // namespace

TEST_CASE("records keep their times, whatever CUPTI delivers", "[injector]") {
  const std::uint64_t times[] = {0,         1, 1'000'000'000, INT64_MAX, std::uint64_t{1} << 63,
                                 UINT64_MAX};
  EncoderFixture fixture;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> expected;
  for (const std::uint64_t start : times) {
    for (const std::uint64_t end : times) {
      fixture.encoder.record(api_call(start, end, 5).get());
      fixture.encoder.record(kernel(start, end, 6, "k").get());
      expected.emplace_back(start, end);
    }
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> calls;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> kernels;
  for (const wire::Frame& frame : fixture.frames()) {
    for (const auto& call : frame.api_calls()) {
      const std::uint64_t start = frame.base_ns() + static_cast<std::uint64_t>(call.start_delta());
      calls.emplace_back(start, start + call.duration());
    }
    for (const auto& operation : frame.kernels()) {
      const std::uint64_t start =
          frame.base_ns() + static_cast<std::uint64_t>(operation.start_delta());
      kernels.emplace_back(start, start + operation.duration());
    }
  }
  CHECK(calls == expected);
  CHECK(kernels == expected);
  CHECK(fixture.encoder.records_sent() == 2 * expected.size());
}

TEST_CASE("correlation ids survive the wrap-around at 2^32", "[injector]") {
  EncoderFixture fixture;
  const std::vector<std::uint32_t> ids = {UINT32_MAX - 1, UINT32_MAX, 0, 1, 0x80000000U};
  for (const std::uint32_t id : ids) fixture.encoder.record(api_call(10, 20, id).get());
  std::vector<std::uint32_t> seen;
  for (const wire::Frame& frame : fixture.frames()) {
    for (const auto& call : frame.api_calls()) {
      seen.push_back(frame.base_correlation() +
                     static_cast<std::uint32_t>(call.correlation_delta()));
    }
  }
  CHECK(seen == ids);
}

TEST_CASE("each kind arrives with all its fields", "[injector]") {
  EncoderFixture fixture;
  // Freed by the encoder, as the header of 13.0 asks.
  static char* const name = strdup("Simulated GPU");

  Padded<CUpti_ActivityDevice4> device;
  device->kind = CUPTI_ACTIVITY_KIND_DEVICE;
  device->id = 0;
  device->name = name;
  device->globalMemorySize = std::uint64_t{80} << 30;
  device->globalMemoryBandwidth = 3'350'000'000;
  device->numMultiprocessors = 132;
  device->computeCapabilityMajor = 9;
  std::memset(device->uuid.bytes, 0x11, 16);
  std::memset(device->migUuid.bytes, 0x22, 16);
  fixture.encoder.record(device.get());
  device->id = 1;
  device->name = nullptr;
  device->isMigEnabled = 1;
  fixture.encoder.record(device.get());

  Padded<CUpti_ActivityContext> context;
  context->kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  context->contextId = 3;
  context->deviceId = 1;
  fixture.encoder.record(context.get());

  auto call = api_call(100, 150, 9);
  call->returnValue = 2;
  fixture.encoder.record(call.get());
  call->cbid = 9999;  // unknown to this CUPTI
  fixture.encoder.record(call.get());

  auto launched = kernel(1000, 2000, 9, "_Z4vadd");
  launched->gridY = 3;
  launched->gridZ = 4;
  launched->blockY = 5;
  launched->blockZ = 6;
  launched->staticSharedMemory = 128;
  launched->dynamicSharedMemory = 4096;
  launched->localMemoryPerThread = 16;
  launched->graphId = 77;
  launched->graphNodeId = 0x123456789ULL;
  fixture.encoder.record(launched.get());

  Padded<CUpti_ActivityMemcpy5> copy;
  copy->kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy->srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  copy->dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy->flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  copy->bytes = 4 << 20;
  copy->start = 3000;
  copy->end = 3500;
  copy->contextId = 1;
  copy->streamId = 7;
  copy->correlationId = 10;
  copy->graphId = 78;
  copy->graphNodeId = 79;
  fixture.encoder.record(copy.get());

  Padded<CUpti_ActivityMemcpyPtoP4> peer;
  peer->kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  peer->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer->bytes = 64;
  peer->start = 4000;
  peer->end = 4100;
  peer->deviceId = 1;
  peer->srcDeviceId = 0;
  peer->dstDeviceId = 1;
  peer->correlationId = 11;
  fixture.encoder.record(peer.get());

  Padded<CUpti_ActivityMemset4> set;
  set->kind = CUPTI_ACTIVITY_KIND_MEMSET;
  set->value = 0xff;
  set->bytes = 4096;
  set->start = 5000;
  set->end = 5001;
  set->contextId = 1;
  set->streamId = 7;
  set->correlationId = 12;
  set->memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  set->flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
  fixture.encoder.record(set.get());

  const auto frames = fixture.frames();
  REQUIRE(frames.size() == 1);
  const wire::Frame& frame = frames[0];
  const auto start_of = [&](const auto& record) {
    return frame.base_ns() + static_cast<std::uint64_t>(record.start_delta());
  };

  REQUIRE(frame.devices_size() == 2);
  CHECK(frame.devices(0).id() == 1);
  CHECK(frame.devices(0).name() == "Simulated GPU");
  CHECK(frame.devices(0).uuid() == std::string(16, '\x11'));
  CHECK(frame.devices(0).memory_bytes() == std::uint64_t{80} << 30);
  CHECK(frame.devices(0).memory_bandwidth_kb_s() == 3'350'000'000);
  CHECK(frame.devices(0).multiprocessors() == 132);
  CHECK(frame.devices(0).compute_capability_major() == 9);
  CHECK(frame.devices(1).id() == 2);
  CHECK_FALSE(frame.devices(1).has_name());
  CHECK(frame.devices(1).uuid() == std::string(16, '\x22'));

  REQUIRE(frame.contexts_size() == 1);
  CHECK(frame.contexts(0).id() == 3);
  CHECK(frame.contexts(0).device_id() == 2);

  REQUIRE(frame.queues_size() == 2);
  CHECK(frame.queues(0).id() == 1);
  CHECK(frame.queues(0).device_id() == 1);
  CHECK(frame.queues(0).context_id() == 1);
  CHECK(frame.queues(0).stream_id() == 7);

  REQUIRE(frame.threads_size() == 1);
  CHECK(frame.threads(0).tid() == static_cast<std::uint64_t>(getpid()));
  CHECK(!frame.threads(0).name().empty());

  REQUIRE(frame.api_functions_size() == 2);
  CHECK(frame.api_functions(0).domain() == wire::ApiFunction::RUNTIME);
  CHECK(frame.api_functions(0).callback_id() == 211);
  CHECK(frame.api_functions(0).name() == "cudaLaunchKernel_v7000");
  CHECK(frame.api_functions(1).callback_id() == 9999);
  CHECK_FALSE(frame.api_functions(1).has_name());

  REQUIRE(frame.api_calls_size() == 2);
  CHECK(start_of(frame.api_calls(0)) == 100);
  CHECK(frame.api_calls(0).duration() == 50);
  CHECK(frame.api_calls(0).function_id() == 1);
  CHECK(frame.api_calls(0).thread_id() == 1);
  CHECK(frame.api_calls(0).result() == 2);
  CHECK(frame.api_calls(1).function_id() == 2);

  REQUIRE(frame.kernel_functions_size() == 1);
  CHECK(frame.kernel_functions(0).name() == "_Z4vadd");
  CHECK(frame.kernel_functions(0).registers() == 24);
  CHECK(frame.kernel_functions(0).static_shared_bytes() == 128);
  CHECK(frame.kernel_functions(0).local_bytes() == 16);
  REQUIRE(frame.kernels_size() == 1);
  const auto& k = frame.kernels(0);
  CHECK(start_of(k) == 1000);
  CHECK(k.duration() == 1000);
  CHECK(k.queue_id() == 1);
  CHECK(k.function_id() == 1);
  CHECK(k.grid_x() == 4096);
  CHECK(k.grid_y() == 3);
  CHECK(k.grid_z() == 4);
  CHECK(k.block_x() == 256);
  CHECK(k.block_y() == 5);
  CHECK(k.block_z() == 6);
  CHECK(k.dynamic_shared_bytes() == 4096);
  CHECK(k.graph_id() == 77);
  CHECK(k.graph_node_id() == 0x123456789ULL);

  REQUIRE(frame.copies_size() == 2);
  const auto& c = frame.copies(0);
  CHECK(start_of(c) == 3000);
  CHECK(c.bytes() == 4 << 20);
  CHECK(c.copy_kind() == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  CHECK(c.source_kind() == CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
  CHECK(c.destination_kind() == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  CHECK(c.asynchronous());
  CHECK(c.graph_id() == 78);
  CHECK(c.graph_node_id() == 79);
  CHECK_FALSE(c.has_source_device_id());
  CHECK(frame.copies(1).source_device_id() == 1);
  CHECK(frame.copies(1).destination_device_id() == 2);
  CHECK(frame.copies(1).queue_id() == 2);
  CHECK_FALSE(frame.copies(1).asynchronous());

  REQUIRE(frame.sets_size() == 1);
  const auto& m = frame.sets(0);
  CHECK(start_of(m) == 5000);
  CHECK(m.duration() == 1);
  CHECK(m.bytes() == 4096);
  CHECK(m.value() == 0xff);
  CHECK(m.memory_kind() == CUPTI_ACTIVITY_MEMORY_KIND_DEVICE);
  CHECK(m.asynchronous());
}

TEST_CASE("a launch takes at most 48 bytes on the wire", "[injector]") {
  EncoderFixture fixture;
  constexpr std::uint32_t kLaunches = 100'000;
  const std::uint64_t start = 86'400'000'000'000;  // a day after the boot
  // As a training loop: a launch every 7 µs, kernels of 40 µs that lag behind, mixed as in a
  // buffer; correlation ids grow by 3, for calls that are not recorded.
  for (std::uint32_t i = 0; i < kLaunches; ++i) {
    const std::uint64_t at = start + std::uint64_t{i} * 7'000;
    fixture.encoder.record(api_call(at, at + 4'321, 1'000'000 + 3 * i).get());
    fixture.encoder.record(
        kernel(at + 900'000, at + 940'123, 1'000'000 + 3 * i, "_Z6kernelPf").get());
  }
  fixture.encoder.send();
  CHECK(fixture.encoder.records_sent() == 2 * kLaunches);
  INFO(static_cast<double>(fixture.bytes.size()) / kLaunches << " bytes for each launch");
  CHECK(fixture.bytes.size() <= 48 * std::size_t{kLaunches});
}

TEST_CASE("records of unknown kinds are skipped", "[injector]") {
  EncoderFixture fixture;
  Padded<CUpti_ActivityName> other;
  other->kind = CUPTI_ACTIVITY_KIND_NAME;
  fixture.encoder.record(other.get());
  CHECK(fixture.frames().empty());
  fixture.encoder.record(api_call(1, 2, 3).get());
  fixture.encoder.record(other.get());
  const auto frames = fixture.frames();
  REQUIRE(frames.size() == 1);
  CHECK(frames[0].api_calls_size() == 1);
  CHECK(fixture.encoder.records_sent() == 1);
}

TEST_CASE("kernel names travel once, whole up to the size of a frame", "[injector]") {
  EncoderFixture fixture;
  const std::string long_name(512 * 1024, 'x');
  const std::string like_it = long_name.substr(0, 9'000) + "y" + long_name.substr(9'001);
  for (int i = 0; i < 50; ++i) {
    fixture.encoder.record(kernel(1, 2, 1, long_name.c_str()).get());
    fixture.encoder.record(kernel(1, 2, 1, like_it.c_str()).get());
    fixture.encoder.record(kernel(1, 2, 1, "short").get());
    fixture.encoder.record(kernel(1, 2, 1, nullptr).get());
  }
  std::vector<wire::KernelFunction> functions;
  std::vector<int> uses(5);
  for (const wire::Frame& frame : fixture.frames()) {
    for (const auto& function : frame.kernel_functions()) functions.push_back(function);
    for (const auto& operation : frame.kernels()) ++uses.at(operation.function_id());
  }
  REQUIRE(functions.size() == 4);
  CHECK(functions[0].name() == long_name);
  CHECK(functions[1].name() == like_it);
  CHECK(functions[2].name() == "short");
  CHECK_FALSE(functions[3].has_name());
  CHECK(uses == std::vector<int>{0, 50, 50, 50, 50});
}

TEST_CASE("a name that no frame can hold is cut, at a character, with an ellipsis", "[injector]") {
  for (const std::size_t shift : {0, 1}) {
    EncoderFixture fixture;
    std::string name(shift, 'a');
    while (name.size() < 1'100'000) name += "\xc3\xa9";
    fixture.encoder.record(api_call(1, 2, 1).get());
    fixture.encoder.record(kernel(1, 2, 1, name.c_str()).get());
    std::string sent;
    int kernels = 0;
    for (const wire::Frame& frame : fixture.frames()) {
      for (const auto& function : frame.kernel_functions()) sent = function.name();
      kernels += frame.kernels_size();
    }
    CHECK(kernels == 1);
    REQUIRE(sent.size() > 1'000'000);
    REQUIRE(sent.size() < name.size());
    const std::string kept = sent.substr(0, sent.size() - 3);
    CHECK(sent.substr(sent.size() - 3) == "\xe2\x80\xa6");
    CHECK(name.compare(0, kept.size(), kept) == 0);
    CHECK((kept.size() - shift) % 2 == 0);
  }
}

TEST_CASE("a pointer that comes to mean another name gets another number", "[injector]") {
  for (const std::size_t length : {10, 1000}) {
    EncoderFixture fixture;
    std::string name(length, 'a');
    std::vector<char> memory(name.begin(), name.end());
    memory.push_back('\0');
    fixture.encoder.begin_buffer();
    fixture.encoder.record(kernel(1, 2, 1, memory.data()).get());
    memory[length - 1] = 'b';
    fixture.encoder.begin_buffer();
    fixture.encoder.record(kernel(3, 4, 2, memory.data()).get());
    const auto frames = fixture.frames();
    REQUIRE(frames.size() == 1);
    REQUIRE(frames[0].kernel_functions_size() == 2);
    CHECK(frames[0].kernel_functions(1).name() == name.substr(0, length - 1) + "b");
    CHECK(frames[0].kernels(0).function_id() == 1);
    CHECK(frames[0].kernels(1).function_id() == 2);
  }
}

TEST_CASE("tables are cleared when full, and numbers go on counting", "[injector]") {
  EncoderFixture fixture;
  constexpr std::uint32_t kQueues = 65'536;
  auto operation = kernel(1, 2, 1, "k");
  for (std::uint32_t i = 0; i <= kQueues; ++i) {
    operation->streamId = i;
    fixture.encoder.record(operation.get());
  }
  operation->streamId = 0;  // forgotten: defined again, under a new number
  fixture.encoder.record(operation.get());
  operation->streamId = kQueues;
  fixture.encoder.record(operation.get());

  std::uint32_t expected_id = 0;
  std::vector<std::uint64_t> stream_of(kQueues + 3);
  std::uint32_t operations = 0;
  bool defined_before_use = true;
  bool right_stream = true;
  for (const wire::Frame& frame : fixture.frames()) {
    for (const auto& queue : frame.queues()) {
      REQUIRE(queue.id() == ++expected_id);
      stream_of.at(queue.id()) = queue.stream_id();
    }
    for (const auto& seen : frame.kernels()) {
      defined_before_use &= seen.queue_id() >= 1 && seen.queue_id() <= expected_id;
      const std::uint64_t stream = operations <= kQueues       ? operations
                                   : operations == kQueues + 1 ? 0
                                                               : kQueues;
      right_stream &= stream_of.at(seen.queue_id()) == stream;
      ++operations;
    }
  }
  CHECK(expected_id == kQueues + 2);
  CHECK(operations == kQueues + 3);
  CHECK(defined_before_use);
  CHECK(right_stream);
}

TEST_CASE("what the sink refuses counts as lost", "[injector]") {
  EncoderFixture fixture;
  fixture.encoder.record(api_call(1, 2, 3).get());
  fixture.encoder.send();
  fixture.refuse = true;
  fixture.encoder.record(api_call(1, 2, 3).get());
  fixture.encoder.record(api_call(1, 2, 3).get());
  fixture.encoder.send();
  CHECK(fixture.encoder.records_sent() == 1);
  CHECK(fixture.encoder.records_lost() == 2);
}

// ---- Buffers ------------------------------------------------------------------------------------

namespace {

// Pools and their memory are never freed; kept where a leak checker finds them.
BufferPool& new_pool() {
  static auto* pools = new std::vector<BufferPool*>;
  pools->push_back(new BufferPool);
  return *pools->back();
}

}  // namespace

TEST_CASE("buffers beyond the cap are declined where CUPTI allows it", "[injector]") {
  BufferPool& pool = new_pool();
  pool.configure(3 * BufferPool::kSmallest, true);
  std::vector<Buffer*> out;
  for (int i = 0; i < 3; ++i) {
    Buffer* buffer = pool.hand_out(100);
    REQUIRE(buffer != nullptr);
    CHECK_FALSE(buffer->emergency);
    out.push_back(buffer);
  }
  CHECK(pool.hand_out(100) == nullptr);
  CHECK(pool.mapped_bytes() == 3 * BufferPool::kSmallest);

  CHECK(pool.give_back(out[0]->data, 10, 200) == out[0]);
  CHECK(pool.hand_out(100) == nullptr);  // not read yet
  CHECK(pool.take_completed() == out[0]);
  pool.recycle(out[0]);
  CHECK(pool.hand_out(300) == out[0]);
  CHECK(pool.take_loss().count == 0);
}

TEST_CASE("buffers beyond the cap are lent for emergencies where CUPTI needs one", "[injector]") {
  BufferPool& pool = new_pool();
  pool.configure(BufferPool::kSmallest, false);
  REQUIRE(pool.hand_out(100) != nullptr);
  Buffer* emergency = pool.hand_out(150);
  REQUIRE(emergency != nullptr);
  REQUIRE(emergency->emergency);
  std::memset(emergency->data, 1, 10);
  CHECK(pool.give_back(emergency->data, 10, 200) == emergency);
  CHECK(pool.take_completed() == nullptr);
  pool.discard(emergency, 7, 200);
  const BufferPool::Loss loss = pool.take_loss();
  CHECK(loss.count == 7);
  CHECK(loss.from_ns == 150);
  CHECK(loss.to_ns == 200);
  CHECK(pool.take_loss().count == 0);

  Buffer* again = pool.hand_out(300);
  REQUIRE(again == emergency);
  CHECK(std::all_of(again->data, again->data + again->size, [](auto byte) { return byte == 0; }));
  CHECK(pool.mapped_bytes() == BufferPool::kSmallest);
}

TEST_CASE("buffers are zeroed, aligned, and grow while they fill fast", "[injector]") {
  BufferPool& pool = new_pool();
  pool.configure(64 << 20, true);
  std::size_t expected = BufferPool::kSmallest;
  std::uint64_t now = 1;
  for (int i = 0; i < 12; ++i) {
    Buffer* buffer = pool.hand_out(now);
    REQUIRE(buffer != nullptr);
    CHECK(buffer->size == expected);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer->data) % 8 == 0);
    CHECK(std::all_of(buffer->data, buffer->data + buffer->size,
                      [](auto byte) { return byte == 0; }));
    std::memset(buffer->data, 0xee, buffer->size);
    const bool fast = i != 1;
    now += fast ? BufferPool::kFastFill / 2 : BufferPool::kFastFill * 2;
    REQUIRE(pool.give_back(buffer->data, buffer->size - 8, now) == buffer);
    if (fast) expected = std::min(expected * 2, BufferPool::kLargest);
    REQUIRE(pool.take_completed() == buffer);
    buffer->valid = buffer->size;  // the memset above went to the end
    pool.recycle(buffer);
  }
  CHECK(expected == BufferPool::kLargest);
}

TEST_CASE("the watermark is the earliest hand-out that has not come back", "[injector]") {
  BufferPool& pool = new_pool();
  pool.configure(64 << 20, true);
  std::uint64_t outstanding = 99;
  CHECK(pool.complete_until(5'000, &outstanding) == 5'000);
  CHECK(outstanding == 0);
  Buffer* first = pool.hand_out(1'000);
  Buffer* second = pool.hand_out(2'000);
  CHECK(pool.complete_until(5'000, &outstanding) == 1'000);
  CHECK(outstanding == 2);
  pool.give_back(first->data, 8, 3'000);
  CHECK(pool.complete_until(5'000, &outstanding) == 1'000);  // back, but not read
  REQUIRE(pool.take_completed() == first);
  CHECK(pool.complete_until(5'000, &outstanding) == 1'000);
  pool.recycle(first);
  CHECK(pool.complete_until(5'000, &outstanding) == 2'000);
  CHECK(outstanding == 1);
  CHECK(pool.complete_until(1'500, &outstanding) == 1'500);  // a flush before that hand-out
  pool.give_back(second->data, 0, 3'000);
  REQUIRE(pool.take_completed() == second);
  pool.recycle(second);
  CHECK(pool.complete_until(5'000, &outstanding) == 5'000);
}

TEST_CASE("a buffer of another client is left alone", "[injector]") {
  BufferPool& pool = new_pool();
  pool.configure(64 << 20, true);
  std::uint8_t foreign[64] = {};
  REQUIRE(pool.hand_out(1) != nullptr);
  CHECK(pool.give_back(foreign, 8, 2) == nullptr);
  CHECK(pool.take_completed() == nullptr);
}

TEST_CASE("idle buffers are returned to the system step by step", "[injector]") {
  BufferPool& pool = new_pool();
  pool.configure(64 << 20, true);
  std::vector<Buffer*> out;
  out.reserve(16);
  for (int i = 0; i < 16; ++i) out.push_back(pool.hand_out(1));
  for (Buffer* buffer : out) {
    pool.give_back(buffer->data, 8, 2);
    pool.recycle(pool.take_completed());
  }
  REQUIRE(pool.mapped_bytes() == 16 * BufferPool::kSmallest);
  for (int i = 0; i < 8; ++i) pool.trim();
  CHECK(pool.mapped_bytes() <= 2 * BufferPool::kSmallest);
  CHECK(pool.hand_out(3) != nullptr);
}

// ---- Explanations -------------------------------------------------------------------------------

TEST_CASE("a refusal of CUPTI is explained in words", "[injector]") {
  char text[512];
  explain_failure(text, sizeof text, CUPTI_ERROR_NOT_INITIALIZED, "", 22, 12040);
  CHECK(std::string(text).find("no usable CUDA device") != std::string::npos);
  explain_failure(text, sizeof text, CUPTI_ERROR_UNKNOWN, "", 130001, 12040);
  CHECK(std::string(text).find("newer than the driver (CUDA 12.4)") != std::string::npos);
  explain_failure(text, sizeof text, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED, "", 22, 12040);
  CHECK(std::string(text).find("another CUPTI client") != std::string::npos);
  explain_failure(text, sizeof text, CUPTI_ERROR_UNKNOWN, "CUPTI_ERROR_UNKNOWN", 22, 13000);
  CHECK(std::string(text).find("CUPTI_ERROR_UNKNOWN") != std::string::npos);
  CHECK(toolkit_major(18) == 11);
  CHECK(toolkit_major(22) == 12);
  CHECK(toolkit_major(28) == 12);
  CHECK(toolkit_major(130001) == 13);
}

TEST_CASE("numbers from the environment are taken only when they are numbers", "[injector]") {
  CHECK(parse_number(nullptr, 5) == 5);
  CHECK(parse_number("", 5) == 5);
  CHECK(parse_number("12x", 5) == 5);
  CHECK(parse_number("-1", 5) == 5);
  CHECK(parse_number("99999999999999999999999", 5) == 5);
  CHECK(parse_number("18446744073709551615", 5) == UINT64_MAX);
  CHECK(parse_number("4096", 5) == 4096);
}

// ---- Sessions over real pipes -------------------------------------------------------------------

namespace {

Session* start_session(const SessionSettings& settings) {
  const CuptiFunctions functions = fake_cupti::functions();
  return Session::start(settings, &functions);
}

void launch(std::uint32_t correlation) {
  const std::uint64_t now = fake_cupti::now();
  api_call(now, now + 5'000, correlation).append();
  kernel(now + 8'000, now + 20'000, correlation, "_Z4vadd").append();
}

struct Received {
  std::vector<wire::Frame> frames;
  std::vector<std::uint32_t> calls;    // correlation ids, sorted: buffers may overtake each other
  std::vector<std::uint32_t> kernels;  // likewise
  std::uint64_t lost = 0;
  std::uint64_t last_watermark = 0;
  int hellos = 0;
  int goodbyes = 0;

  explicit Received(const std::string& bytes, std::size_t* rest = nullptr)
      : frames(decode(bytes, rest)) {
    for (const wire::Frame& frame : frames) {
      hellos += frame.has_hello() ? 1 : 0;
      goodbyes += frame.has_goodbye() ? 1 : 0;
      for (const auto& call : frame.api_calls()) {
        calls.push_back(frame.base_correlation() +
                        static_cast<std::uint32_t>(call.correlation_delta()));
      }
      for (const auto& operation : frame.kernels()) {
        kernels.push_back(frame.base_correlation() +
                          static_cast<std::uint32_t>(operation.correlation_delta()));
      }
      for (const auto& loss : frame.losses()) lost += loss.count();
      if (frame.has_watermark()) last_watermark = frame.watermark().complete_until_ns();
    }
    std::sort(calls.begin(), calls.end());
    std::sort(kernels.begin(), kernels.end());
  }
};

std::vector<std::uint32_t> numbers_up_to(std::uint32_t last) {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 1; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

}  // namespace

TEST_CASE("a session says hello, delivers everything, and says goodbye at exit", "[injector]") {
  Directory directory;
  constexpr std::uint32_t kLaunches = 20'000;
  const std::uint64_t before = now_ns();
  const pid_t target = start_target([&] {
    setenv("RANK", "3", 1);
    if (start_session(directory.settings()) == nullptr) return 90;
    if (start_session(directory.settings()) == nullptr) return 91;  // the same one again
    for (std::uint32_t i = 1; i <= kLaunches; ++i) launch(i);
    return 5;
  });
  const auto announcement = directory.announcement();
  CHECK(announcement.wire_version() == session::kWireVersion);
  CHECK(announcement.pid() == static_cast<std::uint32_t>(target));
  CHECK(announcement.start_ticks() > 0);
  CHECK(announcement.pipe() ==
        std::to_string(target) + "-" + std::to_string(announcement.start_ticks()) + ".pipe");
  const int fd = directory.open_pipe(announcement);
  const Received received(read_pipe(fd));
  close(fd);
  const int status = wait_for(target);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 5);

  REQUIRE(received.frames.size() >= 3);
  REQUIRE(received.frames.front().has_hello());
  REQUIRE(received.frames.back().has_goodbye());
  CHECK(received.hellos == 1);
  CHECK(received.goodbyes == 1);
  CHECK(directory.is_quiet());
  const auto& hello = received.frames.front().hello();
  CHECK(hello.pid() == static_cast<std::uint32_t>(target));
  CHECK(hello.ppid() == static_cast<std::uint32_t>(getpid()));
  CHECK(hello.executable().find("injector_test") != std::string::npos);
  CHECK(hello.command_line_size() >= 1);
  CHECK(hello.cupti_version() == 130001);
  CHECK_FALSE(hello.has_failure());
  CHECK_FALSE(hello.has_simulated());
  CHECK(!hello.hostname().empty());
  CHECK(hello.clocks().monotonic_ns() >= before);
  CHECK(hello.clocks().boottime_ns() + 1'000'000'000 >= hello.clocks().monotonic_ns());
  CHECK(hello.clocks().realtime_ns() > 0);
  CHECK(hello.start_ns() > 0);
  CHECK(hello.start_ns() <= hello.clocks().monotonic_ns());
  bool rank_found = false;
  for (const auto& variable : hello.environment()) {
    rank_found |= variable.key() == "RANK" && variable.value() == "3";
  }
  CHECK(rank_found);

  CHECK(received.calls == numbers_up_to(kLaunches));
  CHECK(received.kernels == numbers_up_to(kLaunches));
  CHECK(received.lost == 0);
  const auto& goodbye = received.frames.back().goodbye();
  CHECK(goodbye.reason() == wire::Goodbye::EXIT);
  CHECK(goodbye.records_sent() == 2 * kLaunches);
  CHECK(goodbye.records_dropped() == 0);
  CHECK_FALSE(goodbye.drain_incomplete());
  CHECK(received.last_watermark >= hello.clocks().monotonic_ns());
  CHECK(received.last_watermark <= goodbye.clocks().monotonic_ns());
}

TEST_CASE("records arrive while the program runs, and a killed one sends no goodbye",
          "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    if (start_session(directory.settings()) == nullptr) return 90;
    launch(1);
    for (;;) pause();
  });
  const int fd = directory.open_pipe(directory.announcement());
  const std::string first = read_pipe(fd, [](const std::string& bytes) {
    std::size_t rest = 0;
    return Received(bytes, &rest).kernels.size() == 1;
  });
  kill(target, SIGKILL);
  const Received received(first + read_pipe(fd));
  close(fd);
  CHECK(WIFSIGNALED(wait_for(target)));
  CHECK(received.calls == numbers_up_to(1));
  CHECK(received.hellos == 1);
  CHECK(received.goodbyes == 0);
  CHECK(received.last_watermark > 0);
}

TEST_CASE("a forked child is silent and is not kept waiting", "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    if (start_session(directory.settings()) == nullptr) return 90;
    launch(1);
    const pid_t child = fork();
    if (child == 0) {
      launch(2);  // not even buffers are handed out here
      std::exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 91;
    launch(2);
    return 0;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(wait_for(target) == 0);
  CHECK(received.goodbyes == 1);
  CHECK(received.calls == numbers_up_to(2));
  CHECK(received.kernels == numbers_up_to(2));
  CHECK(directory.is_quiet());
}

TEST_CASE("a child that outlives the program does not hold the pipe open", "[injector]") {
  Directory directory;
  int release[2];
  REQUIRE(pipe2(release, O_CLOEXEC) == 0);
  const pid_t target = start_target([&] {
    close(release[1]);
    if (start_session(directory.settings()) == nullptr) return 90;
    while (access(directory.file("connected").c_str(), F_OK) != 0) usleep(1000);
    // Its end comes with that of the test: until then it holds what it has inherited.
    if (fork() == 0) {
      char byte = 0;
      const bool ended = read(release[0], &byte, 1) == 0;
      _exit(ended ? 0 : 1);
    }
    return 0;
  });
  close(release[0]);
  const int fd = directory.open_pipe(directory.announcement());
  const std::string first = read_pipe(fd, [](const std::string& bytes) { return !bytes.empty(); });
  close(open(directory.file("connected").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const Received received(first + read_pipe(fd));  // ends although the grandchild lives
  close(fd);
  CHECK(wait_for(target) == 0);
  CHECK(received.goodbyes == 1);
  close(release[1]);
}

// ThreadSanitizer cannot start threads in the child of a process that had some.
#ifndef __SANITIZE_THREAD__
TEST_CASE("a child forked before CUDA can start a session of its own", "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    if (start_session(directory.settings()) == nullptr) return 90;
    const pid_t child = fork();
    if (child == 0) {
      fake_cupti::reset();
      if (start_session(directory.settings()) == nullptr) std::exit(92);
      launch(7);
      std::exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 91;
    return 0;
  });
  // The child may come first: the announcement is our thread's business, and fork does not wait.
  auto first = directory.announcement();
  auto second = directory.announcement();
  if (first.pid() != static_cast<std::uint32_t>(target)) std::swap(first, second);
  const int first_fd = directory.open_pipe(first);
  const int second_fd = directory.open_pipe(second);
  const Received from_child(read_pipe(second_fd));
  const Received from_parent(read_pipe(first_fd));
  close(first_fd);
  close(second_fd);
  CHECK(wait_for(target) == 0);
  CHECK(first.pid() != second.pid());
  CHECK(from_child.calls == std::vector<std::uint32_t>{7});
  CHECK(from_child.goodbyes == 1);
  CHECK(from_parent.calls.empty());
  CHECK(from_parent.goodbyes == 1);
}
#endif

TEST_CASE("the program goes on unharmed when the collector leaves", "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    signal(SIGPIPE, SIG_DFL);
    if (start_session(directory.settings()) == nullptr) return 90;
    std::uint32_t i = 0;
    // Until the injector has noticed and switched recording off.
    while (fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_RUNTIME)) {
      launch(++i);
      if (i % 100 == 0) usleep(1000);
    }
    for (int more = 0; more < 10'000; ++more) launch(++i);  // buffers are still handed out
    return 7;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const std::string some = read_pipe(fd, [](const std::string& bytes) { return !bytes.empty(); });
  close(fd);
  CHECK(!some.empty());
  const int status = wait_for(target);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("a collector that does not read delays the end by the drain budget at most",
          "[injector]") {
  Directory directory;
  SessionSettings settings = directory.settings();
  settings.buffer_cap = 8 << 20;
  settings.drain_budget = 200'000'000;
  const pid_t target = start_target([&] {
    if (start_session(settings) == nullptr) return 90;
    for (std::uint32_t i = 1; i <= 200'000; ++i) launch(i);
    return 6;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const int status = wait_for(target);  // nothing was read until here
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 6);
  std::size_t rest = 0;
  const Received received(read_pipe(fd), &rest);
  close(fd);
  // What did arrive is whole, and nothing came twice.
  CHECK(received.hellos == 1);
  REQUIRE(received.calls.size() > 100);
  CHECK(std::adjacent_find(received.calls.begin(), received.calls.end()) == received.calls.end());
  CHECK(received.calls.back() <= 200'000);
  CHECK(received.calls.size() < 200'000);
}

TEST_CASE("a flush that hangs delays the end by the drain budget at most", "[injector]") {
  Directory directory;
  SessionSettings settings = directory.settings();
  settings.drain_budget = 100'000'000;
  const pid_t target = start_target([&] {
    fake_cupti::set_flush_block_ms(3'600'000);
    if (start_session(settings) == nullptr) return 90;
    launch(1);
    return 4;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  const int status = wait_for(target);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 4);
  CHECK(received.goodbyes == 0);
}

TEST_CASE("records that find no room are counted in both versions of CUPTI", "[injector]") {
  const bool may_decline = GENERATE(true, false);
  Directory directory;
  SessionSettings settings = directory.settings();
  settings.buffer_cap = 512 * 1024;
  constexpr std::uint32_t kLaunches = 100'000;
  const pid_t target = start_target([&] {
    fake_cupti::set_version(may_decline ? 27 : 22);
    if (start_session(settings) == nullptr) return 90;
    for (std::uint32_t i = 1; i <= kLaunches; ++i) launch(i);
    close(open(directory.file("filled").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    return may_decline == (fake_cupti::requests_declined() != 0) ? 0 : 91;
  });
  const int fd = directory.open_pipe(directory.announcement());
  // Nothing is read until pipe and pool are full and the rest found no room.
  while (access(directory.file("filled").c_str(), F_OK) != 0) poll(nullptr, 0, 5);
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(wait_for(target) == 0);
  REQUIRE(received.goodbyes == 1);
  CHECK(received.lost > 0);
  CHECK(received.calls.size() + received.kernels.size() + received.lost == 2 * kLaunches);
  const auto& goodbye = received.frames.back().goodbye();
  CHECK(goodbye.records_sent() == received.calls.size() + received.kernels.size());
  CHECK(goodbye.records_dropped() == received.lost);
  const auto place = may_decline ? wire::Loss::CUPTI : wire::Loss::POOL;
  for (const wire::Frame& frame : received.frames) {
    for (const auto& loss : frame.losses()) {
      CHECK(loss.place() == place);
      CHECK(loss.from_ns() > 0);
      CHECK(loss.from_ns() <= loss.to_ns());
    }
  }
}

TEST_CASE("commands in the control file start, stop and flush", "[injector]") {
  Directory directory;
  const std::string control = directory.file("control");
  const auto command = [&](std::uint32_t sequence, std::uint32_t what) {
    const session::Control content{sequence, what};
    const int fd = open(control.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const bool written = pwrite(fd, &content, sizeof content, 0) == sizeof content;
    close(fd);
    return written;
  };
  const pid_t target = start_target([&] {
    if (start_session(directory.settings()) == nullptr) return 90;
    if (!command(1, session::kStop)) return 91;
    while (fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) usleep(1000);
    if (!fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_DEVICE)) return 92;
    if (!command(2, session::kStart)) return 93;
    while (!fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_MEMSET)) usleep(1000);
    if (!command(3, session::kFlush)) return 94;
    return 0;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(wait_for(target) == 0);
  CHECK(received.goodbyes == 1);
}

TEST_CASE("the destruction of the last context delivers what is complete", "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    if (start_session(directory.settings()) == nullptr) return 90;
    launch(1);
    fake_cupti::destroy_context();
    // No exit handler runs; what the callback waited for is with our thread by now.
    for (;;) pause();
  });
  const int fd = directory.open_pipe(directory.announcement());
  const std::string bytes = read_pipe(fd, [](const std::string& so_far) {
    std::size_t rest = 0;
    return Received(so_far, &rest).kernels.size() == 1;
  });
  kill(target, SIGKILL);
  wait_for(target);
  close(fd);
  CHECK(Received(bytes).kernels == numbers_up_to(1));
}

TEST_CASE("a name that is taken gets a number", "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    // What a program that replaced itself by exec left behind.
    ProcessFacts facts{};
    read_process_facts(facts, read_clocks());
    std::free(facts.command_line);
    const std::string name =
        std::to_string(facts.pid) + "-" + std::to_string(facts.start_ticks) + ".pipe";
    if (mkfifo(directory.file(name).c_str(), 0600) != 0) return 91;
    return start_session(directory.settings()) == nullptr ? 90 : 0;
  });
  const auto announcement = directory.announcement();
  CHECK(announcement.pipe() ==
        std::to_string(target) + "-" + std::to_string(announcement.start_ticks()) + "-2.pipe");
  const int fd = directory.open_pipe(announcement);
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(wait_for(target) == 0);
  CHECK(received.goodbyes == 1);
}

// A data race on descriptors is what this program is about.
#ifndef __SANITIZE_THREAD__
TEST_CASE("a program that closes all its files keeps its own files intact", "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    if (start_session(directory.settings()) == nullptr) return 90;
    launch(1);
    while (fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_RUNTIME)) {
      // Close everything, then take every number with a file of its own.
      for (int fd = 3; fd < 1000; ++fd) close(fd);
      const std::string own = directory.file("own");
      for (int i = 0; i < 1000; ++i) {
        if (open(own.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600) < 0) break;
      }
      struct stat status {};
      if (stat(own.c_str(), &status) != 0 || status.st_size != 0) return 91;
      launch(2);
      usleep(10'000);
      if (stat(own.c_str(), &status) != 0 || status.st_size != 0) return 92;
      if (access(directory.file("enough").c_str(), F_OK) == 0) return 0;
    }
    return 0;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const std::string some = read_pipe(fd, [](const std::string& bytes) {
    std::size_t rest = 0;
    return Received(bytes, &rest).hellos == 1;
  });
  poll(nullptr, 0, 500);
  close(open(directory.file("enough").c_str(), O_WRONLY | O_CREAT, 0600));
  read_pipe(fd);
  close(fd);
  CHECK(wait_for(target) == 0);
  CHECK(!some.empty());
}
#endif

TEST_CASE("what CUPTI refuses is reported, and why nothing can be recorded", "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    fake_cupti::set_enable_result(CUPTI_ERROR_NOT_INITIALIZED);
    return start_session(directory.settings()) == nullptr ? 90 : 3;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(WEXITSTATUS(wait_for(target)) == 3);
  REQUIRE(received.frames.size() >= 2);
  CHECK(received.frames.front().hello().failure().find("could not initialise") !=
        std::string::npos);
  std::set<std::string> failed;
  for (const auto& failure : received.frames.front().cupti_failures()) {
    CHECK(failure.result() == CUPTI_ERROR_NOT_INITIALIZED);
    failed.insert(failure.function());
  }
  CHECK(failed.count("cuptiActivityEnable(CONCURRENT_KERNEL)") == 1);
  CHECK(failed.count("cuptiActivityEnable(RUNTIME)") == 1);
  CHECK(received.goodbyes == 1);
}

TEST_CASE("a second CUPTI client is reported, and recording goes on", "[injector]") {
  Directory directory;
  const pid_t target = start_target([&] {
    fake_cupti::set_subscribe_result(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
    if (start_session(directory.settings()) == nullptr) return 90;
    launch(1);
    return 0;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(wait_for(target) == 0);
  CHECK_FALSE(received.frames.front().hello().has_failure());
  REQUIRE(received.frames.front().cupti_failures_size() == 1);
  CHECK(received.frames.front().cupti_failures(0).function() == "cuptiSubscribe");
  CHECK(received.frames.front().cupti_failures(0).result() == 39);
  CHECK(received.kernels == numbers_up_to(1));
}

TEST_CASE("without a listener nothing of CUPTI is touched", "[injector]") {
  Directory directory;
  directory.stop_listening();
  const pid_t target = start_target([&] {
    if (start_session(directory.settings()) != nullptr) return 90;
    if (fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_RUNTIME)) return 91;
    SessionSettings gone = directory.settings();
    std::snprintf(gone.directory, sizeof gone.directory, "/nonexistent");
    if (start_session(gone) != nullptr) return 92;
    unsetenv("PROFILER_SESSION");
    if (InitializeInjection() != 1) return 93;
    setenv("PROFILER_SESSION", "relative", 1);
    if (InitializeInjection() != 1) return 94;
    if (InitializeInjectionNvtx2(nullptr) != 1) return 95;
    return 0;
  });
  CHECK(wait_for(target) == 0);
  CHECK(access(directory.file("control").c_str(), F_OK) != 0);
}
