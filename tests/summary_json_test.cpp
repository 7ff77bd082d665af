#include "collector/summary_json.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/catch.h"

namespace profiler {
namespace {

using Random = std::mt19937_64;

std::uint64_t number(Random& random) {
  return random() >> (random() % 64);
}
bool flag(Random& random) {
  return (random() & 1) != 0;
}

std::string text(Random& random) {
  static const std::vector<std::string> kPieces = {"void f<float>(int*)",
                                                   "\"",
                                                   "\\",
                                                   "\n",
                                                   std::string("\x01"),
                                                   std::string(1, '\0'),
                                                   "\xE2\x80\xAE",
                                                   "\xF0\x9F\x9A\x80",
                                                   "",
                                                   "ü",
                                                   "</script>",
                                                   std::string(3000, 'k')};
  std::string text;
  for (std::uint64_t i = random() % 4; i > 0; --i) text += kPieces[random() % kPieces.size()];
  return text;
}

ExitState exit_state(Random& random) {
  return {static_cast<ExitState::Kind>(random() % 4), number(random)};
}

template <typename Make>
auto several(Random& random, Make make) {
  std::vector<decltype(make())> list;
  for (std::uint64_t i = random() % 4; i > 0; --i) list.push_back(make());
  return list;
}

DistributionSummary distribution(Random& r) {
  return {number(r), number(r), number(r), number(r), number(r), number(r), number(r), number(r)};
}

GapSummary gap(Random& r) {
  GapSummary g;
  g.start_ns = number(r);
  g.duration_ns = number(r);
  g.pieces = several(r, [&] { return GapPieceSummary{text(r), number(r)}; });
  g.before = text(r);
  g.after = text(r);
  g.pid = number(r);
  g.tid = number(r);
  g.thread_name = text(r);
  g.nvtx_path = text(r);
  g.opened_by = text(r);
  return g;
}

Summary random_summary(Random& r) {
  Summary s;
  s.profiler_version = text(r);
  s.simulated = flag(r);
  s.simulated_model = text(r);
  s.command = text(r);
  s.hostname = text(r);
  s.exit = exit_state(r);
  s.wall_ns = number(r);
  s.trace_start_ns = number(r);
  s.start_realtime_ns = number(r);
  s.driver_version = static_cast<std::int64_t>(r());
  s.cupti_version = number(r);
  s.cupti_path = text(r);
  s.launch_window_ns = number(r);
  s.processes = several(r, [&] {
    return ProcessSummary{number(r), text(r), exit_state(r), flag(r),
                          number(r), text(r), number(r)};
  });
  s.devices = several(r, [&] {
    DeviceSummary d;
    d.name = text(r);
    d.uuid = text(r);
    d.operations = number(r);
    d.first_start_ns = number(r);
    d.lead_in_ns = number(r);
    d.tail_ns = number(r);
    d.span_ns = number(r);
    d.busy_ns = number(r);
    d.idle_ns = number(r);
    d.gap_count = number(r);
    d.longest_gap_ns = number(r);
    d.idle_reliable = flag(r);
    d.idle_unreliable_reason = text(r);
    d.idle_by_cause = several(r, [&] {
      return CauseSummary{text(r), number(r), number(r), number(r)};
    });
    d.not_recorded_ns = number(r);
    d.idle_by_thread = several(r, [&] {
      return ThreadIdleSummary{number(r), number(r), text(r), number(r), number(r)};
    });
    d.idle_by_nvtx = several(r, [&] {
      return NvtxIdleSummary{text(r), text(r), number(r), number(r)};
    });
    d.idle_opened_by = several(r, [&] {
      return OpenedBySummary{text(r), text(r), number(r), number(r)};
    });
    d.top_gaps = several(r, [&] { return gap(r); });
    return d;
  });
  s.kernels = several(r, [&] {
    return KernelSummary{text(r),   text(r),         number(r),       number(r), number(r),
                         number(r), number(r),       number(r),       number(r), number(r),
                         number(r), distribution(r), distribution(r), number(r)};
  });
  s.copies = several(
      r, [&] { return CopySummary{text(r), text(r), text(r), number(r), number(r), number(r)}; });
  s.api = several(r, [&] {
    return ApiSummary{text(r),   number(r),
                      number(r), number(r),
                      number(r), several(r, [&] {
                        return FailureSummary{number(r), number(r)}; })};
  });
  s.nvtx = several(r, [&] {
    return NvtxSummary{text(r),   text(r),   flag(r),   number(r), number(r), number(r),
                       number(r), number(r), number(r), number(r), number(r)};
  });
  s.launch_latency = distribution(r);
  s.queue_delay = distribution(r);
  s.kernels_shorter_than_launch = number(r);
  s.kernels_with_launch = number(r);
  s.program_overhead_ns = number(r);
  s.profiler_overhead_ns = number(r);
  s.verdict = {text(r), text(r)};
  s.findings = several(r, [&] {
    return FindingSummary{text(r), text(r), text(r), text(r), number(r)};
  });
  s.checks = {number(r), number(r), number(r), number(r), number(r), number(r), number(r),
              number(r), number(r), number(r), number(r), number(r), number(r)};
  s.cupti_failures = several(r, [&] { return CuptiFailureSummary{number(r), text(r), number(r)}; });
  s.notes = several(r, [&] { return text(r); });
  return s;
}

// Members one by one, in the order of summary.h: equality that does not lean on the code under
// test.
auto members(const ExitState& v) {
  return std::tie(v.kind, v.code);
}
auto members(const DistributionSummary& v) {
  return std::tie(v.count, v.total_ns, v.mean_ns, v.median_ns, v.p99_ns, v.min_ns, v.max_ns,
                  v.stddev_ns);
}
auto members(const CauseSummary& v) {
  return std::tie(v.cause, v.total_ns, v.gap_count, v.longest_ns);
}
auto members(const ThreadIdleSummary& v) {
  return std::tie(v.pid, v.tid, v.name, v.total_ns, v.gap_count);
}
auto members(const NvtxIdleSummary& v) {
  return std::tie(v.domain, v.name, v.total_ns, v.gap_count);
}
auto members(const OpenedBySummary& v) {
  return std::tie(v.call, v.cause, v.total_ns, v.gap_count);
}
auto members(const GapPieceSummary& v) {
  return std::tie(v.cause, v.duration_ns);
}
auto members(const CopySummary& v) {
  return std::tie(v.kind, v.source, v.destination, v.count, v.bytes, v.total_ns);
}
auto members(const FailureSummary& v) {
  return std::tie(v.code, v.count);
}
auto members(const NvtxSummary& v) {
  return std::tie(v.domain, v.name, v.nested, v.count, v.total_ns, v.self_ns, v.min_ns, v.max_ns,
                  v.operations, v.gpu_union_ns, v.gpu_sum_ns);
}
auto members(const FindingSummary& v) {
  return std::tie(v.rule, v.title, v.evidence, v.remedy, v.at_stake_ns);
}
auto members(const VerdictSummary& v) {
  return std::tie(v.kind, v.sentence);
}
auto members(const ChecksSummary& v) {
  return std::tie(v.launches, v.device_operations, v.unmatched, v.dropped, v.untimed, v.unfinished,
                  v.late, v.clock_faults, v.malformed, v.launches_without_operation,
                  v.nvtx_unbalanced, v.nvtx_unclosed, v.duplicates);
}
auto members(const CuptiFailureSummary& v) {
  return std::tie(v.pid, v.function, v.result);
}

bool same(const ProcessSummary& a, const ProcessSummary& b);
bool same(const DeviceSummary& a, const DeviceSummary& b);
bool same(const GapSummary& a, const GapSummary& b);
bool same(const KernelSummary& a, const KernelSummary& b);
bool same(const ApiSummary& a, const ApiSummary& b);

template <typename T>
bool same(const T& a, const T& b) {
  return members(a) == members(b);
}
template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const T& x, const T& y) { return same(x, y); });
}
bool same(const ProcessSummary& a, const ProcessSummary& b) {
  const auto plain = [](const ProcessSummary& v) {
    return std::tie(v.pid, v.command, v.said_goodbye, v.complete_until_ns, v.failure, v.hello_ns);
  };
  return plain(a) == plain(b) && same(a.exit, b.exit);
}
bool same(const GapSummary& a, const GapSummary& b) {
  const auto plain = [](const GapSummary& v) {
    return std::tie(v.start_ns, v.duration_ns, v.before, v.after, v.pid, v.tid, v.thread_name,
                    v.nvtx_path, v.opened_by);
  };
  return plain(a) == plain(b) && same(a.pieces, b.pieces);
}
bool same(const KernelSummary& a, const KernelSummary& b) {
  const auto plain = [](const KernelSummary& v) {
    return std::tie(v.name, v.short_name, v.device, v.count, v.total_ns, v.mean_ns, v.median_ns,
                    v.p99_ns, v.min_ns, v.max_ns, v.stddev_ns, v.shorter_than_launch);
  };
  return plain(a) == plain(b) && same(a.launch_latency, b.launch_latency) &&
         same(a.queue_delay, b.queue_delay);
}
bool same(const ApiSummary& a, const ApiSummary& b) {
  const auto plain = [](const ApiSummary& v) {
    return std::tie(v.name, v.count, v.total_ns, v.self_ns, v.failures);
  };
  return plain(a) == plain(b) && same(a.failures_by_code, b.failures_by_code);
}
bool same(const DeviceSummary& a, const DeviceSummary& b) {
  const auto plain = [](const DeviceSummary& v) {
    return std::tie(v.name, v.uuid, v.operations, v.first_start_ns, v.lead_in_ns, v.tail_ns,
                    v.span_ns, v.busy_ns, v.idle_ns, v.gap_count, v.longest_gap_ns, v.idle_reliable,
                    v.idle_unreliable_reason, v.not_recorded_ns);
  };
  return plain(a) == plain(b) && same(a.idle_by_cause, b.idle_by_cause) &&
         same(a.idle_by_thread, b.idle_by_thread) && same(a.idle_by_nvtx, b.idle_by_nvtx) &&
         same(a.idle_opened_by, b.idle_opened_by) && same(a.top_gaps, b.top_gaps);
}
bool same(const Summary& a, const Summary& b) {
  const auto plain = [](const Summary& v) {
    return std::tie(v.schema_version, v.profiler_version, v.simulated, v.simulated_model, v.command,
                    v.hostname, v.wall_ns, v.trace_start_ns, v.start_realtime_ns, v.driver_version,
                    v.cupti_version, v.cupti_path, v.launch_window_ns,
                    v.kernels_shorter_than_launch, v.kernels_with_launch, v.program_overhead_ns,
                    v.profiler_overhead_ns, v.notes);
  };
  return plain(a) == plain(b) && same(a.exit, b.exit) && same(a.processes, b.processes) &&
         same(a.devices, b.devices) && same(a.kernels, b.kernels) && same(a.copies, b.copies) &&
         same(a.api, b.api) && same(a.nvtx, b.nvtx) && same(a.launch_latency, b.launch_latency) &&
         same(a.queue_delay, b.queue_delay) && same(a.verdict, b.verdict) &&
         same(a.findings, b.findings) && same(a.checks, b.checks) &&
         same(a.cupti_failures, b.cupti_failures);
}

