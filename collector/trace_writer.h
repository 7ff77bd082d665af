// Writes a .pftrace (proto/perfetto_trace.proto) while the program runs: append-only, names before
// use, valid at every byte. One buffer is reused for everything, so that a record costs no
// allocation; the file sees a write per MiB, or when `flush` is called.
//
// Processes, threads, devices and queues describe themselves in the trace when a record first
// refers to them. All calls take the same catalog. Times: ns, CLOCK_MONOTONIC. Single-threaded.
#pragma once

#include <cstdint>
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
  void thread(const Catalog& catalog, ThreadIndex thread);
  // Lists all devices anew; needed when `device` was named only after it had been used.
  void device(const Catalog& catalog, DeviceIndex device);

  // Records without valid times, and those whose queue or thread is unknown, are left out and
  // counted. Calls of one batch may come in any order; where calls of several batches begin at the
  // same nanosecond on one thread, the enclosing one must come first.
  void operations(const Catalog& catalog, std::span<const Operation> operations);
  void api_calls(const Catalog& catalog, std::span<const ApiCall> calls);
  std::uint64_t left_out() const { return left_out_; }  // records

  // A stretch [start, end) in which `device` was idle for one cause. Those of one device must not
  // overlap, and come in order of time.
  void gap(const Catalog& catalog, DeviceIndex device, std::uint64_t start, std::uint64_t end,
           std::string_view cause);
  // From `time` on until the next value: how much of its time the device worked, 0 to 100.
  void busy_percent(const Catalog& catalog, DeviceIndex device, std::uint64_t time, double percent);

  // At the end: everything lost, as attributes, and the summary document.
  void losses(const ChecksSummary& checks);
  void summary(std::string_view json);

  // Hands over to the file what is buffered, at a packet boundary.
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

  struct ProcessState {
    std::uint32_t track = 0;  // 0 = not described yet
    Iid last_event_name = 0;
    Iid last_kernel = 0;
    std::vector<Iid> api_names;  // by api function
    Iid unknown_api = 0;
    std::vector<Iid> kernel_names;                          // by kernel function
    std::vector<std::vector<Iid>> kernels;                  // by device, kernel function
    std::vector<std::pair<std::uint32_t, Iid>> copy_names;  // by kind and memory kinds; few
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

  void packet_defaults();
  void list_devices(const Catalog& catalog);
  void open_process_sequence(std::uint32_t sequence);
  void describe_process(const Process& process, std::uint32_t sequence, std::uint32_t track);
  void describe_driver(const Process& process);
  void describe_thread(const Catalog& catalog, ThreadIndex thread, std::uint32_t track);
  ProcessState& process_state(const Catalog& catalog, ProcessIndex process);
  std::uint32_t thread_track(const Catalog& catalog, ThreadIndex thread);
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
  void api_call(const Catalog& catalog, const ApiCall& call);
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
  std::vector<std::uint32_t> thread_tracks_;  // 0 = not described yet
  std::vector<Iid> queue_contexts_;           // 0 = queue not described yet
  std::vector<ContextState> contexts_;        // iid - 1
  std::vector<DeviceState> devices_;
  std::size_t listed_devices_ = 0;
  std::vector<std::string> causes_;  // iid - 1, on the run's sequence
  enum class Submits : std::uint8_t { kUnasked, kNo, kYes };
  std::vector<Submits> submits_work_;  // by api function
  std::vector<std::uint32_t> order_;   // of a batch of calls; reused
  std::string scratch_;
};

}  // namespace profiler
