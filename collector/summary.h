// The summary of one run: every number that a person or a script reads. Plain data; made by
// `summarize`, carried as JSON in the trace and in `--json`, rendered by the command line.
// Unsigned integers; times in ns, sizes in bytes. Text is UTF-8.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace profiler {

inline constexpr std::uint64_t kSummarySchemaVersion = 1;

// How a process ended, as far as is known.
struct ExitState {
  enum class Kind : std::uint8_t {
    kExited,     // `code` = its exit status
    kSignalled,  // `code` = the signal
    kUnknown,    // not our child (its goodbye arrived, or it vanished): `code` is 0
    kRunning,    // still running when collection ended: `code` is 0
  };
  Kind kind = Kind::kUnknown;
  std::uint64_t code = 0;
};

struct ProcessSummary {
  std::uint64_t pid = 0;
  std::string command;  // argv, quoted as a shell would need it
  ExitState exit;
  bool said_goodbye = false;            // false: killed, _exit, or still running
  std::uint64_t complete_until_ns = 0;  // when !said_goodbye: data may be missing from here on
                                        // (ns since trace_start_ns); 0 = from its beginning
  std::string failure;                  // why nothing was recorded; empty = recorded
};

struct CauseSummary {
  std::string cause;  // the name that `profiler explain` knows: "host", "launch latency" ...
  std::uint64_t total_ns = 0;
  std::uint64_t gap_count = 0;   // gaps of which it has at least 1 ns
  std::uint64_t longest_ns = 0;  // its largest share of one gap
};

struct DeviceSummary {
  std::string name;
  std::string uuid;                  // "GPU-xxxxxxxx-xxxx-..."; empty = unknown
  std::uint64_t operations = 0;      // with valid times
  std::uint64_t first_start_ns = 0;  // ns since trace_start_ns
  std::uint64_t lead_in_ns = 0;      // from the start of the run to the first operation
  std::uint64_t tail_ns = 0;         // from the last operation's end to the end of the run
  std::uint64_t span_ns = 0;         // first start to last end
  std::uint64_t busy_ns = 0;         // union of all operations
  std::uint64_t idle_ns = 0;         // span - busy = sum of the gaps
  std::uint64_t gap_count = 0;
  std::uint64_t longest_gap_ns = 0;
  bool idle_reliable = true;
  std::string idle_unreliable_reason;       // empty = reliable
  std::vector<CauseSummary> idle_by_cause;  // all causes with total_ns > 0, largest first
};

struct KernelSummary {
  std::string name;  // demangled, whole
  std::string short_name;
  std::uint64_t device = 0;  // index into devices
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t mean_ns = 0;    // rounded down
  std::uint64_t median_ns = 0;  // nearest rank, at the precision of the histogram (see docs)
  std::uint64_t p99_ns = 0;     // likewise
  std::uint64_t min_ns = 0;
  std::uint64_t max_ns = 0;
  std::uint64_t stddev_ns = 0;  // of the population, rounded down
};

struct CopySummary {
  std::string kind;    // "HtoD", "DtoH", "DtoD", "PtoP", "memset" ...
  std::string source;  // "pageable", "pinned", "device", "managed", "array" ...; "" for memset
  std::string destination;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t total_ns = 0;
};

struct ApiSummary {
  std::string name;
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t self_ns = 0;   // total less the calls nested in it
  std::uint64_t failures = 0;  // calls with a result other than success
};

struct ChecksSummary {
  std::uint64_t launches = 0;           // API calls that submitted at least one device operation
  std::uint64_t device_operations = 0;  // with valid times
  std::uint64_t unmatched = 0;          // device operations whose launch record is missing
  std::uint64_t dropped = 0;            // records lost in CUPTI, in our pool or in the pipe
  std::uint64_t untimed = 0;            // records without valid times
  std::uint64_t unfinished = 0;         // operations that had started but not ended
  std::uint64_t late = 0;               // records that came after their time had been accounted
  std::uint64_t clock_faults = 0;       // gaps whose launch seemed to start after its operation
  std::uint64_t malformed = 0;          // frames that could not be read
};

struct CuptiFailureSummary {
  std::uint64_t pid = 0;
  std::string function;
  std::uint64_t result = 0;
};

struct Summary {
  std::uint64_t schema_version = kSummarySchemaVersion;
  std::string profiler_version;
  bool simulated = false;
  std::string simulated_model;
  std::string command;  // the program and its arguments, quoted as a shell would need it
  std::string hostname;
  ExitState exit;                       // of the program
  std::uint64_t wall_ns = 0;            // program start to program end
  std::uint64_t trace_start_ns = 0;     // CLOCK_MONOTONIC at program start
  std::uint64_t start_realtime_ns = 0;  // the same moment as UNIX time
  std::int64_t driver_version = 0;      // 13000 = 13.0; 0 = unknown
  std::uint64_t cupti_version = 0;      // 130001; 0 = unknown
  std::string cupti_path;
  std::uint64_t launch_window_ns = 0;  // W of the partition
  std::vector<ProcessSummary> processes;
  std::vector<DeviceSummary> devices;  // those with operations
  std::vector<KernelSummary> kernels;  // by total_ns, largest first
  std::vector<CopySummary> copies;     // by total_ns, largest first
  std::vector<ApiSummary> api;         // by total_ns, largest first
  ChecksSummary checks;
  std::vector<CuptiFailureSummary> cupti_failures;
  std::vector<std::string> notes;  // whole sentences: what explains a zero, what was lost
};

}  // namespace profiler
