#include "collector/summary_json.h"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace profiler {
namespace {

using Json = nlohmann::ordered_json;

// Every member once, for both directions: `visit(name, member)`. Value is the struct, const or not.
template <typename Value, typename Visit>
void members_of(ProcessSummary*, Value& v, Visit&& visit) {
  visit("pid", v.pid);
  visit("command", v.command);
  visit("exit", v.exit);
  visit("said_goodbye", v.said_goodbye);
  visit("complete_until_ns", v.complete_until_ns);
  visit("failure", v.failure);
  visit("hello_ns", v.hello_ns);
}

template <typename Value, typename Visit>
void members_of(DistributionSummary*, Value& v, Visit&& visit) {
  visit("count", v.count);
  visit("total_ns", v.total_ns);
  visit("mean_ns", v.mean_ns);
  visit("median_ns", v.median_ns);
  visit("p99_ns", v.p99_ns);
  visit("min_ns", v.min_ns);
  visit("max_ns", v.max_ns);
  visit("stddev_ns", v.stddev_ns);
}

template <typename Value, typename Visit>
void members_of(CauseSummary*, Value& v, Visit&& visit) {
  visit("cause", v.cause);
  visit("total_ns", v.total_ns);
  visit("gap_count", v.gap_count);
  visit("longest_ns", v.longest_ns);
}

template <typename Value, typename Visit>
void members_of(ThreadIdleSummary*, Value& v, Visit&& visit) {
  visit("pid", v.pid);
  visit("tid", v.tid);
  visit("name", v.name);
  visit("total_ns", v.total_ns);
  visit("gap_count", v.gap_count);
}

template <typename Value, typename Visit>
void members_of(NvtxIdleSummary*, Value& v, Visit&& visit) {
  visit("domain", v.domain);
  visit("name", v.name);
  visit("total_ns", v.total_ns);
  visit("gap_count", v.gap_count);
}

template <typename Value, typename Visit>
void members_of(OpenedBySummary*, Value& v, Visit&& visit) {
  visit("call", v.call);
  visit("cause", v.cause);
  visit("total_ns", v.total_ns);
  visit("gap_count", v.gap_count);
}

template <typename Value, typename Visit>
void members_of(GapPieceSummary*, Value& v, Visit&& visit) {
  visit("cause", v.cause);
  visit("duration_ns", v.duration_ns);
}

template <typename Value, typename Visit>
void members_of(GapSummary*, Value& v, Visit&& visit) {
  visit("start_ns", v.start_ns);
  visit("duration_ns", v.duration_ns);
  visit("pieces", v.pieces);
  visit("before", v.before);
  visit("after", v.after);
  visit("pid", v.pid);
  visit("tid", v.tid);
  visit("thread_name", v.thread_name);
  visit("nvtx_path", v.nvtx_path);
  visit("opened_by", v.opened_by);
}

template <typename Value, typename Visit>
void members_of(DeviceSummary*, Value& v, Visit&& visit) {
  visit("name", v.name);
  visit("uuid", v.uuid);
  visit("operations", v.operations);
  visit("first_start_ns", v.first_start_ns);
  visit("lead_in_ns", v.lead_in_ns);
  visit("tail_ns", v.tail_ns);
  visit("span_ns", v.span_ns);
  visit("busy_ns", v.busy_ns);
  visit("idle_ns", v.idle_ns);
  visit("gap_count", v.gap_count);
  visit("longest_gap_ns", v.longest_gap_ns);
  visit("idle_reliable", v.idle_reliable);
  visit("idle_unreliable_reason", v.idle_unreliable_reason);
  visit("idle_by_cause", v.idle_by_cause);
  visit("not_recorded_ns", v.not_recorded_ns);
  visit("kernel_busy_ns", v.kernel_busy_ns);
  visit("copy_busy_ns", v.copy_busy_ns);
  visit("idle_by_thread", v.idle_by_thread);
  visit("idle_by_nvtx", v.idle_by_nvtx);
  visit("idle_opened_by", v.idle_opened_by);
  visit("top_gaps", v.top_gaps);
}

template <typename Value, typename Visit>
void members_of(KernelSummary*, Value& v, Visit&& visit) {
  visit("name", v.name);
  visit("short_name", v.short_name);
  visit("device", v.device);
  visit("count", v.count);
  visit("total_ns", v.total_ns);
  visit("mean_ns", v.mean_ns);
  visit("median_ns", v.median_ns);
  visit("p99_ns", v.p99_ns);
  visit("min_ns", v.min_ns);
  visit("max_ns", v.max_ns);
  visit("stddev_ns", v.stddev_ns);
  visit("launch_latency", v.launch_latency);
  visit("queue_delay", v.queue_delay);
  visit("shorter_than_launch", v.shorter_than_launch);
}

template <typename Value, typename Visit>
void members_of(CopySummary*, Value& v, Visit&& visit) {
  visit("kind", v.kind);
  visit("source", v.source);
  visit("destination", v.destination);
  visit("count", v.count);
  visit("bytes", v.bytes);
  visit("total_ns", v.total_ns);
}

template <typename Value, typename Visit>
void members_of(FailureSummary*, Value& v, Visit&& visit) {
  visit("code", v.code);
  visit("count", v.count);
}

template <typename Value, typename Visit>
void members_of(ApiSummary*, Value& v, Visit&& visit) {
  visit("name", v.name);
  visit("count", v.count);
  visit("total_ns", v.total_ns);
  visit("self_ns", v.self_ns);
  visit("failures", v.failures);
  visit("failures_by_code", v.failures_by_code);
}

template <typename Value, typename Visit>
void members_of(NvtxSummary*, Value& v, Visit&& visit) {
  visit("domain", v.domain);
  visit("name", v.name);
  visit("nested", v.nested);
  visit("count", v.count);
  visit("total_ns", v.total_ns);
  visit("self_ns", v.self_ns);
  visit("min_ns", v.min_ns);
  visit("max_ns", v.max_ns);
  visit("operations", v.operations);
  visit("gpu_union_ns", v.gpu_union_ns);
  visit("gpu_sum_ns", v.gpu_sum_ns);
}

template <typename Value, typename Visit>
void members_of(FindingSummary*, Value& v, Visit&& visit) {
  visit("rule", v.rule);
  visit("title", v.title);
  visit("evidence", v.evidence);
  visit("remedy", v.remedy);
  visit("at_stake_ns", v.at_stake_ns);
}

template <typename Value, typename Visit>
void members_of(VerdictSummary*, Value& v, Visit&& visit) {
  visit("kind", v.kind);
  visit("sentence", v.sentence);
}

template <typename Value, typename Visit>
void members_of(ChecksSummary*, Value& v, Visit&& visit) {
  visit("launches", v.launches);
  visit("device_operations", v.device_operations);
  visit("unmatched", v.unmatched);
  visit("dropped", v.dropped);
  visit("untimed", v.untimed);
  visit("unfinished", v.unfinished);
  visit("late", v.late);
  visit("clock_faults", v.clock_faults);
  visit("malformed", v.malformed);
  visit("launches_without_operation", v.launches_without_operation);
  visit("nvtx_unbalanced", v.nvtx_unbalanced);
  visit("nvtx_unclosed", v.nvtx_unclosed);
  visit("duplicates", v.duplicates);
}

template <typename Value, typename Visit>
void members_of(CuptiFailureSummary*, Value& v, Visit&& visit) {
  visit("pid", v.pid);
  visit("function", v.function);
  visit("result", v.result);
}

template <typename Value, typename Visit>
void members_of(Summary*, Value& v, Visit&& visit) {
  visit("schema_version", v.schema_version);
  visit("profiler_version", v.profiler_version);
  visit("simulated", v.simulated);
  visit("simulated_model", v.simulated_model);
  visit("command", v.command);
  visit("hostname", v.hostname);
  visit("exit", v.exit);
  visit("wall_ns", v.wall_ns);
  visit("trace_start_ns", v.trace_start_ns);
  visit("start_realtime_ns", v.start_realtime_ns);
  visit("driver_version", v.driver_version);
  visit("cupti_version", v.cupti_version);
  visit("cupti_path", v.cupti_path);
  visit("launch_window_ns", v.launch_window_ns);
  visit("processes", v.processes);
  visit("devices", v.devices);
  visit("kernels", v.kernels);
  visit("copies", v.copies);
  visit("api", v.api);
  visit("nvtx", v.nvtx);
  visit("launch_latency", v.launch_latency);
  visit("queue_delay", v.queue_delay);
  visit("kernels_shorter_than_launch", v.kernels_shorter_than_launch);
  visit("kernels_with_launch", v.kernels_with_launch);
  visit("program_overhead_ns", v.program_overhead_ns);
  visit("profiler_overhead_ns", v.profiler_overhead_ns);
  visit("verdict", v.verdict);
  visit("findings", v.findings);
  visit("checks", v.checks);
  visit("cupti_failures", v.cupti_failures);
  visit("notes", v.notes);
}

constexpr std::array<std::pair<ExitState::Kind, std::string_view>, 4> kExitKinds = {{
    {ExitState::Kind::kExited, "exited"},
    {ExitState::Kind::kSignalled, "signalled"},
    {ExitState::Kind::kUnknown, "unknown"},
    {ExitState::Kind::kRunning, "running"},
}};

// --- Writing -------------------------------------------------------------------------------------

Json write(std::uint64_t value) {
  return value;
}
Json write(std::int64_t value) {
  return value;
}
Json write(bool value) {
  return value;
}
Json write(const std::string& value) {
  return value;
}

Json write(const ExitState& value) {
  Json json = Json::object();
  for (const auto& [kind, name] : kExitKinds) {
    if (kind == value.kind) json["kind"] = name;
  }
  json["code"] = value.code;
  return json;
}

template <typename T>
Json write(const std::vector<T>& values);

template <typename T>
Json write(const T& value) {
  Json json = Json::object();
  members_of(static_cast<T*>(nullptr), value,
             [&](const char* name, const auto& member) { json[name] = write(member); });
  return json;
}

template <typename T>
Json write(const std::vector<T>& values) {
  Json json = Json::array();
  for (const T& value : values) json.push_back(write(value));
  return json;
}

// --- Reading -------------------------------------------------------------------------------------
// Each returns false when the value is of another type; `where` then names it.

bool read(const Json& json, std::uint64_t& value, std::string&) {
  if (!json.is_number_unsigned()) return false;
  value = json.get<std::uint64_t>();
  return true;
}

bool read(const Json& json, std::int64_t& value, std::string&) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    return false;
  }
  value = json.get<std::int64_t>();
  return true;
}

