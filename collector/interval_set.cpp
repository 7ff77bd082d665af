#include "collector/interval_set.h"

#include <algorithm>

namespace profiler {

IntervalSet::IntervalSet(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.start < b.start; });
  for (const Interval& interval : intervals) append(interval);
}

void IntervalSet::append(Interval interval) {
  if (interval.start >= interval.end) return;
  if (!intervals_.empty() && interval.start <= intervals_.back().end) {
    intervals_.back().end = std::max(intervals_.back().end, interval.end);
    return;
  }
  intervals_.push_back(interval);
}

std::uint64_t IntervalSet::length() const {
  std::uint64_t sum = 0;
  for (const Interval& interval : intervals_) sum += interval.end - interval.start;
  return sum;
}

IntervalSet IntervalSet::complement(std::uint64_t start, std::uint64_t end) const {
  IntervalSet result;
  std::uint64_t at = start;
  for (const Interval& interval : intervals_) {
    if (interval.start >= end) break;
    if (interval.end <= at) continue;
    if (interval.start > at) result.append({at, interval.start});
    at = std::max(at, interval.end);
  }
  if (at < end) result.append({at, end});
  return result;
}

IntervalSet IntervalSet::intersect(const IntervalSet& other) const {
  IntervalSet result;
  auto a = intervals_.begin();
  auto b = other.intervals_.begin();
  while (a != intervals_.end() && b != other.intervals_.end()) {
    result.append({std::max(a->start, b->start), std::min(a->end, b->end)});
    if (a->end < b->end) {
      ++a;
    } else {
      ++b;
    }
  }
  return result;
}

}  // namespace profiler
