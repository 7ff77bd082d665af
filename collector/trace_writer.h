// Writes a .pftrace (proto/perfetto_trace.proto) while the program runs: append-only, names before
// use, valid at every byte. One buffer is reused for everything, so that a record costs no
// allocation; the file sees a write per MiB, or when `flush` is called.
//
// Processes, threads, devices and queues describe themselves in the trace when a record first
// refers to them. All calls take the same catalog. Times: ns, CLOCK_MONOTONIC. Single-threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "collector/catalog.h"
#include "collector/records.h"
#include "collector/result.h"
#include "collector/summary.h"
#include "collector/trace_file.h"
#include "proto/encoder.h"

namespace profiler {

// A fact about the run on Perfetto's trace info page. Numbers above INT64_MAX are cut to it.
struct TraceAttribute {
  std::string key;
  std::variant<std::string, std::uint64_t> value;
};

// By this attribute the reader knows our traces.
inline constexpr std::string_view kVersionAttribute = "profiler_version";

// The summary at the end of a trace: instant events on a track of its own, each with a part of the
// JSON text and what it takes to tell whether all of it is there.
namespace trace_summary {
inline constexpr std::string_view kName = "profiler summary";  // of track and events
inline constexpr std::string_view kPart = "part";              // from 0
inline constexpr std::string_view kParts = "parts";
inline constexpr std::string_view kBytes = "bytes";   // of the whole text
inline constexpr std::string_view kDigest = "crc32";  // of the whole text
inline constexpr std::string_view kText = "json";     // of this part
inline constexpr std::size_t kMostPartBytes = 512 * 1024;
// A summary packet holds all of the above, so no smaller packet can be one.
inline constexpr std::size_t kLeastPacketBytes = 64;
}  // namespace trace_summary

class TraceWriter {
 public:
  explicit TraceWriter(TraceFile file);

  // First, and once: the clocks, read together before the program starts (0 = unknown), and what is
  // known of the run by now.
  void preamble(const ClockReading& clocks, std::string_view profiler_version,
                std::span<const TraceAttribute> attributes);
  // At any time later; a key that was written before keeps its first value. The driver's version
  // and whether the GPU is simulated are added by the first process that knows.
  void attributes(std::span<const TraceAttribute> attributes);

  // Describes a process or thread; needed only when there may be no record of it, or again when a
  // thread's name has changed.
  void process(const Catalog& catalog, ProcessIndex process);
  // What is known of a described process now: it may start CUDA long after it said hello.
  void process_facts(const Catalog& catalog, ProcessIndex process);
  void thread(const Catalog& catalog, ThreadIndex thread);
  // Lists all devices anew; needed when `device` was named only after it had been used.
  void device(const Catalog& catalog, DeviceIndex device);

  // Records without valid times, and those whose queue or thread is unknown, are left out and
  // counted. Records of one batch may come in any order.
  void operations(const Catalog& catalog, std::span<const Operation> operations);
  // Calls and push/pop ranges share the track of their thread. They are held back until the next
  // batch of their process (or `flush`): of slices that begin at the same nanosecond the enclosing
  // one, which ended later and thus arrives later, must come first in the file.
  void api_calls(const Catalog& catalog, std::span<const ApiCall> calls);
  void nvtx_ranges(const Catalog& catalog, std::span<const NvtxRange> ranges);
  void nvtx_marks(const Catalog& catalog, std::span<const NvtxEvent> events);  // others: ignored
  void syncs(const Catalog& catalog, std::span<const SyncRecord> syncs);
  void overheads(const Catalog& catalog, std::span<const OverheadRecord> overheads);
  // They have no time; what they have is for who reads the trace with trace_events.h.
  void event_records(const Catalog& catalog, std::span<const EventRecord> events);
  // `count` records of `process` that began in [start, end) were lost.
  void hole(ProcessIndex process, std::uint64_t start, std::uint64_t end, std::uint64_t count);
  std::uint64_t left_out() const { return left_out_; }  // records

  // A stretch [start, end) in which `device` was idle for one cause. Those of one device must not
  // overlap, and come in order of time.
  void gap(const Catalog& catalog, DeviceIndex device, std::uint64_t start, std::uint64_t end,
           std::string_view cause);
  // From `time` on until the next value: how much of its time the device worked, 0 to 100.
  void busy_percent(const Catalog& catalog, DeviceIndex device, std::uint64_t time, double percent);

