#include "collector/units.h"

#include <array>
#include <cstddef>

namespace profiler {
namespace {

// Products of two 64-bit numbers do not fit into 64 bits.
__extension__ using Wide = unsigned __int128;

std::uint64_t divide_half_up(Wide numerator, Wide denominator) {
  const Wide quotient = (numerator + denominator / 2) / denominator;
  return quotient > UINT64_MAX ? UINT64_MAX : static_cast<std::uint64_t>(quotient);
}

std::string with_decimals(std::uint64_t scaled, int decimals) {
  std::string digits = std::to_string(scaled);
  if (decimals == 0) return digits;
  const auto places = static_cast<std::size_t>(decimals);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  digits.insert(digits.size() - places, 1, '.');
  return digits;
}

// Three significant digits of value / unit, or nothing when that is `limit` or more.
std::string three_digits(Wide value, Wide unit, std::uint64_t limit) {
  Wide power = 100;
  for (int decimals = 2; decimals >= 0; --decimals, power /= 10) {
    const std::uint64_t scaled = divide_half_up(value * power, unit);
    const bool below_limit = Wide{scaled} < Wide{limit} * power;
    if (below_limit && (scaled < 1000 || decimals == 0)) return with_decimals(scaled, decimals);
  }
  return {};
}

std::string two_digits(std::uint64_t value) {
  std::string digits = std::to_string(value);
  if (digits.size() < 2) digits.insert(digits.begin(), '0');
  return digits;
}

std::string scale_bytes(Wide bytes, Wide divisor) {
  static constexpr std::array<const char*, 7> kUnits = {" B",  " kB", " MB", " GB",
                                                        " TB", " PB", " EB"};
  const std::uint64_t whole = divide_half_up(bytes, divisor);
  if (whole < 1000) return std::to_string(whole) + kUnits[0];
  Wide unit = divisor;
  for (std::size_t i = 1; i < kUnits.size(); ++i) {
    unit *= 1000;
    const bool last = i + 1 == kUnits.size();
    std::string digits = three_digits(bytes, unit, last ? UINT64_MAX : 1000);
    if (!digits.empty()) return digits + kUnits[i];
  }
  return {};
}

}  // namespace

std::string format_duration(std::uint64_t ns, bool unicode) {
  if (ns < 1000) return std::to_string(ns) + " ns";
  if (std::string digits = three_digits(ns, 1'000, 1000); !digits.empty()) {
    return digits + (unicode ? " µs" : " us");
  }
  if (std::string digits = three_digits(ns, 1'000'000, 1000); !digits.empty()) {
    return digits + " ms";
  }
  if (std::string digits = three_digits(ns, 1'000'000'000, 60); !digits.empty()) {
    return digits + " s";
  }
  const std::uint64_t seconds = divide_half_up(ns, 1'000'000'000);
  if (seconds < 3600) {
    return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  }
  const std::uint64_t minutes = divide_half_up(ns, 60'000'000'000);
  if (minutes < 24 * 60) {
    return std::to_string(minutes / 60) + " h " + two_digits(minutes % 60) + " min";
  }
  const std::uint64_t hours = divide_half_up(ns, 3'600'000'000'000);
  return std::to_string(hours / 24) + " d " + std::to_string(hours % 24) + " h";
}

std::string format_bytes(std::uint64_t bytes) {
  return scale_bytes(bytes, 1);
}

std::string format_throughput(std::uint64_t bytes, std::uint64_t ns) {
  if (ns == 0) return {};
  return scale_bytes(Wide{bytes} * 1'000'000'000, ns) + "/s";
}

std::string format_exact(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string format_count(std::uint64_t count) {
  if (count < 1'000'000'000'000) return format_exact(count);
  std::uint64_t unit = 1'000'000'000'000;
  int exponent = 12;
  while (true) {
    if (std::string digits = three_digits(count, unit, 10); !digits.empty()) {
      return digits + "e" + std::to_string(exponent);
    }
    unit *= 10;  // a 64-bit count is below 2 * 10^19, so this ends at 10^19 at the latest
    ++exponent;
  }
}

std::string format_percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return {};
  if (part == 0) return "0";
  if (part == whole) return "100";
  if (part > whole) return ">100";
  const std::uint64_t tenths = divide_half_up(Wide{part} * 1000, whole);
  if (tenths == 0) return "<0.1";
  if (tenths < 100) return with_decimals(tenths, 1);
  const std::uint64_t percent = divide_half_up(Wide{part} * 100, whole);
  if (percent >= 100) return ">99";
  return std::to_string(percent);
}

}  // namespace profiler
