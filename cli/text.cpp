#include "cli/text.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>

namespace profiler {
namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Two cells wide (East Asian Width W and F, Unicode 15). The blocks of pictures are taken whole.
constexpr auto kWide = std::to_array<Range>({
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23F3},
    {0x25FD, 0x25FE},   {0x2600, 0x27BF},   {0x2B1B, 0x2B1C},   {0x2B50, 0x2B55},
    {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},
    {0xF900, 0xFAFF},   {0xFE10, 0xFE19},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
    {0xFFE0, 0xFFE6},   {0x16FE0, 0x18DFF}, {0x1AFF0, 0x1B2FF}, {0x1D300, 0x1D37F},
    {0x1F000, 0x1FAFF}, {0x20000, 0x3FFFD},
});

// Marks that are drawn upon the character before them. Rarer ones count as one cell: that makes a
// line shorter than computed, never wider.
constexpr auto kCombining = std::to_array<Range>({
    {0x0300, 0x036F},
    {0x0483, 0x0489},
    {0x0591, 0x05BD},
    {0x064B, 0x065F},
    {0x093C, 0x093C},
    {0x0941, 0x0948},
    {0x094D, 0x094D},
    {0x0E31, 0x0E31},
    {0x0E34, 0x0E3A},
    {0x0E47, 0x0E4E},
    {0x1AB0, 0x1AFF},
    {0x1DC0, 0x1DFF},
    {0x20D0, 0x20F0},
    {0x3099, 0x309A},
    {0xFE20, 0xFE2F},
});

// Invisible, or changing the direction or the shape of what is around: never sent to a terminal.
constexpr auto kUnsafe = std::to_array<Range>({
    {0x0000, 0x001F},   {0x007F, 0x009F},   {0x00AD, 0x00AD},    {0x034F, 0x034F},
    {0x0600, 0x0605},   {0x061C, 0x061C},   {0x06DD, 0x06DD},    {0x070F, 0x070F},
    {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},    {0x2000, 0x200F},
    {0x2028, 0x202F},   {0x205F, 0x206F},   {0x3000, 0x3000},    {0x3164, 0x3164},
    {0xD800, 0xF8FF},   {0xFDD0, 0xFDEF},   {0xFE00, 0xFE0F},    {0xFEFF, 0xFEFF},
    {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0xFFFE, 0xFFFF},    {0x110BD, 0x110BD},
    {0x110CD, 0x110CD}, {0x13430, 0x1345F}, {0x1BCA0, 0x1BCA3},  {0x1D173, 0x1D17A},
    {0x1FFFE, 0x1FFFF}, {0x2FFFE, 0x2FFFF}, {0x3FFFE, 0x10FFFF},
});

// Surplus marks on one character would be drawn over the lines around it.
constexpr std::size_t kMaxMarks = 3;

template <std::size_t N>
bool is_in(const std::array<Range, N>& ranges, std::uint32_t code) {
  const auto* found = std::lower_bound(ranges.begin(), ranges.end(), code,
                                       [](Range range, std::uint32_t c) { return range.last < c; });
  return found != ranges.end() && code >= found->first;
}

struct Decoded {
  std::uint32_t code = 0;
  std::size_t bytes = 0;
  bool valid = false;
};

bool is_plain(char c) {
  return c >= ' ' && c <= '~';
}

Decoded decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const std::uint32_t first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + length > text.size()) return {first, 1, false};
  std::uint32_t code = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {first, 1, false};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  static constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest.at(length) || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return {first, 1, false};
  }
  return {code, length, true};
}

std::size_t cells_of(std::uint32_t code) {
  if (code < 0x300) return 1;
  if (is_in(kCombining, code)) return 0;
  return is_in(kWide, code) ? 2 : 1;
}

std::string hex(std::uint32_t value) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), kDigits[value & 0xFU]);
    value >>= 4U;
  } while (value != 0 || digits.size() < 2);
  return digits;
}

