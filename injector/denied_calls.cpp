#include "injector/denied_calls.h"

#include <cstring>

namespace profiler::injector {
namespace {

constexpr const char* kDenied[] = {
    "cuKernelGetName",        "cuKernelGetAttribute",
    "cuKernelGetFunction",    "cuFuncGetAttribute",
    "cuFuncGetName",          "cuCtxGetCurrent",
    "cuCtxGetDevice",         "cuCtxGetId",
    "cuDeviceGetAttribute",   "cuDeviceGet",
    "cuDeviceGetCount",       "cuDeviceGetName",
    "cuDeviceGetUuid",        "cuDeviceTotalMem",
    "cuDriverGetVersion",     "cuGetProcAddress",
    "cuGetErrorName",         "cuGetErrorString",
    "cuPointerGetAttribute",  "cuPointerGetAttributes",
    "cuStreamGetCtx",         "cuStreamIsCapturing",
    "cuStreamGetCaptureInfo", "cudaGetDevice",
    "cudaGetLastError",       "cudaPeekAtLastError",
    "cudaGetErrorString",     "cudaGetErrorName",
};

// What may follow a name: "_v3020", "_v2", "_ptsz", "_ptds", or several of them.
bool is_suffix(const char* rest) {
  while (*rest != '\0') {
    if (std::strncmp(rest, "_ptsz", 5) == 0 || std::strncmp(rest, "_ptds", 5) == 0) {
      rest += 5;
      continue;
    }
    if (rest[0] != '_' || rest[1] != 'v' || rest[2] < '0' || rest[2] > '9') return false;
    rest += 2;
    while (*rest >= '0' && *rest <= '9') ++rest;
  }
  return true;
}

}  // namespace

bool is_denied_call(const char* name) {
  for (const char* denied : kDenied) {
    const std::size_t length = std::strlen(denied);
    if (std::strncmp(name, denied, length) == 0 && is_suffix(name + length)) return true;
  }
  return false;
}

}  // namespace profiler::injector
