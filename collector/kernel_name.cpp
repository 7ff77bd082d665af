#include "collector/kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

// The demangler of libstdc++ with its output handed over in pieces, so that it can be stopped.
// Absent from its shared library and from other C++ libraries.
extern "C" int __gcclibcxx_demangle_callback(  // NOLINT(readability-identifier-naming)
    const char* mangled, void (*callback)(const char*, std::size_t, void*), void* opaque)
    __attribute__((weak));

namespace profiler {
namespace {

constexpr std::size_t kMaxDemangledBytes = std::size_t{1} << 20U;

struct Output {
  std::string text;
  std::jmp_buf too_long;
};

void append(const char* piece, std::size_t size, void* opaque) {
  auto* output = static_cast<Output*>(opaque);
  // Only C frames without anything to release lie between here and setjmp.
  if (output->text.size() + size > kMaxDemangledBytes) std::longjmp(output->too_long, 1);
  output->text.append(piece, size);
}

bool demangle_bounded(const char* mangled, Output& output) {
  if (setjmp(output.too_long) != 0) return false;
  return __gcclibcxx_demangle_callback(mangled, append, &output) == 0;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_identifier(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         c == '.' || (static_cast<unsigned char>(c) & 0x80U) != 0;
}

bool starts_with(std::string_view text, std::size_t at, std::string_view what) {
  return text.compare(at, what.size(), what) == 0;
}

// Names that say nothing: everything is in their one template argument.
bool is_generic(std::string_view name) {
  static constexpr auto kGeneric = std::to_array<std::string_view>(
      {"kernel", "kernel2", "device_kernel", "devicekernel", "global_kernel", "kernel_entry",
       "kernel_impl", "kernel_wrapper", "launch_kernel", "run_kernel"});
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(kGeneric.begin(), kGeneric.end(), lower) != kGeneric.end();
}

// Bytes of the symbol of an operator function whose name begins at `at`; 0 for "operator int".
std::size_t operator_symbol(std::string_view text, std::size_t at) {
  static constexpr auto kSymbols = std::to_array<std::string_view>(
      {"()", "[]", "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "==", "!=",
       "&&", "||", "++",  "--",  "+=",  "-=",  "*=", "/=", "%=", "^=", "&=", "|=", "+",
       "-",  "*",  "/",   "%",   "^",   "&",   "|",  "~",  "!",  "=",  "<",  ">",  ","});
  for (const std::string_view symbol : kSymbols) {
    if (starts_with(text, at, symbol)) return symbol.size();
  }
  return 0;
}

// Reads a demangled name once from left to right and writes it without namespaces. A component is
// what stands between "::"; a plain one in front of "::" is taken back from the output.
class Shortener {
 public:
  explicit Shortener(std::string_view name) : name_(name) {}

  std::string run() {
    while (at_ < name_.size() && !done_) step();
    if (!done_ && (spaced_ || !open_.empty())) return std::string(name_);
    return distinguishing_part();
  }

 private:
  struct Bracket {
    char kind = 0;
    std::size_t component = 0;  // of the level around it
    std::size_t output = 0;     // where the bracket itself stands in the output
    bool parameters = false;    // of a function
  };

  void step() {
    const char c = name_[at_];
    if (is_identifier(c)) {
      identifier();
    } else if (starts_with(name_, at_, "::")) {
      scope();
    } else if (skip_anonymous()) {
      return;
    } else if (c == '<' && has_component()) {
      open(c, false);
    } else if (c == '(' || c == '[' || c == '{') {
      open(c, c == '(' && open_.empty() && has_component());
    } else if (c == '>' || c == ')' || c == ']' || c == '}') {
      close(c);
    } else {
      other(c);
    }
  }

  bool has_component() const { return out_.size() > component_ || !plain_; }

  void identifier() {
    const std::size_t start = at_;
    while (at_ < name_.size() && is_identifier(name_[at_])) ++at_;
    out_.append(name_, start, at_ - start);
    if (name_.substr(start, at_ - start) != "operator") return;
    plain_ = false;
    const std::size_t symbol = operator_symbol(name_, at_);
    if (symbol > 0) {
      out_.append(name_, at_, symbol);
      at_ += symbol;
      // "operator< <int>": the space belongs to the name.
      if (starts_with(name_, at_, " <")) ++at_;
    } else if (at_ < name_.size() && name_[at_] == ' ') {  // "operator int", "operator new"
      out_ += ' ';
      ++at_;
    }
  }

  void scope() {
    at_ += 2;
    const bool local = at_ < name_.size() && name_[at_] == '{';
    const bool of_operator = starts_with(name_, at_, "operator");
    if (plain_ && !local && !of_operator) {
      out_.resize(component_);
      return;
    }
    if (has_component()) out_ += "::";
    component_ = out_.size();
    plain_ = true;
  }

  bool skip_anonymous() {
    for (const std::string_view anonymous :
         {std::string_view("(anonymous namespace)::"), std::string_view("<unnamed>::"),
          std::string_view("{anonymous}::")}) {
      if (!starts_with(name_, at_, anonymous)) continue;
      at_ += anonymous.size();
      return true;
    }
    return false;
  }

  void open(char kind, bool parameters) {
    if (kind == '<' && open_.empty()) {
      arguments_ = out_.size() + 1;
      argument_commas_ = 0;
      arguments_end_ = 0;
    }
    open_.push_back({kind, component_, out_.size(), parameters});
    out_ += kind;
    ++at_;
    component_ = out_.size();
    plain_ = true;
  }

  void close(char closer) {
    ++at_;
    const char opener = closer == '>' ? '<' : closer == ')' ? '(' : closer == ']' ? '[' : '{';
    const bool arrow = closer == '>' && !out_.empty() && out_.back() == '-';
    if (arrow || open_.empty() || open_.back().kind != opener) {
      out_ += closer;
      component_ = out_.size();
      plain_ = true;
      return;
    }
    const Bracket bracket = open_.back();
    open_.pop_back();
    if (closer == '>') {
      while (out_.size() > bracket.output + 1 && out_.back() == ' ') out_.pop_back();
      if (open_.empty()) arguments_end_ = out_.size();
    }
    if (bracket.parameters) {
      after_parameters(bracket.output);
      component_ = bracket.component;
      plain_ = false;
      return;
    }
    component_ = bracket.component;
    plain_ = false;
    if (closer == ')' && is_cast(bracket.output)) {  // "(int)4" says no more than "4"
      out_.resize(bracket.output);
      component_ = out_.size();
      plain_ = true;
      return;
    }
    out_ += closer;
  }

  bool is_cast(std::size_t opened) const {
    const bool number = at_ < name_.size() && (is_digit(name_[at_]) || name_[at_] == '-');
    if (!number) return false;
    const std::string_view type = std::string_view(out_).substr(opened + 1);
    return type == "int" || type == "unsigned int" || type == "long" || type == "unsigned long" ||
           type == "short" || type == "unsigned short" || type == "long long" ||
           type == "unsigned long long" || type == "bool";
  }

  // The parameters are left out; they end the name unless it goes on inside the function.
  void after_parameters(std::size_t opened) {
    out_.resize(opened);
    std::size_t next = at_;
    for (bool more = true; more;) {
      more = false;
      for (const std::string_view qualifier : {" const", " volatile", " &&", " &", " noexcept"}) {
        if (!starts_with(name_, next, qualifier)) continue;
        next += qualifier.size();
        more = true;
      }
    }
    if (starts_with(name_, next, "::")) {
      at_ = next;
    } else {
      done_ = true;
    }
  }

  void other(char c) {
    ++at_;
    if (c == ',' && open_.size() == 1 && open_.back().kind == '<') ++argument_commas_;
    out_ += c;
    component_ = out_.size();
    plain_ = true;
    if (c == ' ' && open_.empty()) {
      spaced_ = true;
      name_start_ = out_.size();
    }
  }

  std::string distinguishing_part() const {
    const bool one_argument = arguments_ > name_start_ && arguments_end_ > arguments_ &&
                              arguments_end_ + 1 == out_.size() && argument_commas_ == 0;
    if (one_argument && !is_digit(out_[arguments_]) &&
        is_generic(std::string_view(out_).substr(name_start_, arguments_ - 1 - name_start_))) {
      return out_.substr(arguments_, arguments_end_ - arguments_);
    }
    return out_.substr(name_start_);
  }

  std::string_view name_;
  std::size_t at_ = 0;
  std::string out_;
  std::size_t component_ = 0;  // where the current component begins in the output
  bool plain_ = true;          // it consists of identifier characters only
  std::vector<Bracket> open_;
  std::size_t name_start_ = 0;  // after the last space outside brackets: behind the return type
  bool spaced_ = false;
  bool done_ = false;
  std::size_t arguments_ = 0;  // template arguments of the outermost level, in the output
  std::size_t arguments_end_ = 0;
  std::size_t argument_commas_ = 0;
};

// The length-prefixed identifier at `at`, which is moved behind it; empty = there is none.
std::string_view source_name(std::string_view mangled, std::size_t& at) {
  std::size_t length = 0;
  std::size_t next = at;
  while (next < mangled.size() && is_digit(mangled[next]) && length < mangled.size()) {
    length = length * 10 + static_cast<std::size_t>(mangled[next] - '0');
    ++next;
  }
  if (next == at || length == 0 || length > mangled.size() - next) return {};
  at = next + length;
  return mangled.substr(next, length);
}

// [N [qualifiers]] {identifier}: the last identifier. `at` ends behind it.
std::string_view last_source_name(std::string_view mangled, std::size_t& at) {
  if (at < mangled.size() && mangled[at] == 'N') ++at;
  while (at < mangled.size() && (mangled[at] == 'K' || mangled[at] == 'L')) ++at;
  if (starts_with(mangled, at, "St")) at += 2;
  std::string_view last;
  while (true) {
    const std::string_view name = source_name(mangled, at);
    if (name.empty()) return last;
    last = name;
  }
}

// For names that the demangler gave up: the function, and whose template it is when that tells.
std::string from_mangled(std::string_view mangled) {
  std::size_t at = 2;
  const std::string_view function = last_source_name(mangled, at);
  if (function.empty()) return std::string(mangled);
  if (at >= mangled.size() || mangled[at] != 'I') return std::string(function);
  ++at;
  const std::string_view argument = last_source_name(mangled, at);
  if (argument.empty()) return std::string(function) + "<...>";
  if (is_generic(function)) return std::string(argument);
  return std::string(function) + "<" + std::string(argument) + "...>";
}

std::string hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  for (int i = 0; i < 8; ++i, hash >>= 8U) digits += kDigits[(hash ^ (hash >> 4U)) & 0xFU];
  return digits;
}

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Head and tail of `text`, and a hash of `name`, in at most kMaxShortNameBytes.
std::string bounded(const std::string& text, std::string_view name) {
  const std::string end = std::string(1, '~').append(hash_of(name));
  const std::size_t room = kMaxShortNameBytes - end.size() - 3;
  std::size_t head = room / 2;
  std::size_t tail = text.size() - (room - head);
  while (head > 0 && continues(text[head])) --head;
  while (tail < text.size() && continues(text[tail])) ++tail;
  return text.substr(0, head) + "..." + text.substr(tail) + end;
}

}  // namespace

bool demangling_is_bounded() {
  return __gcclibcxx_demangle_callback != nullptr;
}

std::string demangle(std::string_view mangled) {
  if (!starts_with(mangled, 0, "_Z") || mangled.find('\0') != std::string_view::npos) {
    return std::string(mangled);
  }
  const std::string terminated(mangled);
  if (demangling_is_bounded()) {
    Output output;
    return demangle_bounded(terminated.c_str(), output) ? output.text : terminated;
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(terminated.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? std::string(text.get()) : terminated;
}

std::string short_kernel_name(std::string_view name) {
  const bool mangled = starts_with(name, 0, "_Z");
  std::string text = mangled ? from_mangled(name) : Shortener(name).run();
  if (text.empty()) text = name;
  // What could not be demangled has lost arguments on the way, so the hash stands for them.
  if (mangled && text != name && text.size() + 9 <= kMaxShortNameBytes) {
    return text + "~" + hash_of(name);
  }
  return text.size() <= kMaxShortNameBytes ? text : bounded(text, name);
}

}  // namespace profiler
