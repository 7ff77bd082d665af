// What was written to a .pftrace is read back as the records that it came from.
#include "collector/trace_events.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "collector/analysis.h"
#include "collector/gap_collection.h"
#include "collector/moment.h"
#include "collector/summarize.h"
#include "collector/summary_json.h"
#include "collector/trace_file.h"
#include "collector/trace_writer.h"
#include "tests/catch.h"
#include "tests/scratch_folder.h"

namespace profiler {
namespace {

constexpr std::uint64_t kStart = 434'567'890'123'456;

using Folder = test::ScratchFolder;
using test::content;

struct Records {
  std::vector<ApiCall> api_calls;
  std::vector<Operation> operations;
  std::vector<SyncRecord> syncs;
  std::vector<EventRecord> event_records;
  std::vector<OverheadRecord> overheads;
  std::vector<NvtxRange> ranges;
  std::vector<NvtxEvent> marks;
  std::vector<std::pair<ProcessIndex, LossRecord>> losses;
};

RecordSink sink_into(Records& records) {
  const auto into = [](auto& vector) {
    return [&vector](auto span) { vector.insert(vector.end(), span.begin(), span.end()); };
  };
  RecordSink sink;
  sink.api_calls = into(records.api_calls);
  sink.operations = into(records.operations);
  sink.syncs = into(records.syncs);
  sink.event_records = into(records.event_records);
  sink.overheads = into(records.overheads);
  sink.nvtx_ranges = into(records.ranges);
  sink.nvtx_marks = into(records.marks);
  sink.loss = [&records](ProcessIndex process, const LossRecord& loss) {
    records.losses.emplace_back(process, loss);
  };
  return sink;
}

// Every record as text that names what it refers to, so that records of two catalogs compare.
class Describe {
 public:
  explicit Describe(const Catalog& catalog) : catalog_(catalog) {}

  std::string process(ProcessIndex i) const {
    return i == kNone ? "none" : std::to_string(catalog_.processes[i].pid);
  }
  std::string thread(ThreadIndex i) const {
    if (i == kNone) return "none";
    const Thread& entry = catalog_.threads[i];
    return process(entry.process) + "/" + std::to_string(entry.tid) + "/" + entry.name;
  }
  std::string device(DeviceIndex i) const {
    if (i == kNone) return "none";
    const Device& entry = catalog_.devices[i];
    return list(entry.ordinal, entry.name, uuid_text(entry), entry.memory_bytes,
                entry.multiprocessors, entry.compute_capability_major,
                entry.compute_capability_minor);
  }
  std::string queue(QueueIndex i) const {
    const Queue& entry = catalog_.queues[i];
    return list(process(entry.process), device(entry.device), entry.context, entry.stream,
                entry.name);
  }
  std::string text(TextId i) const { return i == kNone ? "none" : "'" + catalog_.texts[i] + "'"; }

  std::string operator()(const ApiCall& call) const {
    std::string function = "none";
    if (call.function != kNone) {
      const ApiFunction& entry = catalog_.api_functions[call.function];
      function = list(int(entry.domain), entry.callback_id, entry.raw_name, entry.name);
    }
    return list("call", call.start, call.end, thread(call.thread), function, call.correlation,
                call.result);
  }
  std::string operator()(const Operation& o) const {
    std::string function = "none";
    if (o.function != kNone) {
      const KernelFunction& entry = catalog_.kernel_functions[o.function];
      function = list(entry.mangled, entry.name, entry.registers, entry.static_shared_bytes,
                      entry.local_bytes);
    }
    return list("operation", o.start, o.end, int(o.kind), queue(o.queue), o.correlation, o.graph,
                o.graph_node, function, o.grid[0], o.grid[1], o.grid[2], o.block[0], o.block[1],
                o.block[2], o.dynamic_shared_bytes, o.bytes, int(o.copy_kind), int(o.source_kind),
                int(o.destination_kind), o.asynchronous, o.value, device(o.source_device),
                device(o.destination_device));
  }
  std::string operator()(const SyncRecord& s) const {
    return list("sync", s.start, s.end, int(s.kind), process(s.process), s.correlation, s.context,
                s.stream, s.event);
  }
  std::string operator()(const EventRecord& e) const {
    return list("event", process(e.process), e.correlation, e.context, e.stream, e.event);
  }
  std::string operator()(const OverheadRecord& o) const {
    return list("overhead", o.start, o.end, static_cast<std::uint32_t>(o.kind), thread(o.thread),
                o.correlation);
  }
  std::string operator()(const NvtxRange& r) const {
    return list("range", r.start, r.end, thread(r.thread), thread(r.end_thread),
                catalog_.nvtx_domains[r.domain], text(r.text), r.is_nested);
  }
  std::string operator()(const NvtxEvent& e) const {
    return list("mark", e.time, thread(e.thread), catalog_.nvtx_domains[e.domain], text(e.text));
  }

