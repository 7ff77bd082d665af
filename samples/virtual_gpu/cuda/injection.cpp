#include "samples/virtual_gpu/cuda/injection.h"

#include <dlfcn.h>

#include <cstdlib>

namespace virtual_gpu {

bool load_injection() {
  const char* path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || *path == 0) return true;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return true;
  const auto entry = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (entry != nullptr && entry() == 0) {
    dlclose(library);
    return false;
  }
  return true;
}

}  // namespace virtual_gpu
