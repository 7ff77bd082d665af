#include "cli/explain_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/terminal.h"
#include "cli/text.h"
#include "collector/glossary.h"

namespace profiler {
namespace {

constexpr int kExitUnknownTerm = 1;

class Page {
 public:
  Page(std::size_t width, bool unicode) : width_(width), unicode_(unicode) {}

  void paragraph(const std::string& text, std::size_t indent) {
    const std::string spaces(indent, ' ');
    for (Line& line : wrap({own_words(text, unicode_), Style::kPlain},
                           width_ - std::min(width_ - 1, indent), 0)) {
      line.insert(line.begin(), {spaces, Style::kPlain});
      text_ += to_terminal(line, width_, false, unicode_) + '\n';
    }
  }
  void blank() { text_ += '\n'; }
  std::string take() { return std::move(text_); }

 private:
  std::size_t width_;
  bool unicode_;
  std::string text_;
};

void list_by_group(Page& page) {
  std::optional<TermGroup> group;
  std::string names;
  const auto end_group = [&] {
    if (!group) return;
    page.blank();
    page.paragraph(std::string(group_title(*group)) + ":", 0);
    page.paragraph(names + ".", 2);
    names.clear();
  };
  for (const Term& term : glossary()) {
    if (term.group != group) {
      end_group();
      group = term.group;
    }
    names += (names.empty() ? "" : ", ") + term.name;
  }
  end_group();
}

}  // namespace

std::string explanation(const ExplainOptions& options, std::size_t width, bool unicode,
                        bool& known) {
  known = true;
  Page page(width, unicode);
  if (options.list) {
    for (const Term& term : glossary()) page.paragraph(term.name, 0);
    return page.take();
  }
  if (options.term.empty()) {
    page.paragraph(
        "profiler explain TERM says what a word in the summary means. A GPU is busy while at least "
        "one operation (kernel, copy, memset) runs on it, and idle in the gaps between them. Every "
        "nanosecond of idle time has one cause: what kept the operation that ended the gap from "
        "coming earlier. The verdict says in one sentence what kept the GPU from working, the "
        "findings what could be done, with an upper bound of what it could win.",
        0);
    list_by_group(page);
    return page.take();
  }
  const TermMatch match = find_term(options.term);
  if (match.term != nullptr) {
    page.paragraph(match.term->name, 0);
    page.paragraph(match.term->definition, 2);
    return page.take();
  }
  known = false;
  page.paragraph("Nothing here is called '" + printable(options.term, unicode) + "'.", 0);
  if (match.suggestions.empty()) {
    page.paragraph("profiler explain --list names all terms.", 0);
    return page.take();
  }
  std::string names;
  for (const std::string& name : match.suggestions) names += (names.empty() ? "" : ", ") + name;
  page.paragraph("Near to it: " + names + ".", 0);
  return page.take();
}

int explain_command(const ExplainOptions& options) {
  const TerminalFacts terminal = terminal_facts(STDOUT_FILENO);
  bool known = true;
  const std::string text =
      explanation(options, std::min<std::size_t>(terminal.width, 100), terminal.unicode, known);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return known ? 0 : kExitUnknownTerm;
}

}  // namespace profiler
