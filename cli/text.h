// Text as a terminal shows it: how many cells it takes, and how to make it safe and fit. All
// functions take UTF-8; none depends on the locale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace profiler {

// Cells that `text` takes on a terminal. Where terminals differ the larger figure is taken, so
// that a line is never wider than computed.
std::size_t display_width(std::string_view text);

// `text` with everything escaped that could move the cursor, reorder or hide text: control and
// bidirectional characters, other invisible ones, invalid UTF-8. Without `unicode` everything
// beyond ASCII is escaped as well. The result is what the other functions expect.
std::string printable(std::string_view text, bool unicode);

// Likewise for sentences of our own, whose few characters beyond ASCII have a spelling in it.
std::string own_words(std::string_view text, bool unicode);

// The characters that the screen uses beyond letters, and what stands for them in ASCII.
struct Glyphs {
  const char* ellipsis;
  const char* arrow;
  const char* separator;
  const char* bullet;
  const char* times;
  const char* none;  // a cell without a number
  const char* bar_full;
  const char* bar_empty;
};
const Glyphs& glyphs(bool unicode);

// At most `cells` wide: the middle is left out, or the end when there is no room for both sides.
std::string elide_middle(std::string_view text, std::size_t cells, bool unicode);
// Likewise, but what stands at byte `focus` stays visible.
std::string elide_around(std::string_view text, std::size_t cells, std::size_t focus, bool unicode);

// Labels for one table: each at most `cells` wide, and different wherever the names are. A name
// that its label would make equal to another shows its first difference, else a number.
std::vector<std::string> distinct_labels(const std::vector<std::string>& names, std::size_t cells,
                                         bool unicode);

std::string pad_left(std::string_view text, std::size_t cells);
std::string pad_right(std::string_view text, std::size_t cells);

enum class Style : std::uint8_t { kPlain, kBold, kDim, kTrouble, kWarning, kBusy, kIdle };

struct Run {
  std::string text;  // printable
  Style style = Style::kPlain;
};
using Line = std::vector<Run>;

std::size_t display_width(const Line& line);

// `items` one after another with the separator between them, broken between items where the
// width asks for it, and within an item between its words.
std::vector<Line> flow(const std::vector<Run>& items, std::size_t width, bool unicode);

// `text` broken between words; lines after the first are indented by `indent` cells.
std::vector<Line> wrap(const Run& text, std::size_t width, std::size_t indent);

// The line with its end cut to `width`, without trailing spaces, and with its colours.
std::string to_terminal(const Line& line, std::size_t width, bool color, bool unicode);

}  // namespace profiler
