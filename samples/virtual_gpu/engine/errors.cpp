#include "samples/virtual_gpu/engine/errors.h"

#include <cctype>
#include <map>
#include <mutex>

namespace virtual_gpu {

const char* error_text(int number) {
  const char* name = error_name(kRuntimeErrors, number);
  if (name == nullptr) return nullptr;
  static std::mutex mutex;
  static auto* const texts = new std::map<int, std::string>{
      {0, "no error"},
      {1, "invalid argument"},
      {2, "out of memory"},
      {3, "initialization error"},
      {4, "driver shutting down"},
      {100, "no CUDA-capable device is detected"},
      {101, "invalid device ordinal"},
      {304, "OS call failed or operation not supported on this OS"},
      {600, "device not ready"},
      {801, "operation not supported"},
  };
  const std::lock_guard lock(mutex);
  std::string& text = (*texts)[number];
  if (text.empty()) {
    // "cudaErrorInvalidMemcpyDirection" → "invalid memcpy direction"
    for (const char* c = name + sizeof("cudaError") - 1; *c != 0; ++c) {
      if (std::isupper(static_cast<unsigned char>(*c)) && !text.empty()) text += ' ';
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
  }
  return text.c_str();
}

}  // namespace virtual_gpu
