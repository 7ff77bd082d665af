// The summary of one run: every number that a person or a script reads. Plain data; made by
// `summarize`, carried as JSON in the trace and in `--json`, rendered by the command line.
// Unsigned integers; times in ns, sizes in bytes. Text is UTF-8.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace profiler {

inline constexpr std::uint64_t kSummarySchemaVersion = 2;

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
  std::uint64_t hello_ns = 0;           // CLOCK_MONOTONIC of its hello; 0 = none came
};

// A distribution of durations. Means and deviations rounded down, quantiles by nearest rank at the
// histogram's precision.
struct DistributionSummary {
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t mean_ns = 0;
  std::uint64_t median_ns = 0;
  std::uint64_t p99_ns = 0;
  std::uint64_t min_ns = 0;
  std::uint64_t max_ns = 0;
  std::uint64_t stddev_ns = 0;
};

struct CauseSummary {
  std::string cause;  // the name that `profiler explain` knows: "host", "launch latency" ...
  std::uint64_t total_ns = 0;
  std::uint64_t gap_count = 0;   // gaps of which it has at least 1 ns
  std::uint64_t longest_ns = 0;  // its largest share of one gap
};

// Idle time by the thread that the GPU waited for (causes of rule 3; docs/idle-time.md).
struct ThreadIdleSummary {
  std::uint64_t pid = 0;
  std::uint64_t tid = 0;
  std::string name;
  std::uint64_t total_ns = 0;
  std::uint64_t gap_count = 0;
};

// The same by the innermost NVTX range open on that thread.
struct NvtxIdleSummary {
  std::string domain;  // empty = the default domain
  std::string name;
  std::uint64_t total_ns = 0;
  std::uint64_t gap_count = 0;
};

// Whole gaps by the call that was open when they began.
struct OpenedBySummary {
  std::string call;   // "cudaStreamSynchronize"
  std::string cause;  // its class: "synchronizing", "copying", "allocating/freeing", ...
  std::uint64_t total_ns = 0;
  std::uint64_t gap_count = 0;
};

struct GapPieceSummary {
  std::string cause;
  std::uint64_t duration_ns = 0;
};

struct GapSummary {
  std::uint64_t start_ns = 0;  // ns since trace_start_ns
  std::uint64_t duration_ns = 0;
  std::vector<GapPieceSummary> pieces;  // in order of time
  std::string before;     // the operation that ended last before it: "kernel gemm", "copy HtoD"
  std::string after;      // the operation that ended it
  std::uint64_t pid = 0;  // of the thread that submitted `after`; 0 = unknown launch
  std::uint64_t tid = 0;
  std::string thread_name;
  std::string nvtx_path;  // the ranges open on that thread at the gap's start, outermost first,
                          // joined by " > "; empty = none
  std::string opened_by;  // the call; empty = none
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
  std::string idle_unreliable_reason;             // empty = reliable
  std::vector<CauseSummary> idle_by_cause;        // all causes with total_ns > 0, largest first
  std::uint64_t not_recorded_ns = 0;              // holes: span = busy + idle + not recorded
  std::uint64_t kernel_busy_ns = 0;               // union of the kernels alone
  std::uint64_t copy_busy_ns = 0;                 // union of copies and sets alone
  std::vector<ThreadIdleSummary> idle_by_thread;  // largest first, as are the following
  std::vector<NvtxIdleSummary> idle_by_nvtx;
  std::vector<OpenedBySummary> idle_opened_by;
  std::vector<GapSummary> top_gaps;  // longest first
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
  std::uint64_t stddev_ns = 0;            // of the population, rounded down
  DistributionSummary launch_latency;     // operation start - call start
  DistributionSummary queue_delay;        // operation start - call end, where positive
  std::uint64_t shorter_than_launch = 0;  // launches whose call took longer than the kernel
};

struct CopySummary {
  std::string kind;    // "HtoD", "DtoH", "DtoD", "PtoP", "memset" ...
  std::string source;  // "pageable", "pinned", "device", "managed", "array" ...; "" for memset
  std::string destination;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t total_ns = 0;
};

struct FailureSummary {
  std::uint64_t code = 0;  // cudaError_t or CUresult
  std::uint64_t count = 0;
};

struct ApiSummary {
  std::string name;
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t self_ns = 0;                     // total less the calls nested in it
  std::uint64_t failures = 0;                    // calls with a result other than success
  std::vector<FailureSummary> failures_by_code;  // ascending code
};

// NVTX ranges of one domain and message.
struct NvtxSummary {
  std::string domain;  // empty = the default domain
  std::string name;
  bool nested = true;  // push/pop on a thread; false: start/end ranges
  std::uint64_t count = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t self_ns = 0;  // less the ranges nested directly in it; = total for start/end
  std::uint64_t min_ns = 0;
  std::uint64_t max_ns = 0;
  std::uint64_t operations = 0;    // submitted by its thread(s) while it was open
  std::uint64_t gpu_union_ns = 0;  // union of those operations, over all devices
  std::uint64_t gpu_sum_ns = 0;    // sum of their durations
};

// Advice from one rule.
struct FindingSummary {
  std::string rule;   // as `profiler explain` knows it: "launch-bound", "synchronization-bound" ...
  std::string title;  // one sentence with its number
  std::string evidence;           // what, where, when
  std::string remedy;             // one sentence
  std::uint64_t at_stake_ns = 0;  // upper bound of what it could win
};

struct VerdictSummary {
  std::string kind;  // "GPU-bound", "launch-bound", "host-bound", "synchronization-bound",
                     // "transfer-bound", "idle before and after", "not reliable", "no GPU work"
  std::string sentence;
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
  std::uint64_t launches_without_operation =
      0;                              // successful kernel launches whose kernel is missing
  std::uint64_t nvtx_unbalanced = 0;  // pops without a push, ends without a start
  std::uint64_t nvtx_unclosed = 0;    // ranges that nobody closed
  std::uint64_t duplicates = 0;       // operations that arrived twice
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
  std::vector<NvtxSummary> nvtx;       // by total_ns, largest first
  DistributionSummary launch_latency;  // of all operations with a launch record
  DistributionSummary queue_delay;
  std::uint64_t kernels_shorter_than_launch = 0;
  std::uint64_t kernels_with_launch = 0;   // its denominator
  std::uint64_t program_overhead_ns = 0;   // OVERHEAD records of the program's making
  std::uint64_t profiler_overhead_ns = 0;  // and of the profiler's, summed over threads
  VerdictSummary verdict;
  std::vector<FindingSummary> findings;  // most at stake first, at most five
  ChecksSummary checks;
  std::vector<CuptiFailureSummary> cupti_failures;
  std::vector<std::string> notes;  // whole sentences: what explains a zero, what was lost
};

}  // namespace profiler
