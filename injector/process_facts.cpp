#include "injector/process_facts.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace profiler::injector {
namespace {

// Names of ranks and of the devices that a process was given.
constexpr const char* kVariables[] = {
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "NODE_RANK",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMIX_RANK",
    "MV2_COMM_WORLD_RANK",
    "CUDA_VISIBLE_DEVICES",
};
static_assert(sizeof kVariables / sizeof kVariables[0] <= ProcessFacts::kMaxEnvironment);

// Bytes read, at most `size`; 0 when the file cannot be read.
std::size_t read_file(const char* path, char* into, std::size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  std::size_t total = 0;
  while (total < size) {
    const ssize_t got = read(fd, into + total, size - total);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    total += static_cast<std::size_t>(got);
  }
  close(fd);
  return total;
}

// The command name, field 2, may hold blanks and parentheses: count from the last ')'.
std::uint64_t read_start_ticks() {
  char text[2048];
  const std::size_t size = read_file("/proc/self/stat", text, sizeof text - 1);
  text[size] = '\0';
  const char* at = std::strrchr(text, ')');
  if (at == nullptr) return 0;
  for (int field = 2; field < 22; ++field) {
    at = std::strchr(at + 1, ' ');
    if (at == nullptr) return 0;
  }
  std::uint64_t ticks = 0;
  for (++at; *at >= '0' && *at <= '9'; ++at) {
    ticks = ticks * 10 + static_cast<std::uint64_t>(*at - '0');
  }
  return ticks;
}

}  // namespace

void read_process_facts(ProcessFacts& facts, const ClockReading& now) {
  facts.pid = static_cast<std::uint32_t>(getpid());
  facts.ppid = static_cast<std::uint32_t>(getppid());
  facts.start_ticks = read_start_ticks();
  facts.start_ns = facts.start_ticks == 0 ? 0 : monotonic_of_ticks(facts.start_ticks, now);

  const ssize_t length = readlink("/proc/self/exe", facts.executable, sizeof facts.executable - 1);
  facts.executable[length > 0 ? length : 0] = '\0';

  if (gethostname(facts.hostname, sizeof facts.hostname) != 0) facts.hostname[0] = '\0';
  facts.hostname[sizeof facts.hostname - 1] = '\0';

  facts.command_line = static_cast<char*>(std::malloc(ProcessFacts::kMaxCommandLine));
  facts.command_line_bytes =
      facts.command_line == nullptr
          ? 0
          : read_file("/proc/self/cmdline", facts.command_line, ProcessFacts::kMaxCommandLine);

  facts.environment_count = 0;
  for (const char* key : kVariables) {
    const char* value = std::getenv(key);
    if (value == nullptr) continue;
    ProcessFacts::Variable& variable = facts.environment[facts.environment_count++];
    variable.key = key;
    std::snprintf(variable.value, sizeof variable.value, "%s", value);
  }
}

bool read_thread_name(std::uint64_t tid, char* name, std::size_t size) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%llu/comm",
                static_cast<unsigned long long>(tid));
  const std::size_t length = read_file(path, name, size - 1);
  if (length == 0) return false;
  name[length] = '\0';
  if (name[length - 1] == '\n') name[length - 1] = '\0';
  return true;
}

std::uint64_t parse_number(const char* text, std::uint64_t fallback) {
  if (text == nullptr || *text == '\0') return fallback;
  std::uint64_t value = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return fallback;
    const auto digit = static_cast<std::uint64_t>(*text - '0');
    if (value > (UINT64_MAX - digit) / 10) return fallback;
    value = value * 10 + digit;
  }
  return value;
}

}  // namespace profiler::injector
