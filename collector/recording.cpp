#include "collector/recording.h"

#include <utility>

#include "collector/analysis.h"
#include "collector/summarize.h"
#include "collector/summary_json.h"
#include "collector/trace_facts.h"

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
    state.hello_ns = catalog_.processes[state.process].hello_clocks.monotonic_ns;
    if (writer_ != nullptr) writer_->process(catalog_, state.process);
  }
  if (frame.cuda_facts) state.failure = frame.failure;
  if (writer_ != nullptr) {
    if (frame.cuda_facts) writer_->process_facts(catalog_, state.process);
    for (const DeviceIndex device : frame.devices) writer_->device(catalog_, device);
    for (const ThreadIndex thread : frame.renamed_threads) writer_->thread(catalog_, thread);
    writer_->api_calls(catalog_, frame.api_calls);
    writer_->operations(catalog_, frame.operations);
    writer_->syncs(catalog_, frame.syncs);
    writer_->event_records(catalog_, frame.event_records);
    writer_->overheads(catalog_, frame.overheads);
    writer_->nvtx_marks(catalog_, frame.nvtx_events);
  }
  timeline_.add(std::span(frame.api_calls));
  timeline_.add(std::span(frame.operations));
  timeline_.add(std::span(frame.overheads));
  timeline_.add(std::span(frame.nvtx_events));
  timeline_.add_syncs(frame.syncs.size());
  for (const LossRecord& loss : frame.losses) {
    timeline_.add_loss(state.process, loss.count, loss.from_ns, loss.to_ns);
    if (writer_ != nullptr) writer_->hole(state.process, loss.from_ns, loss.to_ns, loss.count);
  }
  for (const CuptiFailure& failure : frame.cupti_failures)
    cupti_failures_.push_back({state.pid, failure.function, failure.result});
  if (frame.complete_until_ns) state.complete_until_ns = *frame.complete_until_ns;
  if (frame.goodbye) state.said_goodbye = true;
}

Summary Recording::finish(const RunFacts& facts, const GapVisitor& visitor) {
  const GapVisitor write_and_visit = [&](DeviceIndex device, const GapFacts& gap) {
    if (visitor) visitor(device, gap);
    if (writer_ == nullptr || gap.gap.end - gap.gap.start < facts.min_gap_in_trace_ns) return;
    for (const GapPiece& piece : gap.pieces)
      writer_->gap(catalog_, device, piece.start, piece.end, cause_name(piece.cause));
  };
  const bool nobody_looks = writer_ == nullptr && !visitor;
  analysis_.emplace(catalog_, timeline_, facts.launch_window_ns, facts.end_ns,
                    nobody_looks ? GapVisitor{} : write_and_visit);
  Summary summary = summarize(facts, catalog_, timeline_, *analysis_, processes_);
  summary.cupti_failures = cupti_failures_;
  if (writer_ != nullptr) {
    writer_->nvtx_ranges(catalog_, analysis_->ranges());
    writer_->losses(summary.checks);
    UntracedCounts untraced;
    untraced.untimed = summary.checks.untimed;
    untraced.unfinished = summary.checks.unfinished;
    untraced.malformed = summary.checks.malformed;
    untraced.dropped = summary.checks.dropped;
    untraced.nvtx_unbalanced = summary.checks.nvtx_unbalanced;
    writer_->facts(facts_at_end(facts, processes_, cupti_failures_, untraced));
    writer_->summary(to_json(summary));
  }
  return summary;
}

}  // namespace profiler
