#include "injector/cupti_api.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

namespace profiler::injector {
namespace {

// Newest first. 11.6 brought the timestamp callback.
struct Soname {
  std::uint32_t major;
  const char* name;
};
constexpr Soname kSonames[] = {
    {14, "libcupti.so.14"},   {13, "libcupti.so.13"},   {12, "libcupti.so.12"},
    {11, "libcupti.so.11.8"}, {11, "libcupti.so.11.7"}, {11, "libcupti.so.11.6"},
};

void copy_text(char* into, std::size_t size, const char* text) {
  std::snprintf(into, size, "%s", text == nullptr ? "" : text);
}

void* open_by_driver(int driver_version) {
  const auto major = static_cast<std::uint32_t>(driver_version / 1000);
  // An older libcupti works under a newer driver, never the other way round.
  for (const Soname& soname : kSonames) {
    if (driver_version > 0 && soname.major > major) continue;
    if (void* library = dlopen(soname.name, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

}  // namespace

bool CuptiApi::load(const char* preferred_path, int driver_version) {
  for (const Soname& soname : kSonames) {
    void* library = dlopen(soname.name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library != nullptr && resolve(library)) return true;
  }
  if (preferred_path != nullptr && preferred_path[0] != '\0') {
    void* library = dlopen(preferred_path, RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      if (resolve(library)) return true;
    } else {
      const char* error = dlerror();
      copy_text(load_error_, sizeof load_error_, error);
    }
  }
  void* library = open_by_driver(driver_version);
  return library != nullptr && resolve(library);
}

bool CuptiApi::resolve(void* library) {
  CuptiFunctions found;
#define PROFILER_RESOLVE(name) \
  found.name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name));
  PROFILER_CUPTI_REQUIRED(PROFILER_RESOLVE)
  PROFILER_CUPTI_OPTIONAL(PROFILER_RESOLVE)
#undef PROFILER_RESOLVE
#define PROFILER_REQUIRE(name)                                           \
  if (found.name == nullptr) {                                           \
    copy_text(load_error_, sizeof load_error_, "libcupti lacks " #name); \
    return false;                                                        \
  }
  PROFILER_CUPTI_REQUIRED(PROFILER_REQUIRE)
#undef PROFILER_REQUIRE
  functions_ = found;
  load_error_[0] = '\0';
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(found.cuptiGetVersion), &info) != 0) {
    copy_text(path_, sizeof path_, info.dli_fname);
  }
  return true;
}

bool CuptiApi::read_version() {
  return note(functions_.cuptiGetVersion(&version_), "cuptiGetVersion") == CUPTI_SUCCESS;
}

CUptiResult CuptiApi::note(CUptiResult result, const char* function, const char* argument) {
  if (result == CUPTI_SUCCESS) return result;
  CuptiCallFailure failure{};
  if (argument == nullptr) {
    copy_text(failure.function, sizeof failure.function, function);
  } else {
    std::snprintf(failure.function, sizeof failure.function, "%s(%s)", function, argument);
  }
  failure.result = static_cast<std::uint32_t>(result);
  const Lock lock(failures_mutex_);
  for (std::size_t i = 0; i < failure_count_; ++i) {
    if (failures_[i].result == failure.result &&
        std::strcmp(failures_[i].function, failure.function) == 0) {
      return result;
    }
  }
  if (failure_count_ < kMaxFailures) failures_[failure_count_++] = failure;
  return result;
}

std::size_t CuptiApi::failures(std::size_t first, CuptiCallFailure* into, std::size_t room) {
  const Lock lock(failures_mutex_);
  std::size_t copied = 0;
  for (std::size_t i = first; i < failure_count_ && copied < room; ++i) {
    into[copied++] = failures_[i];
  }
  return copied;
}

CUptiResult CuptiApi::set_thread_ids_to_system() {
  if (functions_.cuptiSetThreadIdType == nullptr) return CUPTI_ERROR_API_NOT_IMPLEMENTED;
  return note(functions_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM),
              "cuptiSetThreadIdType");
}

CUptiResult CuptiApi::register_timestamps(CUpti_TimestampCallbackFunc callback) {
  if (functions_.cuptiActivityRegisterTimestampCallback == nullptr) {
    return note(CUPTI_ERROR_API_NOT_IMPLEMENTED, "cuptiActivityRegisterTimestampCallback");
  }
  return note(functions_.cuptiActivityRegisterTimestampCallback(callback),
              "cuptiActivityRegisterTimestampCallback");
}

CUptiResult CuptiApi::promise_zeroed_buffers() {
  if (functions_.cuptiActivitySetAttribute == nullptr) return CUPTI_ERROR_API_NOT_IMPLEMENTED;
  std::uint8_t yes = 1;
  std::size_t size = sizeof yes;
  return note(functions_.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER,
                                                   &size, &yes),
              "cuptiActivitySetAttribute", "ZEROED_OUT_ACTIVITY_BUFFER");
}

CUptiResult CuptiApi::register_buffers(CUpti_BuffersCallbackRequestFunc request,
                                       CUpti_BuffersCallbackCompleteFunc complete) {
  return note(functions_.cuptiActivityRegisterCallbacks(request, complete),
              "cuptiActivityRegisterCallbacks");
}

CUptiResult CuptiApi::subscribe(CUpti_CallbackFunc callback) {
  if (functions_.cuptiSubscribe == nullptr || functions_.cuptiEnableCallback == nullptr) {
    return note(CUPTI_ERROR_API_NOT_IMPLEMENTED, "cuptiSubscribe");
  }
  return note(functions_.cuptiSubscribe(&subscriber_, callback, nullptr), "cuptiSubscribe");
}

