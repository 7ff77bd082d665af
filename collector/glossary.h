// What every word on our screen and in our JSON means, for `profiler explain`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace profiler {

enum class TermGroup : std::uint8_t { kTime, kCause, kVerdict, kFinding, kColumn, kCheck };

struct Term {
  std::string name;
  TermGroup group = TermGroup::kTime;
  std::string definition;            // whole sentences, one paragraph, UTF-8
  std::vector<std::string> aliases;  // other labels for the same, members of the JSON document
};

// In the order in which they are listed: by group, then as a beginner would ask.
const std::vector<Term>& glossary();

std::string_view group_title(TermGroup group);

struct TermMatch {
  const Term* term = nullptr;            // null = unknown or ambiguous
  std::vector<std::string> suggestions;  // then: names that may have been meant, nearest first
};

// By name or alias, whatever the case; else by a beginning that only one term has.
TermMatch find_term(std::string_view text);

}  // namespace profiler
