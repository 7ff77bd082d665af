#include "collector/interval_set.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace profiler {
namespace {

constexpr std::uint64_t kRange = 60;

std::vector<bool> painted(const std::vector<Interval>& intervals) {
  std::vector<bool> cells(kRange, false);
  for (const Interval& interval : intervals) {
    for (std::uint64_t i = interval.start; i < interval.end; ++i) cells[i] = true;
  }
  return cells;
}

std::vector<Interval> random_intervals(std::mt19937& random) {
  std::uniform_int_distribution<std::uint64_t> at(0, kRange);
  std::vector<Interval> intervals(random() % 8);
  for (Interval& interval : intervals) {
    interval = {at(random), at(random)};
    if (interval.start > interval.end) std::swap(interval.start, interval.end);
  }
  return intervals;
}

void check_form(const IntervalSet& set) {
  std::uint64_t last_end = 0;
  bool first = true;
  for (const Interval& interval : set.intervals()) {
    REQUIRE(interval.start < interval.end);
    // Touching intervals are one, so there is at least 1 ns between two.
    if (!first) REQUIRE(interval.start > last_end);
    last_end = interval.end;
    first = false;
  }
}

TEST_CASE("interval sets equal what painting every nanosecond gives") {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const std::vector<Interval> a = random_intervals(random);
    const std::vector<Interval> b = random_intervals(random);
    const IntervalSet set_a(a);
    const IntervalSet set_b(b);
    const std::vector<bool> cells_a = painted(a);
    const std::vector<bool> cells_b = painted(b);
    check_form(set_a);
    REQUIRE(painted(set_a.intervals()) == cells_a);
    REQUIRE(set_a.length() ==
            static_cast<std::uint64_t>(std::count(cells_a.begin(), cells_a.end(), true)));

    const std::uint64_t from = random() % kRange;
    const std::uint64_t to = from + random() % (kRange - from + 1);
    const IntervalSet rest = set_a.complement(from, to);
    const IntervalSet both = set_a.intersect(set_b);
    check_form(rest);
    check_form(both);
    const std::vector<bool> cells_rest = painted(rest.intervals());
    const std::vector<bool> cells_both = painted(both.intervals());
    for (std::uint64_t i = 0; i < kRange; ++i) {
      REQUIRE(cells_rest[i] == (i >= from && i < to && !cells_a[i]));
      REQUIRE(cells_both[i] == (cells_a[i] && cells_b[i]));
    }
  }
}

TEST_CASE("touching intervals leave no gap") {
  const IntervalSet set({{0, 104562}, {104562, 209124}});
  REQUIRE(set.intervals() == std::vector<Interval>{{0, 209124}});
  REQUIRE(set.complement(0, 209124).empty());
}

}  // namespace
}  // namespace profiler
