// What launcher and injector agree on beside the wire: environment variables, files of the session
// directory, commands.
#pragma once

#include <cstdint>

namespace profiler::session {

// Read by the CUDA driver, resp. by NVTX: the injector's file.
inline constexpr char kCudaInjectionVariable[] = "CUDA_INJECTION64_PATH";
inline constexpr char kNvtxInjectionVariable[] = "NVTX_INJECTION64_PATH";

// Set for the target by the launcher.
inline constexpr char kDirectoryVariable[] =
    "PROFILER_SESSION";                                     // absolute path; absent = stay inert
inline constexpr char kCuptiVariable[] = "PROFILER_CUPTI";  // libcupti to load; absent = by soname
inline constexpr char kBufferCapVariable[] = "PROFILER_BUFFER_CAP";  // bytes; absent = 256 MiB
inline constexpr char kDrainBudgetVariable[] = "PROFILER_DRAIN_BUDGET_MS";  // absent = 5000

// Read by the virtual GPU.
inline constexpr char kVirtualGpuModelVariable[] = "PROFILER_VIRTUAL_GPU";  // model name or file
inline constexpr char kVirtualGpuLogVariable[] = "PROFILER_VIRTUAL_GPU_LOG";
// Exported by the stand-in libcuda: `const char* profilerVirtualGpuModel(void)`.
inline constexpr char kVirtualGpuMark[] = "profilerVirtualGpuModel";

// In the session directory. A process makes its own FIFO, "<pid>-<start ticks>.pipe", mode 0600.
inline constexpr char kHelloName[] = "hello";
inline constexpr char kControlName[] = "control";
inline constexpr char kPipeSuffix[] = ".pipe";

inline constexpr std::uint32_t kWireVersion = 1;
inline constexpr std::uint32_t kMaxAnnouncementBytes = 512;   // prefix included
inline constexpr std::uint32_t kMaxFrameBytes = 1024 * 1024;  // body

// The whole content of `control`, rewritten by pwrite and read by pread.
struct Control {
  std::uint32_t sequence;  // grows with each command
  std::uint32_t command;   // a Command
};
enum Command : std::uint32_t {
  kNoCommand = 0,
  kStart = 1,  // resume recording
  kStop = 2,   // stop recording
  kFlush = 3,  // deliver what is complete, now
};

}  // namespace profiler::session
