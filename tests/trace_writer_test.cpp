// Writer, file and reader of .pftrace: what is written is decoded by libprotobuf and checked as
// Perfetto's importer would see it.
#include "collector/trace_writer.h"

#include <fcntl.h>
#include <google/protobuf/message.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "collector/trace_file.h"
#include "collector/trace_reader.h"
#include "collector/utf8.h"
#include "proto/perfetto_trace.pb.h"
#include "tests/catch.h"
#include "tests/scratch_folder.h"

namespace profiler {
namespace {

namespace pb = perfetto::protos;

constexpr std::uint64_t kStart = 434'567'890'123'456;  // five days of uptime: 7 bytes in a varint
constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kInt64Min = std::uint64_t{1} << 63;

using Folder = test::ScratchFolder;
using test::content;

void put(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Process a_process(std::uint64_t pid) {
  Process process;
  process.pid = pid;
  process.executable = "/opt/bin/train";
  process.command_line = {"./train", "--steps", "50"};
  process.start_ns = kStart - 1000;
  process.driver_version = 13000;
  process.cupti_version = 130001;
  process.cupti_path = "/usr/lib/libcupti.so.13";
  return process;
}

Device a_device(std::uint8_t number) {
  Device device;
  device.ordinal = number;
  device.name = "NVIDIA H100";
  device.uuid.fill(number);
  device.uuid[0] = 0xAB;
  device.has_uuid = true;
  device.memory_bytes = 80ULL << 30;
  device.multiprocessors = 132;
  device.compute_capability_major = 9;
  return device;
}

// A run with one process, thread, device and stream, to which tests add what they need.
class Run {
 public:
  Run() : writer(std::move(*TraceFile::create(folder / "run.pftrace", false))) {
    process = catalog.add_process(a_process(4242));
    thread = catalog.thread(process, 4243);
    catalog.threads[thread].name = "worker";
    device = catalog.device(process, a_device(0));
    queue = catalog.queue({process, device, 1, 7, {}});
    launch = catalog.api_function(ApiDomain::kRuntime, 211, "cudaLaunchKernel_v7000");
    vadd = catalog.kernel_function("_Z4vaddPKfS0_Pfi", 24, 1024, 0);
    writer.preamble({kStart, kStart + 500, 1'700'000'000'000'000'000}, "0.1.0",
                    std::vector<TraceAttribute>{{"command", "./train --steps 50"},
                                                {"answer", std::uint64_t{42}}});
  }

  Operation kernel(std::uint64_t start, std::uint64_t end, std::uint32_t correlation = 0) const {
    Operation operation;
    operation.start = start;
    operation.end = end;
    operation.queue = queue;
    operation.correlation = correlation;
    operation.function = vadd;
    operation.grid[0] = 4096;
    operation.block[0] = 256;
    return operation;
  }
  ApiCall call(std::uint64_t start, std::uint64_t end, std::uint32_t correlation = 0) const {
    return {start, end, thread, launch, correlation, 0};
  }
  void add(const Operation& operation) { writer.operations(catalog, {&operation, 1}); }
  void add(const ApiCall& call) { writer.api_calls(catalog, {&call, 1}); }

  // What has been written, decoded.
  pb::Trace trace() {
    writer.flush();
    pb::Trace trace;
    REQUIRE(trace.ParseFromString(content(writer.path())));
    return trace;
  }

  Folder folder;
  Catalog catalog;
  TraceWriter writer;
  ProcessIndex process = 0;
  ThreadIndex thread = 0;
  DeviceIndex device = 0;
  QueueIndex queue = 0;
  FunctionIndex launch = 0;
  FunctionIndex vadd = 0;
};

// --- What Perfetto's importer expects ------------------------------------------------------------

void require_no_unknown_fields(const google::protobuf::Message& message) {
  const auto* reflection = message.GetReflection();
  REQUIRE(reflection->GetUnknownFields(message).empty());
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const auto* field : fields) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      require_no_unknown_fields(reflection->GetMessage(message, field));
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      require_no_unknown_fields(reflection->GetRepeatedMessage(message, field, i));
    }
  }
}

// The names that a sequence has defined so far.
struct Sequence {
  std::map<std::uint64_t, std::string> categories;
  std::map<std::uint64_t, std::string> event_names;
  std::map<std::uint64_t, std::string> annotation_names;
  std::map<std::uint64_t, std::string> argument_names;
  std::map<std::uint64_t, pb::InternedGraphicsContext> contexts;
  std::map<std::uint64_t, pb::InternedGpuRenderStageSpecification> specifications;
  std::map<std::uint64_t, pb::InternedComputeKernel> kernels;
};

struct Work {
  pb::GpuRenderStageEvent event;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::string name;
  std::string queue;
  std::string stage;
  int category = 0;
  std::int32_t pid = 0;
  pb::InternedComputeKernel kernel;
  std::map<std::string, std::uint64_t> numbers;
  std::map<std::string, std::string> texts;
};

struct Slice {
  std::uint64_t track = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::size_t depth = 0;
  std::string name;
  std::vector<std::uint64_t> submitted;
  std::map<std::string, std::uint64_t> annotations;
};

struct Imported {
  std::map<std::uint32_t, Sequence> sequences;
  std::vector<Work> work;
  std::vector<Slice> slices;  // in order of their begin
  std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, double>>> counters;
  std::map<std::uint64_t, pb::TrackDescriptor> tracks;
  std::map<std::string, std::string> attributes;
  pb::GpuInfo gpus;

  const pb::TrackDescriptor& track(const std::string& name) const {
    for (const auto& [uuid, descriptor] : tracks) {
      if (descriptor.name() == name) return descriptor;
    }
    FAIL("no track is named " << name);
    return tracks.begin()->second;
  }
  std::vector<Slice> on(const std::string& name) const {
    std::vector<Slice> result;
    for (const Slice& slice : slices) {
      if (slice.track == track(name).uuid()) result.push_back(slice);
    }
    return result;
  }
};

template <typename Map, typename Entry>
void define(Map& map, const Entry& entry, const typename Map::mapped_type& value) {
  REQUIRE(entry.iid() != 0);
  INFO("an iid is never defined twice");
  REQUIRE(map.emplace(entry.iid(), value).second);
}

void define_all(Sequence& sequence, const pb::InternedData& data) {
  for (const auto& entry : data.event_categories())
    define(sequence.categories, entry, entry.name());
  for (const auto& entry : data.event_names()) define(sequence.event_names, entry, entry.name());
  for (const auto& entry : data.debug_annotation_names())
    define(sequence.annotation_names, entry, entry.name());
  for (const auto& entry : data.compute_arg_names())
    define(sequence.argument_names, entry, entry.name());
  for (const auto& entry : data.graphics_contexts()) define(sequence.contexts, entry, entry);
  for (const auto& entry : data.gpu_specifications()) define(sequence.specifications, entry, entry);
  for (const auto& entry : data.compute_kernels()) define(sequence.kernels, entry, entry);
}

void add_argument(const Sequence& sequence,
                  const pb::GpuRenderStageEvent::ExtraComputeArg& argument, Work& work) {
  const std::string& name = sequence.argument_names.at(argument.name_iid());
  if (argument.has_string_value()) {
    REQUIRE(work.texts.emplace(name, argument.string_value()).second);
  } else {
    REQUIRE(argument.has_uint_value());
    REQUIRE(work.numbers.emplace(name, argument.uint_value()).second);
  }
}

