// How a driver loads the library that CUDA_INJECTION64_PATH names.
#pragma once

namespace virtual_gpu {

// Loads it (RTLD_LOCAL) and calls InitializeInjection on this thread. Any failure is silent, as
// the driver's is. True once the library is in place, or if there is none to load; false when it
// returned 0: it is unloaded again, and the next cuInit tries once more.
bool load_injection();

}  // namespace virtual_gpu