  // Facts about the run for who reads the events, as trace_facts.h makes them.
  void facts(std::string_view json);

  // At the end: everything lost, as attributes, and the summary document.
  void losses(const ChecksSummary& checks);
  void summary(std::string_view json);

  // Hands over to the file what is buffered or held back, at a packet boundary.
  void flush();
  // Flushes and closes the file; returns the first error there was.
  Status finish();
  // Nothing is to be kept: removes the file.
  void discard();

  // Empty unless writing failed; nothing was written after that.
  const std::optional<Error>& error() const { return error_; }
  const std::string& path() const { return file_.path(); }
  std::uint64_t bytes() const { return flushed_bytes_ + encoder_.size(); }

 private:
  using Iid = std::uint32_t;  // 0 = not defined yet

  // Tracks of one name, for slices that may overlap: each holds slices that do not.
  struct Lane {
    std::uint32_t track = 0;
    std::uint64_t start = 0;  // of its first slice
    std::uint64_t end = 0;    // of its last
  };
  using Lanes = std::vector<Lane>;
  // A call or a push/pop range, with everything named that it refers to.
  struct Slice {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    std::uint32_t track = 0;
    ThreadIndex thread = kNone;
    Iid name = 0;
    std::uint32_t category = 0;
    std::uint32_t correlation = 0;
    std::uint32_t result = 0;
    Iid domain = 0;
    bool has_arrows = false;
    bool is_unclosed = false;
    bool is_unnamed = false;
  };
  struct TrackPlace {
    std::uint32_t sequence = 0;
    std::uint32_t parent = 0;  // 0 = none
    std::string_view name;
    std::string_view description;
  };
  struct OpenEvent {
    std::size_t packet = 0;
    std::size_t event = 0;
  };

  struct ProcessState {
    std::uint32_t track = 0;  // 0 = not described yet
    Iid last_event_name = 0;
    Iid last_kernel = 0;
    std::vector<Iid> api_names;  // by api function
    Iid unknown_api = 0;
    std::vector<Iid> kernel_names;                          // by kernel function
    std::vector<std::vector<Iid>> kernels;                  // by device, kernel function
    std::vector<std::pair<std::uint64_t, Iid>> copy_names;  // by kind and memory kinds; few
    std::vector<std::pair<std::string, Iid>> fixed_names;   // of waits and the like; few
    std::vector<Iid> texts;                                 // NVTX messages, by text
    std::vector<Iid> domains;                               // debug_annotation_string_values
    Iid last_string = 0;
    Lanes syncs;
    Lanes ranges;  // start/end
    Lanes holes;
    std::uint32_t events_track = 0;
    std::vector<Slice> held_back;
  };
  struct ThreadState {
    std::uint32_t track = 0;  // 0 = not described yet
    DomainId domain = kNone;  // the NVTX domain whose ranges are on the thread's own track
    std::vector<std::pair<DomainId, std::uint32_t>> other_domains;  // and their tracks
    std::uint32_t arrow_correlation = 0;                            // of the last call with arrows
    Lanes overheads;
  };
  struct ContextState {
    ProcessIndex process = kNone;
    DeviceIndex device = kNone;
    std::uint32_t context = 0;
  };
  struct DeviceState {
    std::uint32_t group_track = 0;
    std::uint32_t gap_track = 0;
    std::uint32_t busy_track = 0;
  };

  // Makes room for a packet of at most `most` bytes and opens it.
  std::size_t begin_packet(std::size_t most, std::uint32_t sequence, std::uint32_t flags);
  std::size_t begin_event(std::size_t most, std::uint32_t sequence, std::uint32_t flags,
                          std::uint64_t time);
  void end_packet(std::size_t packet);
  void reserve(std::size_t bytes);
  void text(std::uint32_t field, std::string_view value);
  void interned_name(std::uint32_t field, Iid iid, std::string_view name);
  void define_name(std::uint32_t sequence, std::uint32_t field, Iid iid, std::string_view name);
  void argument(Iid name, std::uint64_t value);

