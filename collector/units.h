// Numbers as a person reads them: three significant digits, the unit chosen for each number, halves
// rounded up, and no number that is shown as something it is not (0 is zero, 100 is all).
#pragma once

#include <cstdint>
#include <string>

namespace profiler {

// "900 ns", "1.23 µs", "45.6 ms", "7.00 s", "1 min 30 s", "2 h 05 min", "3 d 4 h".
std::string format_duration(std::uint64_t ns, bool unicode);

// "512 B", "1.23 kB", "45.6 MB": powers of ten, as throughput is counted.
std::string format_bytes(std::uint64_t bytes);

// "12.3 GB/s"; empty when no time passed.
std::string format_throughput(std::uint64_t bytes, std::uint64_t ns);

// "12,345"; from 10^12 on "1.23e12".
std::string format_count(std::uint64_t count);
// "12,345" however large.
std::string format_exact(std::uint64_t count);

// `part` of `whole` in percent, without the sign: "0", "<0.1", "2.7", "48", ">99", "100"; one
// decimal below 10. Empty when `whole` is 0; ">100" for what cannot be a part of it.
std::string format_percent(std::uint64_t part, std::uint64_t whole);

}  // namespace profiler
