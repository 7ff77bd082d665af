// Finds the API call that submitted each operation. Correlation ids are per process, shared by all
// nodes of a graph launch, and wrap around after 2^32 calls.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/catalog.h"
#include "collector/thread_lanes.h"
#include "collector/timeline.h"

namespace profiler {

struct LaunchMatches {
  std::vector<std::uint32_t> call_of_operation;  // index into `calls`, kNone = no launch record
  std::uint64_t launches = 0;   // calls that submitted at least one of the operations
  std::uint64_t unmatched = 0;  // operations without one
  std::uint64_t launches_without_operation =
      0;  // successful kernel launches whose kernel is missing
  std::vector<std::uint32_t> launched_untimed;  // calls whose operations came without times; sorted
};

bool is_pageable_copy(const Timeline& timeline, const LaneOperation& operation);

// Of several calls of one id (after a wrap-around, or nested) the last to start no later than the
// operation counts, else the earliest; of two that start together the one that ends first. The
// answer is the outermost call that encloses it. Calls that turn out to have copied pageable memory
// are marked in `lanes`.
LaunchMatches match_launches(const Timeline& timeline, const Catalog& catalog, ThreadLanes& lanes);

}  // namespace profiler
