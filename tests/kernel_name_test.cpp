#include "collector/kernel_name.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace profiler {
namespace {

TEST_CASE("demangle reads C++ names and leaves the others alone", "[kernel_name]") {
  CHECK(demangle("_Z6matmulPKfS0_Pfi") == "matmul(float const*, float const*, float*, int)");
  CHECK(demangle("_Z4biasIfLi4EEvPT_") == "void bias<float, 4>(float*)");
  CHECK(demangle("ampere_sgemm_128x64_nn") == "ampere_sgemm_128x64_nn");
  CHECK(demangle("triton_poi_fused_add_0") == "triton_poi_fused_add_0");
  CHECK(demangle("_Znonsense!") == "_Znonsense!");
  CHECK(demangle("_Z") == "_Z");
  CHECK(demangle("").empty());
  // A bare "f" is the type float to the demangler.
  CHECK(demangle("f") == "f");
  const std::string with_nul("_Z1fv\0x", 7);
  CHECK(demangle(with_nul) == with_nul);
}

// f(A, B<A,A>, C<B,B>, ...): every level doubles the length.
std::string doubling_name(int levels) {
  static const std::string kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const auto reference = [](int id) -> std::string {
    if (id < 0) return "S_";
    std::string text;
    do {
      text.insert(text.begin(), kDigits[static_cast<std::size_t>(id) % kDigits.size()]);
      id /= static_cast<int>(kDigits.size());
    } while (id != 0);
    return "S" + text + "_";
  };
  std::string name = "_Z1f1A";
  for (int level = 0; level < levels; ++level) {
    const std::string before = reference(2 * level - 1);
    name.append("1BI").append(before).append(before).append("E");
  }
  return name;
}

TEST_CASE("a short name that stands for an endless one stays mangled", "[kernel_name]") {
  const std::string harmless = doubling_name(3);
  CHECK(demangle(harmless) ==
        "f(A, B<A, A>, B<B<A, A>, B<A, A> >, B<B<B<A, A>, B<A, A> >, "
        "B<B<A, A>, B<A, A> > >)");
  if (!demangling_is_bounded()) return;
  const std::string bomb = doubling_name(60);
  REQUIRE(bomb.size() < 800);
  CHECK(demangle(bomb) == bomb);
}

TEST_CASE("short kernel names", "[kernel_name]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"matmul(float const*, float const*, float*, int)", "matmul"},
      {"void bias<float, 4>(float*)", "bias<float, 4>"},
      {"void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1>("
       "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1::Params)",
       "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align1"},
      {"void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int>, "
       "cutlass::epilogue::Default> >(cutlass::gemm::kernel::Params)",
       "GemmUniversal<tuple<int, int>, Default>"},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, "
       "at::detail::Array<char*, 3> >(int, at::native::AddFunctor<float>, "
       "at::detail::Array<char*, 3>)",
       "vectorized_elementwise_kernel<4, AddFunctor<float>, Array<char*, 3>>"},
      {"(anonymous namespace)::softmax(float*)", "softmax"},
      {"void at::native::(anonymous namespace)::cat<at::native::(anonymous namespace)::Opaque<4u>, "
       "unsigned int>(int)",
       "cat<Opaque<4u>, unsigned int>"},
      {"<unnamed>::softmax(float *)", "softmax"},
      // Generic, but with arguments of its own or none that would help.
      {"void ns::kernel<float, 4>(float*)", "kernel<float, 4>"},
      {"void kernel<3>(float*)", "kernel<3>"},
      {"kernel(float*)", "kernel"},
      // The name goes on inside a function.
      {"main::{lambda(int, float*)#1}::operator()(int, float*) const",
       "main::{lambda(int, float*)#1}::operator()"},
      {"void launch<main::{lambda(int)#1}>(main::{lambda(int)#1})",
       "launch<main::{lambda(int)#1}>"},
      {"run(int)::{lambda()#2}::operator()() const", "run::{lambda()#2}::operator()"},
      {"void go<run(int, float)::{lambda(int)#1}>(int)", "go<run(int, float)::{lambda(int)#1}>"},
      // Operators.
      {"ns::operator<<(ns::A&, int)", "ns::operator<<"},
      {"void ns::operator< <int>(ns::A<int> const&)", "ns::operator<<int>"},
      {"ns::A<int>::operator()(int) const", "A<int>::operator()"},
      {"ns::A<int>::operator->() const", "A<int>::operator->"},
      {"ns::A<int>::operator>(int)", "A<int>::operator>"},
      {"ns::A::operator int() const", "A::operator int"},
      // Function pointers, expressions and casts as arguments.
      {"void apply<void (*)(ns::A, int)>(void (*)(ns::A, int))", "apply<void (*)(A, int)>"},
      {"void apply<(void (*)(float*))0, &(ns::run(int))>(int)",
       "apply<(void (*)(float*))0, &(run(int))>"},
      {"void f<(ns::Mode)2, (int)4, (bool)1>(int)", "f<(Mode)2, 4, 1>"},
      {"void f<ns::A<ns::B<int> > >(decltype (x->y))", "f<A<B<int>>>"},
      {"decltype ((x)+(y)) sum<int>(int, int)", "sum<int>"},
      {"unsigned long count<int>(int*)", "count<int>"},
      {"void ns::C<int>::run<float>(float)", "C<int>::run<float>"},
      {"f(int) [clone .kd]", "f"},
      {"void f<int>(int) const &", "f<int>"},
      // Names of other languages and damaged ones stay as they are.
      {"triton_poi_fused_add_0", "triton_poi_fused_add_0"},
      {"ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"},
      {"my kernel with spaces", "my kernel with spaces"},
      {"[CUDA memcpy HtoD]", "[CUDA memcpy HtoD]"},
      {"Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"},
      {"f<int", "f<int"},
      {"f(int", "f(int"},
      {"f>)]}", "f>)]}"},
      {"::", "::"},
      {"", ""},
      {"_Zbroken", "_Zbroken"},
  };
  for (const auto& [name, expected] : cases) {
    INFO(name);
    CHECK(short_kernel_name(name) == expected);
  }
}

