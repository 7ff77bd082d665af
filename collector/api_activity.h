// Totals of API functions over the CPU lanes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "collector/catalog.h"
#include "collector/thread_lanes.h"

namespace profiler {

struct ApiTotals {
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t self_ns = 0;                        // total less the calls nested directly in it
  std::map<std::uint32_t, std::uint64_t> failures;  // calls by result other than success
};

// By display name.
std::map<std::string, ApiTotals> total_api_calls(const ThreadLanes& lanes, const Catalog& catalog);

}  // namespace profiler
