// Tables without borders: columns of text, fitted to a width by shortening elastic columns and
// dropping the least important ones. Nothing but elastic text is ever shortened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/text.h"

namespace profiler {

enum class Align : std::uint8_t {
  kLeft,
  kRight,
  kDecimal,  // right, with the decimal points of the column below each other
};

struct Column {
  std::string head;
  Align align = Align::kRight;
  std::uint32_t drop_order = 0;  // 0 = stays; else the highest goes first when room is short
  std::size_t elastic_min = 0;   // 0 = not elastic; else the cells to which it may be shortened
  bool distinct = false;         // elastic: different texts stay different when shortened
};

struct Cell {
  std::string text;  // printable
  Style style = Style::kPlain;
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as `columns`
};

// Whether the table needs no column to be shortened below its minimum, and none dropped.
bool fits(const Table& table, std::size_t width);

// A head line and one line per row. Wider than `width` only when no more can be dropped.
std::vector<Line> layout(const Table& table, std::size_t width, bool unicode);

}  // namespace profiler
