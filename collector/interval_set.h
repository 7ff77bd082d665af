// Sets of time as sorted, disjoint, non-empty half-open intervals [start, end) in ns. Intervals
// that touch are one.
#pragma once

#include <cstdint>
#include <vector>

namespace profiler {

struct Interval {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  bool operator==(const Interval&) const = default;
};

class IntervalSet {
 public:
  IntervalSet() = default;
  // Any intervals in any order; empty ones are ignored.
  explicit IntervalSet(std::vector<Interval> intervals);

  // Adds an interval that starts no earlier than any before it: O(1).
  void append(Interval interval);

  const std::vector<Interval>& intervals() const { return intervals_; }
  bool empty() const { return intervals_.empty(); }
  std::uint64_t length() const;

  // What of [start, end) is not in the set.
  IntervalSet complement(std::uint64_t start, std::uint64_t end) const;
  IntervalSet intersect(const IntervalSet& other) const;

 private:
  std::vector<Interval> intervals_;
};

}  // namespace profiler
