// Allocation, copies, sets. Device memory is reserved address space: copies to and from it move
// nothing and host memory keeps what it held; only copies within the host are carried out.
#include <cstring>

#include "samples/virtual_gpu/cudart/call.h"

using namespace virtual_gpu;  // NOLINT: every function here is exported and global

namespace {

// Larger copies from pageable memory are staged: the call returns when the copy has ended.
constexpr std::size_t kStagedBytes = 64 * 1024;

// By CopyKind; at once and Async.
constexpr DriverFunction kCopies[4][2] = {
    {driver_function("cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds"),
     driver_function("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync_v2_ptsz")},
    {driver_function("cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2_ptds"),
     driver_function("cuMemcpyDtoHAsync_v2", "cuMemcpyDtoHAsync_v2_ptsz")},
    {driver_function("cuMemcpyDtoD_v2", "cuMemcpyDtoD_v2_ptds"),
     driver_function("cuMemcpyDtoDAsync_v2", "cuMemcpyDtoDAsync_v2_ptsz")},
    {driver_function("cuMemcpy", "cuMemcpy_ptds"),
     driver_function("cuMemcpyAsync", "cuMemcpyAsync_ptsz")}};
constexpr DriverFunction kSet = driver_function("cuMemsetD8_v2", "cuMemsetD8_v2_ptds");
constexpr DriverFunction kSetAsync = driver_function("cuMemsetD8Async", "cuMemsetD8Async_ptsz");

struct Side {
  MemoryKind kind;
  std::uint64_t bytes;  // that follow in the same allocation
  bool on_device() const { return kind == MemoryKind::kDevice || kind == MemoryKind::kManaged; }
  bool on_host() const { return kind != MemoryKind::kDevice; }
};

Side side(const void* address) {
  Side found{};
  found.kind = gpu().memory(address, &found.bytes);
  return found;
}

// `call` is open and is closed here.
cudaError_t copy(Call& call, bool per_thread, void* to, const void* from, std::size_t bytes,
                 cudaMemcpyKind direction, cudaStream_t stream, bool async) {
  if (direction < cudaMemcpyHostToHost || direction > cudaMemcpyDefault) {
    return call.done(cudaErrorInvalidMemcpyDirection);
  }
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return call.done(cudaSuccess);
  if (to == nullptr || from == nullptr) return call.done(cudaErrorInvalidValue);
  const Side source = side(from);
  const Side destination = side(to);
  for (const Side& one : {source, destination}) {
    if (one.bytes != 0 && bytes > one.bytes) return call.done(cudaErrorInvalidValue);
  }

  Operation operation;
  operation.work = Work::kCopy;
  operation.source = source.kind;
  operation.destination = destination.kind;
  operation.bytes = bytes;
  operation.async = async;
  const bool from_device =
      direction == cudaMemcpyDefault
          ? source.on_device()
          : direction == cudaMemcpyDeviceToHost || direction == cudaMemcpyDeviceToDevice;
  const bool to_device = direction == cudaMemcpyDefault ? destination.on_device()
                                                        : direction == cudaMemcpyHostToDevice ||
                                                              direction == cudaMemcpyDeviceToDevice;
  const auto fits = [](const Side& one, bool device) {
    // Pinned memory is mapped into the device, so it can be either side.
    return device ? one.kind != MemoryKind::kPageable : one.on_host();
  };
  if (!fits(source, from_device) || !fits(destination, to_device)) {
    return call.done(cudaErrorInvalidValue);
  }
  operation.copy = from_device ? (to_device ? CopyKind::kDeviceToDevice : CopyKind::kDeviceToHost)
                               : (to_device ? CopyKind::kHostToDevice : CopyKind::kHostToHost);

  const bool pageable =
      source.kind == MemoryKind::kPageable || destination.kind == MemoryKind::kPageable;
  const bool staged =
      pageable && (operation.copy != CopyKind::kHostToDevice || bytes > kStagedBytes);
  const bool in_host = source.on_host() && destination.on_host();
  const bool wait = !async || staged || in_host;
  const DriverFunction& driver = kCopies[static_cast<int>(operation.copy)][async ? 1 : 0];
  return call.done(in_driver(driver.number(per_thread), [&] {
    const int result = gpu().submit(operation, target, wait);
    if (result == cudaSuccess && in_host) std::memmove(to, from, bytes);
    return result;
  }));
}

cudaError_t copy_now(std::uint32_t cbid, bool per_thread, void* to, const void* from,
                     std::size_t bytes, cudaMemcpyKind direction) {
  RUNTIME_CALL_NUMBERED(cbid);
  return copy(call, per_thread, to, from, bytes, direction, nullptr, false);
}

cudaError_t copy_async(std::uint32_t cbid, bool per_thread, void* to, const void* from,
                       std::size_t bytes, cudaMemcpyKind direction, cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  return copy(call, per_thread, to, from, bytes, direction, stream, true);
}

// Copies with a __device__ variable on one side. `other` is the other side.
cudaError_t copy_symbol(std::uint32_t cbid, bool per_thread, const void* symbol, void* other,
                        std::size_t bytes, std::size_t offset, cudaMemcpyKind direction,
                        bool to_symbol, cudaStream_t stream, bool async) {
  RUNTIME_CALL_NUMBERED(cbid);
  std::size_t size = 0;
  auto* address = static_cast<char*>(symbol_address(symbol, &size));
  if (address == nullptr) return call.done(cudaErrorInvalidSymbol);
  if (offset > size || bytes > size - offset) return call.done(cudaErrorInvalidValue);
  const cudaMemcpyKind wrong = to_symbol ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
  if (direction == wrong || direction == cudaMemcpyHostToHost) {
    return call.done(cudaErrorInvalidMemcpyDirection);
  }
  void* there = address + offset;
  return copy(call, per_thread, to_symbol ? there : other, to_symbol ? other : there, bytes,
              direction, stream, async);
}

cudaError_t to_symbol(std::uint32_t cbid, bool per_thread, const void* symbol, const void* from,
                      std::size_t bytes, std::size_t offset, cudaMemcpyKind direction) {
  return copy_symbol(cbid, per_thread, symbol, const_cast<void*>(from), bytes, offset, direction,
                     true, nullptr, false);
}
cudaError_t from_symbol(std::uint32_t cbid, bool per_thread, void* to, const void* symbol,
                        std::size_t bytes, std::size_t offset, cudaMemcpyKind direction) {
  return copy_symbol(cbid, per_thread, symbol, to, bytes, offset, direction, false, nullptr, false);
}
cudaError_t to_symbol_async(std::uint32_t cbid, bool per_thread, const void* symbol,
                            const void* from, std::size_t bytes, std::size_t offset,
                            cudaMemcpyKind direction, cudaStream_t stream) {
  return copy_symbol(cbid, per_thread, symbol, const_cast<void*>(from), bytes, offset, direction,
                     true, stream, true);
}
cudaError_t from_symbol_async(std::uint32_t cbid, bool per_thread, void* to, const void* symbol,
                              std::size_t bytes, std::size_t offset, cudaMemcpyKind direction,
                              cudaStream_t stream) {
  return copy_symbol(cbid, per_thread, symbol, to, bytes, offset, direction, false, stream, true);
}

cudaError_t set(Call& call, bool per_thread, void* to, int value, std::size_t bytes,
                cudaStream_t stream, bool async) {
  Stream* target = find_stream(stream, per_thread);
  if (target == nullptr) return call.done(cudaErrorInvalidResourceHandle);
  if (bytes == 0) return call.done(cudaSuccess);
  const Side destination = side(to);
  if (destination.kind == MemoryKind::kPageable || bytes > destination.bytes) {
    return call.done(cudaErrorInvalidValue);
  }
  Operation operation;
  operation.work = Work::kSet;
  operation.source = operation.destination = destination.kind;
  operation.bytes = bytes;
  operation.value = static_cast<std::uint8_t>(value);
  operation.async = async;
  // Sets of device memory never wait; sets of memory that the host can see do.
  const DriverFunction& driver = async ? kSetAsync : kSet;
  return call.done(in_driver(driver.number(per_thread), [&] {
    const int result = gpu().submit(operation, target, !async && destination.on_host());
    if (result == cudaSuccess && destination.on_host()) std::memset(to, value, bytes);
    return result;
  }));
}

cudaError_t set_now(std::uint32_t cbid, bool per_thread, void* to, int value, std::size_t bytes) {
  RUNTIME_CALL_NUMBERED(cbid);
  return set(call, per_thread, to, value, bytes, nullptr, false);
}

cudaError_t set_async(std::uint32_t cbid, bool per_thread, void* to, int value, std::size_t bytes,
                      cudaStream_t stream) {
  RUNTIME_CALL_NUMBERED(cbid);
  return set(call, per_thread, to, value, bytes, stream, true);
}

// `call` is open and is closed here.
cudaError_t allocate(Call& call, MemoryKind kind, void** address, std::size_t bytes) {
  if (address == nullptr) return call.done(cudaErrorInvalidValue);
  Context* here = context();
  *address = nullptr;
  if (bytes == 0) {
    return call.done(kind == MemoryKind::kManaged ? cudaErrorInvalidValue : cudaSuccess);
  }
  constexpr DriverFunction kDevice = driver_function("cuMemAlloc_v2");
  constexpr DriverFunction kPinned = driver_function("cuMemHostAlloc");
  constexpr DriverFunction kManaged = driver_function("cuMemAllocManaged");
  const DriverFunction& driver = kind == MemoryKind::kDevice   ? kDevice
                                 : kind == MemoryKind::kPinned ? kPinned
                                                               : kManaged;
  return call.done(in_driver(driver.plain, [&] {
    *address = gpu().allocate(kind, bytes, here);
    return *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
  }));
}

}  // namespace

