// The API calls that are not recorded: they only ask, take no time worth knowing, and would be most
// of the records. docs/idle-time.md lists them.
#pragma once

namespace profiler::injector {

// `name` as CUPTI gives it, e.g. "cudaGetDevice_v3020".
bool is_denied_call(const char* name);

}  // namespace profiler::injector
