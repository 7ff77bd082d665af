// Every call into CUPTI goes through here.
//
// libcupti is opened at run time and not linked: a library that is missing at load time makes the
// driver drop the injector without a word, and the target may have brought its own copy. Two major
// versions can be mapped in one process, but only one may subscribe, so a copy that is there
// already is taken first.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "injector/sync.h"

namespace profiler::injector {

// Required by us and present in CUDA 11.8 to 13.
#define PROFILER_CUPTI_REQUIRED(X)  \
  X(cuptiGetVersion)                \
  X(cuptiActivityRegisterCallbacks) \
  X(cuptiActivityEnable)            \
  X(cuptiActivityDisable)           \
  X(cuptiActivityFlushAll)          \
  X(cuptiActivityGetNextRecord)

// Null where the library lacks them.
#define PROFILER_CUPTI_OPTIONAL(X)          \
  X(cuptiActivityGetNumDroppedRecords)      \
  X(cuptiActivityRegisterTimestampCallback) \
  X(cuptiActivitySetAttribute)              \
  X(cuptiSetThreadIdType)                   \
  X(cuptiSubscribe)                         \
  X(cuptiEnableCallback)                    \
  X(cuptiGetCallbackName)                   \
  X(cuptiGetContextId)                      \
  X(cuptiGetStreamIdEx)                     \
  X(cuptiGetResultString)

struct CuptiFunctions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name of a member
#define PROFILER_DECLARE(name) decltype(&::name) name = nullptr;
  PROFILER_CUPTI_REQUIRED(PROFILER_DECLARE)
  PROFILER_CUPTI_OPTIONAL(PROFILER_DECLARE)
#undef PROFILER_DECLARE
};

// A call that CUPTI refused; reported once for each function and result.
struct CuptiCallFailure {
  char function[80];  // "cuptiActivityEnable(MEMSET)"
  std::uint32_t result;
};

class CuptiApi {
 public:
  static constexpr std::size_t kMaxFailures = 64;
  static constexpr std::uint32_t kPerThreadBufferAttribute = 9;  // from CUDA 12.3, on by default

  CuptiApi() = default;
  // For tests: the functions of a stand-in.
  explicit CuptiApi(const CuptiFunctions& functions) : functions_(functions) {}

  // Before any other call, if at all: for tests, as the constructor.
  void use(const CuptiFunctions& functions) { functions_ = functions; }

  // Opens libcupti: one that is mapped already, else `preferred_path` (may be null or empty), else
  // by soname, the driver's major version first. `driver_version` as cuDriverGetVersion, 0 =
  // unknown. False when there is none; `load_error` then says why.
  bool load(const char* preferred_path, int driver_version);
  const char* load_error() const { return load_error_; }

  // Asks the library for its version. False when it does not answer.
  bool read_version();
  std::uint32_t version() const { return version_; }  // 0 = unknown
  const char* path() const { return path_; }          // "" = unknown

  // From CUDA 12.9 (API 27) on a buffer request may be declined; before, that crashed CUPTI.
  bool may_decline_buffers() const { return version_ >= 27; }
  // The header of 13.0 makes the receiver of a device record free its name; those of 11.8 say that
  // the name is shared. Between the two nothing is freed: a few bytes stay behind, once.
  bool device_name_is_ours() const { return version_ >= 130000; }

  // Each of these records a refusal and returns CUPTI's result.
  CUptiResult set_thread_ids_to_system();
  CUptiResult register_timestamps(CUpti_TimestampCallbackFunc callback);
  CUptiResult promise_zeroed_buffers();
  CUptiResult register_buffers(CUpti_BuffersCallbackRequestFunc request,
                               CUpti_BuffersCallbackCompleteFunc complete);
  CUptiResult subscribe(CUpti_CallbackFunc callback);
  CUptiResult enable_resource_callback(CUpti_CallbackIdResource id, const char* name);
  CUptiResult enable(CUpti_ActivityKind kind, const char* name);
  CUptiResult disable(CUpti_ActivityKind kind, const char* name);
  CUptiResult flush(bool forced);
  // Records that CUPTI dropped since the last call.
  std::uint64_t take_dropped();

  // Null at the end of the buffer. `record` is the one before, null for the first.
  CUpti_Activity* next_record(std::uint8_t* buffer, std::size_t valid_bytes,
                              CUpti_Activity* record);
  std::uint64_t count_records(std::uint8_t* buffer, std::size_t valid_bytes);
  // Null when CUPTI has none.
  const char* callback_name(CUpti_CallbackDomain domain, std::uint32_t id);
  const char* result_name(CUptiResult result);
  // The ids that activity records have. `context` may be null: unknown, id 0. Any thread. False:
  // CUPTI does not know the stream.
  bool stream_id(CUcontext context, CUstream stream, std::uint32_t* context_id,
                 std::uint32_t* stream_id);

  // Copies the failures from number `first` on; returns how many.
  std::size_t failures(std::size_t first, CuptiCallFailure* into, std::size_t room);

 private:
  CUptiResult note(CUptiResult result, const char* function, const char* argument = nullptr);
  bool resolve(void* library);

  CuptiFunctions functions_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::uint32_t version_ = 0;
  char path_[4096] = "";
  char load_error_[512] = "";
  Mutex failures_mutex_;
  CuptiCallFailure failures_[kMaxFailures];
  std::size_t failure_count_ = 0;
};

// The toolkit that a CUPTI version belongs to, major number: 18 -> 11, 22 -> 12, 130001 -> 13.
std::uint32_t toolkit_major(std::uint32_t cupti_version);

// Why nothing can be recorded, in words, from the result of the call that decided it.
void explain_failure(char* text, std::size_t size, CUptiResult result, const char* result_name,
                     std::uint32_t cupti_version, int driver_version);

}  // namespace profiler::injector
