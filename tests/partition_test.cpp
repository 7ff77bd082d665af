// The partition against the rules of docs/idle-time.md, asked instant by instant.
#include "collector/partition.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "tests/catch.h"

namespace profiler {
namespace {

// One process with three threads and a function of every class.
struct World {
  Catalog catalog;
  std::vector<FunctionIndex> functions;

  World() {
    catalog.add_process({});
    for (std::uint64_t tid = 30; tid > 0; tid -= 10) catalog.thread(0, tid);
    for (const char* name :
         {"cudaLaunchKernel_v7000", "cudaStreamSynchronize_v3020", "cudaStreamQuery_v3020",
          "cudaMalloc_v3020", "cudaMemcpy_v3020", "cudaMemcpyAsync_v3020",
          "cudaLibraryLoadData_v12080", "cudaEventRecord_v3020"})
      functions.push_back(catalog.api_function(ApiDomain::kRuntime, 0, name));
    for (const char* name : {"cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyHtoDAsync_v2"})
      functions.push_back(catalog.api_function(ApiDomain::kDriver, 0, name));
  }
};

struct Case {
  std::vector<ApiCall> calls;
  std::vector<OverheadRecord> overheads;
  std::set<std::uint32_t> pageable_correlations;
  Gap gap;
  Launch launch;
  bool has_launch = true;
  std::uint64_t window = 0;
};

struct Answer {
  Cause cause;
  ThreadIndex thread;  // of rule 3
  bool handed_over;
  bool operator==(const Answer&) const = default;
};

bool overlaps(std::uint64_t start, std::uint64_t end, std::uint64_t from, std::uint64_t to) {
  return std::min(end, to) > std::max(start, from);
}

// The naive reading of the rules.
class Naive {
 public:
  Naive(const Case& c, const Catalog& catalog) : c_(c), catalog_(catalog) {}

  Answer at(std::uint64_t instant) const {
    if (!c_.has_launch) return {Cause::kUnknownLaunch, kNone, false};
    const std::uint64_t a = c_.gap.start;
    const std::uint64_t b = c_.gap.end;
    const std::uint64_t cs = std::min(c_.launch.start, b);
    const std::uint64_t ce = std::max(c_.launch.end, cs);
    const ThreadIndex t = c_.launch.thread;
    if (instant < cs) {
      if (const auto own = innermost(t, instant, true)) return {*own, t, false};
      bool silent = true;
      for (const ApiCall& call : c_.calls)
        silent &= call.thread != t || !overlaps(call.start, call.end, a, cs);
      if (silent) {
        const ApiCall* best = nullptr;
        for (const ApiCall& call : c_.calls) {
          if (call.thread == t || call.start > instant || call.end <= instant) continue;
          if (call.end < a || call.end > cs || polls(call) || !is_waiting(class_of(call))) continue;
          const auto rank = [&](const ApiCall& x) {
            return std::tuple{UINT64_MAX - x.start, x.end, catalog_.threads[x.thread].tid};
          };
          if (best == nullptr || rank(call) < rank(*best)) best = &call;
        }
        if (best != nullptr) return {class_of(*best), best->thread, true};
      }
      if (instant < c_.launch.process_hello_ns) return {Cause::kProcessStarting, t, false};
      return {Cause::kCpuCode, t, false};
    }
    if (instant >= std::max(a, cs) && instant < std::min(ce, b)) {
      if (const auto own = innermost(t, instant, false)) return {*own, kNone, false};
    }
    if (c_.launch.is_staged_copy) return {Cause::kStaging, kNone, false};
    if (cs > a) return {Cause::kLaunchLatency, kNone, false};
    const std::uint64_t late = std::min(b, std::max(cs + c_.window, ce < b ? ce : 0));
    return {instant < late ? Cause::kLaunchLatency : Cause::kScheduling, kNone, false};
  }