bool holds_null(const nlohmann::json& json) {
  if (json.is_null()) return true;
  if (!json.is_structured()) return false;
  return std::any_of(json.begin(), json.end(), holds_null);
}

TEST_CASE("a summary survives the way through JSON") {
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    const Summary summary = random_summary(random);
    for (const bool pretty : {false, true}) {
      const std::string json = to_json(summary, pretty);
      Result<Summary> read = summary_from_json(json);
      INFO(json);
      REQUIRE(read.ok());
      REQUIRE(same(*read, summary));
      REQUIRE(to_json(*read, pretty) == json);
      REQUIRE_FALSE(holds_null(nlohmann::json::parse(json)));
    }
  }
}

TEST_CASE("integers are exact to 64 bits") {
  Summary summary;
  summary.wall_ns = std::numeric_limits<std::uint64_t>::max();
  summary.trace_start_ns = (std::uint64_t{1} << 53) + 1;
  summary.driver_version = std::numeric_limits<std::int64_t>::min();
  const std::string json = to_json(summary);
  CHECK(json.find("18446744073709551615") != std::string::npos);
  Result<Summary> read = summary_from_json(json);
  REQUIRE(read.ok());
  CHECK(read->wall_ns == summary.wall_ns);
  CHECK(read->trace_start_ns == summary.trace_start_ns);
  CHECK(read->driver_version == summary.driver_version);
}

