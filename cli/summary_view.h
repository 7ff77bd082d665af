// The one screen that a person reads.
#pragma once

#include <cstddef>
#include <string>

#include "collector/summary.h"

namespace profiler {

inline constexpr std::size_t kScreenLines = 45;
inline constexpr std::size_t kDefaultWidth = 80;
inline constexpr std::size_t kMinimumWidth = 20;

struct ViewOptions {
  std::size_t width = kDefaultWidth;  // cells; less than kMinimumWidth is taken as that
  bool color = false;                 // ANSI colours; never the only carrier of a meaning
  bool unicode = true;                // false: ASCII only, for a locale that is not UTF-8
  std::size_t top = 0;                // rows per table; 0 = as many as fit on kScreenLines
  std::string trace_path;             // the file to open; empty = none was written
  std::size_t top_gaps = 0;           // rows of the longest gaps; 0 = a few, if there is room
  bool advice = true;                 // false: no findings
  bool quiet = false;  // no tables: how it ended, the verdict, what was lost, the file
};

// Lines ending in '\n', each at most `width` cells; at most kScreenLines of them when `top`
// and `top_gaps` are 0 and the width is at least 80. Depends on its arguments alone.
std::string render_summary(const Summary& summary, const ViewOptions& options);

}  // namespace profiler