Work import_work(const pb::TracePacket& packet, const Sequence& sequence) {
  Work work;
  work.event = packet.gpu_render_stage_event();
  const auto& event = work.event;
  REQUIRE(event.has_event_id());
  work.start = packet.timestamp();
  work.end = work.start + event.duration();
  const auto& stage = sequence.specifications.at(event.stage_iid());
  work.stage = stage.name();
  work.category = stage.category();
  work.queue = sequence.specifications.at(event.hw_queue_iid()).name();
  REQUIRE(event.hw_queue_iid() != event.stage_iid());
  work.name = event.has_name_iid() ? sequence.event_names.at(event.name_iid()) : stage.name();
  const auto& context = sequence.contexts.at(event.context());
  CHECK(context.api() == pb::GPU_API_CUDA);
  work.pid = context.pid();
  if (event.has_kernel_iid()) {
    work.kernel = sequence.kernels.at(event.kernel_iid());
    for (const auto& argument : work.kernel.args()) add_argument(sequence, argument, work);
  }
  for (const auto& argument : event.launch().args()) add_argument(sequence, argument, work);
  return work;
}

// Reads a trace as the importer does, and fails on everything that it would complain about.
Imported import_trace(const pb::Trace& trace) {
  require_no_unknown_fields(trace);
  REQUIRE(trace.packet_size() > 0);
  REQUIRE(trace.packet(0).has_clock_snapshot());
  Imported result;
  struct Event {
    std::uint64_t time;
    std::uint32_t sequence;
    const pb::TrackEvent* event;
  };
  std::vector<Event> events;
  std::map<std::pair<int, std::int64_t>, std::uint64_t> thread_tracks;
  std::map<int, std::uint64_t> process_tracks;
  for (const pb::TracePacket& packet : trace.packet()) {
    const std::uint32_t id = packet.trusted_packet_sequence_id();
    REQUIRE(id != 0);
    const bool is_first = !result.sequences.contains(id);
    const bool is_cleared =
        (packet.sequence_flags() & pb::TracePacket::SEQ_INCREMENTAL_STATE_CLEARED) != 0;
    const bool needs_state =
        (packet.sequence_flags() & pb::TracePacket::SEQ_NEEDS_INCREMENTAL_STATE) != 0;
    REQUIRE(is_first == is_cleared);
    if (is_first) {
      REQUIRE(packet.trace_packet_defaults().timestamp_clock_id() == pb::BUILTIN_CLOCK_MONOTONIC);
    }
    Sequence& sequence = result.sequences[id];
    if (packet.has_interned_data()) {
      REQUIRE((needs_state || is_cleared));
      define_all(sequence, packet.interned_data());
    }
    if (packet.has_track_descriptor()) {
      const auto& track = packet.track_descriptor();
      REQUIRE(track.uuid() != 0);
      if (track.has_parent_uuid()) REQUIRE(result.tracks.contains(track.parent_uuid()));
      // A second track for one process or thread would be taken for a reused id.
      if (track.has_process()) {
        REQUIRE(process_tracks.emplace(track.process().pid(), track.uuid()).first->second ==
                track.uuid());
      }
      if (track.has_thread()) {
        const std::pair key{track.thread().pid(), track.thread().tid()};
        REQUIRE(thread_tracks.emplace(key, track.uuid()).first->second == track.uuid());
      }
      result.tracks[track.uuid()] = track;
    }
    for (const auto& attribute : packet.trace_attributes().attribute()) {
      const std::string value = attribute.has_string_value()
                                    ? attribute.string_value()
                                    : std::to_string(attribute.long_value());
      REQUIRE(result.attributes.emplace(attribute.key(), value).second);
    }
    if (packet.has_gpu_info()) result.gpus = packet.gpu_info();
    if (packet.has_gpu_render_stage_event()) {
      REQUIRE(needs_state);
      REQUIRE(packet.has_timestamp());
      result.work.push_back(import_work(packet, sequence));
      REQUIRE(result.work.back().event.gpu_id() < result.gpus.gpus_size());
    }
    if (packet.has_track_event()) {
      const auto& event = packet.track_event();
      REQUIRE(packet.has_timestamp());
      REQUIRE(result.tracks.contains(event.track_uuid()));
      const bool uses_iids = event.has_name_iid() || event.category_iids_size() > 0;
      REQUIRE((!uses_iids || needs_state));
      if (event.has_name_iid()) REQUIRE(sequence.event_names.contains(event.name_iid()));
      for (const auto iid : event.category_iids()) REQUIRE(sequence.categories.contains(iid));
      for (const auto& annotation : event.debug_annotations()) {
        REQUIRE(
            (annotation.has_name() || sequence.annotation_names.contains(annotation.name_iid())));
      }
      events.push_back({packet.timestamp(), id, &event});
    }
  }

  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.time < b.time; });
  std::map<std::uint64_t, std::vector<std::size_t>> open;
  for (const Event& entry : events) {
    const Sequence& sequence = result.sequences.at(entry.sequence);
    const std::uint64_t track = entry.event->track_uuid();
    switch (entry.event->type()) {
      case pb::TrackEvent::TYPE_SLICE_BEGIN: {
        Slice slice;
        slice.track = track;
        slice.start = entry.time;
        slice.depth = open[track].size();
        slice.name = sequence.event_names.at(entry.event->name_iid());
        const auto& ids = entry.event->gpu_correlation().render_stage_submission_event_ids();
        slice.submitted.assign(ids.begin(), ids.end());
        CHECK(entry.event->has_gpu_api() == entry.event->has_gpu_correlation());
        for (const auto& annotation : entry.event->debug_annotations()) {
          slice.annotations[sequence.annotation_names.at(annotation.name_iid())] =
              annotation.uint_value();
        }
        open[track].push_back(result.slices.size());
        result.slices.push_back(slice);
        break;
      }
      case pb::TrackEvent::TYPE_SLICE_END:
        REQUIRE_FALSE(open[track].empty());
        result.slices[open[track].back()].end = entry.time;
        open[track].pop_back();
        break;
      case pb::TrackEvent::TYPE_COUNTER:
        REQUIRE(result.tracks.at(track).has_counter());
        result.counters[track].emplace_back(entry.time, entry.event->double_counter_value());
        break;
      default:
        break;
    }
  }
  for (const auto& [track, slices] : open) REQUIRE(slices.empty());
  return result;
}

// --- The trace -----------------------------------------------------------------------------------

TEST_CASE("a trace without records is valid and says what it is") {
  Run run;
  const Imported trace = import_trace(run.trace());
  CHECK(trace.work.empty());
  CHECK(trace.slices.empty());
  CHECK(trace.attributes.at("profiler_version") == "0.1.0");
  CHECK(trace.attributes.at("command") == "./train --steps 50");
  CHECK(trace.attributes.at("answer") == "42");

  const auto clocks = run.trace().packet(0).clock_snapshot();
  CHECK(clocks.primary_trace_clock() == pb::BUILTIN_CLOCK_MONOTONIC);
  REQUIRE(clocks.clocks_size() == 3);
  CHECK(clocks.clocks(0).clock_id() == pb::BUILTIN_CLOCK_MONOTONIC);
  CHECK(clocks.clocks(0).timestamp() == kStart);
  CHECK(clocks.clocks(1).clock_id() == pb::BUILTIN_CLOCK_BOOTTIME);
  CHECK(clocks.clocks(1).timestamp() == kStart + 500);
  CHECK(clocks.clocks(2).clock_id() == pb::BUILTIN_CLOCK_REALTIME);
  CHECK(content(run.writer.path())[0] == '\x0A');
}