RUNTIME_API cudaMalloc(void** address, std::size_t bytes) {
  RUNTIME_CALL("cudaMalloc");
  return allocate(call, MemoryKind::kDevice, address, bytes);
}

RUNTIME_API cudaMallocHost(void** address, std::size_t bytes) {
  RUNTIME_CALL("cudaMallocHost");
  return allocate(call, MemoryKind::kPinned, address, bytes);
}

RUNTIME_API cudaHostAlloc(void** address, std::size_t bytes, unsigned flags) {
  RUNTIME_CALL("cudaHostAlloc");
  constexpr unsigned kFlags =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~kFlags) != 0) return call.done(cudaErrorInvalidValue);
  return allocate(call, MemoryKind::kPinned, address, bytes);
}

RUNTIME_API cudaMallocManaged(void** address, std::size_t bytes, unsigned flags) {
  RUNTIME_CALL("cudaMallocManaged");
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) {
    return call.done(cudaErrorInvalidValue);
  }
  return allocate(call, MemoryKind::kManaged, address, bytes);
}

RUNTIME_API cudaFree(void* address) {
  RUNTIME_CALL("cudaFree");
  Context* here = context();
  if (address == nullptr) return call.done(cudaSuccess);
  if (!side(address).on_device()) return call.done(cudaErrorInvalidValue);
  // Freeing waits for the device, since work may still use the memory.
  constexpr DriverFunction kFree = driver_function("cuMemFree_v2");
  return call.done(in_driver(kFree.plain, [&] {
    const int result = gpu().drain(here);
    if (result != cudaSuccess) return result;
    return static_cast<int>(gpu().free_device(address) ? cudaSuccess : cudaErrorInvalidValue);
  }));
}

