#include "samples/virtual_gpu/cupti/session.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_map>

#include "samples/virtual_gpu/cupti/records.h"
#include "samples/virtual_gpu/engine/api_names.h"
#include "samples/virtual_gpu/engine/clock.h"

namespace virtual_gpu {
namespace {

// What profiling costs at the first record of a context and of a kernel, and at the first managed
// allocation. Plausible, not measured.
constexpr std::uint64_t kResourceNs = 60'000;
constexpr std::uint64_t kInstrumentationNs = 15'000;
constexpr std::uint64_t kUvmInitNs = 200'000;

thread_local CUptiResult last_error = CUPTI_SUCCESS;

// "cudaMalloc_v3020" → "cudaMalloc", kept forever.
const char* function_name(ApiDomain domain, std::uint32_t cbid) {
  const char* full = domain == ApiDomain::kRuntime ? runtime_name(cbid) : driver_name(cbid);
  if (domain == ApiDomain::kDriver || full == nullptr) return full;
  static std::mutex mutex;
  static auto* const names = new std::unordered_map<std::uint32_t, std::string>;
  const std::lock_guard lock(mutex);
  std::string& name = (*names)[cbid];
  if (name.empty()) {
    name = full;
    const std::size_t version = name.rfind("_v");
    if (version != std::string::npos) name.resize(version);
  }
  return name.c_str();
}

std::size_t index(ApiDomain domain) {
  return domain == ApiDomain::kRuntime ? 1 : 0;
}

}  // namespace

Session& session() {
  static auto* const instance = new Session;
  return *instance;
}

CUptiResult take_last_error() {
  return std::exchange(last_error, CUPTI_SUCCESS);
}

CUptiResult remember(CUptiResult result) {
  if (result != CUPTI_SUCCESS) last_error = result;
  return result;
}

Session::Session() : gpu_(profilerVirtualGpuInterface(kInterfaceVersion)) {}

CUptiResult Session::require() {
  if (gpu_ == nullptr) return CUPTI_ERROR_UNKNOWN;
  const DriverState state = gpu_->state();
  if (state != DriverState::kInitialising && state != DriverState::kReady) {
    return CUPTI_ERROR_NOT_INITIALIZED;
  }
  if (!connected_.exchange(true)) gpu_->set_tracer(this);
  return CUPTI_SUCCESS;
}

// --- What is recorded --------------------------------------------------------------------------

void Session::choose_default_clock() {
  if (!clock_chosen_.exchange(true)) gpu_->set_clock(nullptr);
}

void Session::set_clock(CUpti_TimestampCallbackFunc clock) {
  clock_chosen_ = true;
  clock_ = clock;
  gpu_->set_clock(clock);
}

std::uint64_t Session::timestamp() const {
  const auto clock = clock_.load();
  return clock != nullptr ? clock() : read_clock(CLOCK_REALTIME);
}

void Session::update_wanted() {
  struct Domain {
    ApiDomain domain;
    CUpti_ActivityKind kind;
    CUpti_CallbackDomain callbacks;
  };
  for (const Domain& each :
       {Domain{ApiDomain::kDriver, CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API},
        Domain{ApiDomain::kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API}}) {
    bool wanted = kinds_[each.kind] || context_kinds_used_;
    for (const auto& call : calls_[index(each.domain)]) wanted = wanted || call == Switch::kOn;
    for (const auto& callback : callbacks_[each.callbacks]) wanted = wanted || callback;
    gpu_->set_api_wanted(each.domain, wanted);
  }
  bool any = context_kinds_used_;
  for (const auto& kind : kinds_) any = any || kind;
  profiling_ = any;
}

CUptiResult Session::enable_kind(CUpti_ActivityKind kind, bool enable) {
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) {
    return CUPTI_ERROR_INVALID_KIND;
  }
  choose_default_clock();
  const bool before = kinds_[kind].exchange(enable);
  update_wanted();
  if (!enable || before) return CUPTI_SUCCESS;
  // Devices and contexts are told at once, or as soon as cuInit knows them.
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE && gpu_->state() == DriverState::kReady) write_devices();
  if (kind == CUPTI_ACTIVITY_KIND_CONTEXT) {
    std::array<Context*, 64> contexts{};
    const std::size_t count = gpu_->contexts(contexts.data(), contexts.size());
    for (std::size_t i = 0; i < std::min(count, contexts.size()); ++i) write_context(contexts[i]);
  }
  return CUPTI_SUCCESS;
}