TEST_CASE("a kernel and its launch, with everything that Perfetto's GPU views look for") {
  Run run;
  Operation kernel = run.kernel(kStart + 5000, kStart + 5900, 19);
  kernel.grid[1] = 2;
  kernel.dynamic_shared_bytes = 512;
  run.add(run.call(kStart + 1000, kStart + 1700, 19));
  run.add(kernel);
  const Imported trace = import_trace(run.trace());

  REQUIRE(trace.work.size() == 1);
  const Work& work = trace.work[0];
  CHECK(work.start == kStart + 5000);
  CHECK(work.end == kStart + 5900);
  CHECK(work.name == run.catalog.kernel_functions[run.vadd].short_name);
  CHECK(work.queue == "Stream 7 (train 4242)");
  CHECK(work.stage == "Kernel");
  CHECK(work.category == pb::InternedGpuRenderStageSpecification::COMPUTE);
  CHECK(work.pid == 4242);
  CHECK(work.kernel.name() == "_Z4vaddPKfS0_Pfi");
  CHECK(work.kernel.demangled_name() == run.catalog.kernel_functions[run.vadd].name);
  CHECK(work.kernel.arch() == "sm_90");
  CHECK(work.numbers == std::map<std::string, std::uint64_t>{{"device", 0},
                                                             {"stream", 7},
                                                             {"grid_size", 8192},
                                                             {"workgroup_size", 256},
                                                             {"registers_per_thread", 24},
                                                             {"shared_mem_static", 1024},
                                                             {"shared_mem_dynamic", 512},
                                                             {"local_mem_per_thread", 0},
                                                             {"process_id", 4242}});
  CHECK(work.texts == std::map<std::string, std::string>{{"process_name", "train"}});
  CHECK(work.event.launch().grid_size().x() == 4096);
  CHECK(work.event.launch().grid_size().y() == 2);
  CHECK_FALSE(work.event.launch().grid_size().has_z());
  CHECK(work.event.launch().workgroup_size().x() == 256);

  REQUIRE(trace.slices.size() == 1);
  CHECK(trace.slices[0].name == "cudaLaunchKernel");
  CHECK(trace.slices[0].start == kStart + 1000);
  CHECK(trace.slices[0].end == kStart + 1700);
  CHECK(trace.slices[0].submitted == std::vector<std::uint64_t>{work.event.event_id()});
  CHECK(trace.slices[0].annotations.empty());

  const auto& thread = trace.tracks.at(trace.slices[0].track).thread();
  CHECK(thread.pid() == 4242);
  CHECK(thread.tid() == 4243);
  CHECK(thread.thread_name() == "worker");
  REQUIRE(trace.gpus.gpus_size() == 1);
  CHECK(trace.gpus.gpus(0).name() == "NVIDIA H100");
  CHECK(trace.gpus.gpus(0).architecture() == "sm_90");
  CHECK(trace.gpus.gpus(0).uuid() ==
        std::string(run.catalog.devices[0].uuid.begin(), run.catalog.devices[0].uuid.end()));
  CHECK(trace.attributes.at("driver_version") == "13000");
  CHECK(trace.attributes.at("cupti_version") == "130001");
  CHECK_FALSE(trace.attributes.contains("simulated"));
}

TEST_CASE("what is simulated says so") {
  Run run;
  run.catalog.processes[run.process].simulated = true;
  run.catalog.processes[run.process].simulated_model = "h100";
  run.catalog.devices[run.device].name = "Simulated NVIDIA H100";
  run.add(run.kernel(kStart, kStart + 1));
  run.writer.attributes(std::vector<TraceAttribute>{{"simulated", std::uint64_t{0}}});
  const Imported trace = import_trace(run.trace());
  CHECK(trace.attributes.at("simulated") == "1");
  CHECK(trace.attributes.at("simulated_model") == "h100");
  CHECK(trace.gpus.gpus(0).name() == "Simulated NVIDIA H100");
}

TEST_CASE("operations that overlap on one stream keep their times") {  // E1, E3
  const auto [first, second, third] =
      GENERATE(table<std::pair<int, int>, std::pair<int, int>, std::pair<int, int>>(
          {{{3000, 6776}, {5000, 7000}, {8000, 8001}}, {{0, 300}, {100, 400}, {200, 500}}}));
  Run run;
  const std::vector<std::pair<int, int>> times = {first, second, third};
  std::uint32_t correlation = 0;
  for (const auto& [start, end] : times) {
    run.add(run.kernel(kStart + static_cast<std::uint64_t>(start),
                       kStart + static_cast<std::uint64_t>(end), ++correlation));
  }
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.work.size() == times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    CHECK(trace.work[i].start == kStart + static_cast<std::uint64_t>(times[i].first));
    CHECK(trace.work[i].end == kStart + static_cast<std::uint64_t>(times[i].second));
    CHECK(trace.work[i].event.hw_queue_iid() == trace.work[0].event.hw_queue_iid());
  }
}

TEST_CASE("adjacent, short and empty operations stay what they are") {  // E4, E35, E46
  Run run;
  run.add(run.kernel(kStart, kStart + 104562, 1));
  run.add(run.kernel(kStart + 104562, kStart + 209124, 2));
  run.add(run.kernel(kStart + 300000, kStart + 300900, 3));
  run.add(run.kernel(kStart + 301000, kStart + 301900, 4));
  const std::vector<Operation> empty(100, run.kernel(kStart + 400000, kStart + 400000, 5));
  run.writer.operations(run.catalog, empty);
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.work.size() == 104);
  CHECK(trace.work[0].end == trace.work[1].start);
  CHECK(trace.work[2].event.duration() == 900);
  CHECK(trace.work[3].start - trace.work[2].end == 100);
  for (std::size_t i = 4; i < trace.work.size(); ++i) {
    CHECK(trace.work[i].event.has_duration());
    CHECK(trace.work[i].event.duration() == 0);
    CHECK(trace.work[i].start == kStart + 400000);
  }
}

TEST_CASE("records without valid times are left out and counted") {  // E5, E6, E8
  const auto [start, end] =
      GENERATE(table<std::uint64_t, std::uint64_t>({{kStart, 0},
                                                    {0, 0},
                                                    {0, kStart},
                                                    {kInt64Min, kInt64Min},
                                                    {UINT64_MAX, UINT64_MAX},
                                                    {kStart, UINT64_MAX},
                                                    {kStart + 2, kStart + 1},
                                                    {kStart, kInt64Min + 5}}));
  Run run;
  run.add(run.kernel(start, end, 106123));
  run.add(run.call(start, end, 106123));
  run.add(run.kernel(kStart + 10, kStart + 20, 2));
  CHECK(run.writer.left_out() == 2);
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.work.size() == 1);
  CHECK(trace.work[0].start == kStart + 10);
  CHECK(trace.slices.empty());
}

TEST_CASE("records of unknown queues, threads and functions") {
  Run run;
  Operation lost = run.kernel(kStart, kStart + 1);
  lost.queue = kNone;
  run.add(lost);
  ApiCall lost_call = run.call(kStart, kStart + 1);
  lost_call.thread = kNone;
  run.add(lost_call);
  CHECK(run.writer.left_out() == 2);

  Operation nameless = run.kernel(kStart, kStart + 1);
  nameless.function = kNone;
  run.add(nameless);
  ApiCall nameless_call = run.call(kStart, kStart + 1, 8);
  nameless_call.function = kNone;
  run.add(nameless_call);
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.work.size() == 1);
  CHECK(trace.work[0].name == "Kernel");
  CHECK(trace.work[0].numbers.at("device") == 0);
  REQUIRE(trace.slices.size() == 1);
  CHECK(trace.slices[0].name == "CUDA call");
  CHECK(trace.slices[0].submitted == std::vector<std::uint64_t>{8});
}