TEST_CASE("long names stay different and short names short", "[kernel_name]") {
  const auto long_name = [](std::size_t length, std::size_t at, char c) {
    std::string name = "void f<" + std::string(length, 'a') + ">(int)";
    name[at] = c;
    return name;
  };
  std::set<std::string> shorts;
  for (const std::size_t length : {2'000UL, 10'240UL, 524'288UL}) {
    for (const char c : {'b', 'c'})
      shorts.insert(short_kernel_name(long_name(length, length / 2, c)));
  }
  shorts.insert(short_kernel_name(long_name(10'240, 9'000, 'd')));
  shorts.insert(short_kernel_name(long_name(10'240, 9'000, 'e')));
  CHECK(shorts.size() == 8);
  for (const std::string& name : shorts) CHECK(name.size() <= kMaxShortNameBytes);
}

TEST_CASE("names that the demangler gives up still have a function name", "[kernel_name]") {
  const std::string argument(1'500, 'x');
  const std::string mangled = "_ZN2at6native4copyIN3foo1500" + argument + "EEEvT_";
  REQUIRE(demangle(mangled) == mangled);
  CHECK(short_kernel_name(mangled).substr(0, 6) == "copy<x");
  CHECK(short_kernel_name(mangled).size() <= kMaxShortNameBytes);

  const std::string tail = "EEvT_" + std::string(2'000, 'i');
  const std::string cutlass = "_ZN7cutlass6KernelI22cutlass_80_sgemm_64x64" + tail;
  REQUIRE(demangle(cutlass) == cutlass);
  CHECK(short_kernel_name(cutlass).substr(0, 23) == "cutlass_80_sgemm_64x64~");
  CHECK(short_kernel_name(cutlass) != short_kernel_name(cutlass + "i"));
}

TEST_CASE("no name is too deep, too long or too broken", "[kernel_name]") {
  const std::size_t size = 512 * 1024;
  for (const std::string& piece :
       {std::string("A<"), std::string("("), std::string("a::"), std::string("operator"),
        std::string(">"), std::string("{lambda("), std::string("(anonymous namespace)::"),
        std::string(", "), std::string("\xff"), std::string("ä")}) {
    std::string name = "void f";
    while (name.size() < size) name += piece;
    const std::string brief = short_kernel_name(name);
    CHECK(!brief.empty());
    CHECK(brief.size() <= kMaxShortNameBytes);
  }
  std::string nested = "void f";
  for (std::size_t i = 0; i < size / 4; ++i) nested += "<a";
  for (std::size_t i = 0; i < size / 4; ++i) nested += " >";
  CHECK(short_kernel_name(nested + "(int)").substr(0, 5) == "f<a<a");
}

}  // namespace
}  // namespace profiler
