// The driver API, as far as the stand-in runtime's users, a profiler and plain driver programs
// need it to look around; generated stubs answer for the rest. No CUDA header is read here, as
// each toolkit maps plain names to other versions: these are the exported names.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "samples/virtual_gpu/cuda/process.h"
#include "samples/virtual_gpu/engine/api_names.h"
#include "samples/virtual_gpu/engine/attributes.h"
#include "samples/virtual_gpu/engine/errors.h"

#define DRIVER_API extern "C" __attribute__((visibility("default"))) int
// Opens the call; `call.done(result)` closes it.
#define DRIVER_CALL(name)                                           \
  constexpr std::uint32_t kCbid = ::virtual_gpu::driver_cbid(name); \
  Call call(kCbid)

namespace {

using virtual_gpu::ApiCall;
using virtual_gpu::Context;
using virtual_gpu::ContextFacts;
using virtual_gpu::DriverState;
using virtual_gpu::Model;
using virtual_gpu::Process;

enum : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kNotInitialised = 3,
  kUnloading = 4,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kOperatingSystem = 304,
  kNotFound = 500,
  kNotSupported = 801,
};

Process& gpu() {
  return Process::instance();
}

int readiness() {
  switch (gpu().state()) {
    case DriverState::kReady:
    case DriverState::kInitialising:
      return kSuccess;
    case DriverState::kForked:
      return kOperatingSystem;
    case DriverState::kStopped:
      return kUnloading;
    default:
      return kNotInitialised;
  }
}

class Call {
 public:
  explicit Call(std::uint32_t cbid) : ready_(readiness()) {
    call_.domain = virtual_gpu::ApiDomain::kDriver;
    call_.cbid = cbid;
    if (ready_ == kSuccess) gpu().begin(call_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() = default;

  int ready() const { return ready_; }
  int done(int result) {
    gpu().end(call_, result);
    return result;
  }
  // For the calls that take a device first of all.
  int refuse(int device) const {
    if (ready_ != kSuccess) return ready_;
    return device < 0 || static_cast<std::uint32_t>(device) >= gpu().device_count() ? kInvalidDevice
                                                                                    : kSuccess;
  }

 private:
  ApiCall call_;
  int ready_;
};

const Model& model(int device) {
  return gpu().model(static_cast<std::uint32_t>(device));
}

int copy_uuid(unsigned char* uuid, int device) {
  if (uuid == nullptr) return kInvalidValue;
  std::memcpy(uuid, model(device).uuid.data(), 16);
  return kSuccess;
}

int synchronise(Context* context) {
  if (context == nullptr) return kInvalidContext;
  return gpu().synchronize(context);
}

void* find_export(const char* name) {
  // This library, whatever it was loaded as.
  static void* const self = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&find_export), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return self != nullptr ? dlsym(self, name) : nullptr;
}

int proc_address(const char* symbol, void** function, unsigned long long flags, int* status) {
  constexpr unsigned long long kPerThreadStream = 2;
  if (symbol == nullptr || function == nullptr) return kInvalidValue;
  *function = nullptr;
  const std::string name = symbol;
  for (const char* version : {"_v4", "_v3", "_v2", ""}) {
    for (const char* twin : {"_ptsz", "_ptds", ""}) {
      if (*twin != 0 && (flags & kPerThreadStream) == 0) continue;
      if (*function == nullptr) *function = find_export((name + version + twin).c_str());
    }
  }
  if (status != nullptr) *status = *function != nullptr ? 0 : 1;
  return *function != nullptr ? kSuccess : kNotFound;
}

}  // namespace

// Called by the generated stubs.
extern "C" int virtual_gpu_missing(const char* name, int* logged) {
  if (!__atomic_exchange_n(logged, 1, __ATOMIC_RELAXED)) {
    std::fprintf(stderr, "virtual GPU: %s is not simulated; it returns 801 (not supported)\n",
                 name);
  }
  ApiCall call;
  call.domain = virtual_gpu::ApiDomain::kDriver;
  call.cbid = virtual_gpu::driver_cbid(name);
  gpu().begin(call);
  gpu().end(call, kNotSupported);
  return kNotSupported;
}

DRIVER_API cuInit(unsigned flags) {
  if (flags != 0) return kInvalidValue;
  return gpu().initialise();
}

DRIVER_API cuDriverGetVersion(int* version) {
  if (version == nullptr) return kInvalidValue;
  DRIVER_CALL("cuDriverGetVersion");
  *version = VIRTUAL_GPU_CUDA_VERSION;
  return call.done(kSuccess);
}

