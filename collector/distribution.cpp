#include "collector/distribution.h"

#include <algorithm>
#include <bit>

namespace profiler {
namespace {

std::uint64_t integer_sqrt(WideUnsigned value) {
  // Bit by bit from the top: exact, and no floating point that could round up.
  WideUnsigned root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const WideUnsigned candidate = root | (WideUnsigned{1} << bit);
    if (candidate * candidate <= value) root = candidate;
  }
  return static_cast<std::uint64_t>(root);
}

}  // namespace

HistogramBucket histogram_bucket(std::uint64_t value) {
  if (value < 128) return {0, static_cast<std::uint32_t>(value)};
  const auto log2 = static_cast<std::uint32_t>(std::bit_width(value) - 1);
  return {log2 - 6, static_cast<std::uint32_t>(value >> (log2 - 7)) - 128};
}

std::uint64_t histogram_representative(HistogramBucket bucket) {
  if (bucket.octave == 0) return bucket.sub_bucket;
  const std::uint32_t shift = bucket.octave - 1;
  const std::uint64_t lower = (std::uint64_t{128} + bucket.sub_bucket) << shift;
  return lower + ((std::uint64_t{1} << shift) / 2);
}

void Distribution::add(std::uint64_t value) {
  ++count_;
  total_ += value;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  squares_ += WideUnsigned{value} * value;
  const HistogramBucket bucket = histogram_bucket(value);
  auto& octave = octaves_[bucket.octave];
  if (!octave) octave = std::make_unique<Octave>();
  ++(*octave)[bucket.sub_bucket];
}

void Distribution::merge(const Distribution& other) {
  if (other.count_ == 0) return;
  count_ += other.count_;
  total_ += other.total_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  squares_ += other.squares_;
  for (std::uint32_t i = 0; i < kOctaves; ++i) {
    if (!other.octaves_[i]) continue;
    if (!octaves_[i]) octaves_[i] = std::make_unique<Octave>();
    for (std::size_t j = 0; j < octaves_[i]->size(); ++j)
      (*octaves_[i])[j] += (*other.octaves_[i])[j];
  }
}

std::uint64_t Distribution::stddev() const {
  if (count_ == 0) return 0;
  const WideUnsigned square_of_total = WideUnsigned{total_} * total_;
  return integer_sqrt((squares_ - square_of_total / count_) / count_);
}

std::uint64_t Distribution::quantile(std::uint64_t numerator, std::uint64_t denominator) const {
  if (count_ == 0) return 0;
  const WideUnsigned scaled = WideUnsigned{count_} * numerator;
  auto rank = static_cast<std::uint64_t>((scaled + denominator - 1) / denominator);
  rank = std::clamp<std::uint64_t>(rank, 1, count_);
  std::uint64_t seen = 0;
  for (std::uint32_t i = 0; i < kOctaves; ++i) {
    if (!octaves_[i]) continue;
    for (std::uint32_t j = 0; j < octaves_[i]->size(); ++j) {
      seen += (*octaves_[i])[j];
      if (seen >= rank) return std::clamp(histogram_representative({i, j}), min_, max_);
    }
  }
  return max_;
}

}  // namespace profiler