TEST_CASE("one graph launch has arrows to all of its kernels") {
  Run run;
  ApiCall launch = run.call(kStart, kStart + 100, 9);
  launch.function = run.catalog.api_function(ApiDomain::kRuntime, 311, "cudaGraphLaunch_v10000");
  run.add(launch);
  for (std::uint64_t node = 1; node <= 2; ++node) {
    Operation kernel = run.kernel(kStart + 1000 * node, kStart + 1000 * node + 10, 9);
    kernel.graph = 2;
    kernel.graph_node = node;
    run.add(kernel);
  }
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.work.size() == 2);
  REQUIRE(trace.slices.size() == 1);
  for (const Work& work : trace.work) {
    CHECK(trace.slices[0].submitted == std::vector<std::uint64_t>{work.event.event_id()});
    CHECK(work.numbers.at("graph") == 2);
  }
  CHECK(trace.work[1].numbers.at("graph_node") == 2);
}

TEST_CASE("two processes with equal ids share a device and nothing else") {
  Run run;
  const ProcessIndex other = run.catalog.add_process(a_process(5000));
  REQUIRE(run.catalog.device(other, a_device(0)) == run.device);
  const QueueIndex other_queue = run.catalog.queue({other, run.device, 1, 7, {}});
  const ThreadIndex other_thread = run.catalog.thread(other, 4243);
  run.add(run.call(kStart, kStart + 10, 19));
  run.add(run.kernel(kStart + 20, kStart + 30, 19));
  ApiCall call = run.call(kStart, kStart + 10, 19);
  call.thread = other_thread;
  run.add(call);
  Operation kernel = run.kernel(kStart + 20, kStart + 30, 19);
  kernel.queue = other_queue;
  run.add(kernel);

  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.work.size() == 2);
  CHECK(trace.work[0].pid == 4242);
  CHECK(trace.work[1].pid == 5000);
  CHECK(trace.work[0].event.gpu_id() == trace.work[1].event.gpu_id());
  CHECK(trace.work[0].event.hw_queue_iid() != trace.work[1].event.hw_queue_iid());
  CHECK(trace.work[0].queue != trace.work[1].queue);
  CHECK(trace.work[0].event.context() != trace.work[1].event.context());
  CHECK(trace.work[0].event.event_id() != trace.work[1].event.event_id());
  REQUIRE(trace.slices.size() == 2);
  CHECK(trace.slices[0].track != trace.slices[1].track);
  CHECK(trace.slices[0].submitted == std::vector<std::uint64_t>{trace.work[0].event.event_id()});
  CHECK(trace.slices[1].submitted == std::vector<std::uint64_t>{trace.work[1].event.event_id()});
  CHECK(trace.gpus.gpus_size() == 1);
}

TEST_CASE("devices, contexts and streams have lanes of their own") {
  Run run;
  std::set<std::uint64_t> queues;
  std::set<std::uint64_t> contexts;
  std::vector<std::string> names;
  const DeviceIndex second = run.catalog.device(run.process, a_device(1));
  for (const Queue& queue :
       {Queue{run.process, run.device, 1, 7, {}}, Queue{run.process, run.device, 1, 13, {}},
        Queue{run.process, run.device, 2, 7, {}}, Queue{run.process, second, 3, 7, {}}}) {
    Operation kernel = run.kernel(kStart, kStart + 5);
    kernel.queue = run.catalog.queue(queue);
    run.add(kernel);
  }
  const Imported trace = import_trace(run.trace());
  for (const Work& work : trace.work) {
    queues.insert(work.event.hw_queue_iid());
    contexts.insert(work.event.context());
    names.push_back(work.queue);
  }
  CHECK(queues.size() == 4);
  CHECK(contexts == std::set<std::uint64_t>{1, 2, 3});
  CHECK(names == std::vector<std::string>{"Stream 7 (train 4242)", "Stream 13 (train 4242)",
                                          "Stream 7 (train 4242, context 2)",
                                          "Stream 7 (train 4242)"});
  CHECK(trace.work[3].event.gpu_id() == 1);
  CHECK(trace.work[3].numbers.at("device") == 1);
  CHECK(trace.gpus.gpus_size() == 2);
}

TEST_CASE("copies and sets") {
  Run run;
  Operation copy = run.kernel(kStart + 100, kStart + 2100, 23);
  copy.kind = OperationKind::kMemcpy;
  copy.function = kNone;
  copy.bytes = 4'194'304;
  copy.copy_kind = 1;
  copy.source_kind = 1;
  copy.destination_kind = 3;
  run.add(copy);
  copy.copy_kind = 200;  // from a CUPTI that knows more kinds
  run.add(copy);
  Operation set = copy;
  set.kind = OperationKind::kMemset;
  set.value = 255;
  run.add(set);
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.work.size() == 3);
  CHECK(trace.work[0].name == "Memcpy HtoD (pageable -> device)");
  CHECK(trace.work[0].stage == "Memcpy HtoD");
  CHECK(trace.work[0].category == pb::InternedGpuRenderStageSpecification::OTHER);
  CHECK_FALSE(trace.work[0].event.has_kernel_iid());
  CHECK(
      trace.work[0].numbers ==
      std::map<std::string, std::uint64_t>{
          {"device", 0}, {"stream", 7}, {"bytes", 4'194'304}, {"megabytes_per_second", 2'097'152}});
  CHECK(trace.work[1].stage == "Memcpy unknown");
  CHECK(trace.work[2].name == "Memset");
  CHECK(trace.work[2].numbers.at("value") == 255);
  CHECK(trace.work[2].numbers.at("bytes") == 4'194'304);
}

TEST_CASE("calls in order of completion nest as they were made") {
  Run run;
  const auto function = [&](const char* name) {
    return run.catalog.api_function(ApiDomain::kDriver, 1, name);
  };
  const FunctionIndex parent = function("cudaParent");
  const FunctionIndex child = function("cuChild");
  const FunctionIndex next = function("cuNext");
  std::vector<ApiCall> calls = {
      {kStart, kStart + 50, run.thread, child, 0, 0},       // begins with its parent
      {kStart + 50, kStart + 100, run.thread, next, 0, 0},  // ends with it
      {kStart, kStart + 100, run.thread, parent, 0, 0},
      {kStart + 100, kStart + 130, run.thread, next, 0, 0},   // begins as the last one ends
      {kStart + 200, kStart + 220, run.thread, child, 0, 0},  // same time as its parent
      {kStart + 200, kStart + 220, run.thread, parent, 0, 0},
  };
  run.writer.api_calls(run.catalog, calls);
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.slices.size() == calls.size());
  struct Expected {
    const char* name;
    std::uint64_t start, end;
    std::size_t depth;
  };
  const Expected expected[] = {{"cudaParent", 0, 100, 0},   {"cuChild", 0, 50, 1},
                               {"cuNext", 50, 100, 1},      {"cuNext", 100, 130, 0},
                               {"cudaParent", 200, 220, 0}, {"cuChild", 200, 220, 1}};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    INFO(i);
    CHECK(trace.slices[i].name == expected[i].name);
    CHECK(trace.slices[i].start == kStart + expected[i].start);
    CHECK(trace.slices[i].end == kStart + expected[i].end);
    CHECK(trace.slices[i].depth == expected[i].depth);
  }
}