RUNTIME_API cudaFreeHost(void* address) {
  RUNTIME_CALL("cudaFreeHost");
  Context* here = context();
  if (address == nullptr) return call.done(cudaSuccess);
  if (side(address).kind != MemoryKind::kPinned) return call.done(cudaErrorInvalidValue);
  constexpr DriverFunction kFree = driver_function("cuMemFreeHost");
  return call.done(in_driver(kFree.plain, [&] {
    const int result = gpu().drain(here);
    if (result != cudaSuccess) return result;
    return static_cast<int>(gpu().free_host(address) ? cudaSuccess : cudaErrorInvalidValue);
  }));
}

RUNTIME_API cudaHostRegister(void* address, std::size_t bytes, unsigned) {
  RUNTIME_CALL("cudaHostRegister");
  if (address == nullptr || bytes == 0) return call.done(cudaErrorInvalidValue);
  constexpr DriverFunction kRegister = driver_function("cuMemHostRegister_v2");
  Context* here = context();
  return call.done(
      in_driver(kRegister.plain, [&] { return gpu().register_host(address, bytes, here); }));
}

RUNTIME_API cudaHostUnregister(void* address) {
  RUNTIME_CALL("cudaHostUnregister");
  if (address == nullptr) return call.done(cudaErrorInvalidValue);
  constexpr DriverFunction kUnregister = driver_function("cuMemHostUnregister");
  return call.done(in_driver(kUnregister.plain, [&] { return gpu().unregister_host(address); }));
}