 private:
  bool polls(const ApiCall& call) const {
    return catalog_.api_functions[call.function].name == "cudaStreamQuery";
  }
  Cause class_of(const ApiCall& call) const {
    const std::string& name = catalog_.api_functions[call.function].name;
    if (name.find("Synchronize") != std::string::npos || name == "cudaStreamQuery")
      return Cause::kSynchronizing;
    if (name == "cudaMalloc") return Cause::kAllocating;
    if (name == "cudaMemcpy") return Cause::kCopying;
    if (name.find("Async") != std::string::npos) {
      // Marked by hand in this test: by its correlation.
      return c_.pageable_correlations.contains(call.correlation) ? Cause::kCopying
                                                                 : Cause::kLaunching;
    }
    if (name.find("Launch") != std::string::npos) return Cause::kLaunching;
    if (name == "cudaLibraryLoadData") return Cause::kLoading;
    return Cause::kOtherCall;
  }
  std::optional<Cause> innermost(ThreadIndex thread, std::uint64_t instant, bool calls) const {
    std::optional<Cause> cause;
    std::tuple<std::uint64_t, std::uint64_t, int> best{};
    const auto consider = [&](std::uint64_t start, std::uint64_t end, int order, Cause candidate) {
      if (start > instant || end <= instant) return;
      const std::tuple rank{start, UINT64_MAX - end, order};
      if (!cause || rank > best) {
        best = rank;
        cause = candidate;
      }
    };
    for (const ApiCall& call : c_.calls) {
      if (!calls || call.thread != thread) continue;
      const bool driver = catalog_.api_functions[call.function].domain == ApiDomain::kDriver;
      consider(call.start, call.end, driver ? 1 : 0, class_of(call));
    }
    for (const OverheadRecord& overhead : c_.overheads) {
      if (overhead.thread == thread)
        consider(overhead.start, overhead.end, 2, overhead_cause(overhead.kind));
    }
    return cause;
  }

