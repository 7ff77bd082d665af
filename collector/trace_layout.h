// How our own traces say what Perfetto's format has no field for: ids and names that the writer of
// a .pftrace and the reader of its events share.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace profiler::trace_layout {

// Raised when a reader of the older layout would misread the events.
inline constexpr std::uint64_t kVersion = 1;

inline constexpr std::uint32_t kRunSequence = 1;
inline constexpr std::uint32_t kFirstProcessSequence = 2;

// The category of a slice says what record it stands for (event_categories, on every sequence).
enum Category : std::uint32_t {
  kUnknownCall = 1,
  kRuntimeCall,
  kDriverCall,
  kNvtx,          // push/pop ranges and marks
  kNvtxStartEnd,  // start/end ranges
  kSync,
  kOverhead,
  kEventRecord,
  kHole,
  kUntimed,  // an operation without valid times, as an instant
};
inline constexpr std::pair<Category, std::string_view> kCategoryNames[] = {
    {kUnknownCall, "cuda"},
    {kRuntimeCall, "cuda.runtime"},
    {kDriverCall, "cuda.driver"},
    {kNvtx, "nvtx"},
    {kNvtxStartEnd, "nvtx.start_end"},
    {kSync, "cuda.synchronization"},
    {kOverhead, "cuda.overhead"},
    {kEventRecord, "cuda.event"},
    {kHole, "not recorded"},
    {kUntimed, "not timed"},
};

// debug_annotation_names, on every sequence. What is zero, or as usual, is not written.
enum Annotation : std::uint32_t {
  kResult = 1,
  kDomain,     // NVTX: a text; absent = the default domain
  kThread,     // system thread id: that opened a start/end range
  kEndThread,  // likewise: that closed it; absent = the same
  kUnclosed,   // 1 = nobody closed the range
  kUnnamed,    // 1 = the range has no message
  kKind,       // SyncKind, OverheadKind
  kContext,
  kStream,
  kEvent,
  kCount,  // records lost
  kFrom,   // ns, as announced, where the times cannot be those of a slice
  kTo,
  kQueue,        // iid of a hardware queue
  kAnnotations,  // how many there are, and one
};
inline constexpr std::pair<Annotation, std::string_view> kAnnotationNames[] = {
    {kResult, "result"},     {kDomain, "domain"},   {kThread, "thread"}, {kEndThread, "end_thread"},
    {kUnclosed, "unclosed"}, {kUnnamed, "unnamed"}, {kKind, "kind"},     {kContext, "context"},
    {kStream, "stream"},     {kEvent, "event"},     {kCount, "records"}, {kFrom, "from_ns"},
    {kTo, "to_ns"},          {kQueue, "queue"},
};

// gpu_specifications: stages, then queues.
inline constexpr std::uint32_t kKernelStage = 1;
inline constexpr std::uint32_t kMemsetStage = 2;
inline constexpr std::uint32_t kFirstCopyStage = 3;  // + CUpti_ActivityMemcpyKind
inline constexpr std::uint32_t kCopyKinds = 11;      // 0 = unknown
inline constexpr std::uint32_t kFirstQueue = 16;     // + QueueIndex, unique in the trace
static_assert(kFirstCopyStage + kCopyKinds <= kFirstQueue);

enum Argument : std::uint32_t {  // compute_arg_names
  kDeviceArgument = 1,
  kStreamArgument,
  kGridSize,
  kWorkgroupSize,
  kRegisters,
  kStaticShared,
  kDynamicShared,
  kLocalMemory,
  kProcessId,
  kProcessName,
  kGraph,
  kGraphNode,
  kBytes,
  kThroughput,
  kValue,
  kSourceDevice,
  kDestinationDevice,
  kArguments,  // how many there are, and one
};
// Perfetto's GPU views look for the first ones by these names.
inline constexpr std::pair<Argument, std::string_view> kArgumentNames[] = {
    {kDeviceArgument, "device"},
    {kStreamArgument, "stream"},
    {kGridSize, "grid_size"},
    {kWorkgroupSize, "workgroup_size"},
    {kRegisters, "registers_per_thread"},
    {kStaticShared, "shared_mem_static"},
    {kDynamicShared, "shared_mem_dynamic"},
    {kLocalMemory, "local_mem_per_thread"},
    {kProcessId, "process_id"},
    {kProcessName, "process_name"},
    {kGraph, "graph"},
    {kGraphNode, "graph_node"},
    {kBytes, "bytes"},
    {kThroughput, "megabytes_per_second"},
    {kValue, "value"},
    {kSourceDevice, "source_device"},
    {kDestinationDevice, "destination_device"},
};

// Facts: instant events of this name, each with one JSON object in the annotation `kFactText`. Its
// members: "run" (see trace_facts.h), and on the sequence of a process "process", "queue",
// "function", "copy".
inline constexpr std::string_view kFacts = "profiler facts";  // of track and events
inline constexpr std::string_view kFactText = "json";

// The name of a call whose function is unknown.
inline constexpr std::string_view kUnknownCallName = "CUDA call";

}  // namespace profiler::trace_layout
