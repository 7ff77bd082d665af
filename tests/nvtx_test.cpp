// NVTX: pairing of events, and what ranges add up to.
#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "collector/analysis.h"
#include "collector/nvtx_ranges.h"
#include "collector/nvtx_statistics.h"
#include "tests/catch.h"

namespace profiler {
namespace {

struct World {
  Catalog catalog;
  QueueIndex queue = kNone;
  FunctionIndex launch = kNone;
  FunctionIndex kernel = kNone;

  World() {
    catalog.add_process({});
    catalog.thread(0, 10);
    catalog.thread(0, 20);
    catalog.nvtx_domain("data");
    for (const char* text : {"step", "load", "forward"}) catalog.text(text);
    queue = catalog.queue({0, catalog.device(0, {}), 1, 7, {}});
    launch = catalog.api_function(ApiDomain::kRuntime, 1, "cudaLaunchKernel_v7000");
    kernel = catalog.kernel_function("k", 0, 0, 0);
  }
};

NvtxEvent event(NvtxKind kind, std::uint64_t time, ThreadIndex thread = 0, TextId text = kNone,
                DomainId domain = 0, std::uint64_t range = 0) {
  NvtxEvent event;
  event.kind = kind;
  event.time = time;
  event.thread = thread;
  event.text = text;
  event.domain = domain;
  event.range = range;
  return event;
}

TEST_CASE("pushes and pops pair by thread and domain, starts and ends by id on any thread") {
  const World world;
  const std::vector<NvtxEvent> events = {
      event(NvtxKind::kPush, 10, 0, 0),
      event(NvtxKind::kPush, 20, 0, 1, 1),
      event(NvtxKind::kPop, 30, 0),  // the default domain's: closes "step", not "load"
      event(NvtxKind::kPop, 40, 0, kNone, 1),
      event(NvtxKind::kStart, 15, 0, 2, 0, 99),
      event(NvtxKind::kEnd, 50, 1, kNone, 0, 99),
      event(NvtxKind::kMark, 60)};
  const NvtxPairs pairs = pair_nvtx_events(events, world.catalog, 100);
  REQUIRE(pairs.ranges.size() == 3);
  CHECK(pairs.unbalanced == 0);
  CHECK(pairs.unclosed == 0);
  CHECK(pairs.marks == 1);
  const auto find = [&](TextId text) {
    return *std::find_if(pairs.ranges.begin(), pairs.ranges.end(),
                         [&](const NvtxRange& range) { return range.text == text; });
  };
  CHECK(find(0).start == 10);
  CHECK(find(0).end == 30);
  CHECK(find(1).end == 40);
  CHECK(find(2).start == 15);
  CHECK(find(2).end == 50);
  CHECK(find(2).thread == 0);
  CHECK(find(2).end_thread == 1);
  CHECK_FALSE(find(2).is_nested);
}

TEST_CASE("what does not fit together is counted and distorts nothing") {
  const World world;
  const std::vector<NvtxEvent> events = {
      event(NvtxKind::kPop, 5),                  // pop without push
      event(NvtxKind::kEnd, 6, 0, kNone, 0, 1),  // end without start
      event(NvtxKind::kPush, 10, 0, 0),          // never closed
      event(NvtxKind::kStart, 20, 1, 1, 0, 2),   // never closed
      event(NvtxKind::kPush, 0, 0, 2),           // no time
      event(NvtxKind::kPush, 30, 0, 2),
      event(NvtxKind::kPop, 40)};
  const NvtxPairs pairs = pair_nvtx_events(events, world.catalog, 100);
  CHECK(pairs.unbalanced == 2);
  CHECK(pairs.unclosed == 2);
  CHECK(pairs.untimed == 1);
  REQUIRE(pairs.ranges.size() == 3);
  for (const NvtxRange& range : pairs.ranges) {
    if (range.text == 2) {
      CHECK(range.end == 40);
    } else {
      CHECK(range.end == 100);
      CHECK(range.end_thread == kNone);
    }
  }
}

TEST_CASE("any order of the events gives the same ranges") {
  const World world;
  std::vector<NvtxEvent> events;
  for (std::uint64_t i = 0; i < 20; ++i) {
    events.push_back(event(NvtxKind::kPush, 10 + i * 10, 0, static_cast<TextId>(i % 3)));
    events.push_back(event(NvtxKind::kPop, 15 + i * 10, 0));
  }
  const auto key = [](const NvtxRange& range) {
    return std::tuple{range.start, range.end, range.text};
  };
  const auto sorted = [&](std::span<const NvtxEvent> input) {
    std::vector<std::tuple<std::uint64_t, std::uint64_t, TextId>> keys;
    for (const NvtxRange& range : pair_nvtx_events(input, world.catalog, 1000).ranges)
      keys.push_back(key(range));
    std::sort(keys.begin(), keys.end());
    return keys;
  };
  const auto expected = sorted(events);
  REQUIRE(expected.size() == 20);
  std::mt19937 random(8);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(events.begin(), events.end(), random);
    REQUIRE(sorted(events) == expected);
  }
}

TEST_CASE("totals of ranges equal brute force") {
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    const World world;
    Timeline timeline(world.catalog);
    std::vector<NvtxEvent> events;
    std::uint64_t range_id = 1;
    for (ThreadIndex thread = 0; thread < 2; ++thread) {
      std::uint64_t now = 1;
      std::vector<DomainId> open;
      for (auto i = random() % 14; i > 0; --i) {
        now += 1 + random() % 15;
        if (!open.empty() && random() % 2 == 0) {
          events.push_back(event(NvtxKind::kPop, now, thread, kNone, open.back()));
          open.pop_back();
        } else {
          open.push_back(static_cast<DomainId>(random() % 2));
          events.push_back(
              event(NvtxKind::kPush, now, thread, static_cast<TextId>(random() % 3), open.back()));
        }
      }
      if (random() % 2 == 0) {
        const std::uint64_t start = 1 + random() % 100;
        events.push_back(event(NvtxKind::kStart, start, thread, 0, 0, range_id));
        events.push_back(
            event(NvtxKind::kEnd, start + random() % 50, 1 - thread, kNone, 0, range_id++));
      }
      std::uint64_t call_at = 1;
      std::vector<ApiCall> calls;
      std::vector<Operation> operations;
      for (auto i = random() % 10; i > 0; --i) {
        call_at += 2 + random() % 20;
        ApiCall call;
        call.start = call_at;
        call.end = call_at + 1;
        call.thread = thread;
        call.function = world.launch;
        call.correlation = static_cast<std::uint32_t>(call_at * 2 + thread);
        calls.push_back(call);
        Operation operation;
        operation.start = call.end + random() % 30;
        operation.end = operation.start + random() % 30;
        operation.queue = world.queue;
        operation.function = world.kernel;
        operation.correlation = call.correlation;
        operations.push_back(operation);
      }
      timeline.add(std::span<const ApiCall>(calls));
      timeline.add(std::span<const Operation>(operations));
    }
    timeline.add(std::span<const NvtxEvent>(events));
    Analysis analysis(world.catalog, timeline, 0, 500, {});

    using Key = std::tuple<DomainId, TextId, bool>;
    std::map<Key, std::vector<const NvtxRange*>> groups;
    for (const NvtxRange& range : analysis.ranges())
      groups[{range.domain, range.text, range.is_nested}].push_back(&range);
    REQUIRE(groups.size() == analysis.nvtx().size());
    for (const NvtxTotals& totals : analysis.nvtx()) {
      const auto& members = groups.at({totals.domain, totals.text, totals.is_nested});
      std::uint64_t total = 0;
      std::uint64_t self = 0;
      for (const NvtxRange* range : members) {
        total += range->end - range->start;
        for (std::uint64_t t = range->start; t < range->end; ++t) {
          // Self: no range nested in this one is open.
          const bool covered = std::any_of(
              analysis.ranges().begin(), analysis.ranges().end(), [&](const NvtxRange& other) {
                return &other != range && range->is_nested && other.is_nested &&
                       other.thread == range->thread && other.domain == range->domain &&
                       other.start > range->start && other.end <= range->end && other.start <= t &&
                       t < other.end;
              });
          self += covered ? 0 : 1;
        }
      }
      CHECK(totals.count == members.size());
      CHECK(totals.total_ns == total);
      REQUIRE(totals.self_ns == self);
      std::uint64_t count = 0;
      std::uint64_t sum = 0;
      std::vector<bool> painted(1000, false);
      for (std::size_t i = 0; i < timeline.operations().size(); ++i) {
        const LaneOperation& operation = timeline.operations()[i];
        const ApiCall& call = timeline.calls()[analysis.matches().call_of_operation[i]];
        const bool inside =
            std::any_of(members.begin(), members.end(), [&](const NvtxRange* range) {
              return (!range->is_nested || range->thread == call.thread) &&
                     range->start <= call.start && call.start < range->end;
            });
        if (!inside) continue;
        ++count;
        sum += operation.end - operation.start;
        for (std::uint64_t t = operation.start; t < operation.end; ++t) painted[t] = true;
      }
      CHECK(totals.operations == count);
      CHECK(totals.gpu_sum_ns == sum);
      REQUIRE(totals.gpu_union_ns ==
              static_cast<std::uint64_t>(std::count(painted.begin(), painted.end(), true)));
    }
  }
}

