// Record-level cases: what arrives on the pipe against the numbers of the summary.
#include "collector/recording.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collector/summary_json.h"
#include "tests/catch.h"
#include "tests/wire_stream.h"

namespace profiler {
namespace {

using test::WireStream;

// Times of the tests are small numbers; the run starts at 1 (0 would be "no time").
RunFacts facts_of_test() {
  RunFacts facts;
  facts.command = {"./train"};
  facts.root_pid = 100;
  facts.exit = {ExitState::Kind::kExited, 0};
  facts.start_ns = 1;
  facts.end_ns = 1'000'001;
  facts.launch_window_ns = 0;
  return facts;
}

void feed(Recording& recording, ProcessStream& stream, std::string_view bytes) {
  // In pieces that cut frames anywhere.
  while (!bytes.empty() && !stream.ended) {
    const std::span<char> room = stream.splitter.room();
    const std::size_t size = std::min({bytes.size(), room.size(), std::size_t{7}});
    std::copy_n(bytes.begin(), size, room.begin());
    bytes.remove_prefix(size);
    recording.receive(stream, size);
  }
}

Summary summary_of(const std::vector<std::string>& records, const RunFacts& facts = facts_of_test(),
                   bool goodbye = true) {
  const WireStream wire(100);
  Recording recording(nullptr);
  auto stream = recording.open(100);
  feed(recording, *stream, wire.hello() + wire.definitions());
  for (const std::string& record : records) feed(recording, *stream, record);
  if (goodbye) feed(recording, *stream, WireStream::goodbye());
  recording.close(*stream);
  return recording.finish(facts);
}

std::uint64_t cause(const DeviceSummary& device, const std::string& name) {
  for (const CauseSummary& entry : device.idle_by_cause) {
    if (entry.cause == name) return entry.total_ns;
  }
  return 0;
}

TEST_CASE("E1: overlapping kernels of one stream are busy once") {
  const Summary summary =
      summary_of({WireStream::api(1, 100, 200), WireStream::api(2, 210, 220),
                  WireStream::kernel(1, 3000, 6776), WireStream::kernel(2, 5000, 7000)});
  REQUIRE(summary.devices.size() == 1);
  REQUIRE(summary.devices[0].busy_ns == 4000);
  REQUIRE(summary.devices[0].span_ns == 4000);
  REQUIRE(summary.devices[0].gap_count == 0);
  REQUIRE(summary.kernels[0].count == 2);
  REQUIRE(summary.kernels[0].total_ns == 5776);
  REQUIRE(summary.kernels[0].min_ns == 2000);
  REQUIRE(summary.kernels[0].max_ns == 3776);
}

TEST_CASE("E3: three that overlap") {
  const Summary summary =
      summary_of({WireStream::kernel(1, 10, 310), WireStream::kernel(2, 110, 410),
                  WireStream::kernel(3, 210, 510)});
  REQUIRE(summary.devices[0].busy_ns == 500);
  REQUIRE(summary.devices[0].gap_count == 0);
}

TEST_CASE("E4: kernels that touch leave no gap") {
  const Summary summary =
      summary_of({WireStream::api(1, 2, 3), WireStream::api(2, 3, 4),
                  WireStream::kernel(1, 10, 104572), WireStream::kernel(2, 104572, 209134)});
  REQUIRE(summary.devices[0].gap_count == 0);
  REQUIRE(summary.devices[0].idle_ns == 0);
  REQUIRE(summary.devices[0].busy_ns == 209124);
}

TEST_CASE("E5, E6, E8: work without valid times is counted and distorts nothing") {
  const std::vector<std::string> good = {WireStream::api(1, 5, 8), WireStream::kernel(1, 10, 20),
                                         WireStream::api(2, 22, 28), WireStream::kernel(2, 30, 40)};
  const Summary expected = summary_of(good);
  std::vector<std::string> records = good;
  records.push_back(WireStream::kernel(1, 15, 0));  // still running
  records.push_back(WireStream::kernel(1, 0, 0));   // no time at all
  records.push_back(WireStream::kernel(1, std::uint64_t{1} << 63, std::uint64_t{1} << 63));
  records.push_back(WireStream::kernel(1, UINT64_MAX, UINT64_MAX));
  records.push_back(WireStream::kernel(1, 50, 49));  // backwards
  records.push_back(WireStream::api(3, 60, 0));
  records.push_back(WireStream::copy(3, 0, 9, 100));
  const Summary summary = summary_of(records);
  REQUIRE(summary.checks.unfinished == 1);
  REQUIRE(summary.checks.untimed == 6);
  REQUIRE(summary.checks.device_operations == 2);
  REQUIRE(summary.devices[0].busy_ns == expected.devices[0].busy_ns);
  REQUIRE(summary.devices[0].span_ns == 30);
  REQUIRE(summary.devices[0].idle_ns == 10);
  REQUIRE(summary.kernels.size() == 1);
  REQUIRE(summary.kernels[0].total_ns == 20);
  REQUIRE(summary.copies.empty());
  REQUIRE(summary.api[0].count == 2);
  REQUIRE_FALSE(summary.devices[0].idle_reliable);
  REQUIRE(summary.devices[0].idle_unreliable_reason ==
          "More than 1 % of 9 records are faulty: 6 untimed, 1 unfinished.");
  REQUIRE(expected.devices[0].idle_reliable);
}

TEST_CASE("E35: a hundred empty kernels at one moment") {
  std::vector<std::string> records;
  for (std::uint32_t i = 1; i <= 100; ++i) {
    records.push_back(WireStream::api(i, 2, 3));
    records.push_back(WireStream::kernel(i, 500, 500));
  }
  const Summary summary = summary_of(records);
  REQUIRE(summary.kernels[0].count == 100);
  REQUIRE(summary.kernels[0].min_ns == 0);
  REQUIRE(summary.kernels[0].total_ns == 0);
  REQUIRE(summary.devices[0].span_ns == 0);
  REQUIRE(summary.devices[0].gap_count == 0);
}

TEST_CASE("empty operations widen the span and split no gap") {
  const Summary summary = summary_of(
      {WireStream::api(1, 2, 3), WireStream::api(2, 4, 5), WireStream::api(3, 6, 7),
       WireStream::api(4, 8, 9), WireStream::kernel(1, 10, 10), WireStream::kernel(2, 20, 30),
       WireStream::kernel(3, 40, 40), WireStream::kernel(4, 60, 60)});
  REQUIRE(summary.devices[0].span_ns == 50);
  REQUIRE(summary.devices[0].busy_ns == 10);
  // [10, 20) and [30, 60): the empty kernel at 40 lies inside the second.
  REQUIRE(summary.devices[0].gap_count == 2);
  REQUIRE(summary.devices[0].longest_gap_ns == 30);
}

TEST_CASE("E37: one operation in a long run has lead-in and tail, and no gap") {
  RunFacts facts = facts_of_test();
  facts.end_ns = 60'000'000'001;
  const Summary summary = summary_of({WireStream::api(1, 9'999'999'000, 9'999'999'500),
                                      WireStream::kernel(1, 10'000'000'001, 11'000'000'001)},
                                     facts);
  REQUIRE(summary.devices[0].gap_count == 0);
  REQUIRE(summary.devices[0].idle_ns == 0);
  REQUIRE(summary.devices[0].lead_in_ns == 10'000'000'000);
  REQUIRE(summary.devices[0].tail_ns == 49'000'000'000);
  REQUIRE(summary.devices[0].span_ns == 1'000'000'000);
}

TEST_CASE("E46: 900 ns stay 900 ns") {
  std::vector<std::string> records;
  for (std::uint32_t i = 1; i <= 10; ++i) {
    records.push_back(WireStream::api(i, i * 10, i * 10 + 5));
    records.push_back(WireStream::kernel(i, i * 1000, i * 1000 + 900));
  }
  const Summary summary = summary_of(records);
  REQUIRE(summary.kernels[0].mean_ns == 900);
  REQUIRE(summary.kernels[0].median_ns == 900);
  REQUIRE(summary.devices[0].gap_count == 9);
  REQUIRE(summary.devices[0].idle_ns == 900);
}

TEST_CASE("idle time is split between host, launch latency and scheduling") {
  const Summary summary = summary_of({WireStream::api(1, 10, 20), WireStream::kernel(1, 30, 100),
                                      WireStream::api(2, 50, 60), WireStream::kernel(2, 130, 150),
                                      WireStream::api(3, 200, 210), WireStream::kernel(3, 215, 220),
                                      WireStream::kernel(99, 230, 240)});
  const DeviceSummary& device = summary.devices[0];
  REQUIRE(device.gap_count == 3);
  REQUIRE(cause(device, "scheduling") == 30);
  REQUIRE(cause(device, "CPU code outside CUDA") == 50);
  REQUIRE(cause(device, "launch latency") == 15);
  REQUIRE(cause(device, "unknown launch") == 10);
  REQUIRE(device.idle_ns == 105);
  REQUIRE(summary.checks.unmatched == 1);
  REQUIRE(summary.checks.launches == 3);
}

TEST_CASE("of operations that start together the earliest launch counts, empty ones last") {
  const Summary summary =
      summary_of({WireStream::api(1, 10, 20), WireStream::kernel(1, 30, 100),
                  WireStream::api(2, 150, 160), WireStream::kernel(2, 200, 210, 1),
                  WireStream::api(3, 120, 125, 2), WireStream::kernel(3, 200, 220, 2),
                  WireStream::api(4, 105, 106), WireStream::kernel(4, 200, 200)});
  REQUIRE(cause(summary.devices[0], "CPU code outside CUDA") == 20);
  REQUIRE(cause(summary.devices[0], "launch latency") == 80);
}

TEST_CASE("correlation ids that wrapped around find the launch before the operation") {
  const Summary summary =
      summary_of({WireStream::api(7, 100, 110), WireStream::kernel(7, 120, 130),
                  WireStream::api(7, 5000, 5010), WireStream::kernel(7, 5020, 5030),
                  WireStream::api(7, 9000, 9010), WireStream::kernel(7, 9020, 9030)});
  REQUIRE(summary.checks.launches == 3);
  REQUIRE(cause(summary.devices[0], "CPU code outside CUDA") == (5000 - 130) + (9000 - 5030));
  REQUIRE(cause(summary.devices[0], "launch latency") == 40);
}

TEST_CASE("a graph launch is one launch of many kernels") {
  const Summary summary =
      summary_of({WireStream::api(9, 10, 20), WireStream::kernel(9, 30, 40),
                  WireStream::kernel(9, 45, 50), WireStream::kernel(9, 55, 60)});
  REQUIRE(summary.checks.launches == 1);
  REQUIRE(summary.checks.unmatched == 0);
  REQUIRE(summary.checks.device_operations == 3);
}

TEST_CASE("an operation before its launch is a clock fault and stays within the gap") {
  const Summary summary = summary_of({WireStream::api(1, 5, 8), WireStream::kernel(1, 10, 20),
                                      WireStream::api(2, 55, 60), WireStream::kernel(2, 50, 70)});
  REQUIRE(summary.checks.clock_faults == 1);
  REQUIRE(cause(summary.devices[0], "CPU code outside CUDA") == 30);
  REQUIRE(summary.devices[0].idle_ns == 30);
}

TEST_CASE("failures and self time of API calls") {
  const Summary summary =
      summary_of({WireStream::api(1, 100, 200, 1, 1), WireStream::api(2, 110, 150, 1, 2),
                  WireStream::api(3, 120, 130, 1, 1, 719), WireStream::api(4, 160, 200, 2, 2, 1)});
  REQUIRE(summary.api.size() == 2);
  REQUIRE(summary.api[0].name == "cudaLaunchKernel");
  REQUIRE(summary.api[0].count == 2);
  REQUIRE(summary.api[0].total_ns == 110);
  REQUIRE(summary.api[0].self_ns == 70);
  REQUIRE(summary.api[0].failures == 1);
  REQUIRE(summary.api[1].name == "cudaMemcpyAsync");
  REQUIRE(summary.api[1].self_ns == 70);
  REQUIRE(summary.api[1].failures == 1);
}

TEST_CASE("copies are told apart by kind and memory") {
  const Summary summary = summary_of(
      {WireStream::copy(1, 10, 20, 1000), WireStream::copy(2, 20, 40, 2000),
       WireStream::copy(3, 40, 45, 500, 1, 2, 3), WireStream::copy(4, 50, 51, 4, 2, 3, 1)});
  REQUIRE(summary.copies.size() == 3);
  REQUIRE(summary.copies[0].kind == "HtoD");
  REQUIRE(summary.copies[0].source == "pageable");
  REQUIRE(summary.copies[0].destination == "device");
  REQUIRE(summary.copies[0].count == 2);
  REQUIRE(summary.copies[0].bytes == 3000);
  REQUIRE(summary.copies[0].total_ns == 30);
  REQUIRE(summary.copies[1].source == "pinned");
  REQUIRE(summary.copies[2].kind == "DtoH");
}

TEST_CASE("E10: any order of the records gives the same summary") {
  std::mt19937 random(4);
  std::vector<std::string> records;
  std::uint64_t now = 100;
  for (std::uint32_t i = 1; i <= 60; ++i) {
    now += random() % 50;
    records.push_back(WireStream::api(i, now, now + random() % 20, 1 + random() % 2));
    const std::uint64_t start = now + random() % 60;
    const std::uint32_t function = 1 + random() % 2;
    if (random() % 5 == 0) {
      records.push_back(WireStream::copy(i, start, start + random() % 30, random() % 1000));
    } else if (random() % 10 != 0) {
      records.push_back(
          WireStream::kernel(i, start, start + random() % 40, 1 + random() % 2, function));
    }
  }
  const std::string expected = to_json(summary_of(records));
  for (int round = 0; round < 30; ++round) {
    std::shuffle(records.begin(), records.end(), random);
    REQUIRE(to_json(summary_of(records)) == expected);
  }
}

// Busy, idle and causes again, by painting every nanosecond of a random run.
TEST_CASE("device activity equals brute force") {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    struct Item {
      std::uint32_t id;
      std::uint64_t api_start, api_end, start, end;
      bool has_api;
    };
    std::vector<Item> items;
    std::vector<std::string> records;
    const std::uint32_t count = 1 + random() % 8;
    std::uint64_t api_time = 1;  // calls of a thread follow each other
    for (std::uint32_t id = 1; id <= count; ++id) {
      Item item{};
      item.id = id;
      item.api_start = api_time + random() % 25;
      item.api_end = item.api_start + random() % 20;
      api_time = item.api_end + 1;
      item.start = item.api_start + random() % 60;
      item.end = item.start + random() % 25;
      item.has_api = random() % 8 != 0;
      items.push_back(item);
      if (item.has_api) records.push_back(WireStream::api(id, item.api_start, item.api_end));
      records.push_back(WireStream::kernel(id, item.start, item.end, 1 + random() % 2));
    }
    const std::uint64_t window = random() % 30;
    RunFacts facts = facts_of_test();
    facts.launch_window_ns = window;
    const Summary summary = summary_of(records, facts);

    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;
    for (const Item& item : items) {
      first = std::min(first, item.start);
      last = std::max(last, item.end);
    }
    const auto busy_at = [&](std::uint64_t t) {
      return std::any_of(items.begin(), items.end(),
                         [&](const Item& item) { return item.start <= t && t < item.end; });
    };
    std::map<std::string, std::uint64_t> causes;
    std::uint64_t busy = 0;
    for (std::uint64_t t = first; t < last; ++t) {
      if (busy_at(t)) {
        ++busy;
        continue;
      }
      std::uint64_t a = t;
      while (a > first && !busy_at(a - 1)) --a;
      std::uint64_t b = t;
      while (b < last && !busy_at(b)) ++b;
      const Item* ended_by = nullptr;
      const auto rank = [](const Item& item) {
        return std::tuple{item.end == item.start, !item.has_api, item.api_start, item.api_end};
      };
      for (const Item& item : items) {
        if (item.start == b && (ended_by == nullptr || rank(item) < rank(*ended_by)))
          ended_by = &item;
      }
      REQUIRE(ended_by != nullptr);
      if (!ended_by->has_api) {
        ++causes["unknown launch"];
        continue;
      }
      const std::uint64_t cs = std::min(ended_by->api_start, b);
      const std::uint64_t ce = std::max(ended_by->api_end, cs);
      if (cs > a) {
        const bool launching = std::any_of(items.begin(), items.end(), [&](const Item& item) {
          return item.has_api && item.api_start <= t && t < item.api_end;
        });
        ++causes[t >= cs     ? "launch latency"
                 : launching ? "launching other work"
                             : "CPU code outside CUDA"];
      } else {
        const std::uint64_t late = std::min(b, std::max(cs + window, ce < b ? ce : 0));
        ++causes[t < late ? "launch latency" : "scheduling"];
      }
    }
    REQUIRE(summary.devices[0].busy_ns == busy);
    REQUIRE(summary.devices[0].span_ns == last - first);
    REQUIRE(summary.devices[0].idle_ns == last - first - busy);
    std::uint64_t sum = 0;
    for (const CauseSummary& entry : summary.devices[0].idle_by_cause) {
      REQUIRE(entry.total_ns == causes[entry.cause]);
      sum += entry.total_ns;
    }
    REQUIRE(sum == summary.devices[0].idle_ns);
  }
}

TEST_CASE("E12, E34: waits are on no GPU lane, whatever they arrive before") {
  const std::vector<std::string> work = {WireStream::api(1, 5, 8), WireStream::kernel(1, 10, 20),
                                         WireStream::api(2, 22, 28), WireStream::kernel(2, 30, 40)};
  wire::Frame frame;
  frame.set_base_ns(9);
  wire::Sync* sync = frame.add_syncs();
  sync->set_duration(40);  // [9, 49): over both kernels and the gap between them
  sync->set_kind(wire::Sync::STREAM);
  sync->set_context_id(1);
  sync->set_stream_id(7);
  sync->set_correlation_delta(3);
  wire::EventRecord* event = frame.add_event_records();
  event->set_context_id(1);
  event->set_event_id(4);
  std::vector<std::string> before = work;
  before.insert(before.begin(), test::framed(frame));
  const Summary expected = summary_of(work);
  const Summary summary = summary_of(before);
  REQUIRE(to_json(summary) == to_json(expected));
  REQUIRE(summary.devices.size() == 1);
  REQUIRE(summary.devices[0].busy_ns == 20);
}

TEST_CASE("E32: any thread id is a lane of its own") {
  const WireStream wire(100);
  Recording recording(nullptr);
  auto stream = recording.open(100);
  feed(recording, *stream, wire.hello() + wire.definitions());
  wire::Frame frame;
  for (const std::uint64_t tid : {std::uint64_t{0xF0000000}, std::uint64_t{0}}) {
    wire::Thread* thread = frame.add_threads();
    thread->set_id(tid == 0 ? 4 : 3);
    thread->set_tid(tid);
  }
  feed(recording, *stream, test::framed(frame));
  feed(recording, *stream,
       WireStream::api(1, 5, 50, 3) + WireStream::api(2, 10, 60, 4) +
           WireStream::kernel(1, 70, 80) + WireStream::kernel(2, 90, 95) + WireStream::goodbye());
  recording.close(*stream);
  const Summary summary = recording.finish(facts_of_test());
  // On one lane they would straddle each other; on two neither lies in the other.
  REQUIRE(summary.api[0].total_ns == 95);
  REQUIRE(summary.api[0].self_ns == 95);
  REQUIRE(summary.checks.launches == 2);
  REQUIRE(summary.devices[0].top_gaps[0].tid == 0);
}

TEST_CASE("lost records make a hole, in which nothing is busy and nothing idle") {
  wire::Frame frame;
  wire::Loss* loss = frame.add_losses();
  loss->set_count(1);
  loss->set_from_ns(150);
  loss->set_to_ns(320);
  RunFacts facts = facts_of_test();
  const std::vector<std::string> work = {
      WireStream::api(1, 5, 8),     WireStream::kernel(1, 10, 100),
      WireStream::api(2, 280, 290), WireStream::kernel(2, 300, 400),
      WireStream::api(3, 410, 415), WireStream::kernel(3, 420, 430)};
  const Summary whole = summary_of(work, facts);
  REQUIRE(whole.devices[0].not_recorded_ns == 0);
  REQUIRE(whole.devices[0].idle_ns == 220);
  REQUIRE(cause(whole.devices[0], "CPU code outside CUDA") == 190);

  std::vector<std::string> records = work;
  records.push_back(test::framed(frame));
  const DeviceSummary device = summary_of(records, facts).devices[0];
  // The gap [100, 300) is cut at 150, the kernel [300, 400) at 320.
  CHECK(device.span_ns == 420);
  CHECK(device.not_recorded_ns == 170);
  CHECK(device.busy_ns == 90 + 80 + 10);
  CHECK(device.kernel_busy_ns == device.busy_ns);
  CHECK(device.idle_ns == 50 + 20);
  CHECK(device.busy_ns + device.idle_ns + device.not_recorded_ns == device.span_ns);
  CHECK(device.gap_count == 2);
  CHECK(device.longest_gap_ns == 50);
  CHECK(cause(device, "CPU code outside CUDA") == 50 + 10);
  CHECK(cause(device, "launch latency") == 10);

  // A hole in the middle of a gap leaves two.
  loss->set_from_ns(150);
  loss->set_to_ns(200);
  records.back() = test::framed(frame);
  const DeviceSummary middle = summary_of(records, facts).devices[0];
  CHECK(middle.gap_count == 3);
  CHECK(middle.idle_ns == 170);
  CHECK(middle.top_gaps[0].duration_ns == 100);
}

TEST_CASE("of two calls with one id the one that starts with the operation is its launch") {
  const Summary summary = summary_of({WireStream::api(1, 5, 8), WireStream::kernel(1, 10, 20),
                                      WireStream::api(7, 21, 22), WireStream::api(7, 50, 60),
                                      WireStream::kernel(7, 50, 70)});
  REQUIRE(summary.checks.launches == 2);
  REQUIRE(cause(summary.devices[0], "CPU code outside CUDA") == 29);
  REQUIRE(cause(summary.devices[0], "launching other work") == 1);
}

TEST_CASE("an operation that arrives twice counts once") {
  const std::vector<std::string> once = {WireStream::api(1, 5, 8), WireStream::kernel(1, 10, 20),
                                         WireStream::api(2, 21, 22),
                                         WireStream::copy(2, 30, 40, 99)};
  std::vector<std::string> twice = once;
  twice.push_back(once[1]);
  twice.push_back(once[3]);
  Summary summary = summary_of(twice);
  REQUIRE(summary.checks.duplicates == 2);
  summary.checks.duplicates = 0;
  REQUIRE(to_json(summary) == to_json(summary_of(once)));
}

TEST_CASE("launches whose kernel is missing are counted, failed and unfinished ones are not") {
  const Summary summary = summary_of(
      {WireStream::api(1, 5, 8), WireStream::kernel(1, 10, 20), WireStream::api(2, 30, 31),
       WireStream::api(3, 40, 41, 1, 1, 719), WireStream::api(4, 50, 51),
       WireStream::kernel(4, 60, 0), WireStream::api(5, 70, 71, 1, 2)});
  REQUIRE(summary.checks.launches_without_operation == 1);
  REQUIRE(summary.checks.unfinished == 1);
}

TEST_CASE("two processes on one device are one device; on two they are two") {
  for (const char second_uuid : {'a', 'b'}) {
    Recording recording(nullptr);
    for (const std::uint32_t pid : {100U, 200U}) {
      const WireStream wire(pid);
      auto stream = recording.open(pid);
      feed(recording, *stream,
           wire.hello() + wire.definitions(pid == 100 ? 'a' : second_uuid) +
               WireStream::api(1, pid, pid + 5) + WireStream::kernel(1, pid + 10, pid + 20) +
               WireStream::goodbye());
      recording.close(*stream);
    }
    const Summary summary = recording.finish(facts_of_test());
    REQUIRE(summary.processes.size() == 2);
    REQUIRE(summary.devices.size() == (second_uuid == 'a' ? 1 : 2));
    std::uint64_t operations = 0;
    for (const DeviceSummary& device : summary.devices) operations += device.operations;
    REQUIRE(operations == 2);
    // Correlation id 1 means another launch in each process.
    REQUIRE(summary.checks.launches == 2);
    REQUIRE(summary.checks.unmatched == 0);
  }
}

TEST_CASE("a process that ends without a goodbye says since when data may be missing") {
  wire::Frame frame;
  frame.mutable_watermark()->set_complete_until_ns(12'300'001);
  RunFacts facts = facts_of_test();
  facts.exit = {ExitState::Kind::kSignalled, 9};
  const Summary summary = summary_of({test::framed(frame)}, facts, false);
  REQUIRE(summary.processes.size() == 1);
  REQUIRE_FALSE(summary.processes[0].said_goodbye);
  REQUIRE(summary.processes[0].complete_until_ns == 12'300'000);
  // The screen says it from these members.
  REQUIRE(summary.notes ==
          std::vector<std::string>{"Process 100 started CUDA and ran nothing on a GPU."});
}

TEST_CASE("losses are counted and make idle unreliable") {
  wire::Frame frame;
  wire::Loss* loss = frame.add_losses();
  loss->set_count(5);
  loss->set_from_ns(10);
  loss->set_to_ns(20);
  const Summary summary =
      summary_of({WireStream::api(1, 5, 8), WireStream::kernel(1, 10, 20), test::framed(frame)});
  REQUIRE(summary.checks.dropped == 5);
  REQUIRE_FALSE(summary.devices[0].idle_reliable);
}

TEST_CASE("a stream with a fault keeps what came before it") {
  const Summary summary =
      summary_of({WireStream::api(1, 5, 8), WireStream::kernel(1, 10, 20),
                  std::string("\x05\xff\xff\xff\xff\xff", 6), WireStream::kernel(1, 30, 40)});
  REQUIRE(summary.checks.device_operations == 1);
  REQUIRE(summary.checks.malformed == 1);
  REQUIRE(summary.notes.size() == 1);
  REQUIRE(summary.notes[0].find("recorded only in part") != std::string::npos);
}

TEST_CASE("nothing recorded is an empty summary") {
  Recording recording(nullptr);
  const Summary summary = recording.finish(facts_of_test());
  REQUIRE(summary.devices.empty());
  REQUIRE(summary.kernels.empty());
  REQUIRE(summary.api.empty());
  REQUIRE(summary.wall_ns == 1'000'000);
}

}  // namespace
}  // namespace profiler
