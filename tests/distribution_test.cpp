#include "collector/distribution.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace profiler {
namespace {

// The definition, for values that are small enough to add up naively.
struct Naive {
  std::vector<std::uint64_t> values;

  std::uint64_t quantile(std::uint64_t numerator, std::uint64_t denominator) const {
    std::vector<std::uint64_t> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const std::uint64_t rank =
        std::max<std::uint64_t>(1, (sorted.size() * numerator + denominator - 1) / denominator);
    const std::uint64_t value = sorted[rank - 1];
    std::uint64_t width = 1;
    while (value / width >= 256) width *= 2;
    const std::uint64_t middle = value - value % width + width / 2;
    return std::clamp(middle, sorted.front(), sorted.back());
  }
};

TEST_CASE("a distribution equals its definition and does not depend on order") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    Naive naive;
    const int bits = 1 + static_cast<int>(random() % 40);
    const std::size_t count = 1 + random() % 200;
    for (std::size_t i = 0; i < count; ++i)
      naive.values.push_back(random() & ((std::uint64_t{1} << bits) - 1));

    Distribution forward;
    Distribution first_half;
    Distribution second_half;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
      forward.add(naive.values[i]);
      (i % 2 == 0 ? first_half : second_half).add(naive.values[i]);
      total += naive.values[i];
    }
    second_half.merge(first_half);
    for (const Distribution* distribution : {&forward, &second_half}) {
      REQUIRE(distribution->count() == count);
      REQUIRE(distribution->total() == total);
      REQUIRE(distribution->mean() == total / count);
      REQUIRE(distribution->min() == *std::min_element(naive.values.begin(), naive.values.end()));
      REQUIRE(distribution->max() == *std::max_element(naive.values.begin(), naive.values.end()));
      REQUIRE(distribution->quantile(1, 2) == naive.quantile(1, 2));
      REQUIRE(distribution->quantile(99, 100) == naive.quantile(99, 100));
      REQUIRE(distribution->stddev() == forward.stddev());
    }
  }
}

TEST_CASE("standard deviation is that of the population, rounded down") {
  Distribution distribution;
  for (const std::uint64_t value : {2, 4, 4, 4, 5, 5, 7, 9}) distribution.add(value);
  REQUIRE(distribution.mean() == 5);
  REQUIRE(distribution.stddev() == 2);

  Distribution equal;
  for (int i = 0; i < 5; ++i) equal.add(UINT64_C(4'000'000'000'000));
  REQUIRE(equal.stddev() == 0);
  REQUIRE(equal.quantile(1, 2) == UINT64_C(4'000'000'000'000));
}

TEST_CASE("an empty distribution is all zeros") {
  const Distribution empty;
  REQUIRE(empty.count() == 0);
  REQUIRE(empty.min() == 0);
  REQUIRE(empty.max() == 0);
  REQUIRE(empty.mean() == 0);
  REQUIRE(empty.stddev() == 0);
  REQUIRE(empty.quantile(1, 2) == 0);
}

TEST_CASE("zero-length kernels are values like others") {
  Distribution distribution;
  for (int i = 0; i < 100; ++i) distribution.add(0);
  REQUIRE(distribution.count() == 100);
  REQUIRE(distribution.min() == 0);
  REQUIRE(distribution.quantile(99, 100) == 0);
}

TEST_CASE("every bucket stands for a value of its own, within 1/256") {
  for (int bit = 0; bit < 64; ++bit) {
    for (const std::uint64_t offset : {UINT64_C(0), UINT64_C(1), UINT64_C(12345)}) {
      const std::uint64_t value =
          (std::uint64_t{1} << bit) + (offset & ((std::uint64_t{1} << bit) - 1));
      const HistogramBucket bucket = histogram_bucket(value);
      const std::uint64_t middle = histogram_representative(bucket);
      const HistogramBucket again = histogram_bucket(middle);
      REQUIRE(again.octave == bucket.octave);
      REQUIRE(again.sub_bucket == bucket.sub_bucket);
      const std::uint64_t error = middle > value ? middle - value : value - middle;
      REQUIRE(error <= value / 256);
    }
  }
}

}  // namespace
}  // namespace profiler