TEST_CASE("a caller that ends in a later batch still comes before what it called") {
  Run run;
  const FunctionIndex driver = run.catalog.api_function(ApiDomain::kDriver, 307, "cuLaunchKernel");
  const ApiCall inner{kStart, kStart + 50, run.thread, driver, 5, 0};
  run.add(inner);
  run.add(run.call(kStart, kStart + 100, 5));
  run.add(run.call(kStart + 100, kStart + 110, 6));
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.slices.size() == 3);
  CHECK(trace.slices[0].name == "cudaLaunchKernel");
  CHECK(trace.slices[0].end == kStart + 100);
  CHECK(trace.slices[1].name == "cuLaunchKernel");
  CHECK(trace.slices[1].end == kStart + 50);
  CHECK(trace.slices[1].depth == 1);
  // They share an id: the arrow begins at the outer one.
  CHECK(trace.slices[0].submitted == std::vector<std::uint64_t>{5});
  CHECK(trace.slices[1].submitted.empty());
  CHECK(trace.slices[2].depth == 0);
}

TEST_CASE("NVTX ranges enclose the calls of their thread, and marks stand on it") {
  Run run;
  NvtxRange range;
  range.start = kStart;
  range.end = kStart + 100;
  range.thread = range.end_thread = run.thread;
  range.text = run.catalog.text("step");
  NvtxRange other = range;  // of a domain whose ranges cross those of the first
  other.start = kStart + 50;
  other.end = kStart + 150;
  other.domain = run.catalog.nvtx_domain("NCCL");
  NvtxRange loose = range;
  loose.is_nested = false;
  loose.start = kStart + 20;
  loose.end = kStart + 140;
  loose.end_thread = run.catalog.thread(run.process, 9);
  NvtxEvent mark;
  mark.kind = NvtxKind::kMark;
  mark.time = kStart + 60;
  mark.thread = run.thread;
  mark.text = run.catalog.text("here");
  run.add(run.call(kStart, kStart + 100, 1));
  run.writer.nvtx_ranges(run.catalog, std::vector<NvtxRange>{other, range, loose});
  run.writer.nvtx_marks(run.catalog, {&mark, 1});
  const pb::Trace bytes = run.trace();
  const Imported trace = import_trace(bytes);
  REQUIRE(trace.slices.size() == 4);
  std::map<std::string, std::vector<Slice>> by_track;
  for (const Slice& slice : trace.slices) {
    const auto& track = trace.tracks.at(slice.track);
    by_track[track.has_thread() ? "thread" : track.name()].push_back(slice);
  }
  REQUIRE(by_track["thread"].size() == 2);
  CHECK(by_track["thread"][0].name == "step");
  CHECK(by_track["thread"][0].depth == 0);
  CHECK(by_track["thread"][0].end == kStart + 100);
  CHECK(by_track["thread"][1].name == "cudaLaunchKernel");
  CHECK(by_track["thread"][1].depth == 1);
  REQUIRE(by_track["NVTX NCCL (worker)"].size() == 1);
  CHECK(by_track["NVTX NCCL (worker)"][0].end == kStart + 150);
  REQUIRE(by_track["NVTX start/end"].size() == 1);
  CHECK(by_track["NVTX start/end"][0].annotations ==
        std::map<std::string, std::uint64_t>{{"thread", 4243}, {"end_thread", 9}});
  int marks = 0;
  for (const auto& packet : bytes.packet())
    marks += packet.timestamp() == kStart + 60 &&
             packet.track_event().type() == pb::TrackEvent::TYPE_INSTANT;
  CHECK(marks == 1);
}

TEST_CASE("waits, overhead and holes that overlap have tracks of one name, and keep their times") {
  Run run;
  run.add(run.call(kStart, kStart + 1));
  std::vector<SyncRecord> syncs;
  std::vector<OverheadRecord> overheads;
  for (const auto& [start, end] :
       {std::pair{20, 60}, std::pair{10, 30}, std::pair{60, 70}, std::pair{0, 9}}) {
    SyncRecord sync;
    sync.start = kStart + static_cast<std::uint64_t>(start);
    sync.end = kStart + static_cast<std::uint64_t>(end);
    sync.kind = SyncKind::kStream;
    sync.process = run.process;
    sync.correlation = 9;
    sync.stream = 7;
    syncs.push_back(sync);
    overheads.push_back({sync.start, sync.end, OverheadKind::kLazyFunctionLoading, run.thread, 0});
    run.writer.hole(run.process, sync.start, sync.end, 3);
  }
  run.writer.syncs(run.catalog, syncs);
  run.writer.overheads(run.catalog, overheads);
  const Imported trace = import_trace(run.trace());
  std::map<std::string, std::set<std::uint64_t>> tracks;
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::uint64_t>>> times;
  for (const Slice& slice : trace.slices) {
    const std::string& name = trace.tracks.at(slice.track).name();
    tracks[name].insert(slice.track);
    times[name].emplace_back(slice.start - kStart, slice.end - kStart);
    CHECK(slice.depth == 0);
  }
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> expected = {
      {0, 9}, {10, 30}, {20, 60}, {60, 70}};
  for (const char* name : {"CUDA synchronization", "overhead (worker)", "not recorded"}) {
    INFO(name);
    CHECK(tracks[name].size() == 2);
    CHECK(times[name] == expected);
  }
}

TEST_CASE("a nested driver record costs at most 50 bytes") {
  const auto write = [](bool nested) {
    Run run;
    const FunctionIndex driver =
        run.catalog.api_function(ApiDomain::kDriver, 307, "cuLaunchKernel");
    for (std::uint64_t i = 0; i < 50'000; ++i) {
      const std::uint64_t at = kStart + 10'000 * i;
      const auto correlation = static_cast<std::uint32_t>(100'000 + i);
      if (nested) run.add(ApiCall{at + 500, at + 4000, run.thread, driver, correlation, 0});
      run.add(run.call(at, at + 4200, correlation));
    }
    run.writer.flush();
    return run.writer.bytes();
  };
  const double bytes = static_cast<double>(write(true) - write(false)) / 50'000;
  CAPTURE(bytes);
  CHECK(bytes <= 50);
  CHECK(bytes > 20);
}

TEST_CASE("random nested calls are read back exactly, whatever their order in a batch") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 20; ++round) {
    Run run;
    // A tree of calls: each has children within it, one after the other, often touching.
    std::vector<ApiCall> calls;
    const auto grow = [&](auto&& self, std::uint64_t begin, std::uint64_t end, int depth) -> void {
      std::uint64_t at = begin;
      while (at < end && calls.size() < 200) {
        const std::uint64_t from = at + random() % 3;
        const std::uint64_t to = from + 1 + random() % 40;
        if (to > end) break;
        const std::string name = "cuCall" + std::to_string(calls.size());
        calls.push_back({kStart + from, kStart + to, run.thread,
                         run.catalog.api_function(ApiDomain::kDriver, 2, name), 0, 0});
        if (depth > 0 && to - from > 1) self(self, from, to - 1, depth - 1);
        at = to + random() % 2;
      }
    };
    grow(grow, 0, 400, 3);
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> expected;
    for (const ApiCall& call : calls) {
      expected[run.catalog.api_functions[call.function].name] = {call.start, call.end};
    }
    std::shuffle(calls.begin(), calls.end(), random);
    run.writer.api_calls(run.catalog, calls);
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> read;
    for (const Slice& slice : import_trace(run.trace()).slices) {
      read[slice.name] = {slice.start, slice.end};
    }
    REQUIRE(expected.size() > 5);
    REQUIRE(read == expected);
  }
}

