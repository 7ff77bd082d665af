#pragma once

#include <string>

namespace profiler {

struct ExplainOptions {
  std::string term;   // empty = an introduction and the list
  bool list = false;  // --list: the names alone, one a line
};

// Prints on stdout. Returns the exit status: 1 for a term that nobody knows.
int explain_command(const ExplainOptions& options);

// What it prints; `known` is false for such a term.
std::string explanation(const ExplainOptions& options, std::size_t width, bool unicode,
                        bool& known);

}  // namespace profiler