DRIVER_API cuGetErrorName(int error, const char** name) {
  if (name == nullptr) return kInvalidValue;
  *name = virtual_gpu::error_name(virtual_gpu::kDriverErrors, error);
  return *name != nullptr ? kSuccess : kInvalidValue;
}

DRIVER_API cuGetErrorString(int error, const char** text) {
  if (text == nullptr) return kInvalidValue;
  *text = virtual_gpu::error_text(error);
  return *text != nullptr ? kSuccess : kInvalidValue;
}

DRIVER_API cuDeviceGetCount(int* count) {
  DRIVER_CALL("cuDeviceGetCount");
  if (call.ready() != kSuccess) return call.ready();
  if (count == nullptr) return call.done(kInvalidValue);
  *count = static_cast<int>(gpu().device_count());
  return call.done(kSuccess);
}

DRIVER_API cuDeviceGet(int* device, int ordinal) {
  DRIVER_CALL("cuDeviceGet");
  if (const int error = call.refuse(ordinal)) return call.done(error);
  if (device == nullptr) return call.done(kInvalidValue);
  *device = ordinal;
  return call.done(kSuccess);
}

DRIVER_API cuDeviceGetName(char* name, int length, int device) {
  DRIVER_CALL("cuDeviceGetName");
  if (const int error = call.refuse(device)) return call.done(error);
  if (name == nullptr || length <= 0) return call.done(kInvalidValue);
  std::snprintf(name, static_cast<std::size_t>(length), "%s", model(device).name.c_str());
  return call.done(kSuccess);
}

DRIVER_API cuDeviceGetUuid(unsigned char* uuid, int device) {
  DRIVER_CALL("cuDeviceGetUuid");
  if (const int error = call.refuse(device)) return call.done(error);
  return call.done(copy_uuid(uuid, device));
}

DRIVER_API cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  DRIVER_CALL("cuDeviceGetUuid_v2");
  if (const int error = call.refuse(device)) return call.done(error);
  return call.done(copy_uuid(uuid, device));
}

DRIVER_API cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  DRIVER_CALL("cuDeviceTotalMem_v2");
  if (const int error = call.refuse(device)) return call.done(error);
  if (bytes == nullptr) return call.done(kInvalidValue);
  *bytes = model(device).memory_bytes;
  return call.done(kSuccess);
}

DRIVER_API cuDeviceGetAttribute(int* value, int attribute, int device) {
  DRIVER_CALL("cuDeviceGetAttribute");
  if (const int error = call.refuse(device)) return call.done(error);
  if (value == nullptr || !virtual_gpu::device_attribute(model(device), attribute, *value)) {
    return call.done(kInvalidValue);
  }
  return call.done(kSuccess);
}

DRIVER_API cuDeviceComputeCapability(int* major, int* minor, int device) {
  DRIVER_CALL("cuDeviceComputeCapability");
  if (const int error = call.refuse(device)) return call.done(error);
  if (major == nullptr || minor == nullptr) return call.done(kInvalidValue);
  *major = static_cast<int>(model(device).capability_major);
  *minor = static_cast<int>(model(device).capability_minor);
  return call.done(kSuccess);
}

DRIVER_API cuDeviceGetPCIBusId(char* text, int length, int device) {
  DRIVER_CALL("cuDeviceGetPCIBusId");
  if (const int error = call.refuse(device)) return call.done(error);
  if (text == nullptr || length <= 0) return call.done(kInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return call.done(kSuccess);
}

DRIVER_API cuDevicePrimaryCtxRetain(void** context, int device) {
  DRIVER_CALL("cuDevicePrimaryCtxRetain");
  if (const int error = call.refuse(device)) return call.done(error);
  if (context == nullptr) return call.done(kInvalidValue);
  *context = gpu().primary(static_cast<std::uint32_t>(device));
  return call.done(kSuccess);
}

DRIVER_API cuDevicePrimaryCtxRelease_v2(int device) {
  DRIVER_CALL("cuDevicePrimaryCtxRelease_v2");
  return call.done(call.refuse(device));
}

DRIVER_API cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  DRIVER_CALL("cuDevicePrimaryCtxGetState");
  if (const int error = call.refuse(device)) return call.done(error);
  if (flags == nullptr || active == nullptr) return call.done(kInvalidValue);
  *flags = 0;
  *active = gpu().primary_active(static_cast<std::uint32_t>(device)) ? 1 : 0;
  return call.done(kSuccess);
}

DRIVER_API cuDevicePrimaryCtxReset_v2(int device) {
  DRIVER_CALL("cuDevicePrimaryCtxReset_v2");
  if (const int error = call.refuse(device)) return call.done(error);
  gpu().reset_primary(static_cast<std::uint32_t>(device));
  return call.done(kSuccess);
}