CUptiResult Session::enable_kind(std::uint32_t context, CUpti_ActivityKind kind, bool enable) {
  if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT) {
    return CUPTI_ERROR_INVALID_KIND;
  }
  choose_default_clock();
  {
    const std::lock_guard lock(mutex_);
    if (enable) {
      context_kinds_.insert({context, kind});
    } else {
      context_kinds_.erase({context, kind});
    }
    context_kinds_used_ = !context_kinds_.empty();
  }
  update_wanted();
  return CUPTI_SUCCESS;
}

CUptiResult Session::enable_api(ApiDomain domain, std::uint32_t cbid, bool enable) {
  const char* name = domain == ApiDomain::kRuntime ? runtime_name(cbid) : driver_name(cbid);
  if (name == nullptr || cbid == 0 || cbid >= kCallbackIds) return CUPTI_ERROR_INVALID_PARAMETER;
  choose_default_clock();
  calls_[index(domain)][cbid] = enable ? Switch::kOn : Switch::kOff;
  update_wanted();
  return CUPTI_SUCCESS;
}

bool Session::wants(CUpti_ActivityKind kind, std::uint32_t context) const {
  if (kinds_[kind]) return true;
  if (!context_kinds_used_) return false;
  const std::lock_guard lock(mutex_);
  return context_kinds_.count({context, kind}) != 0;
}

bool Session::wants_call(const ApiCall& call) const {
  const Switch own =
      call.cbid < kCallbackIds ? calls_[index(call.domain)][call.cbid].load() : Switch::kUnset;
  if (own != Switch::kUnset) return own == Switch::kOn;
  const auto kind =
      call.domain == ApiDomain::kRuntime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  if (kinds_[kind]) return true;
  if (!context_kinds_used_) return false;
  ContextFacts facts;
  Context* current = gpu_->current();
  return current != nullptr && gpu_->context_facts(current, facts) && wants(kind, facts.id);
}

void Session::finalise() {
  for (auto& kind : kinds_) kind = false;
  {
    const std::lock_guard lock(mutex_);
    context_kinds_.clear();
    context_kinds_used_ = false;
  }
  for (auto& domain : calls_) {
    for (auto& call : domain) call = Switch::kUnset;
  }
  unsubscribe(reinterpret_cast<CUpti_SubscriberHandle>(this));
  update_wanted();
  gpu_->advance();
  BufferStore::instance().flush(true);
}

// --- Callbacks ---------------------------------------------------------------------------------

