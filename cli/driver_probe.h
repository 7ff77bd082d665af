// Asks the CUDA driver of this machine, in a process of its own so that nothing of the driver stays
// in ours (and nothing that it does can hurt us).
#pragma once

#include <cstdint>
#include <string>

namespace profiler {

struct DriverProbe {
  bool found = false;             // libcuda.so.1 could be loaded
  std::string path;               // the file that was loaded
  std::int32_t version = 0;       // cuDriverGetVersion, 13000 = 13.0; 0 = none
  std::int32_t init_result = -1;  // cuInit's CUresult; -1 = not tried or it crashed
};

inline constexpr std::int32_t kCudaErrorStubLibrary = 34;
inline constexpr std::int32_t kCudaErrorNoDevice = 100;

// `initialise`: also call cuInit (slow on a machine with GPUs); else only the version is asked.
DriverProbe probe_driver(bool initialise);

// One or two sentences: why the program may have sent nothing, and what to do.
std::string explain_silence(const DriverProbe& probe);

// The libcupti to hand to the injector for a driver of this version: of the driver's own major
// version if there is one, else the next older; empty = leave it to the injector.
std::string choose_cupti(std::int32_t driver_version);

}  // namespace profiler