bool read(const Json& json, bool& value, std::string&) {
  if (!json.is_boolean()) return false;
  value = json.get<bool>();
  return true;
}

bool read(const Json& json, std::string& value, std::string&) {
  if (!json.is_string()) return false;
  value = json.get_ref<const std::string&>();
  return true;
}

bool read(const Json& json, ExitState& value, std::string& where) {
  if (!json.is_object()) return false;
  const auto kind = json.find("kind");
  const auto code = json.find("code");
  if (kind == json.end() || !kind->is_string() || code == json.end()) return false;
  for (const auto& [known, name] : kExitKinds) {
    if (kind->get_ref<const std::string&>() != name) continue;
    value.kind = known;
    return read(*code, value.code, where);
  }
  return false;
}

template <typename T>
bool read(const Json& json, std::vector<T>& values, std::string& where);

template <typename T>
bool read(const Json& json, T& value, std::string& where) {
  if (!json.is_object()) return false;
  bool ok = true;
  members_of(static_cast<T*>(nullptr), value, [&](const char* name, auto& member) {
    if (!ok) return;
    const auto found = json.find(name);
    std::string inner;
    ok = found != json.end() && read(*found, member, inner);
    if (!ok) where = inner.empty() ? name : std::string(name) + "." + inner;
  });
  return ok;
}