  std::vector<std::string> all(const Records& records) const {
    std::vector<std::string> lines;
    const auto add = [&](const auto& list) {
      for (const auto& record : list) lines.push_back((*this)(record));
    };
    add(records.api_calls);
    add(records.operations);
    add(records.syncs);
    add(records.event_records);
    add(records.overheads);
    add(records.ranges);
    add(records.marks);
    for (const auto& [who, loss] : records.losses)
      lines.push_back(list("loss", process(who), loss.count, loss.from_ns, loss.to_ns));
    std::sort(lines.begin(), lines.end());
    return lines;
  }

 private:
  static std::string word(const std::string& value) { return value; }
  static std::string word(const char* value) { return value; }
  template <typename T>
  static std::string word(T value) {
    return std::to_string(value);
  }
  template <typename... T>
  static std::string list(const T&... values) {
    std::string text;
    ((text += word(values) + ";"), ...);
    return text;
  }

  const Catalog& catalog_;
};

// A run of two processes made of random records, many of which touch, nest and share their times.
class RandomRun {
 public:
  explicit RandomRun(std::uint64_t seed) : random_(seed) {
    for (std::uint64_t pid : {4242, 5000}) {
      Process process;
      process.pid = pid;
      process.parent_pid = 1;
      process.executable = "/opt/bin/train";
      process.command_line = {"./train", "a b", "it's"};
      process.hostname = "node-1";
      process.start_ns = kStart - 1000;
      process.hello_clocks = {kStart + 100, kStart + 200, kStart + 300};
      process.driver_version = 13000;
      process.cupti_version = 130001;
      process.cupti_path = "/usr/lib/libcupti.so.13";
      process.environment = {{"RANK", "0"}};
      processes.push_back(catalog.add_process(process));
    }
    for (std::uint8_t i = 0; i < 2; ++i) {
      Device device;
      device.ordinal = 3 + i;
      device.name = i == 0 ? "NVIDIA H100" : "";
      device.uuid.fill(i);
      device.has_uuid = i == 0;
      device.memory_bytes = i == 0 ? 80ULL << 30 : 0;
      device.compute_capability_major = 12;
      device.compute_capability_minor = 1;
      devices.push_back(catalog.device(0, device));
    }
    for (const ProcessIndex process : processes) {
      for (std::uint64_t tid : {11, 12}) {
        threads.push_back(catalog.thread(process, tid));
        catalog.threads.back().name = tid == 11 ? "main" : "";
      }
      for (const DeviceIndex device : devices) {
        queues.push_back(catalog.queue({process, device, 1, 7, {}}));
        queues.push_back(catalog.queue({process, device, 2, 1ULL << 40, "copies"}));
      }
    }
    for (const char* name : {"cudaLaunchKernel_v7000", "cudaMemcpy_v3020", "cudaMalloc_v3020",
                             "cudaStreamSynchronize_ptsz"})
      functions.push_back(catalog.api_function(ApiDomain::kRuntime, 211, name));
    functions.push_back(catalog.api_function(ApiDomain::kDriver, 307, "cuLaunchKernel"));
    functions.push_back(catalog.api_function(ApiDomain::kDriver, 999, ""));
    functions.push_back(kNone);
    kernels = {catalog.kernel_function("_Z4vaddPKfS0_Pfi", 24, 1024, 0),
               catalog.kernel_function("_Z4vaddPKfS0_Pfi", 32, 0, 16),
               catalog.kernel_function("\xC3\xA4 \"k\"", 0, 0, 0), kNone};
    texts = {catalog.text("step"), catalog.text("forward"), catalog.text("CUDA call"), kNone};
    domains = {0, catalog.nvtx_domain("NCCL"), catalog.nvtx_domain("my, \"lib\"")};
  }

