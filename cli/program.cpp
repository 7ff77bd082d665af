#include "cli/program.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>

namespace profiler {
namespace {

bool is_runnable_file(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

// "train.py" → "train"; a name that is all extension stays.
std::string without_extension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return std::string(name);
  return std::string(name.substr(0, dot));
}

bool is_interpreter(std::string_view name) {
  // "python3.11" counts as "python".
  while (!name.empty() &&
         (std::isdigit(static_cast<unsigned char>(name.back())) || name.back() == '.'))
    name.remove_suffix(1);
  constexpr std::array<std::string_view, 13> kInterpreters = {
      "python", "pypy", "ipython", "torchrun", "accelerate", "julia", "perl",
      "ruby",   "node", "bash",    "sh",       "dash",       "zsh"};
  return std::find(kInterpreters.begin(), kInterpreters.end(), name) != kInterpreters.end();
}

// A bounds-checked look into the file's bytes.
class ElfView {
 public:
  explicit ElfView(std::ifstream& file) : file_(file) {}

  template <typename T>
  bool read(std::uint64_t offset, T& out) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(reinterpret_cast<char*>(&out), sizeof out);
    return file_.gcount() == static_cast<std::streamsize>(sizeof out);
  }
  std::string text(std::uint64_t offset) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    std::string text;
    char c = 0;
    constexpr std::size_t kMaxLength = 4096;
    while (text.size() < kMaxLength && file_.get(c) && c != 0) text += c;
    return text;
  }

 private:
  std::ifstream& file_;
};

void inspect_sections(ElfView& view, const Elf64_Ehdr& header, ElfFacts& facts) {
  Elf64_Shdr names = {};
  if (header.e_shnum == 0 || header.e_shstrndx >= header.e_shnum) return;
  if (!view.read(header.e_shoff + std::uint64_t{header.e_shstrndx} * sizeof names, names)) return;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section = {};
    if (!view.read(header.e_shoff + i * sizeof section, section)) return;
    if (view.text(names.sh_offset + section.sh_name) == ".nvFatBinSegment")
      facts.has_fat_binary = true;
    if (section.sh_type != SHT_DYNAMIC) continue;
    Elf64_Shdr strings = {};
    if (section.sh_link >= header.e_shnum ||
        !view.read(header.e_shoff + std::uint64_t{section.sh_link} * sizeof strings, strings))
      continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= section.sh_size; at += sizeof(Elf64_Dyn)) {
      Elf64_Dyn entry = {};
      if (!view.read(section.sh_offset + at, entry) || entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_RPATH) facts.has_rpath = true;
      if (entry.d_tag == DT_NEEDED &&
          view.text(strings.sh_offset + entry.d_un.d_val).starts_with("libcudart.so"))
        facts.needs_shared_runtime = true;
    }
  }
}

}  // namespace

ProgramFile find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    struct stat status = {};
    if (stat(name.c_str(), &status) != 0) {
      return {{},
              kExitNotFound,
              "cannot find " + name + ": " + std::strerror(errno) + "; check the path"};
    }
    if (!is_runnable_file(name)) {
      return {{},
              kExitNotExecutable,
              "cannot execute " + name +
                  (S_ISDIR(status.st_mode)
                       ? ": it is a directory"
                       : ": it is not an executable file (chmod +x, or name its interpreter)")};
    }
    return {name, 0, {}};
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? std::string_view("/bin:/usr/bin") : path;
  bool found_plain_file = false;
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    const std::string candidate =
        (folder.empty() ? std::string(".") : std::string(folder)) + "/" + name;
    if (is_runnable_file(candidate)) return {candidate, 0, {}};
    found_plain_file |= access(candidate.c_str(), F_OK) == 0;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (found_plain_file)
    return {
        {}, kExitNotExecutable, "cannot execute " + name + ": the file in PATH is not executable"};
  std::string hint;
  if (access(name.c_str(), X_OK) == 0) hint = "; did you mean ./" + name + "?";
  return {{}, kExitNotFound, "cannot find the program " + name + " in PATH" + hint};
}

ElfFacts inspect_elf(const std::string& path) {
  ElfFacts facts;
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0) {
    facts.is_setuid = ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid()) ||
                      ((status.st_mode & S_ISGID) != 0 && status.st_gid != getegid());
  }
  std::ifstream file(path, std::ios::binary);
  ElfView view(file);
  Elf64_Ehdr header = {};
  if (!file || !view.read(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64)
    return facts;
  facts.is_elf = true;
  inspect_sections(view, header, facts);
  return facts;
}

std::string trace_stem(const std::vector<std::string>& command) {
  const std::string_view program = base_name(command.front());
  if (is_interpreter(program)) {
    for (std::size_t i = 1; i < command.size(); ++i) {
      const std::string& argument = command[i];
      if (argument == "-c") break;
      if (argument == "-m" && i + 1 < command.size()) {
        const std::string& module = command[i + 1];
        const std::size_t dot = module.rfind('.');
        return dot == std::string::npos ? module : module.substr(dot + 1);
      }
      // Options of the interpreter that take a value of their own.
      if (argument == "-W" || argument == "-X") {
        ++i;
        continue;
      }
      if (argument.starts_with("-")) continue;
      const std::string stem = without_extension(base_name(argument));
      if (!stem.empty()) return stem;
    }
  }
  const std::string stem = without_extension(program);
  return stem.empty() ? "trace" : stem;
}

}  // namespace profiler
