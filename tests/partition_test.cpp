#include "collector/partition.h"

#include <random>
#include <vector>

#include "tests/catch.h"

namespace profiler {
namespace {

// The rules as they are written down, asked for one instant.
Cause cause_at(std::uint64_t instant, Gap gap, const Launch* launch, std::uint64_t window) {
  if (launch == nullptr) return Cause::kUnknownLaunch;
  const std::uint64_t cs = std::min(launch->start, gap.end);
  const std::uint64_t ce = std::max(launch->end, cs);
  if (cs > gap.start && instant < cs) return Cause::kHost;
  if (cs > gap.start) return Cause::kLaunchLatency;
  const std::uint64_t late =
      std::min(gap.end, std::max(cs + window, ce < gap.end ? ce : std::uint64_t{0}));
  return instant < late ? Cause::kLaunchLatency : Cause::kScheduling;
}

TEST_CASE("pieces tile the gap and have the cause that the rules give each nanosecond") {
  std::mt19937 random(3);
  std::vector<bool> seen(kCauseCount, false);
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t start = 20 + random() % 30;
    const Gap gap{start, start + 1 + random() % 40};
    const std::uint64_t call = random() % 100;
    const Launch launch{call, call + random() % 40, 0};
    const Launch* known = random() % 10 == 0 ? nullptr : &launch;
    const std::uint64_t window = random() % 3 == 0 ? 0 : random() % 30;
    std::vector<GapPiece> pieces;
    const bool fault = partition_gap(gap, known, window, pieces);

    REQUIRE(fault == (known != nullptr && launch.start > gap.end));
    std::uint64_t at = gap.start;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      REQUIRE(pieces[i].start == at);
      REQUIRE(pieces[i].end > pieces[i].start);
      if (i > 0) REQUIRE(pieces[i].cause != pieces[i - 1].cause);
      for (; at < pieces[i].end; ++at) REQUIRE(pieces[i].cause == cause_at(at, gap, known, window));
      seen[static_cast<std::size_t>(pieces[i].cause)] = true;
    }
    REQUIRE(at == gap.end);
  }
  for (std::size_t cause = 0; cause < kCauseCount; ++cause) REQUIRE(seen[cause]);
}

TEST_CASE("a queued kernel with no launch window waits for scheduling, a late one for the host") {
  std::vector<GapPiece> pieces;
  const Launch queued{50, 60, 0};
  REQUIRE_FALSE(partition_gap({100, 130}, &queued, 0, pieces));
  REQUIRE(pieces.size() == 1);
  REQUIRE(pieces[0].cause == Cause::kScheduling);

  pieces.clear();
  const Launch late{200, 210, 0};
  REQUIRE_FALSE(partition_gap({130, 215}, &late, 0, pieces));
  REQUIRE(pieces.size() == 2);
  REQUIRE(pieces[0].cause == Cause::kHost);
  REQUIRE(pieces[0].end == 200);
  REQUIRE(pieces[1].cause == Cause::kLaunchLatency);
}

TEST_CASE("pieces of several gaps do not run into each other") {
  std::vector<GapPiece> pieces;
  const Launch launch{5, 8, 0};
  partition_gap({0, 5}, &launch, 0, pieces);
  partition_gap({5, 8}, nullptr, 0, pieces);
  partition_gap({8, 9}, nullptr, 0, pieces);
  REQUIRE(pieces.size() == 3);
}

TEST_CASE("a launch window near the end of time does not wrap around") {
  std::vector<GapPiece> pieces;
  const Launch launch{10, 12, 0};
  partition_gap({20, 30}, &launch, UINT64_MAX, pieces);
  REQUIRE(pieces.size() == 1);
  REQUIRE(pieces[0].cause == Cause::kLaunchLatency);
}

}  // namespace
}  // namespace profiler
