// Totals of API functions over the CPU lanes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "collector/catalog.h"
#include "collector/records.h"

namespace profiler {

struct ApiTotals {
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t self_ns = 0;   // total less the calls nested directly in it
  std::uint64_t failures = 0;  // results other than success
};

// By display name. A call is nested in another of its thread when it lies within it; of two that
// start together the longer is the outer one. A call that straddles the end of another is no part
// of it.
std::map<std::string, ApiTotals> total_api_calls(std::span<const ApiCall> calls,
                                                 const Catalog& catalog);

}  // namespace profiler
