// The summary as a JSON document: what `--json` writes, and what a trace carries at its end. Member
// names are those of summary.h; an ExitState is {"kind": "exited", "code": 0}.
#pragma once

#include <string>
#include <string_view>

#include "collector/result.h"
#include "collector/summary.h"

namespace profiler {

// Text that is not UTF-8 gets U+FFFD in place of the bad bytes. `pretty` = indented, one member a
// line, and a newline at the end.
std::string to_json(const Summary& summary, bool pretty = false);

// Integers are exact up to 64 bits. Unknown members are ignored; a missing one, or one of another
// type, is an error, as is another schema version.
Result<Summary> summary_from_json(std::string_view json);

}  // namespace profiler