template <typename T>
bool read(const Json& json, std::vector<T>& values, std::string& where) {
  if (!json.is_array()) return false;
  values.clear();
  for (const Json& entry : json) {
    if (!read(entry, values.emplace_back(), where)) return false;
  }
  return true;
}

}  // namespace

std::string to_json(const Summary& summary, bool pretty) {
  std::string text =
      write(summary).dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace);
  if (pretty) text += '\n';
  return text;
}

Result<Summary> summary_from_json(std::string_view json) {
  const Json document = Json::parse(json, nullptr, false);
  if (document.is_discarded() || !document.is_object()) {
    return Error{"The summary is not a JSON object: it is damaged, or not a summary of ours."};
  }
  std::uint64_t version = 0;
  std::string where;
  const auto found = document.find("schema_version");
  if (found == document.end() || !read(*found, version, where)) {
    return Error{"The summary has no schema_version: it is damaged, or not a summary of ours."};
  }
  if (version != kSummarySchemaVersion) {
    return Error{"The summary has schema version " + std::to_string(version) +
                 ", and this profiler reads version " + std::to_string(kSummarySchemaVersion) +
                 ": use the profiler that wrote it, or a newer one."};
  }
  Summary summary;
  if (!read(document, summary, where)) {
    return Error{"The summary is damaged: '" + where + "' is missing or of the wrong type."};
  }
  return summary;
}

}  // namespace profiler
