#include "collector/api_activity.h"

#include <algorithm>
#include <vector>

namespace profiler {

std::map<std::string, ApiTotals> total_api_calls(std::span<const ApiCall> calls,
                                                 const Catalog& catalog) {
  std::vector<std::uint32_t> order(calls.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (calls[a].thread != calls[b].thread) return calls[a].thread < calls[b].thread;
    if (calls[a].start != calls[b].start) return calls[a].start < calls[b].start;
    if (calls[a].end != calls[b].end) return calls[a].end > calls[b].end;
    return calls[a].correlation < calls[b].correlation;  // the outer call was counted first
  });

  std::vector<ApiTotals> by_function(catalog.api_functions.size() + 1);
  const auto totals_of = [&](const ApiCall& call) -> ApiTotals& {
    return by_function[std::min<std::size_t>(call.function, by_function.size() - 1)];
  };
  std::vector<std::uint32_t> open;
  ThreadIndex thread = kNone;
  for (const std::uint32_t index : order) {
    const ApiCall& call = calls[index];
    const std::uint64_t duration = call.end - call.start;
    if (call.thread != thread) open.clear();
    thread = call.thread;
    while (!open.empty() && calls[open.back()].end < call.end) open.pop_back();
    // What is left on the stack ends no earlier; it is the parent unless it ended before we began.
    if (!open.empty() && call.start <= calls[open.back()].end)
      totals_of(calls[open.back()]).self_ns -= duration;
    open.push_back(index);

    ApiTotals& totals = totals_of(call);
    ++totals.count;
    totals.total_ns += duration;
    totals.self_ns += duration;
    totals.failures += call.result != 0 ? 1 : 0;
  }

  std::map<std::string, ApiTotals> by_name;
  for (std::size_t i = 0; i < by_function.size(); ++i) {
    if (by_function[i].count == 0) continue;
    const bool known = i < catalog.api_functions.size();
    ApiTotals& sum = by_name[known ? catalog.api_functions[i].name : "unknown call"];
    sum.count += by_function[i].count;
    sum.total_ns += by_function[i].total_ns;
    sum.self_ns += by_function[i].self_ns;
    sum.failures += by_function[i].failures;
  }
  return by_name;
}

}  // namespace profiler