std::string escape(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return code < 0x80 ? "\\x" + hex(code) : "\\u{" + hex(code) + "}";
  }
}

// Bytes of the longest beginning of `text` that takes at most `cells`.
std::size_t prefix_bytes(std::string_view text, std::size_t cells) {
  std::size_t at = 0;
  while (at < text.size()) {
    const Decoded decoded = decode(text, at);
    const std::size_t width = cells_of(decoded.code);
    if (width > cells) break;
    cells -= width;
    at += decoded.bytes;
  }
  return at;
}

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Where the shortest end of `text` begins that still takes as many of `cells` as possible.
std::size_t suffix_start(std::string_view text, std::size_t cells) {
  std::size_t at = text.size();
  while (at > 0) {
    std::size_t before = at - 1;
    while (before > 0 && continues(text[before])) --before;
    const std::size_t width = cells_of(decode(text, before).code);
    if (width > cells) break;
    cells -= width;
    at = before;
  }
  // An end must not begin with a mark that would sit on the ellipsis.
  while (at < text.size() && cells_of(decode(text, at).code) == 0) at += decode(text, at).bytes;
  return at;
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto end = std::mismatch(
      a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return static_cast<std::size_t>(end.first - a.begin());
}

const char* code_of(Style style) {
  switch (style) {
    case Style::kPlain:
      return "";
    case Style::kBold:
      return "\x1b[1m";
    case Style::kDim:
      return "\x1b[2m";
    case Style::kTrouble:
      return "\x1b[1;31m";
    case Style::kWarning:
      return "\x1b[33m";
    case Style::kBusy:
      return "\x1b[32m";
    case Style::kIdle:
      return "\x1b[33m";
  }
  return "";
}

using Groups = std::map<std::string, std::vector<std::size_t>>;

// Labels that more than one name has.
Groups clashes(const std::vector<std::string>& names, const std::vector<std::string>& labels) {
  Groups groups;
  for (std::size_t i = 0; i < labels.size(); ++i) groups[labels[i]].push_back(i);
  for (auto group = groups.begin(); group != groups.end();) {
    const auto& members = group->second;
    const bool clash = std::any_of(members.begin(), members.end(), [&](std::size_t i) {
      return names[i] != names[members.front()];
    });
    group = clash ? std::next(group) : groups.erase(group);
  }
  return groups;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t cells = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (is_plain(text[at])) {  // nearly all there is; names can be half a megabyte
      ++cells;
      ++at;
      continue;
    }
    const Decoded decoded = decode(text, at);
    cells += cells_of(decoded.code);
    at += decoded.bytes;
  }
  return cells;
}

std::string printable(std::string_view text, bool unicode) {
  std::string out;
  out.reserve(text.size());
  std::size_t marks = kMaxMarks;
  for (std::size_t at = 0; at < text.size();) {
    if (is_plain(text[at])) {
      // A mark needs a character to sit on, on the same line.
      marks = text[at] == ' ' ? kMaxMarks : 0;
      out += text[at++];
      continue;
    }
    const Decoded decoded = decode(text, at);
    const bool mark = decoded.valid && cells_of(decoded.code) == 0;
    marks = mark ? marks + 1 : 0;
    if (!decoded.valid) {
      out += "\\x" + hex(decoded.code);
    } else if (is_in(kUnsafe, decoded.code) || (decoded.code >= 0x80 && !unicode) ||
               (mark && marks > kMaxMarks)) {
      out += escape(decoded.code);
    } else {
      out.append(text, at, decoded.bytes);
    }
    at += decoded.bytes;
  }
  return out;
}

