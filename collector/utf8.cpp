#include "collector/utf8.h"

#include <cstddef>
#include <cstdint>

namespace profiler {
namespace {

// Length of the character at the beginning of `text`, 0 if there is none. As the Unicode standard
// has it: no overlong forms, no surrogates, nothing above U+10FFFF.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const std::uint8_t second = byte(1);
  if (first == 0xE0 && second < 0xA0) return 0;
  if (first == 0xED && second >= 0xA0) return 0;
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second >= 0x90) return 0;
  return length;
}

std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = character_length(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

}  // namespace

std::string_view valid_utf8(std::string_view text, std::string& scratch) {
  std::size_t valid = valid_prefix(text);
  if (valid == text.size()) return text;
  scratch.clear();
  while (true) {
    scratch.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) return scratch;
    scratch.append("\xEF\xBF\xBD");
    text.remove_prefix(1);
    valid = valid_prefix(text);
  }
}

}  // namespace profiler