DRIVER_API cuCtxCreate_v2(void** context, unsigned, int device) {
  DRIVER_CALL("cuCtxCreate_v2");
  if (const int error = call.refuse(device)) return call.done(error);
  if (context == nullptr) return call.done(kInvalidValue);
  Context* made = gpu().create_context(static_cast<std::uint32_t>(device));
  gpu().set_current(made);
  *context = made;
  return call.done(kSuccess);
}

DRIVER_API cuCtxCreate_v4(void** context, void*, unsigned, int device) {
  DRIVER_CALL("cuCtxCreate_v4");
  if (const int error = call.refuse(device)) return call.done(error);
  if (context == nullptr) return call.done(kInvalidValue);
  Context* made = gpu().create_context(static_cast<std::uint32_t>(device));
  gpu().set_current(made);
  *context = made;
  return call.done(kSuccess);
}

DRIVER_API cuCtxDestroy_v2(void* context) {
  DRIVER_CALL("cuCtxDestroy_v2");
  if (call.ready() != kSuccess) return call.ready();
  if (!gpu().destroy_context(static_cast<Context*>(context))) return call.done(kInvalidContext);
  if (gpu().current() == context) gpu().set_current(nullptr);
  return call.done(kSuccess);
}

DRIVER_API cuCtxGetCurrent(void** context) {
  DRIVER_CALL("cuCtxGetCurrent");
  if (call.ready() != kSuccess) return call.ready();
  if (context == nullptr) return call.done(kInvalidValue);
  *context = gpu().current();
  return call.done(kSuccess);
}

DRIVER_API cuCtxSetCurrent(void* context) {
  DRIVER_CALL("cuCtxSetCurrent");
  if (call.ready() != kSuccess) return call.ready();
  ContextFacts facts;
  if (context != nullptr && !gpu().context_facts(static_cast<Context*>(context), facts)) {
    return call.done(kInvalidContext);
  }
  gpu().set_current(static_cast<Context*>(context));
  return call.done(kSuccess);
}

DRIVER_API cuCtxGetDevice(int* device) {
  DRIVER_CALL("cuCtxGetDevice");
  if (call.ready() != kSuccess) return call.ready();
  if (device == nullptr) return call.done(kInvalidValue);
  ContextFacts facts;
  Context* context = gpu().current();
  if (context == nullptr || !gpu().context_facts(context, facts)) {
    return call.done(kInvalidContext);
  }
  *device = static_cast<int>(facts.device);
  return call.done(kSuccess);
}

DRIVER_API cuCtxGetApiVersion(void* context, unsigned* version) {
  DRIVER_CALL("cuCtxGetApiVersion");
  if (call.ready() != kSuccess) return call.ready();
  ContextFacts facts;
  if (version == nullptr) return call.done(kInvalidValue);
  Context* asked = context != nullptr ? static_cast<Context*>(context) : gpu().current();
  if (asked == nullptr || !gpu().context_facts(asked, facts)) return call.done(kInvalidContext);
  *version = 3020;
  return call.done(kSuccess);
}

DRIVER_API cuCtxSynchronize() {
  DRIVER_CALL("cuCtxSynchronize");
  if (call.ready() != kSuccess) return call.ready();
  return call.done(synchronise(gpu().current()));
}

DRIVER_API cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  DRIVER_CALL("cuMemGetInfo_v2");
  if (call.ready() != kSuccess) return call.ready();
  if (free == nullptr || total == nullptr) return call.done(kInvalidValue);
  *free = gpu().free_bytes(0);
  *total = model(0).memory_bytes;
  return call.done(kSuccess);
}

DRIVER_API cuProfilerStart() {
  DRIVER_CALL("cuProfilerStart");
  if (call.ready() != kSuccess) return call.ready();
  return call.done(kSuccess);
}

DRIVER_API cuProfilerStop() {
  DRIVER_CALL("cuProfilerStop");
  if (call.ready() != kSuccess) return call.ready();
  return call.done(kSuccess);
}

DRIVER_API cuGetProcAddress(const char* symbol, void** function, int, unsigned long long flags) {
  return proc_address(symbol, function, flags, nullptr);
}

DRIVER_API cuGetProcAddress_v2(const char* symbol, void** function, int, unsigned long long flags,
                               int* status) {
  return proc_address(symbol, function, flags, status);
}

DRIVER_API cuGetExportTable(const void** table, const void*) {
  if (table == nullptr) return kInvalidValue;
  *table = nullptr;
  return kNotFound;
}