std::string own_words(std::string_view text, bool unicode) {
  if (unicode) return printable(text, true);
  struct Spelling {
    std::string_view character;
    std::string_view ascii;
  };
  static constexpr auto kSpellings =
      std::to_array<Spelling>({{"µ", "u"}, {"…", "..."}, {"×", "x"}, {"→", "->"}});
  std::string out;
  while (!text.empty()) {
    const auto* known = std::find_if(
        kSpellings.begin(), kSpellings.end(),
        [&](const Spelling& spelling) { return text.starts_with(spelling.character); });
    if (known != kSpellings.end()) {
      out += known->ascii;
      text.remove_prefix(known->character.size());
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return printable(out, false);
}

const Glyphs& glyphs(bool unicode) {
  static constexpr Glyphs kUnicode = {"…", "→", " · ", "• ", "×", "–", "█", "░"};
  static constexpr Glyphs kAscii = {"...", "->", " | ", "* ", "x", "-", "#", "."};
  return unicode ? kUnicode : kAscii;
}

std::string elide_middle(std::string_view text, std::size_t cells, bool unicode) {
  if (display_width(text) <= cells) return std::string(text);
  const std::string_view ellipsis = glyphs(unicode).ellipsis;
  const std::size_t gap = display_width(ellipsis);
  if (cells <= gap + 2) return std::string(text.substr(0, prefix_bytes(text, cells)));
  const std::size_t head = prefix_bytes(text, (cells - gap) / 2);
  const std::size_t tail_cells = cells - gap - display_width(text.substr(0, head));
  std::string out(text.substr(0, head));
  out += ellipsis;
  out += text.substr(suffix_start(text, tail_cells));
  return out;
}

std::string elide_around(std::string_view text, std::size_t cells, std::size_t focus,
                         bool unicode) {
  if (display_width(text) <= cells) return std::string(text);
  const std::string_view ellipsis = glyphs(unicode).ellipsis;
  const std::size_t gap = display_width(ellipsis);
  if (cells < 4 * gap + 8 || focus >= text.size()) return elide_middle(text, cells, unicode);
  // The word in which the difference lies, as far as a third of the room can hold its beginning.
  const std::size_t floor = focus - std::min(focus, cells / 3);
  std::size_t start = focus;
  while (start > floor && is_word(text[start - 1])) --start;
  while (start > 0 && start < text.size() && continues(text[start])) --start;

  if (display_width(text.substr(start)) + gap + cells / 3 <= cells) {
    const std::size_t tail_start = start;
    const std::size_t tail = display_width(text.substr(tail_start));
    std::string out(text.substr(0, prefix_bytes(text, cells - gap - tail)));
    out += ellipsis;
    out += text.substr(tail_start);
    return out;
  }
  const std::size_t head = prefix_bytes(text, cells / 3);
  if (start <= head) {
    std::string out(text.substr(0, prefix_bytes(text, cells - gap)));
    out += ellipsis;
    return out;
  }
  std::string out(text.substr(0, head));
  out += ellipsis;
  const std::string_view rest = text.substr(start);
  const std::size_t room = cells - display_width(out);
  if (display_width(rest) <= room) {
    out += rest;
  } else {
    out += rest.substr(0, prefix_bytes(rest, room - gap));
    out += ellipsis;
  }
  return out;
}

std::vector<std::string> distinct_labels(const std::vector<std::string>& names, std::size_t cells,
                                         bool unicode) {
  std::vector<std::string> labels;
  labels.reserve(names.size());
  for (const std::string& name : names) labels.push_back(elide_middle(name, cells, unicode));

  // Several passes, since names that differ from a third one early may differ from each other late.
  for (int pass = 0; pass < 4; ++pass) {
    const Groups groups = clashes(names, labels);
    if (groups.empty()) return labels;
    for (const auto& [label, members] : groups) {
      std::size_t focus = names[members.front()].size();
      for (const std::size_t i : members) {
        focus = std::min(focus, names[i] == names[members.front()]
                                    ? focus
                                    : common_prefix(names[i], names[members.front()]));
      }
      for (const std::size_t i : members) labels[i] = elide_around(names[i], cells, focus, unicode);
    }
  }
  // A number, and room for it; a number that happens to be taken by another name is passed over.
  for (const auto& [label, members] : clashes(names, labels)) {
    std::set<std::string> taken(labels.begin(), labels.end());
    std::map<std::string_view, std::string> numbered;
    std::size_t number = 0;
    for (const std::size_t i : members) {
      std::string& mine = numbered[names[i]];
      while (mine.empty()) {
        const std::string suffix = " #" + std::to_string(++number);
        const std::size_t room = cells > suffix.size() ? cells - suffix.size() : 0;
        std::string candidate = elide_middle(names[i], room, unicode) + suffix;
        if (taken.insert(candidate).second) mine = std::move(candidate);
      }
      labels[i] = mine;
    }
  }
  return labels;
}

std::string pad_left(std::string_view text, std::size_t cells) {
  const std::size_t width = display_width(text);
  return std::string(cells > width ? cells - width : 0, ' ').append(text);
}

std::string pad_right(std::string_view text, std::size_t cells) {
  const std::size_t width = display_width(text);
  return std::string(text).append(cells > width ? cells - width : 0, ' ');
}

std::size_t display_width(const Line& line) {
  std::size_t cells = 0;
  for (const Run& run : line) cells += display_width(run.text);
  return cells;
}

std::vector<Line> wrap(const Run& text, std::size_t width, std::size_t indent) {
  std::vector<Line> lines;
  std::string current;
  std::size_t used = 0;
  const auto finish = [&] {
    lines.push_back({{current, text.style}});
    current.assign(std::min(indent, width / 2), ' ');
    used = current.size();
  };
  std::size_t line_start = 0;  // cells that are indentation only
  std::string_view rest = text.text;
  while (!rest.empty()) {
    std::size_t end = rest.find(' ');
    if (end == std::string_view::npos) end = rest.size();
    std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(rest.size(), end + 1));
    std::size_t cells = display_width(word);
    const bool fresh = used == line_start;
    if (!fresh && used + 1 + cells > width) {
      finish();
      line_start = used;
    } else if (!fresh) {
      current += ' ';
      ++used;
    }
    while (used + cells > width) {
      const std::size_t bytes = std::max<std::size_t>(prefix_bytes(word, width - used), 1);
      current += word.substr(0, bytes);
      word.remove_prefix(bytes);
      cells = display_width(word);
      finish();
      line_start = used;
    }
    current += word;
    used += cells;
  }
  if (used > line_start || lines.empty()) lines.push_back({{current, text.style}});
  return lines;
}

std::vector<Line> flow(const std::vector<Run>& items, std::size_t width, bool unicode) {
  std::vector<Line> lines;
  const std::string separator = glyphs(unicode).separator;
  std::size_t used = 0;
  for (const Run& item : items) {
    const std::size_t cells = display_width(item.text);
    if (used > 0 && used + display_width(separator) + cells <= width) {
      lines.back().push_back({separator, Style::kDim});
      lines.back().push_back(item);
      used += display_width(separator) + cells;
      continue;
    }
    for (Line& line : wrap(item, width, 2)) lines.push_back(std::move(line));
    used = display_width(lines.back());
  }
  return lines;
}

std::string to_terminal(const Line& line, std::size_t width, bool color, bool unicode) {
  Line shown = line;
  if (display_width(line) > width) {
    const std::string ellipsis = glyphs(unicode).ellipsis;
    std::size_t room = width - std::min(width, display_width(ellipsis));
    for (Run& run : shown) {
      run.text.resize(prefix_bytes(run.text, room));
      room -= display_width(run.text);
    }
    shown.push_back({ellipsis.substr(0, width), Style::kDim});
    if (display_width(ellipsis) > width) shown.back().text.clear();
  }
  while (!shown.empty()) {
    std::string& text = shown.back().text;
    text.erase(text.find_last_not_of(' ') + 1);
    if (!text.empty()) break;
    shown.pop_back();
  }
  std::string out;
  for (const Run& run : shown) {
    const bool styled = color && run.style != Style::kPlain && !run.text.empty();
    if (styled) out += code_of(run.style);
    out += run.text;
    if (styled) out += "\x1b[0m";
  }
  return out;
}

}  // namespace profiler
