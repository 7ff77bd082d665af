// Keeps gaps as the analysis comes upon them, for what can only be asked once it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/device_activity.h"

namespace profiler {

class GapCollection {
 public:
  // Only gaps that touch [from, to), ns as in the records.
  GapCollection(std::uint64_t from, std::uint64_t to) : from_(from), to_(to) {}
  GapCollection() : GapCollection(0, UINT64_MAX) {}

  // For Analysis; must not outlive the collection.
  GapVisitor visitor() {
    return [this](DeviceIndex device, const GapFacts& gap) {
      if (gap.gap.start >= to_ || gap.gap.end <= from_) return;
      entries_.push_back({device, gap, pieces_.size(), gap.pieces.size()});
      entries_.back().facts.pieces = {};
      pieces_.insert(pieces_.end(), gap.pieces.begin(), gap.pieces.end());
    };
  }

  std::size_t size() const { return entries_.size(); }
  DeviceIndex device(std::size_t i) const { return entries_[i].device; }
  // Its pieces are valid as long as the collection is not added to.
  GapFacts gap(std::size_t i) const {
    GapFacts facts = entries_[i].facts;
    facts.pieces = std::span(pieces_).subspan(entries_[i].first_piece, entries_[i].piece_count);
    return facts;
  }

 private:
  struct Entry {
    DeviceIndex device = kNone;
    GapFacts facts;
    std::size_t first_piece = 0;
    std::size_t piece_count = 0;
  };

  std::uint64_t from_;
  std::uint64_t to_;
  std::vector<Entry> entries_;
  std::vector<GapPiece> pieces_;
};

}  // namespace profiler
