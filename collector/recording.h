// One run as it is recorded: takes the bytes of all processes, keeps the model, writes the trace as
// it goes, and at the end makes the summary. Knows nothing of pipes or of who reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector/analysis.h"
#include "collector/catalog.h"
#include "collector/summary.h"
#include "collector/timeline.h"
#include "collector/trace_writer.h"
#include "collector/wire_decoder.h"

namespace profiler {

// The stream of one process. Made by Recording::open.
struct ProcessStream {
  explicit ProcessStream(Catalog& catalog) : decoder(catalog) {}

  FrameSplitter splitter;
  WireDecoder decoder;
  std::uint64_t pid = 0;  // as announced
  bool ended = false;     // goodbye, or a fault: no byte of it is wanted any more
  std::size_t state = 0;  // index of its ProcessState
};

// What is known of a process beside its records.
struct ProcessState {
  std::uint64_t pid = 0;
  ProcessIndex process = kNone;  // kNone: it announced itself and said no hello
  bool said_goodbye = false;
  bool closed = false;                  // its pipe was read to its end
  std::uint64_t complete_until_ns = 0;  // CLOCK_MONOTONIC; 0 = no watermark arrived
  std::string failure;                  // why nothing was recorded
  std::string fault;                    // why its pipe was given up
  std::uint64_t hello_ns = 0;           // CLOCK_MONOTONIC; 0 = none came
};

// What the launcher knows of the run. Times: CLOCK_MONOTONIC ns.
struct RunFacts {
  std::vector<std::string> command;
  std::uint64_t root_pid = 0;
  ExitState exit;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t start_realtime_ns = 0;  // UNIX time
  std::uint64_t launch_window_ns = 0;
  std::uint64_t min_gap_in_trace_ns = 0;
  std::string hostname;
  std::string simulated_model;     // the launcher chose the virtual GPU; empty = a real driver
  std::vector<std::string> notes;  // whole sentences to put before those of the recording
};

class Recording {
 public:
  // `writer` may be null (no trace is wanted); else it has its preamble and outlives the recording.
  explicit Recording(TraceWriter* writer);

  std::unique_ptr<ProcessStream> open(std::uint64_t pid);
  // `bytes` were read into the room of the stream's splitter.
  void receive(ProcessStream& stream, std::size_t bytes);
  void close(ProcessStream& stream);

  const std::vector<ProcessState>& processes() const { return processes_; }
  const Catalog& catalog() const { return catalog_; }

  // Ends the recording: analyses it, writes gaps and summary into the trace, and returns the
  // summary. Call once. `visitor` may be empty.
  Summary finish(const RunFacts& facts, const GapVisitor& visitor = {});
  // After `finish`.
  const Timeline& timeline() const { return timeline_; }
  Analysis& analysis() { return *analysis_; }

 private:
  void take(ProcessState& state, const DecodedFrame& frame);

  Catalog catalog_;
  Timeline timeline_;
  TraceWriter* writer_;
  std::vector<ProcessState> processes_;
  std::vector<CuptiFailureSummary> cupti_failures_;
  DecodedFrame frame_;  // reused
  std::optional<Analysis> analysis_;
};

}  // namespace profiler