  template <typename T>
  const T& any(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }
  std::uint64_t up_to(std::uint64_t most) { return random_() % (most + 1); }

  // A call, and often a driver call in it that begins or ends with it; a kernel, copy or set.
  void add_work(std::uint64_t at) {
    ApiCall call;
    call.start = at + up_to(3);
    call.end = call.start + up_to(200);
    call.thread = any(threads);
    call.function = any(functions);
    call.correlation = up_to(5) == 0 ? 0 : ++correlation_;
    call.result = up_to(9) == 0 ? 719 : 0;
    // Driver calls make none: of two with equal times and one id nothing tells which is the outer
    // one.
    const bool is_driver = call.function == functions[4] || call.function == functions[5];
    if (!is_driver && up_to(1) == 0) {
      ApiCall inner = call;
      inner.start += up_to(1) * up_to((call.end - call.start) / 2);
      inner.end -= up_to(1) * up_to((call.end - inner.start) / 2);
      inner.function = functions[4];
      inner.result = 0;
      if (up_to(1) == 0) inner.correlation = ++correlation_;
      records.api_calls.push_back(inner);
    }
    records.api_calls.push_back(call);
    const ProcessIndex process = catalog.threads[call.thread].process;

    Operation operation;
    operation.start = call.start + up_to(400);
    operation.end = operation.start + up_to(500);
    do operation.queue = any(queues);
    while (catalog.queues[operation.queue].process != process);
    operation.correlation = call.correlation;
    if (up_to(20) == 0) operation.graph = 7;
    if (operation.graph != 0) operation.graph_node = up_to(1ULL << 40);
    operation.kind = static_cast<OperationKind>(up_to(2));
    if (operation.kind == OperationKind::kKernel) {
      operation.function = any(kernels);
      for (int i = 0; i < 3; ++i) {
        operation.grid[i] = static_cast<std::uint32_t>(1 + up_to(70'000));
        operation.block[i] = static_cast<std::uint32_t>(1 + up_to(8));
      }
      operation.dynamic_shared_bytes = up_to(1) * 49'152;
    } else {
      operation.bytes = up_to(1ULL << 33);
      operation.destination_kind = static_cast<std::uint8_t>(up_to(7));
      operation.asynchronous = up_to(1) == 0;
      if (operation.kind == OperationKind::kMemcpy) {
        operation.copy_kind = static_cast<std::uint8_t>(any<int>({1, 2, 8, 10, 42}));
        operation.source_kind = static_cast<std::uint8_t>(up_to(7));
        if (operation.copy_kind == 10) {
          operation.source_device = devices[0];
          operation.destination_device = devices[1];
        }
      } else {
        operation.value = static_cast<std::uint32_t>(up_to(255));
      }
    }
    if (up_to(40) == 0) operation.end = 0;  // unfinished
    if (up_to(60) == 0) operation.start = operation.end = UINT64_MAX;
    if (is_time(operation.start) || operation.end == UINT64_MAX) {
      if (!has_times(operation.start, operation.end)) {
        Operation bare;  // what the trace keeps of it
        bare.start = operation.start;
        bare.end = operation.end;
        bare.kind = operation.kind;
        bare.queue = operation.queue;
        bare.correlation = operation.correlation;
        operation = bare;
      }
      records.operations.push_back(operation);
    }
  }

  void add_others(std::uint64_t at) {
    SyncRecord sync;
    sync.start = at;
    sync.end = at + up_to(300);
    sync.kind = static_cast<SyncKind>(up_to(4));
    sync.process = any(processes);
    sync.correlation = static_cast<std::uint32_t>(up_to(100));
    sync.context = static_cast<std::uint32_t>(up_to(2));
    sync.stream = up_to(1) * (1ULL << 40);
    sync.event = static_cast<std::uint32_t>(up_to(3));
    records.syncs.push_back(sync);
    records.event_records.push_back({sync.process, sync.correlation, 1, sync.stream, sync.event});

    OverheadRecord overhead;
    overhead.start = at + up_to(10);
    overhead.end = overhead.start + up_to(100);
    overhead.kind = static_cast<OverheadKind>(any<int>({0, 1, 1 << 16, 5 << 16, 99 << 16}));
    overhead.thread = up_to(9) == 0 ? kNone : any(threads);
    overhead.correlation = static_cast<std::uint32_t>(up_to(1) * 7);
    records.overheads.push_back(overhead);

    NvtxRange range;
    range.start = at;
    range.end = at + 900;
    range.thread = any(threads);
    range.end_thread = up_to(9) == 0 ? kNone : range.thread;
    range.domain = any(domains);
    range.text = any(texts);
    if (up_to(2) == 0) {
      range.is_nested = false;
      range.end = at + up_to(5000);
      do range.end_thread = any(threads);
      while (catalog.threads[range.end_thread].process != catalog.threads[range.thread].process);
      if (up_to(5) == 0) range.end_thread = kNone;
    }
    records.ranges.push_back(range);
    if (up_to(3) == 0) {
      NvtxEvent mark;
      mark.time = at;
      mark.kind = NvtxKind::kMark;
      mark.thread = any(threads);
      mark.domain = any(domains);
      mark.text = any(texts);
      records.marks.push_back(mark);
    }
    if (up_to(19) == 0) {
      const LossRecord loss = up_to(2) == 0 ? LossRecord{3, 0, 0} : LossRecord{5, at, at + 50};
      records.losses.emplace_back(any(processes), loss);
    }
  }

  void fill(int steps) {
    for (int i = 0; i < steps; ++i) {
      const std::uint64_t at = kStart + 10'000 + 1000 * static_cast<std::uint64_t>(i);
      add_work(at);
      if (i % 3 == 0) add_others(at);
    }
  }

  RunFacts facts() const {
    RunFacts facts;
    facts.command = {"./train", "a b", "it's", ""};
    facts.root_pid = 4242;
    facts.exit = {ExitState::Kind::kSignalled, 9};
    facts.start_ns = kStart;
    facts.end_ns = kStart + 10'000'000'000;
    facts.start_realtime_ns = 1'700'000'000'000'000'000;
    facts.launch_window_ns = 7'000;
    facts.hostname = "node-1";
    facts.notes = {"A note."};
    return facts;
  }
  std::vector<ProcessState> states() const {
    std::vector<ProcessState> list(3);
    list[0] = {
        5000,        1, false, true, kStart + 77, "", "the stream does not consist of frames",
        kStart + 100};
    list[1] = {4242, 0, true, true, kStart + 99, "CUPTI could not initialise", "", kStart + 100};
    list[2].pid = 6000;
    return list;
  }

  // Writes all of it in batches; those of calls are cut anywhere.
  void write(TraceWriter& writer) {
    writer.preamble({kStart, kStart + 5, 1'700'000'000'000'000'000}, "0.1.0", {});
    writer.facts(facts_at_start(facts()));
    for (const ProcessIndex process : processes) writer.process(catalog, process);
    const auto batches = [&](const auto& list, auto use) {
      for (std::size_t i = 0; i < list.size();) {
        const std::size_t count = std::min<std::size_t>(1 + up_to(40), list.size() - i);
        use(std::span(list).subspan(i, count));
        i += count;
      }
    };
    batches(records.api_calls, [&](auto span) { writer.api_calls(catalog, span); });
    batches(records.operations, [&](auto span) { writer.operations(catalog, span); });
    batches(records.syncs, [&](auto span) { writer.syncs(catalog, span); });
    batches(records.overheads, [&](auto span) { writer.overheads(catalog, span); });
    writer.event_records(catalog, records.event_records);
    writer.nvtx_marks(catalog, records.marks);
    writer.nvtx_ranges(catalog, records.ranges);
    for (const auto& [process, loss] : records.losses)
      writer.hole(process, loss.from_ns, loss.to_ns, loss.count);
  }

  Catalog catalog;
  Records records;
  std::vector<ProcessIndex> processes;
  std::vector<DeviceIndex> devices;
  std::vector<ThreadIndex> threads;
  std::vector<QueueIndex> queues;
  std::vector<FunctionIndex> functions;
  std::vector<FunctionIndex> kernels;
  std::vector<TextId> texts;
  std::vector<DomainId> domains;

 private:
  std::mt19937_64 random_;
  std::uint32_t correlation_ = 0;
};

TEST_CASE("all records are read back exactly") {
  const std::uint64_t seed = GENERATE(1U, 2U, 3U, 4U, 5U, 6U);
  CAPTURE(seed);
  RandomRun run(seed);
  run.fill(600);
  Folder folder;
  TraceWriter writer(std::move(*TraceFile::create(folder / "a.pftrace", false)));
  run.write(writer);
  UntracedCounts untraced;
  for (const auto& [process, loss] : run.records.losses) untraced.dropped += loss.count;
  untraced.dropped += 1000;
  untraced.malformed = 2;
  untraced.nvtx_unbalanced = 4;
  untraced.untimed = 1'000'000;
  const std::vector<CuptiFailureSummary> failures = {{4242, "cuptiActivityEnable", 8}};
  writer.facts(facts_at_end(run.facts(), run.states(), failures, untraced));
  writer.summary("{}");
  REQUIRE(writer.finish().ok());

  Catalog catalog;
  Records read;
  const RecordSink sink = sink_into(read);
  const Result<TraceEvents> events = read_events(folder / "a.pftrace", catalog, sink);
  REQUIRE(events.ok());
  const std::vector<std::string> expected = Describe(run.catalog).all(run.records);
  const std::vector<std::string> got = Describe(catalog).all(read);
  CHECK(read.api_calls.size() == run.records.api_calls.size());
  CHECK(read.operations.size() == run.records.operations.size());
  CHECK(read.ranges.size() == run.records.ranges.size());
  std::vector<std::string> missing;
  std::set_difference(expected.begin(), expected.end(), got.begin(), got.end(),
                      std::back_inserter(missing));
  std::vector<std::string> extra;
  std::set_difference(got.begin(), got.end(), expected.begin(), expected.end(),
                      std::back_inserter(extra));
  INFO("missing: " << (missing.empty() ? "" : missing.front()));
  INFO("extra: " << (extra.empty() ? "" : extra.front()));
  CHECK(missing.empty());
  CHECK(extra.empty());
  CHECK(got.size() == expected.size());

  const TraceEvents& result = events.value();
  CHECK(result.is_whole);
  CHECK(result.ignored == 0);
  CHECK(result.facts.is_complete);
  CHECK(result.facts.run.command == run.facts().command);
  CHECK(result.facts.run.exit.kind == ExitState::Kind::kSignalled);
  CHECK(result.facts.run.exit.code == 9);
  CHECK(result.facts.run.end_ns == run.facts().end_ns);
  CHECK(result.facts.run.launch_window_ns == 7'000);
  CHECK(result.facts.run.notes == run.facts().notes);
  REQUIRE(result.facts.processes.size() == 3);
  CHECK(catalog.processes[result.facts.processes[0].process].pid == 5000);
  CHECK(result.facts.processes[0].complete_until_ns == kStart + 77);
  CHECK(result.facts.processes[1].failure == "CUPTI could not initialise");
  CHECK(result.facts.processes[2].process == kNone);
  REQUIRE(result.facts.cupti_failures.size() == 1);
  CHECK(result.facts.cupti_failures[0].function == "cuptiActivityEnable");
  CHECK(result.facts.untraced.dropped == 1000);
  CHECK(result.facts.untraced.malformed == 2);
  CHECK(result.facts.untraced.nvtx_unbalanced == 4);
  std::uint64_t untimed = 0;
  for (const Operation& operation : run.records.operations)
    untimed += operation.start == UINT64_MAX ? 1 : 0;
  CHECK(result.facts.untraced.untimed == 1'000'000 - untimed);
  REQUIRE(catalog.processes.size() == 2);
  CHECK(catalog.processes[0].command_line == run.catalog.processes[0].command_line);
  CHECK(catalog.processes[0].hello_clocks.realtime_ns == kStart + 300);
  CHECK(catalog.processes[0].environment == run.catalog.processes[0].environment);
}

Summary summary_of(const Catalog& catalog, const Records& records, const RunFacts& facts,
                   std::span<const ProcessState> states) {
  Timeline timeline(catalog);
  timeline.add(std::span(records.api_calls));
  timeline.add(std::span(records.operations));
  timeline.add(std::span(records.overheads));
  timeline.add(std::span(records.ranges));
  timeline.add_syncs(records.syncs.size());
  for (const auto& [process, loss] : records.losses)
    timeline.add_loss(process, loss.count, loss.from_ns, loss.to_ns);
  Analysis analysis(catalog, timeline, facts.launch_window_ns, facts.end_ns, {});
  return summarize(facts, catalog, timeline, analysis, states);
}

TEST_CASE("what is read back is summed up to the same numbers") {
  const std::uint64_t seed = GENERATE(11U, 12U, 13U, 14U, 15U, 16U);
  CAPTURE(seed);
  RandomRun run(seed);
  run.fill(800);
  Folder folder;
  TraceWriter writer(std::move(*TraceFile::create(folder / "a.pftrace", false)));
  run.write(writer);
  writer.facts(facts_at_end(run.facts(), run.states(), {}, {}));
  REQUIRE(writer.finish().ok());
  const std::string expected =
      to_json(summary_of(run.catalog, run.records, run.facts(), run.states()));

  Catalog catalog;
  Records read;
  const RecordSink sink = sink_into(read);
  const Result<TraceEvents> events = read_events(folder / "a.pftrace", catalog, sink);
  REQUIRE(events.ok());
  const TraceFacts& facts = events.value().facts;
  const std::string again = to_json(summary_of(catalog, read, facts.run, facts.processes));
  CHECK(again.size() > 2000);
  const auto differs = std::mismatch(again.begin(), again.end(), expected.begin(), expected.end());
  CAPTURE(again.substr(static_cast<std::size_t>(differs.first - again.begin()), 100));
  const bool equal = again == expected;
  CHECK(equal);
}

TEST_CASE("a trace that ends anywhere is read as far as it goes") {
  RandomRun run(21);
  run.fill(60);
  Folder folder;
  TraceWriter writer(std::move(*TraceFile::create(folder / "a.pftrace", false)));
  run.write(writer);
  REQUIRE(writer.finish().ok());
  const std::string bytes = content(folder / "a.pftrace");
  std::size_t readable = 0;
  std::size_t before = 0;
  for (std::size_t size = 10; size <= bytes.size(); size += 1 + bytes.size() / 300) {
    std::ofstream(folder / "cut", std::ios::binary) << bytes.substr(0, size);
    Catalog catalog;
    Records read;
    const RecordSink sink = sink_into(read);
    const Result<TraceEvents> events = read_events(folder / "cut", catalog, sink);
    if (!events) {
      REQUIRE(readable == 0);
      REQUIRE_FALSE(events.error().message.empty());
      continue;
    }
    ++readable;
    REQUIRE(events.value().ignored == 0);
    REQUIRE_FALSE(events.value().facts.is_complete);
    const std::size_t count = Describe(catalog).all(read).size();
    REQUIRE(count >= before);
    before = count;
    if (!read.operations.empty()) REQUIRE(events.value().facts.run.end_ns > kStart);
  }
  CHECK(readable > 200);
  CHECK(before > 100);
}

TEST_CASE("damaged traces do no harm") {
  RandomRun run(22);
  run.fill(40);
  Folder folder;
  TraceWriter writer(std::move(*TraceFile::create(folder / "a.pftrace", false)));
  run.write(writer);
  writer.facts(facts_at_end(run.facts(), run.states(), {}, {}));
  REQUIRE(writer.finish().ok());
  const std::string good = content(folder / "a.pftrace");
  std::mt19937_64 random(4);
  int read_whole = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = good;
    for (std::uint64_t n = 1 + random() % 5; n > 0; --n)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bytes.erase(random() % bytes.size(), random() % 60);
    std::ofstream(folder / "fuzz", std::ios::binary) << bytes;
    Catalog catalog;
    Records read;
    const RecordSink sink = sink_into(read);
    const Result<TraceEvents> events = read_events(folder / "fuzz", catalog, sink);
    if (!events) continue;
    read_whole += events.value().is_whole ? 1 : 0;
    // Every index that came out leads somewhere.
    REQUIRE(Describe(catalog).all(read).size() <= 100'000);
    const TraceFacts& facts = events.value().facts;
    REQUIRE_FALSE(to_json(summary_of(catalog, read, facts.run, facts.processes)).empty());
  }
  CHECK(read_whole > 100);
}

TEST_CASE("what is no trace with events says why") {
  Folder folder;
  const auto message = [&](const std::string& bytes) {
    std::ofstream(folder / "x", std::ios::binary) << bytes;
    Catalog catalog;
    const Result<TraceEvents> events = read_events(folder / "x", catalog, {});
    REQUIRE_FALSE(events.ok());
    return events.error().message;
  };
  CHECK(message("").find("is empty") != std::string::npos);
  CHECK(message("hello").find("is not a .pftrace") != std::string::npos);
  CHECK(message(std::string("\x0A\x02\x50\x01", 4)).find("no trace of this profiler") !=
        std::string::npos);
  TraceWriter writer(std::move(*TraceFile::create(folder / "old.pftrace", false)));
  writer.preamble({kStart, 0, 0}, "0.1.0", {});
  writer.facts("{\"run\":{\"layout\":77}}");
  REQUIRE(writer.finish().ok());
  CHECK(message(content(folder / "old.pftrace")).find("layout 77") != std::string::npos);
}

// --- A moment ------------------------------------------------------------------------------------

TEST_CASE("times are read exactly") {
  const auto ns = [](const char* text) { return parse_time(text).value(); };
  CHECK(ns("1.234s") == 1'234'000'000);
  CHECK(ns("250ms") == 250'000'000);
  CHECK(ns("12.5us") == 12'500);
  CHECK(ns("12.5 \xC2\xB5s") == 12'500);
  CHECK(ns("1500ns") == 1500);
  CHECK(ns("0s") == 0);
  CHECK(ns("1.5min") == 90'000'000'000);
  CHECK(ns("9.123456789s") == 9'123'456'789);
  CHECK(ns("1.0000000000000s") == 1'000'000'000);
  for (const char* bad : {"", "s", ".5s", "1.s", "1..2s", "1e3s", "-1s", "1x", "5", "1.5ns",
                          "0.0000000001s", "99999999999999999999s", "9999999999999min"}) {
    INFO(bad);
    const Result<std::uint64_t> time = parse_time(bad);
    REQUIRE_FALSE(time.ok());
    CHECK(time.error().message.find(bad) != std::string::npos);
  }
  CHECK(parse_time("5").error().message.find("5ms") != std::string::npos);
}

TEST_CASE("a moment is explained") {
  Catalog catalog;
  Process entry;
  entry.pid = 4242;
  const ProcessIndex process = catalog.add_process(entry);
  const ThreadIndex thread = catalog.thread(process, 11);
  catalog.threads[thread].name = "main";
  Device device;
  device.name = "NVIDIA H100";
  const QueueIndex queue = catalog.queue({process, catalog.device(process, device), 1, 7, {}});
  const FunctionIndex launch = catalog.api_function(ApiDomain::kRuntime, 211, "cudaLaunchKernel");
  const FunctionIndex sync =
      catalog.api_function(ApiDomain::kRuntime, 165, "cudaDeviceSynchronize");
  RunFacts facts;
  facts.start_ns = kStart;
  facts.end_ns = kStart + 1'000'000;
  facts.launch_window_ns = 10'000;
  Operation first;
  first.start = kStart + 100'000;
  first.end = kStart + 200'000;
  first.queue = queue;
  first.correlation = 1;
  first.function = catalog.kernel_function("first", 0, 0, 0);
  Operation second = first;
  second.start = kStart + 300'000;
  second.end = kStart + 400'000;
  second.correlation = 3;
  second.function = catalog.kernel_function("second", 0, 0, 0);
  Timeline timeline(catalog);
  timeline.add(std::vector<Operation>{first, second});
  timeline.add(std::vector<ApiCall>{
      {kStart + 90'000, kStart + 95'000, thread, launch, 1, 0},
      {kStart + 96'000, kStart + 250'000, thread, sync, 2, 0},
      {kStart + 290'000, kStart + 296'000, thread, launch, 3, 0},
  });
  NvtxRange range;
  range.start = kStart;
  range.end = kStart + 500'000;
  range.thread = range.end_thread = thread;
  range.text = catalog.text("step 1");
  timeline.add(std::span<const NvtxRange>(&range, 1));

  const std::uint64_t at = GENERATE(50'000U, 150'000U, 220'000U, 270'000U, 399'999U, 400'000U);
  GapCollection gaps(kStart + at, kStart + at + 1);
  Analysis analysis(catalog, timeline, facts.launch_window_ns, facts.end_ns, gaps.visitor());
  const std::string text = explain_moment(at, facts, catalog, timeline, analysis, gaps, false);
  CAPTURE(text);
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has("GPU 0, NVIDIA H100: "));
  CHECK(text.back() == '\n');
  switch (at) {
    case 50'000:
      CHECK(has("first work began at 0.000100000 s, 50.0 us later"));
      break;
    case 150'000:
      CHECK(has("busy with one operation"));
      CHECK(
          has("kernel first on stream 7 of context 1, process 4242: from 0.000100000 s to "
              "0.000200000 s (100 us), for 50.0 us by then"));
      CHECK(has("submitted by cudaLaunchKernel of thread 11 (main), from 0.000090000 s"));
      CHECK(has("NVTX: step 1"));
      break;
    case 220'000:
      CHECK(has("idle"));
      CHECK(has("cause: synchronizing, waiting for thread 11 (main); from 0.000200000 s"));
      CHECK(has("opened by cudaDeviceSynchronize"));
      CHECK(has("after kernel first"));
      CHECK(has("ended by kernel second"));
      break;
    case 270'000:
      CHECK(has("cause: CPU code outside CUDA"));
      break;
    case 399'999:
      CHECK(has("kernel second"));
      break;
    default:
      CHECK(has("last work had ended at 0.000400000 s, 0 ns earlier"));
  }
}

}  // namespace
}  // namespace profiler
