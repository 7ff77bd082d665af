#include "tests/fake_cupti.h"

#include <cstring>
#include <mutex>
#include <set>
#include <thread>

namespace profiler::fake_cupti {
namespace {

struct State {
  std::uint32_t version = 130001;
  CUptiResult enable_result = CUPTI_SUCCESS;
  CUptiResult subscribe_result = CUPTI_SUCCESS;
  std::uint32_t flush_block_ms = 0;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc timestamp = nullptr;
  CUpti_CallbackFunc callback = nullptr;
  std::set<int> enabled;
  std::uint8_t* buffer = nullptr;
  std::size_t size = 0;
  std::size_t used = 0;
  std::size_t dropped = 0;
  std::uint32_t declined = 0;
};

// Never destroyed: after exit gave up waiting the injector's thread may still call.
State& state = *new State;
std::mutex mutex;

// Called with the mutex held; the callback runs without it, as ours may call back.
void deliver(std::unique_lock<std::mutex>& lock) {
  if (state.buffer == nullptr) return;
  std::uint8_t* buffer = state.buffer;
  const std::size_t size = state.size;
  const std::size_t used = state.used;
  state.buffer = nullptr;
  lock.unlock();
  state.complete(nullptr, 0, buffer, size, used);
  lock.lock();
}

CUptiResult CUPTIAPI get_version(std::uint32_t* version) {
  *version = state.version;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                        CUpti_BuffersCallbackCompleteFunc complete) {
  state.request = request;
  state.complete = complete;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI enable(CUpti_ActivityKind kind) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (state.enable_result == CUPTI_SUCCESS) state.enabled.insert(kind);
  return state.enable_result;
}
CUptiResult CUPTIAPI disable(CUpti_ActivityKind kind) {
  const std::lock_guard<std::mutex> lock(mutex);
  state.enabled.erase(kind);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI flush_all(std::uint32_t flag) {
  if (flag != 0 && state.flush_block_ms != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(state.flush_block_ms));
  }
  std::unique_lock<std::mutex> lock(mutex);
  deliver(lock);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI get_next_record(std::uint8_t* buffer, std::size_t valid,
                                     CUpti_Activity** record) {
  std::uint8_t* at = buffer;
  if (*record != nullptr) {
    at = reinterpret_cast<std::uint8_t*>(*record) + record_size((*record)->kind);
  }
  if (at >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(at);
  return record_size((*record)->kind) == 0 ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI get_dropped(CUcontext, std::uint32_t, std::size_t* dropped) {
  const std::lock_guard<std::mutex> lock(mutex);
  *dropped = state.dropped;
  state.dropped = 0;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI register_timestamp(CUpti_TimestampCallbackFunc timestamp) {
  state.timestamp = timestamp;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI set_attribute(CUpti_ActivityAttribute, std::size_t*, void*) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI set_thread_id_type(CUpti_ActivityThreadIdType) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI subscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void*) {
  if (state.subscribe_result == CUPTI_SUCCESS) state.callback = callback;
  return state.subscribe_result;
}
CUptiResult CUPTIAPI enable_callback(std::uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                     CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI callback_name(CUpti_CallbackDomain domain, std::uint32_t id,
                                   const char** name) {
  if (domain != CUPTI_CB_DOMAIN_RUNTIME_API || id != 211) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = "cudaLaunchKernel_v7000";
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI result_string(CUptiResult, const char** name) {
  *name = "CUPTI_ERROR_OF_A_TEST";
  return CUPTI_SUCCESS;
}

}  // namespace

injector::CuptiFunctions functions() {
  injector::CuptiFunctions table;
  table.cuptiGetVersion = get_version;
  table.cuptiActivityRegisterCallbacks = register_callbacks;
  table.cuptiActivityEnable = enable;
  table.cuptiActivityDisable = disable;
  table.cuptiActivityFlushAll = flush_all;
  table.cuptiActivityGetNextRecord = get_next_record;
  table.cuptiActivityGetNumDroppedRecords = get_dropped;
  table.cuptiActivityRegisterTimestampCallback = register_timestamp;
  table.cuptiActivitySetAttribute = set_attribute;
  table.cuptiSetThreadIdType = set_thread_id_type;
  table.cuptiSubscribe = subscribe;
  table.cuptiEnableCallback = enable_callback;
  table.cuptiGetCallbackName = callback_name;
  table.cuptiGetResultString = result_string;
  return table;
}

void reset() {
  state = State{};
}
void set_version(std::uint32_t version) {
  state.version = version;
}
void set_enable_result(CUptiResult result) {
  state.enable_result = result;
}
void set_subscribe_result(CUptiResult result) {
  state.subscribe_result = result;
}
void set_flush_block_ms(std::uint32_t milliseconds) {
  state.flush_block_ms = milliseconds;
}

bool append(const void* record, std::size_t size) {
  std::unique_lock<std::mutex> lock(mutex);
  if (state.buffer != nullptr && state.size - state.used < size) deliver(lock);
  if (state.buffer == nullptr) {
    std::size_t max_records = 0;
    std::uint8_t* buffer = nullptr;
    std::size_t buffer_size = 0;
    lock.unlock();
    state.request(&buffer, &buffer_size, &max_records);
    lock.lock();
    state.buffer = buffer;
    state.size = buffer_size;
    state.used = 0;
    if (buffer == nullptr) {
      ++state.declined;
      ++state.dropped;
      return false;
    }
  }
  std::memcpy(state.buffer + state.used, record, size);
  state.used += size;
  return true;
}

void destroy_context() {
  CUpti_ResourceData data{};
  state.callback(nullptr, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
                 &data);
}

std::uint64_t now() {
  return state.timestamp();
}

bool is_enabled(CUpti_ActivityKind kind) {
  const std::lock_guard<std::mutex> lock(mutex);
  return state.enabled.count(kind) != 0;
}

std::uint32_t requests_declined() {
  const std::lock_guard<std::mutex> lock(mutex);
  return state.declined;
}

std::size_t record_size(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return 40;
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return 216;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return 96;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return 88;
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return 184;
    case CUPTI_ACTIVITY_KIND_CONTEXT:
    case CUPTI_ACTIVITY_KIND_NAME:
      return 32;
    default:
      return 0;
  }
}

}  // namespace profiler::fake_cupti
