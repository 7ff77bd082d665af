// A trace of ours, read back and analysed as if it had just been recorded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collector/analysis.h"
#include "collector/catalog.h"
#include "collector/result.h"
#include "collector/summary.h"
#include "collector/timeline.h"
#include "collector/trace_events.h"

namespace profiler {

class Replay {
 public:
  // Reads all events; the error says why there are none.
  static Result<std::unique_ptr<Replay>> load(const std::string& path);

  // Analyses what was read and sums it up. Call once, before the accessors below.
  Summary analyse(const GapVisitor& visitor);

  const Catalog& catalog() const { return catalog_; }
  const Timeline& timeline() const { return timeline_; }
  Analysis& analysis() { return *analysis_; }
  const TraceFacts& facts() const { return events_.facts; }

 private:
  Replay() : timeline_(catalog_) {}

  Catalog catalog_;
  Timeline timeline_;
  TraceEvents events_;
  std::optional<Analysis> analysis_;
};

}  // namespace profiler