RUNTIME_API cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  RUNTIME_CALL("cudaHostGetDevicePointer");
  if (device == nullptr || flags != 0 || side(host).kind != MemoryKind::kPinned) {
    return call.done(cudaErrorInvalidValue);
  }
  *device = host;
  return call.done(cudaSuccess);
}

RUNTIME_API cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  RUNTIME_CALL("cudaMemGetInfo");
  if (free == nullptr || total == nullptr) return call.done(cudaErrorInvalidValue);
  const auto device = static_cast<std::uint32_t>(thread_device());
  context();
  constexpr DriverFunction kGetInfo = driver_function("cuMemGetInfo_v2");
  return call.done(in_driver(kGetInfo.plain, [&] {
    *free = gpu().free_bytes(device);
    *total = gpu().model(device).memory_bytes;
    return 0;
  }));
}

RUNTIME_API cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  RUNTIME_CALL("cudaPointerGetAttributes");
  if (attributes == nullptr || address == nullptr) return call.done(cudaErrorInvalidValue);
  *attributes = {};
  const MemoryKind kind = side(address).kind;
  attributes->device = thread_device();
  if (kind == MemoryKind::kPageable) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = const_cast<void*>(address);
    return call.done(cudaSuccess);
  }
  attributes->type = kind == MemoryKind::kDevice    ? cudaMemoryTypeDevice
                     : kind == MemoryKind::kManaged ? cudaMemoryTypeManaged
                                                    : cudaMemoryTypeHost;
  attributes->devicePointer = const_cast<void*>(address);
  attributes->hostPointer = kind == MemoryKind::kDevice ? nullptr : const_cast<void*>(address);
  return call.done(cudaSuccess);
}

RUNTIME_API cudaGetSymbolAddress(void** address, const void* symbol) {
  RUNTIME_CALL("cudaGetSymbolAddress");
  if (address == nullptr) return call.done(cudaErrorInvalidValue);
  *address = symbol_address(symbol, nullptr);
  return call.done(*address != nullptr ? cudaSuccess : cudaErrorInvalidSymbol);
}

RUNTIME_API cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  RUNTIME_CALL("cudaGetSymbolSize");
  if (bytes == nullptr) return call.done(cudaErrorInvalidValue);
  return call.done(symbol_address(symbol, bytes) != nullptr ? cudaSuccess : cudaErrorInvalidSymbol);
}

RUNTIME_TWINS(cudaMemcpy, _ptds, copy_now,
              (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind), to, from, bytes,
              kind)
RUNTIME_TWINS(cudaMemcpyAsync, _ptsz, copy_async,
              (void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
               cudaStream_t stream),
              to, from, bytes, kind, stream)
RUNTIME_TWINS(cudaMemcpyToSymbol, _ptds, to_symbol,
              (const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
               cudaMemcpyKind kind),
              symbol, from, bytes, offset, kind)
RUNTIME_TWINS(cudaMemcpyFromSymbol, _ptds, from_symbol,
              (void* to, const void* symbol, std::size_t bytes, std::size_t offset,
               cudaMemcpyKind kind),
              to, symbol, bytes, offset, kind)
RUNTIME_TWINS(cudaMemcpyToSymbolAsync, _ptsz, to_symbol_async,
              (const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
               cudaMemcpyKind kind, cudaStream_t stream),
              symbol, from, bytes, offset, kind, stream)
RUNTIME_TWINS(cudaMemcpyFromSymbolAsync, _ptsz, from_symbol_async,
              (void* to, const void* symbol, std::size_t bytes, std::size_t offset,
               cudaMemcpyKind kind, cudaStream_t stream),
              to, symbol, bytes, offset, kind, stream)
RUNTIME_TWINS(cudaMemset, _ptds, set_now, (void* to, int value, std::size_t bytes), to, value,
              bytes)
RUNTIME_TWINS(cudaMemsetAsync, _ptsz, set_async,
              (void* to, int value, std::size_t bytes, cudaStream_t stream), to, value, bytes,
              stream)