TEST_CASE("the document has the members that are promised") {
  Summary summary;
  summary.profiler_version = "0.1.0";
  summary.command = "./train --steps 50";
  summary.exit = {ExitState::Kind::kSignalled, 9};
  summary.wall_ns = 1900;
  summary.processes.push_back(
      {4242, "./train", {ExitState::Kind::kRunning, 0}, false, 5, "why", 77});
  DeviceSummary device;
  device.name = "Simulated NVIDIA H100";
  device.idle_by_cause.push_back({"host", 40, 2, 30});
  summary.devices.push_back(device);
  summary.kernels.emplace_back();
  summary.copies.emplace_back();
  summary.api.emplace_back();

  const nlohmann::json json = nlohmann::json::parse(to_json(summary));
  CHECK(json.at("schema_version") == 2);
  CHECK(json.at("simulated") == false);
  CHECK(json.at("command") == "./train --steps 50");
  CHECK(json.at("exit") == nlohmann::json{{"kind", "signalled"}, {"code", 9}});
  CHECK(json.at("wall_ns") == 1900);
  CHECK(json.at("processes").at(0) == nlohmann::json::parse(R"({"pid":4242,"command":"./train",
          "exit":{"kind":"running","code":0},"said_goodbye":false,"complete_until_ns":5,
          "failure":"why","hello_ns":77})"));
  CHECK(json.at("devices").at(0).at("idle_by_cause").at(0) ==
        nlohmann::json::parse(R"({"cause":"host","total_ns":40,"gap_count":2,"longest_ns":30})"));
  const auto has = [](const nlohmann::json& object, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      INFO(name);
      CHECK(object.contains(name));
    }
  };
  has(json.at("devices").at(0),
      {"name", "uuid", "operations", "span_ns", "busy_ns", "idle_ns", "gap_count", "longest_gap_ns",
       "idle_reliable", "idle_unreliable_reason", "not_recorded_ns", "idle_by_thread",
       "idle_by_nvtx", "idle_opened_by", "top_gaps"});
  has(json, {"nvtx", "launch_latency", "queue_delay", "kernels_shorter_than_launch", "verdict",
             "findings", "program_overhead_ns", "profiler_overhead_ns"});
  has(json.at("kernels").at(0), {"name", "device", "count", "total_ns", "mean_ns", "median_ns",
                                 "p99_ns", "min_ns", "max_ns", "stddev_ns"});
  has(json.at("copies").at(0), {"kind", "source", "destination", "count", "bytes", "total_ns"});
  has(json.at("api").at(0),
      {"name", "count", "total_ns", "self_ns", "failures", "failures_by_code"});
  has(json.at("checks"), {"launches", "device_operations", "unmatched", "dropped", "untimed",
                          "unfinished", "late", "clock_faults"});
}