CUptiResult CuptiApi::enable_resource_callback(CUpti_CallbackIdResource id, const char* name) {
  return note(functions_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, id),
              "cuptiEnableCallback", name);
}

CUptiResult CuptiApi::enable(CUpti_ActivityKind kind, const char* name) {
  return note(functions_.cuptiActivityEnable(kind), "cuptiActivityEnable", name);
}

CUptiResult CuptiApi::disable(CUpti_ActivityKind kind, const char* name) {
  return note(functions_.cuptiActivityDisable(kind), "cuptiActivityDisable", name);
}

CUptiResult CuptiApi::flush(bool forced) {
  return note(functions_.cuptiActivityFlushAll(forced ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0),
              "cuptiActivityFlushAll", forced ? "forced" : "0");
}

std::uint64_t CuptiApi::take_dropped() {
  if (functions_.cuptiActivityGetNumDroppedRecords == nullptr) return 0;
  std::size_t dropped = 0;
  const CUptiResult result = functions_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  return note(result, "cuptiActivityGetNumDroppedRecords") == CUPTI_SUCCESS ? dropped : 0;
}

CUpti_Activity* CuptiApi::next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                                      CUpti_Activity* record) {
  if (valid_bytes == 0) return nullptr;
  const CUptiResult result = functions_.cuptiActivityGetNextRecord(buffer, valid_bytes, &record);
  if (result == CUPTI_SUCCESS) return record;
  if (result != CUPTI_ERROR_MAX_LIMIT_REACHED) note(result, "cuptiActivityGetNextRecord");
  return nullptr;
}

std::uint64_t CuptiApi::count_records(std::uint8_t* buffer, std::size_t valid_bytes) {
  std::uint64_t count = 0;
  CUpti_Activity* record = nullptr;
  while ((record = next_record(buffer, valid_bytes, record)) != nullptr) ++count;
  return count;
}

const char* CuptiApi::callback_name(CUpti_CallbackDomain domain, std::uint32_t id) {
  const char* name = nullptr;
  if (functions_.cuptiGetCallbackName == nullptr) return nullptr;
  // Not noted: a call that is newer than this libcupti simply has no name.
  if (functions_.cuptiGetCallbackName(domain, id, &name) != CUPTI_SUCCESS) return nullptr;
  return name;
}

bool CuptiApi::stream_id(CUcontext context, CUstream stream, std::uint32_t* context_id,
                         std::uint32_t* stream_id) {
  if (functions_.cuptiGetStreamIdEx == nullptr) return false;
  *context_id = 0;
  if (context != nullptr && functions_.cuptiGetContextId != nullptr &&
      functions_.cuptiGetContextId(context, context_id) != CUPTI_SUCCESS) {
    *context_id = 0;
  }
  return functions_.cuptiGetStreamIdEx(context, stream, 0, stream_id) == CUPTI_SUCCESS;
}

const char* CuptiApi::result_name(CUptiResult result) {
  const char* name = nullptr;
  if (functions_.cuptiGetResultString == nullptr ||
      functions_.cuptiGetResultString(result, &name) != CUPTI_SUCCESS || name == nullptr) {
    return "unknown result";
  }
  return name;
}

std::uint32_t toolkit_major(std::uint32_t cupti_version) {
  if (cupti_version >= 10000) return cupti_version / 10000;
  return cupti_version >= 19 ? 12 : 11;
}

void explain_failure(char* text, std::size_t size, CUptiResult result, const char* result_name,
                     std::uint32_t cupti_version, int driver_version) {
  const std::uint32_t major = toolkit_major(cupti_version);
  const int driver_major = driver_version / 1000;
  const int driver_minor = driver_version % 1000 / 10;
  const bool too_new =
      driver_version > 0 && cupti_version != 0 && major > static_cast<std::uint32_t>(driver_major);
  if (too_new) {
    std::snprintf(text, size,
                  "libcupti of CUDA %u is newer than the driver (CUDA %d.%d): use the libcupti of "
                  "CUDA %d or update the driver (CUPTI result %u)",
                  major, driver_major, driver_minor, driver_major,
                  static_cast<std::uint32_t>(result));
    return;
  }
  if (driver_version == 0) {
    std::snprintf(text, size,
                  "CUPTI could not initialise: no CUDA driver answers in this process (CUPTI "
                  "result %u)",
                  static_cast<std::uint32_t>(result));
    return;
  }
  switch (result) {
    case CUPTI_ERROR_NOT_INITIALIZED:
      std::snprintf(text, size,
                    "CUPTI could not initialise: there is no usable CUDA device, or the driver "
                    "(CUDA %d.%d) does not fit this libcupti (CUPTI result 15)",
                    driver_major, driver_minor);
      return;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      std::snprintf(text, size,
                    "another CUPTI client is active in this program (torch.profiler, Nsight, "
                    "another profiler): only one can record at a time (CUPTI result 39)");
      return;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      std::snprintf(text, size,
                    "profiling is restricted on this machine: the administrator must allow it "
                    "(NVreg_RestrictProfilingToAdminUsers=0), or the container needs "
                    "CAP_SYS_ADMIN (CUPTI result %u)",
                    static_cast<std::uint32_t>(result));
      return;
    default:
      std::snprintf(text, size, "CUPTI refused to record: %s (CUPTI result %u)", result_name,
                    static_cast<std::uint32_t>(result));
  }
}

}  // namespace profiler::injector
