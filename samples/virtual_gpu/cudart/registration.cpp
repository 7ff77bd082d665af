// The functions that the host code of nvcc calls by itself: registration of fat binaries, kernels
// and variables before main, and the two halves of <<<>>>. Kernels are timed, not executed, so
// nothing in a fat binary is read.
//
// Their numbers exist from CUDA 13.0 on, but whether CUPTI records any of them but the launch can
// only be seen on a real GPU: only the launch is recorded here.
#include <cstring>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "samples/virtual_gpu/cudart/call.h"
#include "samples/virtual_gpu/cudart/launch.h"

#define HOST_STUB extern "C" __attribute__((visibility("default")))

namespace virtual_gpu {
namespace {

struct Variable {
  std::uint32_t module = 0;
  std::size_t bytes = 0;
  void* managed = nullptr;  // real memory; else it is made on the device at first use
  void* address = nullptr;
  std::uint32_t context = 0;
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<const void*, RegisteredKernel*> kernels;
  std::unordered_map<const void*, Variable> variables;
};

// Used before main and after its end, so never destroyed.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

RegisteredKernel* find_kernel(const void* function) {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.kernels.find(function);
  return found != all.kernels.end() ? found->second : nullptr;
}

const Kernel* interned(RegisteredKernel* registered) {
  const Kernel* kernel = __atomic_load_n(&registered->kernel, __ATOMIC_ACQUIRE);
  if (kernel == nullptr) {
    kernel = gpu().kernel(registered->mangled);
    __atomic_store_n(&registered->kernel, kernel, __ATOMIC_RELEASE);
  }
  return kernel;
}

void* symbol_address(const void* symbol, std::size_t* bytes) {
  Context* here = context();
  ContextFacts facts;
  gpu().context_facts(here, facts);
  Registry& all = registry();
  std::uint32_t module = 0;
  {
    const std::shared_lock lock(all.mutex);
    const auto found = all.variables.find(symbol);
    if (found == all.variables.end()) return nullptr;
    module = found->second.module;
  }
  require_module(facts.id, module);
  const std::unique_lock lock(all.mutex);
  const auto found = all.variables.find(symbol);
  if (found == all.variables.end()) return nullptr;
  Variable& variable = found->second;
  if (bytes != nullptr) *bytes = variable.bytes;
  if (variable.managed != nullptr) return variable.managed;
  if (variable.address == nullptr || variable.context != facts.id) {
    variable.address = gpu().allocate(MemoryKind::kDevice, variable.bytes, here);
    variable.context = facts.id;
  }
  return variable.address;
}

}  // namespace virtual_gpu

using virtual_gpu::registry;

namespace {

std::uint32_t module_of(void** binary) {
  return binary != nullptr ? static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(*binary))
                           : 0;
}

}  // namespace

// The handle of a fat binary points to a word that holds the module's number.
HOST_STUB void** __cudaRegisterFatBinary(void*) {
  const std::uintptr_t module = virtual_gpu::gpu().add_module();
  return new void*(reinterpret_cast<void*>(module));
}

HOST_STUB void __cudaRegisterFatBinaryEnd(void**) {}
HOST_STUB void __cudaUnregisterFatBinary(void**) {}
HOST_STUB char __cudaInitModule(void**) {
  return 1;
}

HOST_STUB void __cudaRegisterFunction(void** binary, const char* host, char*, const char* name, int,
                                      uint3*, uint3*, dim3*, dim3*, int*) {
  auto& all = registry();
  const std::unique_lock lock(all.mutex);
  auto*& kernel = all.kernels[host];
  if (kernel != nullptr) return;
  kernel = new virtual_gpu::RegisteredKernel;
  kernel->module = module_of(binary);
  kernel->mangled = strdup(name);  // the library that holds it may be unloaded
  all.kernels[kernel] = kernel;    // it is its own cudaKernel_t
}

HOST_STUB void __cudaRegisterVar(void** binary, char* host, char*, const char*, int,
                                 std::size_t bytes, int, int) {
  auto& all = registry();
  const std::unique_lock lock(all.mutex);
  auto& variable = all.variables[host];
  variable.module = module_of(binary);
  variable.bytes = bytes;
}

HOST_STUB void __cudaRegisterManagedVar(void**, void** host, char*, const char*, int,
                                        std::size_t bytes, int, int) {
  auto& all = registry();
  const std::unique_lock lock(all.mutex);
  auto& variable = all.variables[host];
  variable.bytes = bytes;
  // The host code goes through this pointer.
  *host = variable.managed = std::calloc(1, bytes);
}

HOST_STUB unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                               cudaStream_t stream) {
  virtual_gpu::configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

HOST_STUB cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                                 void* stream) {
  auto& stack = virtual_gpu::configurations;
  if (stack.empty()) return cudaErrorMissingConfiguration;
  *grid = stack.back().grid;
  *block = stack.back().block;
  *shared_bytes = stack.back().shared_bytes;
  *static_cast<cudaStream_t*>(stream) = stack.back().stream;
  stack.pop_back();
  return cudaSuccess;
}

HOST_STUB cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  auto* registered = virtual_gpu::find_kernel(function);
  if (registered == nullptr) return cudaErrorInvalidDeviceFunction;
  *kernel = reinterpret_cast<cudaKernel_t>(registered);
  return cudaSuccess;
}

namespace {

cudaError_t launch_handle(std::uint32_t cbid, bool per_thread, cudaKernel_t kernel, dim3 grid,
                          dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  return virtual_gpu::launch(cbid, per_thread, kernel, grid, block, shared_bytes, stream);
}

}  // namespace

RUNTIME_TWINS(__cudaLaunchKernel, _ptsz, launch_handle,
              (cudaKernel_t kernel, dim3 grid, dim3 block, void**, std::size_t shared_bytes,
               cudaStream_t stream),
              kernel, grid, block, shared_bytes, stream)
