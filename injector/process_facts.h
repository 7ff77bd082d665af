// What the injector tells about the process that it is in: the content of Hello that does not come
// from CUPTI. Read once, on the thread that initialises CUDA, as getenv is only safe there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "injector/clock.h"

namespace profiler::injector {

struct ProcessFacts {
  static constexpr std::size_t kMaxCommandLine = 64 * 1024;  // bytes
  static constexpr std::size_t kMaxEnvironment = 24;

  struct Variable {
    const char* key;
    char value[256];  // cut beyond
  };

  std::uint32_t pid;
  std::uint32_t ppid;
  std::uint64_t start_ticks;  // field 22 of /proc/self/stat; 0 = unreadable
  std::uint64_t start_ns;     // CLOCK_MONOTONIC; 0 = unknown
  char executable[4096];      // "" = unreadable
  char hostname[256];
  char* command_line;  // arguments, each ended by a zero byte; owned for ever; may be null
  std::size_t command_line_bytes;
  Variable environment[kMaxEnvironment];
  std::size_t environment_count;
};

void read_process_facts(ProcessFacts& facts, const ClockReading& now);

// The current name of a thread of this process, without line end. False when the thread is gone.
// `name` holds at least 16 bytes.
bool read_thread_name(std::uint64_t tid, char* name, std::size_t size);

// Decimal digits alone; `fallback` when the text is null, empty or anything else.
std::uint64_t parse_number(const char* text, std::uint64_t fallback);

}  // namespace profiler::injector
