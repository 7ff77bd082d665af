// Who and what the records refer to: processes, threads, devices, queues, functions. Each thing is
// entered once, when it is first named, and never removed; records refer to it by index.
// Owned by the session; single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/records.h"

namespace profiler {

// One moment on three clocks, ns.
struct ClockReading {
  std::uint64_t monotonic_ns = 0;
  std::uint64_t boottime_ns = 0;
  std::uint64_t realtime_ns = 0;
};

struct Process {
  std::uint64_t pid = 0;
  std::uint64_t parent_pid = 0;
  std::string executable;                 // empty = unknown
  std::vector<std::string> command_line;  // empty = unknown
  std::string hostname;
  std::uint64_t start_ns = 0;  // 0 = unknown
  ClockReading hello_clocks;
  std::int32_t driver_version = 0;  // 13000 = 13.0; 0 = no driver answered
  std::uint32_t cupti_version = 0;  // 0 = no libcupti
  std::string cupti_path;
  std::vector<std::pair<std::string, std::string>> environment;  // ranks
  bool simulated = false;
  std::string simulated_model;
};

struct Thread {
  ProcessIndex process = kNone;
  std::uint64_t tid = 0;
  std::string name;  // empty = unknown
};

struct Device {
  std::uint32_t ordinal = 0;  // CUPTI device id in the process that named it first
  std::string name;
  std::array<std::uint8_t, 16> uuid{};
  bool has_uuid = false;
  std::uint64_t memory_bytes = 0;
  std::uint32_t multiprocessors = 0;
  std::uint32_t compute_capability_major = 0;
  std::uint32_t compute_capability_minor = 0;
};

// (process, device, context, stream): the lane on which operations run in order.
struct Queue {
  ProcessIndex process = kNone;
  DeviceIndex device = kNone;
  std::uint32_t context = 0;  // CUPTI context id
  std::uint64_t stream = 0;   // CUPTI stream id
  std::string name;           // given by the program through NVTX; empty = none
};

enum class ApiDomain : std::uint8_t { kUnknown, kRuntime, kDriver };

struct ApiFunction {
  ApiDomain domain = ApiDomain::kUnknown;
  std::uint32_t callback_id = 0;
  std::string raw_name;  // as CUPTI has it: "cudaLaunchKernel_v7000"; empty = it has none
  std::string name;      // as shown: "cudaLaunchKernel"; see display_api_name
};

struct KernelFunction {
  std::string mangled;
  std::string name;        // demangled, whole
  std::string short_name;  // for lanes and narrow tables; see short_kernel_name
  std::uint32_t registers = 0;
  std::uint64_t static_shared_bytes = 0;
  std::uint64_t local_bytes = 0;
};

class Catalog {
 public:
  ProcessIndex add_process(Process process);
  ThreadIndex thread(ProcessIndex process, std::uint64_t tid);
  // Devices are one where their UUIDs are equal; without UUID one per (process, ordinal).
  DeviceIndex device(ProcessIndex process, Device device);
  QueueIndex queue(Queue queue);
  FunctionIndex api_function(ApiDomain domain, std::uint32_t callback_id,
                             std::string_view raw_name);
  FunctionIndex kernel_function(std::string_view mangled, std::uint32_t registers,
                                std::uint64_t static_shared_bytes, std::uint64_t local_bytes);

  TextId text(std::string_view text);
  DomainId nvtx_domain(std::string_view name);  // the empty name is the default domain, 0

  std::vector<Process> processes;
  std::vector<Thread> threads;
  std::vector<Device> devices;
  std::vector<Queue> queues;
  std::vector<ApiFunction> api_functions;
  std::vector<KernelFunction> kernel_functions;
  std::vector<std::string> texts;                // NVTX messages
  std::vector<std::string> nvtx_domains = {""};  // 0 = the default domain

 private:
  std::map<std::string, TextId, std::less<>> text_index_;
  std::map<std::string, DomainId, std::less<>> domain_index_ = {{"", 0}};
  std::map<std::pair<ProcessIndex, std::uint64_t>, ThreadIndex> thread_index_;
  std::map<std::array<std::uint8_t, 16>, DeviceIndex> device_by_uuid_;
  std::map<std::pair<ProcessIndex, std::uint32_t>, DeviceIndex> device_by_ordinal_;
  std::map<std::tuple<ProcessIndex, DeviceIndex, std::uint32_t, std::uint64_t>, QueueIndex>
      queue_index_;
  std::map<std::tuple<ApiDomain, std::uint32_t, std::string>, FunctionIndex> api_index_;
  std::map<std::tuple<std::string, std::uint32_t, std::uint64_t, std::uint64_t>, FunctionIndex>
      kernel_index_;
};

// "__cudaLaunchKernel_ptsz" and "cudaLaunchKernel_v7000" are both shown as "cudaLaunchKernel".
std::string display_api_name(std::string_view raw);

}  // namespace profiler
