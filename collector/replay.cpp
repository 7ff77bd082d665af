#include "collector/replay.h"

#include <utility>

#include "collector/summarize.h"

namespace profiler {

Result<std::unique_ptr<Replay>> Replay::load(const std::string& path) {
  std::unique_ptr<Replay> replay(new Replay);
  Timeline& timeline = replay->timeline_;
  RecordSink sink;
  sink.api_calls = [&](std::span<const ApiCall> calls) { timeline.add(calls); };
  sink.operations = [&](std::span<const Operation> operations) { timeline.add(operations); };
  sink.syncs = [&](std::span<const SyncRecord> syncs) { timeline.add_syncs(syncs.size()); };
  sink.event_records = [](std::span<const EventRecord>) {};
  sink.overheads = [&](std::span<const OverheadRecord> overheads) { timeline.add(overheads); };
  sink.nvtx_ranges = [&](std::span<const NvtxRange> ranges) { timeline.add(ranges); };
  sink.nvtx_marks = [](std::span<const NvtxEvent>) {};
  sink.loss = [&](ProcessIndex process, const LossRecord& loss) {
    timeline.add_loss(process, loss.count, loss.from_ns, loss.to_ns);
  };
  Result<TraceEvents> events = read_events(path, replay->catalog_, sink);
  if (!events) return events.error();
  replay->events_ = std::move(*events);
  const UntracedCounts& untraced = replay->events_.facts.untraced;
  timeline.add_untimed(untraced.untimed);
  timeline.add_unfinished(untraced.unfinished);
  timeline.add_malformed(untraced.malformed);
  timeline.add_loss(kNone, untraced.dropped, 0, 0);
  timeline.add_unbalanced(untraced.nvtx_unbalanced);
  return replay;
}

Summary Replay::analyse(const GapVisitor& visitor) {
  const RunFacts& run = events_.facts.run;
  analysis_.emplace(catalog_, timeline_, run.launch_window_ns, run.end_ns, visitor);
  Summary summary = summarize(run, catalog_, timeline_, *analysis_, events_.facts.processes);
  summary.cupti_failures = events_.facts.cupti_failures;
  if (!events_.is_whole || !events_.facts.is_complete)
    summary.notes.emplace_back(
        "The trace ends early: what it holds was analysed, and what came later is missing.");
  return summary;
}

}  // namespace profiler
