#include "cli/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace profiler {

TerminalFacts terminal_facts(int fd) {
  TerminalFacts facts;
  const bool is_terminal = isatty(fd) == 1;
  const char* columns = std::getenv("COLUMNS");
  const unsigned long asked = columns == nullptr ? 0 : std::strtoul(columns, nullptr, 10);
  winsize window = {};
  if (asked > 0 && asked < 10'000) {
    facts.width = asked;
  } else if (is_terminal && ioctl(fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0) {
    facts.width = window.ws_col;
  }
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  facts.color = is_terminal && (no_color == nullptr || *no_color == 0) && term != nullptr &&
                std::string_view(term) != "dumb";
  // Containers often have no locale at all; what they print ends up on terminals that know UTF-8.
  const std::string_view codeset = nl_langinfo(CODESET);
  const char* locale = std::getenv("LC_ALL");
  if (locale == nullptr || *locale == 0) locale = std::getenv("LC_CTYPE");
  if (locale == nullptr || *locale == 0) locale = std::getenv("LANG");
  const bool locale_unset = locale == nullptr || *locale == 0;
  facts.unicode = codeset == "UTF-8" || locale_unset;
  return facts;
}

}  // namespace profiler
