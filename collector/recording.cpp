#include "collector/recording.h"

#include <utility>

#include "collector/summarize.h"
#include "collector/summary_json.h"

namespace profiler {

Recording::Recording(TraceWriter* writer) : timeline_(catalog_), writer_(writer) {}

std::unique_ptr<ProcessStream> Recording::open(std::uint64_t pid) {
  auto stream = std::make_unique<ProcessStream>(catalog_);
  stream->pid = pid;
  stream->state = processes_.size();
  ProcessState state;
  state.pid = pid;
  processes_.push_back(std::move(state));
  return stream;
}

void Recording::receive(ProcessStream& stream, std::size_t bytes) {
  stream.splitter.commit(bytes);
  ProcessState& state = processes_[stream.state];
  while (!stream.ended) {
    const auto body = stream.splitter.next();
    if (!body) break;
    const Status status = stream.decoder.decode(*body, frame_);
    if (!status) {
      state.fault = status.error().message;
      timeline_.add_malformed(1);
      stream.ended = true;
      return;
    }
    take(state, frame_);
    stream.ended = state.said_goodbye;
  }
  if (stream.splitter.fault()) {
    state.fault = "the stream does not consist of frames";
    timeline_.add_malformed(1);
    stream.ended = true;
  }
}

void Recording::close(ProcessStream& stream) {
  ProcessState& state = processes_[stream.state];
  state.closed = true;
  // A process that was killed while it wrote leaves the beginning of a frame.
  if (!stream.ended && stream.splitter.pending() != 0) timeline_.add_malformed(1);
}

void Recording::take(ProcessState& state, const DecodedFrame& frame) {
  if (frame.hello) {
    state.process = *frame.hello;
    state.failure = frame.failure;
    if (writer_ != nullptr) writer_->process(catalog_, state.process);
  }
  if (writer_ != nullptr) {
    for (const DeviceIndex device : frame.devices) writer_->device(catalog_, device);
    for (const ThreadIndex thread : frame.renamed_threads) writer_->thread(catalog_, thread);
    writer_->api_calls(catalog_, frame.api_calls);
    writer_->operations(catalog_, frame.operations);
  }
  timeline_.add(std::span(frame.api_calls));
  timeline_.add(std::span(frame.operations));
  for (const LossRecord& loss : frame.losses) timeline_.add_dropped(loss.count);
  for (const CuptiFailure& failure : frame.cupti_failures)
    cupti_failures_.push_back({state.pid, failure.function, failure.result});
  if (frame.complete_until_ns) state.complete_until_ns = *frame.complete_until_ns;
  if (frame.goodbye) state.said_goodbye = true;
}

Summary Recording::finish(const RunFacts& facts) {
  const LaunchMatches matches = match_launches(timeline_.calls(), timeline_.operations(), catalog_);
  GapVisitor visitor;
  if (writer_ != nullptr) {
    visitor = [&](DeviceIndex device, Gap gap, std::span<const GapPiece> pieces) {
      if (gap.end - gap.start < facts.min_gap_in_trace_ns) return;
      for (const GapPiece& piece : pieces)
        writer_->gap(catalog_, device, piece.start, piece.end, cause_name(piece.cause));
    };
  }
  const std::vector<DeviceActivity> devices =
      analyse_devices(timeline_, catalog_, matches, facts.launch_window_ns, visitor);
  Summary summary = summarize(facts, catalog_, timeline_, matches, devices, processes_);
  summary.cupti_failures = std::move(cupti_failures_);
  if (writer_ != nullptr) {
    writer_->losses(summary.checks);
    writer_->summary(to_json(summary));
  }
  return summary;
}

}  // namespace profiler
