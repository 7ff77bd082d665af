#include "samples/virtual_gpu/cudart/launch.h"

#include "samples/virtual_gpu/engine/attributes.h"

namespace virtual_gpu {
namespace {

constexpr DriverFunction kLaunch = driver_function("cuLaunchKernel", "cuLaunchKernel_ptsz");
constexpr DriverFunction kLaunchEx = driver_function("cuLaunchKernelEx", "cuLaunchKernelEx_ptsz");
constexpr DriverFunction kLaunchCooperative =
    driver_function("cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz");
constexpr DriverFunction kGetName = driver_function("cuKernelGetName");
constexpr DriverFunction kHostFunction =
    driver_function("cuLaunchHostFunc", "cuLaunchHostFunc_ptsz");
constexpr DriverFunction kAddCallback =
    driver_function("cuStreamAddCallback", "cuStreamAddCallback_ptsz");

cudaError_t launch_as(const DriverFunction& driver, std::uint32_t cbid, bool per_thread,
                      const void* function, dim3 grid, dim3 block, std::size_t shared_bytes,
                      cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  RegisteredKernel* registered = find_kernel(function);
  if (registered == nullptr) return call.done(cudaErrorInvalidDeviceFunction);
  const Kernel* kernel = interned(registered);
  call.set_symbol(kernel->mangled);

  const std::uint32_t grid_size[3] = {grid.x, grid.y, grid.z};
  const std::uint32_t block_size[3] = {block.x, block.y, block.z};
  std::uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (grid_size[i] == 0 || grid_size[i] > kMaxGrid[i] || block_size[i] == 0 ||
        block_size[i] > kMaxBlock[i]) {
      return call.done(cudaErrorInvalidConfiguration);
    }
    threads *= block_size[i];
  }
  if (threads > kMaxThreadsPerBlock) return call.done(cudaErrorInvalidConfiguration);
  if (shared_bytes + kernel->cost.shared_bytes > kSharedBytesPerBlockOptIn) {
    return call.done(cudaErrorInvalidValue);
  }
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);

  Operation operation;
  operation.work = Work::kKernel;
  operation.kernel = kernel;
  std::copy(std::begin(grid_size), std::end(grid_size), operation.grid);
  std::copy(std::begin(block_size), std::end(block_size), operation.block);
  operation.dynamic_shared_bytes = static_cast<std::uint32_t>(shared_bytes);
  const std::uint32_t context = gpu().stream_facts(target).context;
  if (__atomic_load_n(&registered->loaded_in, __ATOMIC_ACQUIRE) != context) {
    require_module(context, registered->module);
    __atomic_store_n(&registered->loaded_in, context, __ATOMIC_RELEASE);
  }
  // The runtime asks for the name each time, which takes no time worth knowing.
  in_driver(kGetName.plain, [] { return 0; });
  return call.done(
      in_driver(driver.number(per_thread), [&] { return gpu().submit(operation, target, false); }));
}

cudaError_t launch_cooperative(std::uint32_t cbid, bool per_thread, const void* function, dim3 grid,
                               dim3 block, std::size_t shared_bytes, cudaStream_t stream) {
  return launch_as(kLaunchCooperative, cbid, per_thread, function, grid, block, shared_bytes,
                   stream);
}

cudaError_t launch_with(std::uint32_t cbid, bool per_thread, const cudaLaunchConfig_t* config,
                        const void* function) {
  if (config == nullptr) {
    RUNTIME_CALL_NUMBERED(cbid);
    return call.done(cudaErrorInvalidValue);
  }
  return launch_as(kLaunchEx, cbid, per_thread, function, config->gridDim, config->blockDim,
                   config->dynamicSmemBytes, config->stream);
}

struct StreamCallback {
  cudaStreamCallback_t function;
  cudaStream_t stream;
  void* data;
};

cudaError_t add_callback(std::uint32_t cbid, bool per_thread, cudaStream_t stream,
                         cudaStreamCallback_t function, void* data, unsigned flags) {
  RUNTIME_CALL_NUMBERED(cbid);
  if (function == nullptr || flags != 0) return call.done(cudaErrorInvalidValue);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  const auto run = [](void* pointer) {
    const StreamCallback callback = *static_cast<StreamCallback*>(pointer);
    delete static_cast<StreamCallback*>(pointer);
    callback.function(callback.stream, cudaSuccess, callback.data);
  };
  return call.done(in_driver(kAddCallback.number(per_thread), [&] {
    return gpu().call_host(target, run, new StreamCallback{function, stream, data});
  }));
}

cudaError_t launch_host(std::uint32_t cbid, bool per_thread, cudaStream_t stream,
                        cudaHostFn_t function, void* data) {
  RUNTIME_CALL_NUMBERED(cbid);
  if (function == nullptr) return call.done(cudaErrorInvalidValue);
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(in_driver(kHostFunction.number(per_thread),
                             [&] { return gpu().call_host(target, function, data); }));
}

}  // namespace

cudaError_t launch(std::uint32_t cbid, bool per_thread, const void* function, dim3 grid, dim3 block,
                   std::size_t shared_bytes, cudaStream_t stream) {
  return launch_as(kLaunch, cbid, per_thread, function, grid, block, shared_bytes, stream);
}

}  // namespace virtual_gpu

RUNTIME_TWINS(cudaLaunchKernel, _ptsz, virtual_gpu::launch,
              (const void* function, dim3 grid, dim3 block, void**, std::size_t shared_bytes,
               cudaStream_t stream),
              function, grid, block, shared_bytes, stream)
RUNTIME_TWINS(cudaLaunchCooperativeKernel, _ptsz, virtual_gpu::launch_cooperative,
              (const void* function, dim3 grid, dim3 block, void**, std::size_t shared_bytes,
               cudaStream_t stream),
              function, grid, block, shared_bytes, stream)
RUNTIME_TWINS(cudaLaunchKernelExC, _ptsz, virtual_gpu::launch_with,
              (const cudaLaunchConfig_t* config, const void* function, void**), config, function)
RUNTIME_TWINS(cudaLaunchHostFunc, _ptsz, virtual_gpu::launch_host,
              (cudaStream_t stream, cudaHostFn_t function, void* data), stream, function, data)
RUNTIME_TWINS(cudaStreamAddCallback, _ptsz, virtual_gpu::add_callback,
              (cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags),
              stream, function, data, flags)

RUNTIME_API cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  using namespace virtual_gpu;
  RUNTIME_CALL("cudaFuncGetAttributes");
  if (attributes == nullptr) return call.done(cudaErrorInvalidValue);
  RegisteredKernel* registered = find_kernel(function);
  if (registered == nullptr) return call.done(cudaErrorInvalidDeviceFunction);
  const KernelCost& cost = interned(registered)->cost;
  const Model& model = gpu().model(static_cast<std::uint32_t>(thread_device()));
  *attributes = {};
  attributes->sharedSizeBytes = cost.shared_bytes;
  attributes->localSizeBytes = cost.local_bytes;
  attributes->maxThreadsPerBlock = static_cast<int>(kMaxThreadsPerBlock);
  attributes->numRegs = static_cast<int>(cost.registers);
  attributes->ptxVersion = attributes->binaryVersion =
      static_cast<int>(model.capability_major * 10 + model.capability_minor);
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(kSharedBytesPerBlockOptIn - cost.shared_bytes);
  return call.done(cudaSuccess);
}

RUNTIME_API cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  using namespace virtual_gpu;
  RUNTIME_CALL("cudaFuncSetAttribute");
  return call.done(find_kernel(function) != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}
