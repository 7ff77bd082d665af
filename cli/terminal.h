// What the stream that we print on can show.
#pragma once

#include <cstddef>

namespace profiler {

struct TerminalFacts {
  std::size_t width = 80;  // cells
  bool color = false;
  bool unicode = true;
};

// COLUMNS wins over the window's own width; without either, 80. Colour: on a terminal that is not
// "dumb", unless NO_COLOR is set.
TerminalFacts terminal_facts(int fd);

}  // namespace profiler