  const Case& c_;
  const Catalog& catalog_;
};

// Calls of a thread follow each other; some have a driver call in them.
void add_random_calls(std::mt19937& random, const World& world, ThreadIndex thread, Case& c) {
  std::uint64_t now = random() % 40;
  for (auto i = random() % 6; i > 0; --i) {
    ApiCall call;
    call.thread = thread;
    call.start = now + random() % 20;
    call.end = call.start + random() % 25;
    call.function = world.functions[random() % 8];
    call.correlation = static_cast<std::uint32_t>(c.calls.size()) + 1;
    c.calls.push_back(call);
    if (random() % 2 == 0) {
      ApiCall nested = call;
      nested.start += random() % (call.end - call.start + 1);
      nested.end = nested.start + random() % (call.end - nested.start + 1);
      nested.function = world.functions[8 + random() % 3];
      nested.correlation = static_cast<std::uint32_t>(c.calls.size()) + 1;
      c.calls.push_back(nested);
    }
    // Times are distinct where one call ends and the next begins, as on a real thread.
    now = call.end + 1;
  }
}

Case random_case(std::mt19937& random, const World& world) {
  Case c;
  for (ThreadIndex thread = 0; thread < 3; ++thread) {
    if (random() % 3 != 0) add_random_calls(random, world, thread, c);
  }
  constexpr OverheadKind kKinds[] = {OverheadKind::kInstrumentation,
                                     OverheadKind::kLazyFunctionLoading,
                                     OverheadKind::kCommandBufferFull, OverheadKind::kBufferRequest,
                                     OverheadKind::kDriverCompiler};
  for (auto i = random() % 3; i > 0; --i) {
    OverheadRecord overhead;
    overhead.thread = static_cast<ThreadIndex>(random() % 3);
    overhead.start = random() % 120;
    overhead.end = overhead.start + random() % 20;
    overhead.kind = kKinds[random() % 5];
    c.overheads.push_back(overhead);
  }
  c.gap.start = 20 + random() % 60;
  c.gap.end = c.gap.start + 1 + random() % 60;
  c.launch.thread = static_cast<ThreadIndex>(random() % 3);
  c.launch.start = random() % 140;
  c.launch.end = c.launch.start + random() % 40;
  // The launching call is a record of its thread like the others, if it fits between them.
  ApiCall own;
  own.thread = c.launch.thread;
  own.start = c.launch.start;
  own.end = c.launch.end;
  own.function = world.functions[0];
  own.correlation = static_cast<std::uint32_t>(c.calls.size()) + 1;
  const bool free = std::none_of(c.calls.begin(), c.calls.end(), [&](const ApiCall& call) {
    return call.thread == own.thread && call.start <= own.end && call.end >= own.start;
  });
  if (free) c.calls.push_back(own);
  c.launch.is_staged_copy = random() % 4 == 0;
  c.launch.process_hello_ns = random() % 3 == 0 ? random() % 120 : 0;
  c.has_launch = random() % 12 != 0;
  c.window = random() % 3 == 0 ? 0 : random() % 40;
  return c;
}

TEST_CASE("pieces tile the gap and have the cause that the rules give each nanosecond") {
  const World world;
  std::mt19937 random(3);
  std::set<Cause> seen;
  std::size_t handed_over = 0;
  for (int round = 0; round < 20'000; ++round) {
    Case c = random_case(random, world);
    sort_for_lanes(c.calls, world.catalog);
    ThreadLanes lanes(c.calls, c.overheads, {}, world.catalog);
    for (std::uint32_t i = 0; i < c.calls.size(); ++i) {
      // Async copies of pageable memory, and what lies in them.
      if (lanes.outermost(i) != i || c.calls[i].correlation % 2 != 0) continue;
      lanes.mark_pageable(i);
      for (std::uint32_t j = i; j < c.calls.size() && lanes.outermost(j) == i; ++j)
        c.pageable_correlations.insert(c.calls[j].correlation);
    }
    std::vector<GapPiece> pieces;
    const bool fault =
        partition_gap(c.gap, c.has_launch ? &c.launch : nullptr, c.window, lanes, pieces);
    INFO("round " << round);
    REQUIRE(fault == (c.has_launch && c.launch.start > c.gap.end));
    const Naive naive(c, world.catalog);
    std::uint64_t at = c.gap.start;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const GapPiece& piece = pieces[i];
      REQUIRE(piece.start == at);
      REQUIRE(piece.end > piece.start);
      const Answer answer{piece.cause, piece.thread, piece.handed_over};
      if (i > 0) {
        const GapPiece& last = pieces[i - 1];
        REQUIRE_FALSE(answer == (Answer{last.cause, last.thread, last.handed_over}));
      }
      for (; at < piece.end; ++at) {
        const Answer expected = naive.at(at);
        INFO("instant " << at << ": " << cause_name(expected.cause) << " expected, "
                        << cause_name(piece.cause) << " found");
        REQUIRE(expected == answer);
      }
      seen.insert(piece.cause);
      handed_over += piece.handed_over ? 1 : 0;
    }
    REQUIRE(at == c.gap.end);
  }
  REQUIRE(seen.size() == kCauseCount);
  REQUIRE(handed_over > 100);
}

// Times in the cases below are ns; thread 0 launches.
struct Scene {
  World world;
  std::vector<ApiCall> calls;
  std::vector<OverheadRecord> overheads;

