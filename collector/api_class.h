// What an API call does to the host, and what an OVERHEAD record stands for: the tables of
// docs/idle-time.md.
#pragma once

#include <cstdint>
#include <string_view>

#include "collector/cause.h"
#include "collector/records.h"

namespace profiler {

struct ApiClass {
  Cause cause = Cause::kOtherCall;
  bool is_polling = false;        // asks and does not wait
  bool is_asynchronous = false;   // a copy that blocks only where pageable memory takes part
  bool is_kernel_launch = false;  // a successful call submits exactly one kernel
};

// By the name as displayed; see display_api_name.
ApiClass classify_api(std::string_view display_name);

// Synchronizing, copying, allocating or loading: while such a call runs its thread waits.
bool is_waiting(Cause cause);

Cause overhead_cause(OverheadKind kind);

// Whether the program, not the profiler, is the one who caused it.
bool is_program_overhead(OverheadKind kind);

}  // namespace profiler
