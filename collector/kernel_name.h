// Names of kernels for people.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace profiler {

inline constexpr std::size_t kMaxShortNameBytes = 160;

// The C++ name, or `mangled` itself when it is not mangled or cannot be read (the C++ run time
// gives up at about 1,000 characters).
std::string demangle(std::string_view mangled);

// Whether `demangle` also gives up names that stand for more than a megabyte: 250 bytes can stand
// for hundreds of megabytes. Needs GNU's C++ run time linked statically (-static-libstdc++).
bool demangling_is_bounded();

// What tells a kernel from others, from its demangled (or plain, or still mangled) name: without
// return type, parameters and namespaces; of a wrapper such as `Kernel<T>` only `T`. At most
// kMaxShortNameBytes; a longer one loses its middle and ends in a hash of the whole name, so that
// different names stay different. Not unique: overloads have the same short name.
// Takes time linear in the length of the name.
std::string short_kernel_name(std::string_view name);

}  // namespace profiler