CUptiResult Session::subscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                               void* data) {
  if (handle == nullptr || callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  choose_default_clock();
  const std::lock_guard lock(mutex_);
  if (callback_ != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  callback_data_ = data;
  callback_ = callback;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(this);
  return CUPTI_SUCCESS;
}

bool Session::is_subscriber(CUpti_SubscriberHandle handle) const {
  return callback_ != nullptr && handle == reinterpret_cast<const void*>(this);
}

CUptiResult Session::unsubscribe(CUpti_SubscriberHandle handle) {
  if (!is_subscriber(handle)) return CUPTI_ERROR_INVALID_PARAMETER;
  for (auto& domain : callbacks_) {
    for (auto& callback : domain) callback = false;
  }
  callback_ = nullptr;
  update_wanted();
  return CUPTI_SUCCESS;
}

CUptiResult Session::enable_callback(CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                                     bool enable) {
  if (domain <= CUPTI_CB_DOMAIN_INVALID || domain >= CUPTI_CB_DOMAIN_SIZE || cbid == 0 ||
      cbid >= kCallbackIds) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  callbacks_[domain][cbid] = enable;
  update_wanted();
  return CUPTI_SUCCESS;
}

CUptiResult Session::enable_domain(CUpti_CallbackDomain domain, bool enable) {
  if (domain <= CUPTI_CB_DOMAIN_INVALID || domain >= CUPTI_CB_DOMAIN_SIZE) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  for (auto& callback : callbacks_[domain]) callback = enable;
  update_wanted();
  return CUPTI_SUCCESS;
}

CUptiResult Session::callback_state(CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                                    bool& enabled) {
  if (domain <= CUPTI_CB_DOMAIN_INVALID || domain >= CUPTI_CB_DOMAIN_SIZE || cbid >= kCallbackIds) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  enabled = callbacks_[domain][cbid];
  return CUPTI_SUCCESS;
}

void Session::call_back(CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
                        const void* data) const {
  const auto callback = callback_.load();
  if (callback == nullptr || cbid >= kCallbackIds || !callbacks_[domain][cbid]) return;
  callback(callback_data_, domain, cbid, data);
}

void Session::report_call(ApiCall& call, CUpti_ApiCallbackSite site, std::uint32_t* result) const {
  const auto domain = static_cast<CUpti_CallbackDomain>(call.domain);
  if (callback_ == nullptr || call.cbid >= kCallbackIds || !callbacks_[domain][call.cbid]) return;
  CUpti_CallbackData data{};
  data.callbackSite = site;
  data.functionName = function_name(call.domain, call.cbid);
  data.functionParams = call.parameters;
  data.functionReturnValue = result;
  data.symbolName = call.symbol;
  Context* current = gpu_->current();
  if (current == nullptr && gpu_->primary_active(0)) current = gpu_->primary(0);
  ContextFacts facts;
  if (current != nullptr && gpu_->context_facts(current, facts)) {
    data.context = reinterpret_cast<CUcontext>(current);
    data.contextUid = facts.id;
  }
  data.correlationData = &call.correlation_data;
  data.correlationId = call.correlation;
  call_back(domain, call.cbid, &data);
}

void Session::report_resource(CUpti_CallbackId cbid, Context* context, Stream* stream,
                              void* descriptor) const {
  CUpti_ResourceData data{};
  data.context = reinterpret_cast<CUcontext>(context);
  data.resourceHandle.stream = reinterpret_cast<CUstream>(stream);
  data.resourceDescriptor = descriptor;
  call_back(CUPTI_CB_DOMAIN_RESOURCE, cbid, &data);
}

// --- What the engine reports -------------------------------------------------------------------

void Session::enter(ApiCall& call) {
  call.traced = call.stamped && wants_call(call);
  report_call(call, CUPTI_API_ENTER, nullptr);
}

void Session::exit(ApiCall& call, std::uint64_t end_ns, std::uint32_t result) {
  report_call(call, CUPTI_API_EXIT, &result);
  if (!call.traced || !wants_call(call)) return;
  const CUpti_ActivityAPI record = api_record(call, end_ns, result, thread());
  BufferStore::instance().write(&record, sizeof record);
}

std::uint32_t Session::thread() const {
  return thread_ids_ == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
             ? static_cast<std::uint32_t>(syscall(SYS_gettid))
             : static_cast<std::uint32_t>(pthread_self());
}

void Session::spend(OverheadKind kind, std::uint64_t ns, std::uint32_t correlation) const {
  Overhead overhead;
  overhead.kind = kind;
  overhead.correlation = correlation;
  overhead.start_ns = gpu_->timestamp();
  sleep_until(now_ns() + ns);
  overhead.end_ns = gpu_->timestamp();
  gpu_->report(overhead);
}

void Session::prepare(const Operation& operation) {
  if (operation.context < prepared_contexts_.size() &&
      !prepared_contexts_[operation.context].load(std::memory_order_relaxed) &&
      !prepared_contexts_[operation.context].exchange(true)) {
    spend(OverheadKind::kResource, kResourceNs, operation.correlation);
  }
  if (operation.work == Work::kKernel &&
      !__atomic_load_n(&operation.kernel->instrumented, __ATOMIC_RELAXED) &&
      !__atomic_exchange_n(&operation.kernel->instrumented, true, __ATOMIC_RELAXED)) {
    spend(OverheadKind::kInstrumentation, kInstrumentationNs, operation.correlation);
  }
}

void* Session::submitted(const Operation& operation) {
  BufferStore& store = BufferStore::instance();
  switch (operation.work) {
    case Work::kKernel: {
      const bool concurrent = wants(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, operation.context);
      if (!concurrent && !wants(CUPTI_ACTIVITY_KIND_KERNEL, operation.context)) return nullptr;
      prepare(operation);
      const KernelRecord record = kernel_record(
          operation,
          concurrent ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL : CUPTI_ACTIVITY_KIND_KERNEL,
          latency_timestamps_ ? gpu_->timestamp() : CUPTI_TIMESTAMP_UNKNOWN);
      return store.reserve(&record, sizeof record);
    }
    case Work::kCopy: {
      if (!wants(CUPTI_ACTIVITY_KIND_MEMCPY, operation.context)) return nullptr;
      prepare(operation);
      const CopyRecord record = copy_record(operation);
      return store.reserve(&record, sizeof record);
    }
    case Work::kSet: {
      if (!wants(CUPTI_ACTIVITY_KIND_MEMSET, operation.context)) return nullptr;
      prepare(operation);
      const SetRecord record = set_record(operation);
      return store.reserve(&record, sizeof record);
    }
    case Work::kMarker:
    case Work::kHostCall:
      break;
  }
  return nullptr;
}

void Session::started(void* slot, std::uint64_t start_ns) {
  BufferStore::instance().started(static_cast<Slot*>(slot), start_ns, &set_times);
}

Times Session::ended(void* slot, Times times) {
  return BufferStore::instance().ended(static_cast<Slot*>(slot), times, &set_times);
}

void Session::synchronized(const Synchronization& synchronization) {
  if (!wants(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, synchronization.context)) return;
  if (synchronization.result != 0 && !all_syncs_) return;
  const SynchronizationRecord record = synchronization_record(synchronization);
  BufferStore::instance().write(&record, sizeof record);
}

void Session::event_recorded(const EventRecording& recording) {
  if (!wants(CUPTI_ACTIVITY_KIND_CUDA_EVENT, recording.context)) return;
  const EventRecord record = event_record(recording);
  BufferStore::instance().write(&record, sizeof record);
}

void Session::overhead(const Overhead& overhead) {
  if (!kinds_[CUPTI_ACTIVITY_KIND_OVERHEAD]) return;
  const OverheadRecord record = overhead_record(overhead, thread());
  if (!BufferStore::instance().write(&record, sizeof record)) std::free(record.overheadData);
}

void Session::managed_memory() {
  if (!profiling_ || uvm_initialised_.exchange(true)) return;
  spend(OverheadKind::kUvmInit, kUvmInitNs, gpu_->thread_correlation());
}

void Session::initialised() {
  if (kinds_[CUPTI_ACTIVITY_KIND_DEVICE]) write_devices();
  report_resource(CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, nullptr, nullptr, nullptr);
}

void Session::write_devices() {
  for (std::uint32_t i = 0; i < gpu_->device_count(); ++i) {
    const DeviceRecord record = device_record(i, gpu_->model(i));
    BufferStore::instance().write(&record, sizeof record);
  }
}

void Session::write_context(Context* context) {
  ContextFacts facts;
  if (!gpu_->context_facts(context, facts)) return;
  const ContextRecord record = context_record(facts, gpu_->model(facts.device));
  BufferStore::instance().write(&record, sizeof record);
}

void Session::context_created(Context* context) {
  ContextFacts facts;
  gpu_->context_facts(context, facts);
  if (wants(CUPTI_ACTIVITY_KIND_CONTEXT, facts.id)) write_context(context);
  if (wants(CUPTI_ACTIVITY_KIND_STREAM, facts.id)) {
    const StreamFacts stream = gpu_->stream_facts(gpu_->find_stream(context, nullptr, false));
    const CUpti_ActivityStream record = stream_record(stream, gpu_->thread_correlation());
    BufferStore::instance().write(&record, sizeof record);
  }
  report_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, context, nullptr, nullptr);
}

void Session::context_destroyed(Context* context) {
  report_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, context, nullptr, nullptr);
}

void Session::stream_created(Context* context, Stream* stream) {
  const StreamFacts facts = gpu_->stream_facts(stream);
  if (wants(CUPTI_ACTIVITY_KIND_STREAM, facts.context)) {
    const CUpti_ActivityStream record = stream_record(facts, gpu_->thread_correlation());
    BufferStore::instance().write(&record, sizeof record);
  }
  report_resource(CUPTI_CBID_RESOURCE_STREAM_CREATED, context, stream, nullptr);
}

void Session::stream_destroyed(Context* context, Stream* stream) {
  report_resource(CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING, context, stream, nullptr);
}

void Session::module_loaded(Context* context, std::uint32_t module, bool loaded) {
  // There is no code on the virtual device, hence no cubin.
  CUpti_ModuleResourceData descriptor{};
  descriptor.moduleId = module;
  report_resource(
      loaded ? CUPTI_CBID_RESOURCE_MODULE_LOADED : CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
      context, nullptr, &descriptor);
}

}  // namespace virtual_gpu