TEST_CASE("failed calls carry their code, and only calls that can submit work have arrows") {
  Run run;
  ApiCall failed = run.call(kStart, kStart + 1, 5);
  failed.result = 719;
  run.add(failed);
  ApiCall sync = run.call(kStart + 10, kStart + 20, 6);
  sync.function = run.catalog.api_function(ApiDomain::kRuntime, 165, "cudaDeviceSynchronize_v3020");
  run.add(sync);
  ApiCall copy = run.call(kStart + 30, kStart + 40, 7);
  copy.function = run.catalog.api_function(ApiDomain::kDriver, 276, "cuMemcpyHtoD_v2");
  run.add(copy);
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.slices.size() == 3);
  CHECK(trace.slices[0].annotations == std::map<std::string, std::uint64_t>{{"result", 719}});
  CHECK(trace.slices[0].submitted == std::vector<std::uint64_t>{5});
  CHECK(trace.slices[1].submitted.empty());
  CHECK(trace.slices[2].submitted == std::vector<std::uint64_t>{7});
}

TEST_CASE("a thread that is renamed keeps its track") {
  Run run;
  run.add(run.call(kStart, kStart + 1));
  run.catalog.threads[run.thread].name = "pt_autograd_0";
  run.writer.thread(run.catalog, run.thread);
  run.writer.thread(run.catalog, run.thread);
  run.writer.process(run.catalog, run.process);
  const Imported trace = import_trace(run.trace());
  CHECK(trace.tracks.size() == 3);  // with that of the facts
  CHECK(trace.tracks.at(trace.slices[0].track).thread().thread_name() == "pt_autograd_0");
}

TEST_CASE("gaps and busy counters stand under their device") {
  Run run;
  run.writer.gap(run.catalog, run.device, kStart + 10, kStart + 50, "host");
  run.writer.gap(run.catalog, run.device, kStart + 50, kStart + 60, "launch latency");
  run.writer.gap(run.catalog, run.device, kStart + 60, kStart + 60, "empty");
  run.writer.gap(run.catalog, run.device, kStart + 100, kStart + 200, "host");
  run.writer.busy_percent(run.catalog, run.device, kStart, 37.5);
  run.writer.busy_percent(run.catalog, run.device, kStart + 100 * kMs, 0);
  const Imported trace = import_trace(run.trace());

  const std::vector<Slice> gaps = trace.on("Idle");
  REQUIRE(gaps.size() == 3);
  CHECK(gaps[0].name == "host");
  CHECK(gaps[0].start == kStart + 10);
  CHECK(gaps[0].end == kStart + 50);
  CHECK(gaps[1].name == "launch latency");
  CHECK(gaps[1].depth == 0);
  CHECK(gaps[1].end == kStart + 60);
  CHECK(gaps[2].end - gaps[2].start == 100);
  const auto& group = trace.track("GPU 0: NVIDIA H100");
  CHECK(trace.track("Idle").parent_uuid() == group.uuid());
  CHECK(contains(trace.track("Idle").description(), "ran nothing"));
  const auto& busy = trace.track("Busy");
  CHECK(busy.parent_uuid() == group.uuid());
  CHECK(busy.counter().unit_name() == "%");
  CHECK(trace.counters.at(busy.uuid()) ==
        std::vector<std::pair<std::uint64_t, double>>{{kStart, 37.5}, {kStart + 100 * kMs, 0.0}});
}

TEST_CASE("any name is written whole, as UTF-8") {  // E29
  const auto [raw, expected] = GENERATE(table<std::string, std::string>(
      {{"quote \" backslash \\ newline \n", "quote \" backslash \\ newline \n"},
       {"control \x01 end", "control \x01 end"},
       {"bad \xFF\xC3( end", "bad \xEF\xBF\xBD\xEF\xBF\xBD( end"},
       {"override \xE2\x80\xAE end", "override \xE2\x80\xAE end"},
       {std::string(512 * 1024, 'n') + "1", std::string(512 * 1024, 'n') + "1"},
       {std::string(512 * 1024, '\xFF'), [] {
          std::string text;
          for (int i = 0; i < 512 * 1024; ++i) text += "\xEF\xBF\xBD";
          return text;
        }()}}));
  Run run;
  KernelFunction function;
  function.mangled = raw;
  function.name = raw;
  function.short_name = raw;
  run.catalog.kernel_functions.push_back(function);
  run.catalog.threads[run.thread].name = raw;
  Operation kernel = run.kernel(kStart, kStart + 1, 1);
  kernel.function = static_cast<FunctionIndex>(run.catalog.kernel_functions.size() - 1);
  run.add(kernel);
  run.add(run.call(kStart, kStart + 1));
  run.add(run.kernel(kStart + 2, kStart + 3, 2));
  const Imported trace = import_trace(run.trace());
  REQUIRE(trace.work.size() == 2);
  const bool whole = trace.work[0].name == expected && trace.work[0].kernel.name() == expected &&
                     trace.work[0].kernel.demangled_name() == expected;
  CHECK(whole);
  const bool thread_named =
      trace.tracks.at(trace.slices[0].track).thread().thread_name() == expected;
  CHECK(thread_named);
  CHECK(trace.work[1].kernel.name() == "_Z4vaddPKfS0_Pfi");
}

TEST_CASE("an empty kernel name shows the stage") {  // E29
  Run run;
  run.catalog.kernel_functions.emplace_back();
  Operation kernel = run.kernel(kStart, kStart + 1);
  kernel.function = static_cast<FunctionIndex>(run.catalog.kernel_functions.size() - 1);
  run.add(kernel);
  const Imported trace = import_trace(run.trace());
  CHECK(trace.work.at(0).name == "Kernel");
  CHECK(trace.work.at(0).event.has_kernel_iid());
}

