// One distribution of durations: exact count, total, minimum, maximum, mean and deviation, and
// quantiles from a log-linear histogram. Everything is a sum of integers, so the result does not
// depend on the order of the values, and two distributions merge exactly.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace profiler {

__extension__ using WideUnsigned = unsigned __int128;

// 128 sub-buckets an octave: values below 256 are kept exactly, larger ones to 1/128.
// A bucket stands for its middle.
struct HistogramBucket {
  std::uint32_t octave = 0;  // 0: [0, 128); k: [2^(k+6), 2^(k+7))
  std::uint32_t sub_bucket = 0;
};
HistogramBucket histogram_bucket(std::uint64_t value);
std::uint64_t histogram_representative(HistogramBucket bucket);

class Distribution {
 public:
  void add(std::uint64_t value);
  void merge(const Distribution& other);

  std::uint64_t count() const { return count_; }
  std::uint64_t total() const { return total_; }
  std::uint64_t min() const { return count_ == 0 ? 0 : min_; }
  std::uint64_t max() const { return max_; }
  std::uint64_t mean() const { return count_ == 0 ? 0 : total_ / count_; }  // rounded down
  // Of the population, from integers: isqrt((sum of squares - floor(total^2 / n)) / n).
  std::uint64_t stddev() const;
  // The value of rank ceil(numerator / denominator * count), at the histogram's precision and
  // clamped into [min, max]; 0 when empty.
  std::uint64_t quantile(std::uint64_t numerator, std::uint64_t denominator) const;

 private:
  static constexpr std::uint32_t kOctaves = 58;
  using Octave = std::array<std::uint64_t, 128>;

  std::uint64_t count_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t min_ = UINT64_MAX;
  std::uint64_t max_ = 0;
  WideUnsigned squares_ = 0;
  // An octave exists once a value fell into it: most kernels need two or three.
  std::array<std::unique_ptr<Octave>, kOctaves> octaves_;
};

}  // namespace profiler
