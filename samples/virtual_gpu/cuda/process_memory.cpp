// Memory, kernels and modules.
#include <cxxabi.h>

#include <cstring>

#include "samples/virtual_gpu/cuda/process.h"
#include "samples/virtual_gpu/cuda/results.h"
#include "samples/virtual_gpu/cuda/thread_state.h"
#include "samples/virtual_gpu/engine/clock.h"

namespace virtual_gpu {

// --- Memory ------------------------------------------------------------------------------------

void* Process::allocate(MemoryKind kind, std::uint64_t bytes, Context* context) {
  if (kind == MemoryKind::kDevice && bytes > free_bytes(context->facts.device)) return nullptr;
  if (kind == MemoryKind::kManaged) {
    if (Tracer* tracer = tracer_) tracer->managed_memory();
  }
  return memory_.allocate(kind, bytes, context->facts.id);
}

bool Process::free_device(void* address) {
  return memory_.remove(
      address,
      [](const MemoryRange& range) {
        return range.kind == MemoryKind::kDevice || range.kind == MemoryKind::kManaged;
      },
      nullptr);
}

bool Process::free_host(void* address) {
  return memory_.remove(
      address,
      [](const MemoryRange& range) {
        return range.kind == MemoryKind::kPinned && !range.registered;
      },
      nullptr);
}

int Process::register_host(void* address, std::uint64_t bytes, Context* context) {
  return memory_.register_host(address, bytes, context->facts.id) ? kSuccess : kAlreadyRegistered;
}

int Process::unregister_host(void* address) {
  return memory_.remove(
             address, [](const MemoryRange& range) { return range.registered; }, nullptr)
             ? kSuccess
             : kNotRegistered;
}

MemoryKind Process::memory(const void* address, std::uint64_t* bytes) const {
  const MemoryRange range = memory_.find(address);
  if (bytes != nullptr) {
    *bytes = range.bytes == 0
                 ? 0
                 : range.begin + range.bytes - reinterpret_cast<std::uintptr_t>(address);
  }
  return range.kind;
}

std::uint64_t Process::free_bytes(std::uint32_t device) const {
  const std::uint64_t used = memory_.device_bytes();
  const std::uint64_t all = models_[device]->memory_bytes;
  return used < all ? all - used : 0;
}

// --- Kernels and modules -----------------------------------------------------------------------

const Kernel* Process::kernel(const char* mangled) {
  const std::lock_guard lock(kernels_mutex_);
  Kernel*& kernel = kernels_[mangled];
  if (kernel == nullptr) {
    int status = 0;
    char* demangled = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    kernel = new Kernel;
    kernel->mangled = strdup(mangled);
    kernel->demangled = demangled != nullptr ? demangled : kernel->mangled;
    kernel->cost = kernel_cost(*models_[0], kernel->mangled, kernel->demangled);
  }
  return kernel;
}

std::uint32_t Process::add_module() {
  return ++modules_;
}

bool Process::has_module(std::uint32_t context, std::uint32_t module) const {
  const Lock lock(mutex_);
  return context == 0 || contexts_[context - 1]->modules.count(module) != 0;
}

void Process::load_module(std::uint32_t context, std::uint32_t module) {
  if (state() != DriverState::kReady || context == 0 || module == 0) return;
  Context* into = nullptr;
  Overhead compiling;
  Overhead loading;
  {
    const std::lock_guard guard(loading_);  // who needs the same waits for it
    {
      const Lock lock(mutex_);
      into = contexts_[context - 1];
      if (!into->alive || into->modules.count(module) != 0) return;
    }
    const Model& model = *models_[into->facts.device];
    loading = begin_overhead(OverheadKind::kModuleLoading);
    compiling = spend(OverheadKind::kDriverCompiler, model.jit_ns);
    sleep_until(now_ns() + model.module_loading_ns);
    if (model.module_loading_ns != 0) loading.end_ns = timestamp();
    const Lock lock(mutex_);
    into->modules.insert(module);
  }
  report(compiling);
  report(loading);
  if (Tracer* tracer = tracer_) tracer->module_loaded(into, module, true);
}

void Process::load_kernel(std::uint32_t context, const Kernel* kernel) {
  Overhead loading;
  {
    const std::lock_guard guard(loading_);
    bool first = false;
    {
      const Lock lock(mutex_);
      first = contexts_[context - 1]->kernels.insert(kernel).second;
    }
    if (first) loading = spend(OverheadKind::kFunctionLoading, models_[0]->lazy_loading_ns);
    __atomic_store_n(&kernel->loaded_in, context, __ATOMIC_RELEASE);
  }
  report(loading);
}

Overhead Process::begin_overhead(OverheadKind kind) const {
  Overhead overhead;
  overhead.kind = kind;
  overhead.correlation = thread_correlation();
  overhead.start_ns = timestamp();
  return overhead;
}

Overhead Process::spend(OverheadKind kind, std::uint64_t ns) const {
  Overhead overhead = begin_overhead(kind);
  if (ns == 0) return overhead;
  sleep_until(now_ns() + ns);
  overhead.end_ns = timestamp();
  return overhead;
}

void Process::report(const Overhead& overhead) {
  if (overhead.end_ns == 0 || state() != DriverState::kReady) return;
  log_.overhead(overhead);
  if (Tracer* tracer = tracer_.load(std::memory_order_acquire)) tracer->overhead(overhead);
}

}  // namespace virtual_gpu
