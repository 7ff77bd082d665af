// What every GPU did at one moment, in words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "collector/analysis.h"
#include "collector/gap_collection.h"
#include "collector/recording.h"
#include "collector/result.h"

namespace profiler {

// "1.234s", "250ms", "12.5us", "1500ns", "2min": a number and its unit, in ns. The error says what
// is wrong with it.
Result<std::uint64_t> parse_time(std::string_view text);

// `at`: ns since the start of the run. `gaps`: those of `analysis`, at least the ones that contain
// the moment (GapCollection(t, t + 1) with t = facts.start_ns + at). Lines of text, the last one
// ended.
std::string explain_moment(std::uint64_t at, const RunFacts& facts, const Catalog& catalog,
                           const Timeline& timeline, Analysis& analysis, const GapCollection& gaps,
                           bool unicode);

// The NVTX ranges of a thread that are open at `time`, outermost first, joined by " > ".
std::string nvtx_path(const Catalog& catalog, Analysis& analysis, ThreadIndex thread,
                      std::uint64_t time);

}  // namespace profiler
