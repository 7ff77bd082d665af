#include "collector/api_activity.h"

#include <algorithm>
#include <vector>

namespace profiler {

std::map<std::string, ApiTotals> total_api_calls(const ThreadLanes& lanes, const Catalog& catalog) {
  const std::span<const ApiCall> calls = lanes.calls();
  std::vector<ApiTotals> by_function(catalog.api_functions.size() + 1);
  const auto totals_of = [&](const ApiCall& call) -> ApiTotals& {
    return by_function[std::min<std::size_t>(call.function, by_function.size() - 1)];
  };
  for (std::uint32_t i = 0; i < calls.size(); ++i) {
    const ApiCall& call = calls[i];
    const std::uint64_t duration = call.end - call.start;
    ApiTotals& totals = totals_of(call);
    ++totals.count;
    totals.total_ns += duration;
    totals.self_ns += duration;
    if (call.result != 0) ++totals.failures[call.result];
    if (lanes.parent(i) != kNone) totals_of(calls[lanes.parent(i)]).self_ns -= duration;
  }

  std::map<std::string, ApiTotals> by_name;
  for (std::size_t i = 0; i < by_function.size(); ++i) {
    if (by_function[i].count == 0) continue;
    const bool known = i < catalog.api_functions.size();
    ApiTotals& sum = by_name[known ? catalog.api_functions[i].name : "unknown call"];
    sum.count += by_function[i].count;
    sum.total_ns += by_function[i].total_ns;
    sum.self_ns += by_function[i].self_ns;
    for (const auto& [code, count] : by_function[i].failures) sum.failures[code] += count;
  }
  return by_name;
}

}  // namespace profiler