TEST_CASE("text that is not UTF-8 is replaced, never refused") {
  Summary summary;
  summary.command = "run \xFF\xC0\xAF end";
  summary.kernels.emplace_back().name = "k\x80";
  summary.notes = {"\xED\xA0\x80"};
  Result<Summary> read = summary_from_json(to_json(summary));
  REQUIRE(read.ok());
  CHECK(read->command.starts_with("run \xEF\xBF\xBD"));
  CHECK(read->command.ends_with(" end"));
  CHECK(read->kernels[0].name == "k\xEF\xBF\xBD");
}

TEST_CASE("what is not a summary is named in a sentence") {
  const auto message = [](const std::string& json) {
    const Result<Summary> read = summary_from_json(json);
    REQUIRE_FALSE(read.ok());
    return read.error().message;
  };
  const nlohmann::json good = nlohmann::json::parse(to_json(Summary{}));
  const auto changed = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = good;
    json[nlohmann::json::json_pointer(pointer)] = value;
    return json.dump();
  };

  CHECK(message("").find("not a JSON object") != std::string::npos);
  CHECK(message("[]").find("not a JSON object") != std::string::npos);
  CHECK(message("{}").find("schema_version") != std::string::npos);
  CHECK(message(changed("/schema_version", 1)).find("version 1") != std::string::npos);
  CHECK(message(changed("/wall_ns", -1)).find("'wall_ns'") != std::string::npos);
  CHECK(message(changed("/wall_ns", 1.5)).find("'wall_ns'") != std::string::npos);
  CHECK(message(changed("/wall_ns", nullptr)).find("'wall_ns'") != std::string::npos);
  CHECK(message(changed("/checks/late", "3")).find("'checks.late'") != std::string::npos);
  CHECK(message(changed("/exit/kind", "eaten")).find("'exit'") != std::string::npos);
  CHECK(message(changed("/notes", {1})).find("'notes'") != std::string::npos);
  CHECK(message(changed("/driver_version", std::numeric_limits<std::uint64_t>::max()))
            .find("'driver_version'") != std::string::npos);
  for (const auto& [name, value] : good.items()) {
    nlohmann::json without = good;
    without.erase(name);
    INFO(name);
    CHECK(message(without.dump()).find(name) != std::string::npos);
  }
  CHECK(summary_from_json(changed("/added_later", 1)).ok());
}

TEST_CASE("damaged documents never do more than fail") {
  Random random(8);
  const std::string json = to_json(random_summary(random));
  REQUIRE(summary_from_json(json).ok());
  int failures = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = json.substr(0, random() % 8 == 0 ? random() % json.size() : json.size());
    for (std::uint64_t n = 1 + random() % 3; n > 0 && !damaged.empty(); --n) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    if (const Result<Summary> read = summary_from_json(damaged); !read.ok()) {
      ++failures;
      CHECK_FALSE(read.error().message.empty());
    }
  }
  CHECK(failures > 500);
  CHECK_FALSE(summary_from_json(std::string(1'000'000, '[')).ok());
}

}  // namespace
}  // namespace profiler
