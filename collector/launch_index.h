// Finds the API call that submitted each operation. Correlation ids are per process, shared by all
// nodes of a graph launch, and wrap around after 2^32 calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collector/catalog.h"
#include "collector/timeline.h"

namespace profiler {

struct LaunchMatches {
  std::vector<std::uint32_t> call_of_operation;  // index into `calls`, kNone = no launch record
  std::uint64_t launches = 0;   // calls that submitted at least one of the operations
  std::uint64_t unmatched = 0;  // operations without one
};

// Of several calls of one id (after a wrap-around) the one meant is the last to start no later than
// the operation, else the earliest; of two that start together the one that ends first.
LaunchMatches match_launches(std::span<const ApiCall> calls,
                             std::span<const LaneOperation> operations, const Catalog& catalog);

}  // namespace profiler
