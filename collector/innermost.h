// Which of several overlapping records is the innermost at each instant.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace profiler {

// One record of a thread, as the partition sees it. `order` breaks ties between records with equal
// times: the higher one is the inner one.
struct OpenRecord {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint32_t order = 0;
  std::uint32_t index = 0;  // what it stands for is the caller's business
};

// The inner one of two that are open at the same instant: latest start, then earliest end.
inline bool is_inner(const OpenRecord& a, const OpenRecord& b) {
  if (a.start != b.start) return a.start > b.start;
  if (a.end != b.end) return a.end < b.end;
  return a.order > b.order;
}

// Cuts [from, to) at the edges of `records` (sorted by start) and calls `emit(start, end, record)`
// for each piece in order of time, with the innermost record open there, or null.
template <typename Emit>
void sweep_innermost(std::span<const OpenRecord> records, std::uint64_t from, std::uint64_t to,
                     Emit emit) {
  // A heap with the innermost on top; ended records are dropped when they come up.
  std::vector<OpenRecord> open;
  const auto outer_first = [](const OpenRecord& a, const OpenRecord& b) { return is_inner(b, a); };
  std::size_t next = 0;
  std::uint64_t at = from;
  while (at < to) {
    while (next < records.size() && records[next].start <= at) {
      if (records[next].end > at) {
        open.push_back(records[next]);
        std::push_heap(open.begin(), open.end(), outer_first);
      }
      ++next;
    }
    while (!open.empty() && open.front().end <= at) {
      std::pop_heap(open.begin(), open.end(), outer_first);
      open.pop_back();
    }
    std::uint64_t until = to;
    if (next < records.size()) until = std::min(until, records[next].start);
    if (!open.empty()) until = std::min(until, open.front().end);
    emit(at, until, open.empty() ? nullptr : &open.front());
    at = until;
  }
}

}  // namespace profiler