TEST_CASE("a name is stored once, however many kernels have it") {  // E30
  Run run;
  const std::string name = "k" + std::string(10'000, 'x') + "END";
  const FunctionIndex function = run.catalog.kernel_function(name, 1, 0, 0);
  std::vector<Operation> batch;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    Operation kernel = run.kernel(kStart + 10 * i, kStart + 10 * i + 9, 1);
    kernel.function = function;
    batch.push_back(kernel);
  }
  run.writer.operations(run.catalog, batch);
  run.writer.flush();
  const std::string bytes = content(run.writer.path());
  std::size_t count = 0;
  for (std::size_t at = bytes.find(name); at != std::string::npos; at = bytes.find(name, at + 1)) {
    ++count;
  }
  CHECK(count == 2);  // mangled and demangled, which are the same here
  CHECK(bytes.size() < 100'000 * 90);
  CHECK(run.writer.bytes() == bytes.size());
}

TEST_CASE("a kernel launch costs at most 130 bytes") {
  const auto write = [](std::uint64_t launches, ProcessIndex before) {
    Run run;
    for (ProcessIndex i = 0; i < before; ++i) run.catalog.add_process(a_process(100 + i));
    const ProcessIndex process = run.catalog.add_process(a_process(99));
    const QueueIndex queue = run.catalog.queue({process, run.device, 1, 7, {}});
    const ThreadIndex thread = run.catalog.thread(process, 99);
    for (std::uint64_t i = 0; i < launches; ++i) {
      const auto correlation = static_cast<std::uint32_t>(100'000 + i);
      ApiCall call = run.call(kStart + 10'000 * i, kStart + 10'000 * i + 4200, correlation);
      call.thread = thread;
      run.add(call);
      Operation kernel =
          run.kernel(kStart + 10'000 * i + 5000, kStart + 10'000 * i + 9900, correlation);
      kernel.queue = queue;
      run.add(kernel);
    }
    return run.writer.bytes();
  };
  const ProcessIndex before = GENERATE(0U, 6U);
  const std::uint64_t launches = 100'000;
  const double bytes = static_cast<double>(write(2 * launches, before) - write(launches, before)) /
                       static_cast<double>(launches);
  CAPTURE(bytes);
  CHECK(bytes <= 130);
  CHECK(bytes > 60);
}

TEST_CASE("the trace is valid wherever it ends") {
  Run run;
  for (std::uint64_t i = 0; i < 20; ++i) {
    run.add(run.call(kStart + 100 * i, kStart + 100 * i + 10, static_cast<std::uint32_t>(i)));
    run.add(
        run.kernel(kStart + 100 * i + 20, kStart + 100 * i + 30, static_cast<std::uint32_t>(i)));
  }
  run.writer.flush();
  const std::string bytes = content(run.writer.path());
  const pb::Trace whole = run.trace();
  // Packet by packet, what precedes the cut is the beginning of the whole trace.
  std::size_t end = 0;
  for (int i = 0; i < whole.packet_size(); ++i) {
    const std::string body = whole.packet(i).SerializeAsString();
    end += 1 + proto::varint_size(body.size()) + body.size();
    pb::Trace part;
    REQUIRE(part.ParseFromString(bytes.substr(0, end)));
    REQUIRE(part.packet_size() == i + 1);
  }
  CHECK(end == bytes.size());
}

TEST_CASE("a full disk is reported once and ends the writing") {
  Run run;
  Result<TraceFile> full = TraceFile::create("/dev/full", true);
  REQUIRE(full.ok());
  TraceWriter writer(std::move(*full));
  writer.preamble({kStart, 0, 0}, "0.1.0", {});
  writer.flush();
  REQUIRE(writer.error().has_value());
  const std::string message = writer.error()->message;
  CHECK(contains(message, "/dev/full"));
  CHECK(contains(message, "No space left"));
  const std::vector<Operation> batch(50'000, run.kernel(kStart, kStart + 1));
  writer.operations(run.catalog, batch);
  writer.summary("{}");
  const Status status = writer.finish();
  REQUIRE_FALSE(status.ok());
  CHECK(status.error().message == message);
}

TEST_CASE("what was lost is among the attributes") {
  Run run;
  run.add(run.kernel(kStart, 0));
  ChecksSummary checks;
  checks.dropped = 3;
  checks.untimed = UINT64_MAX;
  run.writer.losses(checks);
  const Imported trace = import_trace(run.trace());
  CHECK(trace.attributes.at("dropped_records") == "3");
  CHECK(trace.attributes.at("untimed_records") == std::to_string(INT64_MAX));
  CHECK(trace.attributes.at("records_not_in_trace") == "1");
}

// --- The summary and its reader ------------------------------------------------------------------

std::string document(std::size_t size) {
  std::string text = "{\"x\":\"";
  while (text.size() + 2 < size)
    text +=
        "\xE2\x80\xAE"
        "1234567";
  return text + "\"}";
}

// A whole trace with `json` as its summary.
std::string a_trace(const std::string& json) {
  Run run;
  run.add(run.call(kStart, kStart + 5, 1));
  run.add(run.kernel(kStart + 10, kStart + 20, 1));
  run.writer.summary(json);
  REQUIRE(run.writer.finish().ok());
  return content(run.writer.path());
}

TEST_CASE("the summary is read back from the trace, whatever its size") {
  const std::size_t size = GENERATE(as<std::size_t>{}, 0, 3, 1000, 512 * 1024 - 1, 512 * 1024,
                                    512 * 1024 + 1, 512 * 1024 + 2, 512 * 1024 + 3, 3'000'000);
  const std::string json = size < 10 ? std::string(size, ' ') : document(size);
  Folder folder;
  put(folder / "a.pftrace", a_trace(json));
  const Result<std::string> read = read_summary(folder / "a.pftrace");
  REQUIRE(read.ok());
  const bool equal = read.value() == json;
  CHECK(equal);

  pb::Trace trace;
  REQUIRE(trace.ParseFromString(content(folder / "a.pftrace")));
  const Imported imported = import_trace(trace);
  CHECK(imported.track("profiler summary").uuid() != 0);
  int parts = 0;
  for (const auto& packet : trace.packet()) {
    CHECK(packet.ByteSizeLong() <= 512 * 1024 + 1024);
    if (packet.track_event().name() != "profiler summary") continue;
    ++parts;
    CHECK(packet.timestamp() == kStart + 20);
    CHECK(packet.ByteSizeLong() >= trace_summary::kLeastPacketBytes);
    const std::string& text = packet.track_event().debug_annotations(4).string_value();
    std::string scratch;
    const bool is_utf8 = valid_utf8(text, scratch) == text;
    CHECK(is_utf8);
  }
  CHECK(parts >= 1);
}

TEST_CASE("a long trace is read in bounded memory, names larger than the buffer included") {
  Run run;
  run.catalog.kernel_functions.push_back({std::string(5'000'000, 'm'), "n", "s", 0, 0, 0});
  std::vector<Operation> batch;
  for (std::uint64_t i = 0; i < 100'000; ++i) batch.push_back(run.kernel(kStart + i, kStart + i));
  batch[500].function = static_cast<FunctionIndex>(run.catalog.kernel_functions.size() - 1);
  run.writer.operations(run.catalog, batch);
  run.writer.summary("{\"late\":1}");
  REQUIRE(run.writer.finish().ok());
  REQUIRE(std::filesystem::file_size(run.writer.path()) > 10'000'000);
  const Result<std::string> read = read_summary(run.writer.path());
  REQUIRE(read.ok());
  CHECK(read.value() == "{\"late\":1}");
}

TEST_CASE("a file without a summary is told apart in one sentence") {
  Folder folder;
  const auto message = [&](const std::string& bytes) {
    put(folder / "x.pftrace", bytes);
    const Result<std::string> read = read_summary(folder / "x.pftrace");
    REQUIRE_FALSE(read.ok());
    CHECK(contains(read.error().message, "x.pftrace"));
    return read.error().message;
  };
  const std::string good = a_trace(document(600'000));

  CHECK(contains(message(""), "is empty"));
  CHECK(contains(message("\x1F\x8B\x08 and so on"), "gunzip"));
  CHECK(contains(message("\x28\xB5\x2F\xFD zstd"), "zstd"));
  CHECK(contains(message("{\"traceEvents\":[]}"), "JSON"));
  CHECK(contains(message("hello"), "is not a .pftrace"));
  CHECK(contains(message("\n\n\n\n\nhello"), "is not a .pftrace"));
  CHECK(contains(message(good.substr(0, good.size() - 1)), "ends early"));
  CHECK(contains(message(good.substr(0, good.size() - 1)), "in the middle of a record"));
  CHECK(contains(message(good.substr(0, 300)), "ends early"));

  std::string damaged = good;
  damaged[damaged.size() - 1000] ^= 1;
  CHECK(contains(message(damaged), "digest"));

  pb::Trace foreign;
  foreign.add_packet()->mutable_track_event()->set_name("somebody's");
  foreign.add_packet()->set_timestamp(1);
  CHECK(contains(message(foreign.SerializeAsString()), "without a summary of this profiler"));

  {
    Run run;
    run.add(run.kernel(kStart, kStart + 1));
    run.writer.flush();
    const std::string running = content(run.writer.path());
    const std::string sentence = message(running);
    CHECK(contains(sentence, "ends early"));
    CHECK_FALSE(contains(sentence, "in the middle"));
    CHECK(contains(message(running + std::string(300, '\xFF')), "damaged at byte"));
  }

  const Result<std::string> missing = read_summary(folder / "missing.pftrace");
  REQUIRE_FALSE(missing.ok());
  CHECK(contains(missing.error().message, "There is no file"));
  std::filesystem::create_directory(folder / "dir");
  const Result<std::string> directory = read_summary(folder / "dir");
  REQUIRE_FALSE(directory.ok());
  CHECK(contains(directory.error().message, "is a folder"));
}

TEST_CASE("of two traces in one file the last summary counts, and parts of two are not mixed") {
  Folder folder;
  const std::string first = a_trace("{\"n\":1}");
  const std::string second = a_trace("{\"n\":2}");
  put(folder / "two", first + second);
  Result<std::string> read = read_summary(folder / "two");
  REQUIRE(read.ok());
  CHECK(read.value() == "{\"n\":2}");

  const std::string large = a_trace(document(600'000));
  put(folder / "mixed", large.substr(0, large.size() - 50'000) + second);
  read = read_summary(folder / "mixed");
  CHECK_FALSE(read.ok());
}

TEST_CASE("no bytes make the reader crash, or return a summary that was not written") {
  std::mt19937_64 random(12);
  const std::string json = document(700);
  const std::string good = a_trace(json);
  Folder folder;
  const std::string path = folder / "fuzz";
  int failures = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bytes = good;
    switch (random() % 4) {
      case 0:
        bytes.resize(random() % bytes.size());
        break;
      case 1:
        bytes.erase(random() % bytes.size(), random() % 40);
        break;
      case 2:
        bytes.insert(random() % bytes.size(), bytes.substr(random() % bytes.size(), 30));
        break;
      default:
        for (std::uint64_t n = 1 + random() % 4; n > 0; --n) {
          bytes[random() % bytes.size()] = static_cast<char>(random());
        }
    }
    put(path, bytes);
    const Result<std::string> read = read_summary(path);
    if (read.ok()) {
      REQUIRE(read.value() == json);
    } else {
      ++failures;
      REQUIRE_FALSE(read.error().message.empty());
    }
  }
  CHECK(failures > 500);
  for (int i = 0; i < 500; ++i) {
    std::string bytes(random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    put(path, "\x0A" + bytes);
    REQUIRE_FALSE(read_summary(path).ok());
  }
}

// --- The file ------------------------------------------------------------------------------------

std::string refusal(const Result<TraceFile>& file) {
  REQUIRE_FALSE(file.ok());
  return file.error().message;
}

TEST_CASE("an existing file is overwritten only by force, and not before the first write") {
  Folder folder;
  const std::string path = folder / "old.pftrace";
  put(path, "old content, longer than the new");
  CHECK(contains(refusal(TraceFile::create(path, false)), "--force"));

  {
    Result<TraceFile> file = TraceFile::create(path, true);
    REQUIRE(file.ok());
    CHECK(content(path) == "old content, longer than the new");
    file->remove();  // the program could not be started
    CHECK(content(path) == "old content, longer than the new");
    CHECK_FALSE(file->write("x", 1).ok());
  }
  Result<TraceFile> file = TraceFile::create(path, true);
  REQUIRE(file.ok());
  REQUIRE(file->write("new", 3).ok());
  REQUIRE(file->write("er", 2).ok());
  REQUIRE(file->close().ok());
  CHECK(content(path) == "newer");
}

TEST_CASE("a new file has the usual permissions, and can be taken back") {
  Folder folder;
  const std::string path = folder / "new.pftrace";
  const mode_t mask = umask(027);
  Result<TraceFile> file = TraceFile::create(path, false);
  umask(mask);
  REQUIRE(file.ok());
  struct stat status = {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0640);
  REQUIRE(file->write("x", 1).ok());
  TraceFile moved = std::move(*file);
  moved.remove();
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("remove leaves a file alone that has taken the path meanwhile") {
  Folder folder;
  const std::string path = folder / "a.pftrace";
  Result<TraceFile> file = TraceFile::create(path, false);
  REQUIRE(file.ok());
  std::filesystem::rename(path, folder / "b.pftrace");
  put(path, "another");
  file->remove();
  CHECK(content(path) == "another");
}

TEST_CASE("a default name takes the next free number") {
  Folder folder;
  const std::string path = folder / "train.pftrace";
  for (const char* expected : {"train.pftrace", "train.2.pftrace", "train.3.pftrace"}) {
    const Result<TraceFile> file = TraceFile::create_numbered(path, false);
    REQUIRE(file.ok());
    CHECK(file.value().path() == folder / expected);
    CHECK(std::filesystem::exists(folder / expected));
  }
  CHECK(TraceFile::create_numbered(path, true).value().path() == path);
  CHECK(contains(refusal(TraceFile::create_numbered(folder / "no/train.pftrace", false)),
                 "folder does not exist"));
}

TEST_CASE("what is no regular file is refused") {
  Folder folder;
  std::filesystem::create_directory(folder / "dir");
  put(folder / "target", "precious");
  std::filesystem::create_symlink(folder / "target", folder / "link");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);

  CHECK(contains(refusal(TraceFile::create(folder / "dir", false)), "is a folder"));
  CHECK(contains(refusal(TraceFile::create(folder / "dir", true)), "is a folder"));
  CHECK(contains(refusal(TraceFile::create(folder / "link", true)), "symbolic link"));
  CHECK(content(folder / "target") == "precious");
  CHECK(contains(refusal(TraceFile::create(folder / "pipe", true)), "pipe"));
  CHECK(contains(refusal(TraceFile::create(folder / "target/x", true)), "not a folder"));
  CHECK(contains(refusal(TraceFile::create(folder / "no/x", false)), "folder does not exist"));
  CHECK(contains(refusal(TraceFile::create("", false)), "empty name"));
  CHECK(TraceFile::create("/dev/null", true).ok());
  CHECK_FALSE(TraceFile::create("/dev/null", false).ok());
  CHECK(std::filesystem::exists("/dev/null"));
}

TEST_CASE("invalid UTF-8 is replaced byte by byte") {
  std::string scratch;
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(valid_utf8("", scratch).empty());
  CHECK(valid_utf8("plain \xC3\xBC \xE2\x82\xAC \xF0\x9F\x9A\x80", scratch) ==
        "plain \xC3\xBC \xE2\x82\xAC \xF0\x9F\x9A\x80");
  CHECK(valid_utf8("\xC3", scratch) == bad);
  CHECK(valid_utf8("\x80x", scratch) == bad + "x");
  CHECK(valid_utf8("\xC0\xAF", scratch) == bad + bad);                      // overlong
  CHECK(valid_utf8("\xE0\x80\x80", scratch) == bad + bad + bad);            // overlong
  CHECK(valid_utf8("\xED\xA0\x80", scratch) == bad + bad + bad);            // surrogate
  CHECK(valid_utf8("\xF4\x90\x80\x80", scratch) == bad + bad + bad + bad);  // above U+10FFFF
  CHECK(valid_utf8("\xE2\x82", scratch) == bad + bad);
}

}  // namespace
}  // namespace profiler
