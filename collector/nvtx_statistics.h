// Totals of NVTX ranges by domain and message, with the GPU work that was submitted in them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collector/catalog.h"
#include "collector/launch_index.h"
#include "collector/timeline.h"

namespace profiler {

struct NvtxTotals {
  DomainId domain = 0;
  TextId text = kNone;
  bool is_nested = true;  // push/pop; false: start/end
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t self_ns = 0;  // less the ranges nested directly in it; = total for start/end
  std::uint64_t min_ns = 0;
  std::uint64_t max_ns = 0;
  // Operations whose call began while the range was open: of its thread; of a start/end range, of
  // its process.
  std::uint64_t operations = 0;
  std::uint64_t gpu_union_ns = 0;
  std::uint64_t gpu_sum_ns = 0;
};

std::vector<NvtxTotals> add_up_nvtx(std::span<const NvtxRange> ranges, const Timeline& timeline,
                                    const Catalog& catalog, const LaunchMatches& matches);

}  // namespace profiler
