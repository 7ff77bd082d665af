// The cost model: what the device is called, how large it is, and how long work takes on it. Read
// from a text file; docs/virtual-gpu.md describes the format.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace virtual_gpu {

enum class CopyKind : std::uint8_t { kHostToDevice, kDeviceToHost, kDeviceToDevice, kHostToHost };
enum class MemoryKind : std::uint8_t { kPageable, kPinned, kDevice, kManaged };

inline constexpr const char* kCopyKindNames[] = {"HtoD", "DtoH", "DtoD", "HtoH"};
inline constexpr const char* kMemoryKindNames[] = {"pageable", "pinned", "device", "managed"};

struct KernelCost {
  enum class Shape : std::uint8_t { kFixed, kLinear, kWaves, kPower };
  std::string pattern = "*";  // `*` and `?`; against the mangled, the demangled and the bare name
  Shape shape = Shape::kFixed;
  double base_ns = 5000;
  double per_block_ns = 0;   // kLinear
  double per_thread_ns = 0;  // kLinear, kPower
  double per_wave_ns = 0;    // kWaves: a wave is as many blocks as the device holds at once
  double exponent = 1;       // kPower: per_thread_ns * threads ^ exponent
  std::uint32_t registers = 32;
  std::uint32_t shared_bytes = 0;
  std::uint32_t local_bytes = 0;
};

struct TransferCost {
  double latency_ns = 2000;
  double bytes_per_ns = 10;
};

// Correlation ids of the driver calls that a runtime call makes: their own, or the runtime call's.
enum class DriverRecords : std::uint8_t { kOwn, kShared };

struct Model {
  std::string key;   // the name of its file: "h100"
  std::string path;  // the file it was read from
  std::string name = "Simulated GPU";
  std::array<std::uint8_t, 16> uuid{};
  std::uint32_t capability_major = 8;
  std::uint32_t capability_minor = 0;
  std::uint32_t multiprocessors = 100;
  std::uint32_t threads_per_multiprocessor = 2048;
  std::uint32_t blocks_per_multiprocessor = 32;
  std::uint32_t concurrent_kernels = 128;
  std::uint32_t queue_depth = 1024;  // launches a stream holds before the next one waits
  std::uint32_t core_clock_khz = 1'500'000;
  std::uint64_t memory_bytes = std::uint64_t{16} << 30;
  std::uint64_t memory_bandwidth = 1'000'000'000'000;  // bytes per second
  std::uint64_t l2_bytes = std::uint64_t{32} << 20;
  std::uint64_t launch_cost_ns = 0;        // CPU time that the call takes at least
  std::uint64_t launch_latency_ns = 4000;  // from the call to the earliest start
  std::uint64_t dispatch_gap_ns = 1000;    // between two operations of one stream
  // What takes time once: per kernel, per module (fat binary), per module for compiling its PTX.
  std::uint64_t lazy_loading_ns = 0;
  std::uint64_t module_loading_ns = 0;
  std::uint64_t jit_ns = 0;
  std::uint64_t staging_bytes = std::uint64_t{1} << 20;  // pageable memory copied ahead; 0 = none
  DriverRecords driver_records = DriverRecords::kOwn;    // correlation ids of nested driver calls
  double jitter = 0;  // each duration is scaled by 1 - jitter … 1 + jitter
  std::uint64_t seed = 1;
  std::vector<KernelCost> kernels;  // the first that matches counts
  TransferCost copies[4][2];        // [CopyKind][0 pageable, 1 pinned]
  TransferCost set;
};

// Reads the model `name`: a path if it holds a slash or ends in ".model", else `folder`/name.model.
// On failure returns false and says in `error` which file and line, and what was expected.
bool read_model(const std::string& name, const std::string& folder, Model& model,
                std::string& error);

// The same from text; `path` is for messages.
bool parse_model(const std::string& text, const std::string& path, Model& model,
                 std::string& error);

// How long the host takes to fill the staging buffer before a copy of `bytes` can begin; 0 if it
// need not. The host's own speed is that of copies within it.
std::uint64_t staging_duration(const Model& model, std::uint64_t bytes);

std::string uuid_text(const Model& model);  // "GPU-01234567-89ab-…"

bool matches(const char* pattern, const char* text);  // shell-like `*` and `?`

// The cost line that applies to a kernel.
const KernelCost& kernel_cost(const Model& model, const std::string& mangled,
                              const std::string& demangled);

// Durations in ns, at least 1. `sequence` selects the jitter.
std::uint64_t kernel_duration(const Model& model, const KernelCost& cost, std::uint64_t blocks,
                              std::uint64_t threads_per_block, std::uint64_t sequence);
std::uint64_t transfer_duration(const Model& model, const TransferCost& cost, std::uint64_t bytes,
                                std::uint64_t sequence);

}  // namespace virtual_gpu
