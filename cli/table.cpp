#include "cli/table.h"

#include <algorithm>
#include <cstdint>

namespace profiler {
namespace {

constexpr std::size_t kGap = 2;

std::size_t decimals_width(const std::string& text) {
  const std::size_t point = text.rfind('.');
  return point == std::string::npos ? 0 : text.size() - point;
}

// Aligns the points by spaces at the end, so that such a column can be padded like any other.
void align_decimals(Table& table) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].align != Align::kDecimal) continue;
    std::size_t places = 0;
    for (const auto& row : table.rows) places = std::max(places, decimals_width(row[i].text));
    for (auto& row : table.rows) row[i].text.append(places - decimals_width(row[i].text), ' ');
  }
}

struct Fit {
  std::vector<std::size_t> natural;
  std::vector<bool> kept;

  explicit Fit(const Table& table)
      : natural(table.columns.size()), kept(table.columns.size(), true) {
    for (std::size_t i = 0; i < natural.size(); ++i) {
      natural[i] = display_width(table.columns[i].head);
      for (const auto& row : table.rows) {
        natural[i] = std::max(natural[i], display_width(row[i].text));
      }
    }
  }

  std::size_t smallest(const Table& table, std::size_t i) const {
    const std::size_t minimum = table.columns[i].elastic_min;
    return minimum == 0 ? natural[i] : std::min(natural[i], minimum);
  }

  std::size_t smallest_total(const Table& table) const {
    std::size_t total = 0;
    for (std::size_t i = 0; i < natural.size(); ++i) {
      if (kept[i]) total += (total == 0 ? 0 : kGap) + smallest(table, i);
    }
    return total;
  }
};

}  // namespace

bool fits(const Table& source, std::size_t width) {
  Table table = source;
  align_decimals(table);
  return Fit(table).smallest_total(table) <= width;
}

std::vector<Line> layout(const Table& source, std::size_t width, bool unicode) {
  Table table = source;
  const std::size_t columns = table.columns.size();
  align_decimals(table);

  Fit fit(table);
  while (fit.smallest_total(table) > width) {
    std::size_t victim = columns;
    for (std::size_t i = 0; i < columns; ++i) {
      if (!fit.kept[i] || table.columns[i].drop_order == 0) continue;
      if (victim == columns || table.columns[i].drop_order > table.columns[victim].drop_order) {
        victim = i;
      }
    }
    if (victim == columns) break;
    fit.kept[victim] = false;
  }

  const std::size_t needed = fit.smallest_total(table);
  std::size_t spare = width > needed ? width - needed : 0;
  std::size_t excess = needed > width ? needed - width : 0;
  std::vector<std::size_t> cells(columns);
  for (std::size_t i = 0; i < columns; ++i) {
    cells[i] = fit.smallest(table, i);
    if (!fit.kept[i] || table.columns[i].elastic_min == 0) continue;
    const std::size_t more = std::min(spare, fit.natural[i] - cells[i]);
    cells[i] += more;
    spare -= more;
    const std::size_t less = std::min(excess, cells[i] - std::min<std::size_t>(cells[i], 6));
    cells[i] -= less;
    excess -= less;
  }

  for (std::size_t i = 0; i < columns; ++i) {
    if (!fit.kept[i] || fit.natural[i] <= cells[i]) continue;
    std::vector<std::string> texts;
    texts.reserve(table.rows.size());
    for (const auto& row : table.rows) texts.push_back(row[i].text);
    if (table.columns[i].distinct) {
      texts = distinct_labels(texts, cells[i], unicode);
    } else {
      for (std::string& text : texts) text = elide_middle(text, cells[i], unicode);
    }
    for (std::size_t r = 0; r < texts.size(); ++r) table.rows[r][i].text = std::move(texts[r]);
    table.columns[i].head = elide_middle(table.columns[i].head, cells[i], unicode);
  }

  const auto line_of = [&](auto&& cell_at) {
    Line line;
    for (std::size_t i = 0; i < columns; ++i) {
      if (!fit.kept[i]) continue;
      const Cell cell = cell_at(i);
      if (!line.empty()) line.push_back({std::string(kGap, ' '), Style::kPlain});
      const bool left = table.columns[i].align == Align::kLeft;
      line.push_back(
          {left ? pad_right(cell.text, cells[i]) : pad_left(cell.text, cells[i]), cell.style});
    }
    return line;
  };
  std::vector<Line> lines;
  lines.reserve(table.rows.size() + 1);
  lines.push_back(line_of([&](std::size_t i) {
    return Cell{table.columns[i].head, Style::kBold};
  }));
  for (const auto& row : table.rows) {
    lines.push_back(line_of([&](std::size_t i) { return row[i]; }));
  }
  return lines;
}

}  // namespace profiler