TEST_CASE("idle time is told apart by the range that was open") {
  World world;
  Timeline timeline(world.catalog);
  const auto launch = [&](std::uint64_t start, std::uint64_t operation_start,
                          std::uint64_t operation_end, std::uint32_t id) {
    ApiCall call;
    call.start = start;
    call.end = start + 1;
    call.thread = 0;
    call.function = world.launch;
    call.correlation = id;
    timeline.add(std::span<const ApiCall>(&call, 1));
    Operation operation;
    operation.start = operation_start;
    operation.end = operation_end;
    operation.queue = world.queue;
    operation.function = world.kernel;
    operation.correlation = id;
    timeline.add(std::span<const Operation>(&operation, 1));
  };
  launch(5, 10, 100, 1);
  launch(190, 200, 210, 2);
  const std::vector<NvtxEvent> events = {
      event(NvtxKind::kPush, 50, 0, 0), event(NvtxKind::kPush, 120, 0, 1, 1),
      event(NvtxKind::kPop, 150, 0, kNone, 1), event(NvtxKind::kPop, 300, 0)};
  timeline.add(std::span<const NvtxEvent>(events));
  Analysis analysis(world.catalog, timeline, 0, 500, {});
  const DeviceActivity& device = analysis.devices().at(0);
  REQUIRE(device.idle_ns == 100);
  REQUIRE(device.nvtx.size() == 2);
  // [100, 120) and [150, 190) in "step", [120, 150) in "load".
  REQUIRE(device.nvtx.at({0, 0}).total_ns == 60);
  REQUIRE(device.nvtx.at({1, 1}).total_ns == 30);
  REQUIRE(device.threads.at(0).total_ns == 90);
}

}  // namespace
}  // namespace profiler
