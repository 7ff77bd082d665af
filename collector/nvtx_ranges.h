// Makes ranges of NVTX events: pushes and pops by thread and domain, starts and ends by process and
// range id. What does not fit together is counted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collector/catalog.h"
#include "collector/records.h"

namespace profiler {

struct NvtxPairs {
  std::vector<NvtxRange> ranges;
  std::uint64_t unbalanced = 0;  // pops without a push, ends without a start
  std::uint64_t unclosed = 0;    // ranges that nobody closed; they end at `end_of_time`
  std::uint64_t marks = 0;
  std::uint64_t untimed = 0;  // events without a valid time
};

// Events in any order; those of one thread and equal times in the order given. `end_of_time`: when
// the run ended, ns.
NvtxPairs pair_nvtx_events(std::span<const NvtxEvent> events, const Catalog& catalog,
                           std::uint64_t end_of_time);

}  // namespace profiler
