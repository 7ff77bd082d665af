// Finds the summary in a .pftrace of ours. Trusts nothing that it reads.
#pragma once

#include <string>

#include "collector/result.h"

namespace profiler {

// The JSON text of the summary that the trace at `path` carries, complete and with the right
// digest. Reads the file once, from its beginning; memory stays at a few MiB and the summary
// whatever its size. Where there is no summary, the error says why: no file, a folder, empty,
// compressed, not a trace, another program's trace, ended early, damaged.
Result<std::string> read_summary(const std::string& path);

}  // namespace profiler
