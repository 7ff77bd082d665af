// What the client has asked of CUPTI, and the tracer that the engine reports to. One per process,
// made at the first call and never destroyed.
#pragma once

#include <cupti.h>

#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "samples/virtual_gpu/cupti/buffers.h"
#include "samples/virtual_gpu/engine/interface.h"

namespace virtual_gpu {

class Session final : public Tracer {
 public:
  static constexpr std::size_t kKinds = CUPTI_ACTIVITY_KIND_COUNT;
  static constexpr std::size_t kCallbackIds = 1024;  // per domain

  VirtualGpu& gpu() const { return *gpu_; }
  // CUPTI_ERROR_NOT_INITIALIZED before cuInit, without a device and in a forked child. The first
  // success connects this library to the engine.
  CUptiResult require();

  CUptiResult enable_kind(CUpti_ActivityKind kind, bool enable);
  CUptiResult enable_kind(std::uint32_t context, CUpti_ActivityKind kind, bool enable);
  CUptiResult enable_api(ApiDomain domain, std::uint32_t cbid, bool enable);
  void set_all_syncs(bool all) { all_syncs_ = all; }
  void set_latency_timestamps(bool enable) { latency_timestamps_ = enable; }
  void set_clock(CUpti_TimestampCallbackFunc clock);
  std::uint64_t timestamp() const;
  void set_thread_ids(CUpti_ActivityThreadIdType type) { thread_ids_ = type; }
  CUpti_ActivityThreadIdType thread_ids() const { return thread_ids_; }
  void finalise();

  CUptiResult subscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* data);
  CUptiResult unsubscribe(CUpti_SubscriberHandle handle);
  bool is_subscriber(CUpti_SubscriberHandle handle) const;
  CUptiResult enable_callback(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, bool enable);
  CUptiResult enable_domain(CUpti_CallbackDomain domain, bool enable);
  CUptiResult callback_state(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, bool& enabled);

  void enter(ApiCall& call) override;
  void exit(ApiCall& call, std::uint64_t end_ns, std::uint32_t result) override;
  void* submitted(const Operation& operation) override;
  void started(void* slot, std::uint64_t start_ns) override;
  Times ended(void* slot, Times times) override;
  void synchronized(const Synchronization& synchronization) override;
  void event_recorded(const EventRecording& recording) override;
  void overhead(const Overhead& overhead) override;
  void managed_memory() override;
  void initialised() override;
  void context_created(Context* context) override;
  void context_destroyed(Context* context) override;
  void stream_created(Context* context, Stream* stream) override;
  void stream_destroyed(Context* context, Stream* stream) override;
  void module_loaded(Context* context, std::uint32_t module, bool loaded) override;

 private:
  friend Session& session();
  enum class Switch : std::uint8_t { kUnset, kOn, kOff };

  Session();
  bool wants(CUpti_ActivityKind kind, std::uint32_t context) const;
  bool wants_call(const ApiCall& call) const;
  void choose_default_clock();
  void update_wanted();
  std::uint32_t thread() const;
  // Takes `ns` of this thread for the profiler's own affairs.
  void spend(OverheadKind kind, std::uint64_t ns, std::uint32_t correlation) const;
  // What CUPTI sets up at the first record of a context and of a kernel.
  void prepare(const Operation& operation);
  void call_back(CUpti_CallbackDomain domain, CUpti_CallbackId cbid, const void* data) const;
  void report_call(ApiCall& call, CUpti_ApiCallbackSite site, std::uint32_t* result) const;
  void report_resource(CUpti_CallbackId cbid, Context* context, Stream* stream,
                       void* descriptor) const;
  void write_devices();
  void write_context(Context* context);

  VirtualGpu* gpu_;
  std::atomic<bool> connected_{false};
  std::atomic<CUpti_TimestampCallbackFunc> clock_{nullptr};
  std::atomic<bool> clock_chosen_{false};
  std::atomic<CUpti_ActivityThreadIdType> thread_ids_{CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT};
  std::atomic<bool> latency_timestamps_{false};
  std::array<std::atomic<bool>, kKinds> kinds_{};
  std::atomic<bool> context_kinds_used_{false};
  std::atomic<bool> profiling_{false};  // any kind is enabled
  std::atomic<bool> all_syncs_{true};   // also queries of what has not ended
  std::atomic<bool> uvm_initialised_{false};
  std::array<std::atomic<bool>, 64> prepared_contexts_{};  // those of higher numbers need nothing
  std::array<std::array<std::atomic<Switch>, kCallbackIds>, 2> calls_{};  // driver, runtime

  mutable std::mutex mutex_;
  std::set<std::pair<std::uint32_t, int>> context_kinds_;  // guarded by mutex_

  std::atomic<CUpti_CallbackFunc> callback_{nullptr};
  std::atomic<void*> callback_data_{nullptr};
  std::array<std::array<std::atomic<bool>, kCallbackIds>, CUPTI_CB_DOMAIN_SIZE> callbacks_{};
};

Session& session();

// The error of the last failed call of this thread.
CUptiResult take_last_error();
// Remembers `result` if it is an error, and returns it.
CUptiResult remember(CUptiResult result);

}  // namespace virtual_gpu
