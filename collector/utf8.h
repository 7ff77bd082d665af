// Text from a program under test can hold any bytes; what we write must be UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace profiler {

// `text` itself when it is valid UTF-8, else a copy in `scratch` in which every byte that belongs
// to no character is U+FFFD. Control characters are valid and stay.
std::string_view valid_utf8(std::string_view text, std::string& scratch);

}  // namespace profiler
