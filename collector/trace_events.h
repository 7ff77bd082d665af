// Reads the events of a .pftrace of ours back into records, so that they can be analysed anew:
// after a change of the rules, or where the profiler was stopped before it wrote the summary.
// Trusts nothing that it reads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "collector/catalog.h"
#include "collector/records.h"
#include "collector/result.h"
#include "collector/trace_facts.h"
#include "collector/wire_decoder.h"

namespace profiler {

// Takes records as they are read, a few thousand at a time, in no particular order. What is empty
// is not called; spans are valid during the call.
struct RecordSink {
  std::function<void(std::span<const ApiCall>)> api_calls;
  // Those without valid times are among them, as in the run.
  std::function<void(std::span<const Operation>)> operations;
  std::function<void(std::span<const SyncRecord>)> syncs;
  std::function<void(std::span<const EventRecord>)> event_records;
  std::function<void(std::span<const OverheadRecord>)> overheads;
  std::function<void(std::span<const NvtxRange>)> nvtx_ranges;
  std::function<void(std::span<const NvtxEvent>)> nvtx_marks;
  std::function<void(ProcessIndex, const LossRecord&)> loss;
};

// What a trace says beside its records.
struct TraceEvents {
  // Counts are what is left after the records that the sink got: operations without valid times and
  // losses are not counted twice. Without facts of the end, processes are those that were
  // described, the end of the run is that of the last record, and how anything ended is unknown.
  TraceFacts facts;
  bool is_whole = true;          // false: the file ends, or turns into nonsense, in the middle
  std::uint64_t end_offset = 0;  // bytes that could be read
  std::uint64_t ignored = 0;     // packets that refer to what was not defined
  std::uint64_t last_ns = 0;     // latest time of a record
};

// Fills `catalog`, which must be empty. The error says why there are no events: no trace of this
// profiler, or of another layout.
Result<TraceEvents> read_events(const std::string& path, Catalog& catalog, const RecordSink& sink);

}  // namespace profiler