  OpenEvent begin_track_event(std::uint32_t sequence, std::uint64_t time, std::uint32_t type,
                              std::uint32_t category, Iid name, std::uint32_t track);
  void end_track_event(OpenEvent open);
  void number(Iid name, std::uint64_t value);  // an annotation, unless zero
  void number_even_zero(Iid name, std::uint64_t value);
  void string_number(Iid name, Iid value);  // an annotation with an interned text, unless 0
  void correlation(std::uint32_t value);
  std::uint32_t describe_track(const TrackPlace& place);
  std::uint32_t lane(Lanes& lanes, std::uint64_t start, std::uint64_t end, const TrackPlace& place);
  void fact(std::uint32_t sequence, std::string_view json);
  void write_out();

  void packet_defaults();
  void slice_names();
  void list_devices(const Catalog& catalog);
  void open_process_sequence(std::uint32_t sequence);
  void describe_process(const Process& process, std::uint32_t sequence, std::uint32_t track);
  void describe_driver(const Process& process);
  void describe_thread(const Catalog& catalog, ThreadIndex thread, std::uint32_t track);
  ProcessState& process_state(const Catalog& catalog, ProcessIndex process);
  ThreadState& thread_state(const Catalog& catalog, ThreadIndex thread);
  Iid queue_context(const Catalog& catalog, QueueIndex queue);
  Iid api_name(const Catalog& catalog, ProcessIndex process, FunctionIndex function);
  Iid kernel_name(const Catalog& catalog, ProcessIndex process, FunctionIndex function);
  Iid kernel(const Catalog& catalog, ProcessIndex process, DeviceIndex device,
             FunctionIndex function);
  Iid copy_name(ProcessIndex process, const Operation& copy);
  Iid cause_name(std::string_view cause);
  bool submits_work(const Catalog& catalog, FunctionIndex function);
  DeviceState& device_state(const Catalog& catalog, DeviceIndex device);

  void operation(const Catalog& catalog, const Operation& operation);
  void launch(const Queue& queue, const Operation& operation);
  Iid fixed_name(std::uint32_t sequence, std::string_view name);
  Iid text_name(const Catalog& catalog, ProcessIndex process, TextId text);
  Iid domain_name(const Catalog& catalog, ProcessIndex process, DomainId domain);
  std::uint32_t nvtx_track(const Catalog& catalog, ThreadIndex thread, DomainId domain);
  std::uint32_t events_track(ProcessIndex process);
  void untimed_operation(const Catalog& catalog, const Operation& operation);
  void start_end_range(const Catalog& catalog, const NvtxRange& range);
  void hold_back(ProcessIndex process, std::size_t held_before);
  void release_all();
  void release(ProcessState& state, std::uint32_t sequence);
  void slice(std::uint32_t sequence, const Slice& slice);
  void sort_by_start(std::size_t count, const std::function<std::uint64_t(std::uint32_t)>& start);
  void slice_end(std::uint32_t sequence, std::uint64_t time, std::uint32_t track);
  void annotation(std::string_view name, std::uint64_t value);

  TraceFile file_;
  std::size_t capacity_;
  std::unique_ptr<std::uint8_t[]> buffer_;
  proto::Encoder encoder_;
  std::optional<Error> error_;
  std::uint64_t flushed_bytes_ = 0;
  std::uint64_t left_out_ = 0;

  std::uint64_t start_ns_ = 0;  // of the preamble
  std::uint64_t last_ns_ = 0;   // latest time written
  bool driver_described_ = false;
  std::vector<std::string> attribute_keys_;  // written so far; few
  std::uint32_t last_track_ = 0;
  std::vector<ProcessState> processes_;
  std::vector<ThreadState> threads_;
  std::uint32_t facts_track_ = 0;
  Lanes holes_;                         // of no process that is known
  Lanes overheads_;                     // of no thread
  std::vector<Iid> queue_contexts_;     // 0 = queue not described yet
  std::vector<ContextState> contexts_;  // iid - 1
  std::vector<DeviceState> devices_;
  std::size_t listed_devices_ = 0;
  std::vector<std::string> causes_;  // iid - 1, on the run's sequence
  enum class Submits : std::uint8_t { kUnasked, kNo, kYes };
  std::vector<Submits> submits_work_;  // by api function
  std::vector<std::uint32_t> order_;   // of a batch; reused
  std::string scratch_;
};

}  // namespace profiler