  void call(const char* name, std::uint64_t start, std::uint64_t end, ThreadIndex thread = 0) {
    ApiCall call;
    call.start = start;
    call.end = end;
    call.thread = thread;
    call.function = world.catalog.api_function(ApiDomain::kRuntime, 0, name);
    calls.push_back(call);
  }
  std::vector<GapPiece> pieces(Gap gap, Launch launch, std::uint64_t window = 0) {
    sort_for_lanes(calls, world.catalog);
    ThreadLanes lanes(calls, overheads, {}, world.catalog);
    std::vector<GapPiece> result;
    partition_gap(gap, &launch, window, lanes, result);
    return result;
  }
};

void check(const GapPiece& piece, std::uint64_t start, std::uint64_t end, Cause cause) {
  CHECK(piece.start == start);
  CHECK(piece.end == end);
  CHECK(cause_name(piece.cause) == cause_name(cause));
}

TEST_CASE(
    "E38: queued work waits for scheduling, late work for the CPU, overhead for the profiler") {
  Scene scene;
  const auto queued = scene.pieces({100, 130}, {50, 60, 0});
  REQUIRE(queued.size() == 1);
  check(queued[0], 100, 130, Cause::kScheduling);

  const auto late = scene.pieces({130, 215}, {200, 210, 0});
  REQUIRE(late.size() == 2);
  check(late[0], 130, 200, Cause::kCpuCode);
  check(late[1], 200, 215, Cause::kLaunchLatency);

  scene.overheads.push_back({140, 160, OverheadKind::kInstrumentation, 0, 0});
  const auto profiled = scene.pieces({130, 215}, {200, 210, 0});
  REQUIRE(profiled.size() == 4);
  check(profiled[1], 140, 160, Cause::kProfilerOverhead);
}

TEST_CASE("a wait in the loop is exposed by what follows it") {
  Scene scene;
  scene.call("cudaStreamSynchronize_v3020", 50, 110);
  scene.call("cudaLaunchKernel_v7000", 150, 155);
  const auto pieces = scene.pieces({100, 160}, {150, 155, 0});
  REQUIRE(pieces.size() == 3);
  check(pieces[0], 100, 110, Cause::kSynchronizing);
  check(pieces[1], 110, 150, Cause::kCpuCode);
  check(pieces[2], 150, 160, Cause::kLaunchLatency);
}

TEST_CASE("one thread waits and hands over to the one that launches") {
  Scene scene;
  scene.call("cudaStreamSynchronize_v3020", 50, 130, 1);
  scene.call("cudaStreamQuery_v3020", 100, 140, 2);  // polling never qualifies
  const auto pieces = scene.pieces({100, 160}, {150, 155, 0});
  REQUIRE(pieces.size() == 3);
  check(pieces[0], 100, 130, Cause::kSynchronizing);
  CHECK(pieces[0].handed_over);
  CHECK(pieces[0].thread == 1);
  check(pieces[1], 130, 150, Cause::kCpuCode);
  CHECK(pieces[1].thread == 0);

  // A call of its own in the meantime, and there is no hand-over.
  scene.call("cudaEventRecord_v3020", 145, 146);
  const auto own = scene.pieces({100, 160}, {150, 155, 0});
  check(own[0], 100, 145, Cause::kCpuCode);
  check(own[1], 145, 146, Cause::kOtherCall);
}

TEST_CASE("first launches load their kernel inside the call") {
  Scene scene;
  scene.call("cudaLaunchKernel_v7000", 120, 180);
  scene.overheads.push_back({125, 170, OverheadKind::kLazyFunctionLoading, 0, 0});
  const auto pieces = scene.pieces({100, 185}, {120, 180, 0});
  REQUIRE(pieces.size() == 4);
  check(pieces[0], 100, 120, Cause::kCpuCode);
  check(pieces[1], 120, 125, Cause::kLaunchLatency);
  check(pieces[2], 125, 170, Cause::kLoading);
  check(pieces[3], 170, 185, Cause::kLaunchLatency);
}

TEST_CASE("a copy of pageable memory stages inside its call") {
  Scene scene;
  scene.call("cudaMemcpy_v3020", 110, 190);
  const auto pieces = scene.pieces({100, 150}, {110, 190, 0, true});
  REQUIRE(pieces.size() == 2);
  check(pieces[0], 100, 110, Cause::kCpuCode);
  check(pieces[1], 110, 150, Cause::kStaging);
}

TEST_CASE("before its hello a process was starting") {
  Scene scene;
  const auto pieces = scene.pieces({100, 200}, {190, 195, 0, false, 140});
  REQUIRE(pieces.size() == 3);
  check(pieces[0], 100, 140, Cause::kProcessStarting);
  check(pieces[1], 140, 190, Cause::kCpuCode);
}

TEST_CASE("a launch window near the end of time does not wrap around") {
  Scene scene;
  const auto pieces = scene.pieces({20, 30}, {10, 12, 0}, UINT64_MAX);
  REQUIRE(pieces.size() == 1);
  check(pieces[0], 20, 30, Cause::kLaunchLatency);
}

}  // namespace
}  // namespace profiler
