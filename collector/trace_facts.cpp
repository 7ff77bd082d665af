#include "collector/trace_facts.h"

#include <nlohmann/json.hpp>

#include "collector/trace_layout.h"

namespace profiler {
namespace {

using nlohmann::json;

std::string dump(const json& document) {
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Members of another type, or out of range, are as if they were missing.
template <typename T>
void take(const json& object, const char* key, T& value) {
  const auto found = object.find(key);
  if (found == object.end()) return;
  if constexpr (std::is_same_v<T, bool>) {
    if (found->is_boolean()) value = found->get<bool>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (found->is_string()) value = found->get<std::string>();
  } else {
    if (found->is_number_unsigned()) value = static_cast<T>(found->get<std::uint64_t>());
  }
}

void take(const json& object, const char* key, std::vector<std::string>& values) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return;
  values.clear();
  for (const json& entry : *found) {
    if (entry.is_string()) values.push_back(entry.get<std::string>());
  }
}

json to_json(const ExitState& state) {
  return {{"kind", static_cast<std::uint64_t>(state.kind)}, {"code", state.code}};
}

void take(const json& object, const char* key, ExitState& state) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_object()) return;
  std::uint64_t kind = 0;
  take(*found, "kind", kind);
  if (kind <= static_cast<std::uint64_t>(ExitState::Kind::kRunning)) {
    state.kind = static_cast<ExitState::Kind>(kind);
  }
  take(*found, "code", state.code);
}

template <typename Use>
void each(const json& object, const char* key, Use use) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return;
  for (const json& entry : *found) {
    if (entry.is_object()) use(entry);
  }
}

}  // namespace

std::string facts_at_start(const RunFacts& facts) {
  return dump({{"run",
                {{"layout", trace_layout::kVersion},
                 {"command", facts.command},
                 {"hostname", facts.hostname},
                 {"start_ns", facts.start_ns},
                 {"start_realtime_ns", facts.start_realtime_ns},
                 {"launch_window_ns", facts.launch_window_ns},
                 {"min_gap_in_trace_ns", facts.min_gap_in_trace_ns},
                 {"simulated_model", facts.simulated_model}}}});
}

std::string facts_at_end(const RunFacts& facts, std::span<const ProcessState> processes,
                         std::span<const CuptiFailureSummary> cupti_failures,
                         const UntracedCounts& untraced) {
  // Those of the start again: they cost little, and whoever forgot them has them now.
  json document = json::parse(facts_at_start(facts));
  json& run = document["run"];
  run["is_complete"] = true;
  run["root_pid"] = facts.root_pid;
  run["exit"] = to_json(facts.exit);
  run["end_ns"] = facts.end_ns;
  run["notes"] = facts.notes;
  run["processes"] = json::array();
  for (const ProcessState& state : processes) {
    json entry = {{"pid", state.pid},           {"said_goodbye", state.said_goodbye},
                  {"closed", state.closed},     {"complete_until_ns", state.complete_until_ns},
                  {"hello_ns", state.hello_ns}, {"failure", state.failure},
                  {"fault", state.fault}};
    if (state.process != kNone) entry["process"] = state.process;
    run["processes"].push_back(std::move(entry));
  }
  run["cupti_failures"] = json::array();
  for (const CuptiFailureSummary& failure : cupti_failures) {
    run["cupti_failures"].push_back(
        {{"pid", failure.pid}, {"function", failure.function}, {"result", failure.result}});
  }
  run["untimed"] = untraced.untimed;
  run["unfinished"] = untraced.unfinished;
  run["malformed"] = untraced.malformed;
  run["dropped"] = untraced.dropped;
  run["nvtx_unbalanced"] = untraced.nvtx_unbalanced;
  return dump(document);
}

bool read_facts(std::string_view text, TraceFacts& facts) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return false;
  const auto found = document.find("run");
  if (found == document.end() || !found->is_object()) return false;
  const json& run = *found;
  take(run, "layout", facts.layout_version);
  take(run, "command", facts.run.command);
  take(run, "hostname", facts.run.hostname);
  take(run, "start_ns", facts.run.start_ns);
  take(run, "start_realtime_ns", facts.run.start_realtime_ns);
  take(run, "launch_window_ns", facts.run.launch_window_ns);
  take(run, "min_gap_in_trace_ns", facts.run.min_gap_in_trace_ns);
  take(run, "simulated_model", facts.run.simulated_model);
  take(run, "is_complete", facts.is_complete);
  take(run, "root_pid", facts.run.root_pid);
  take(run, "exit", facts.run.exit);
  take(run, "end_ns", facts.run.end_ns);
  take(run, "notes", facts.run.notes);
  if (run.contains("processes")) facts.processes.clear();
  each(run, "processes", [&](const json& entry) {
    ProcessState state;
    take(entry, "pid", state.pid);
    take(entry, "said_goodbye", state.said_goodbye);
    take(entry, "closed", state.closed);
    take(entry, "complete_until_ns", state.complete_until_ns);
    take(entry, "hello_ns", state.hello_ns);
    take(entry, "failure", state.failure);
    take(entry, "fault", state.fault);
    take(entry, "process", state.process);
    facts.processes.push_back(std::move(state));
  });
  if (run.contains("cupti_failures")) facts.cupti_failures.clear();
  each(run, "cupti_failures", [&](const json& entry) {
    CuptiFailureSummary failure;
    take(entry, "pid", failure.pid);
    take(entry, "function", failure.function);
    take(entry, "result", failure.result);
    facts.cupti_failures.push_back(std::move(failure));
  });
  take(run, "untimed", facts.untraced.untimed);
  take(run, "unfinished", facts.untraced.unfinished);
  take(run, "malformed", facts.untraced.malformed);
  take(run, "dropped", facts.untraced.dropped);
  take(run, "nvtx_unbalanced", facts.untraced.nvtx_unbalanced);
  return true;
}

}  // namespace profiler
