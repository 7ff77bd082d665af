// The virtual GPU of this process: one per process, made at first use and never destroyed, as
// other threads may still use it while the process exits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "samples/virtual_gpu/engine/address_table.h"
#include "samples/virtual_gpu/engine/interface.h"
#include "samples/virtual_gpu/engine/scheduler.h"
#include "samples/virtual_gpu/engine/truth_log.h"

namespace virtual_gpu {

struct Context {
  ContextFacts facts;
  bool primary = false;
  bool alive = true;
  Stream* legacy = nullptr;
  std::unordered_map<int, Stream*> per_thread;  // default streams by thread id
  std::set<std::uint32_t> modules;              // loaded
  std::unordered_set<const Kernel*> kernels;    // loaded
};

class Process final : public VirtualGpu {
 public:
  static Process& instance();

  // Only its name (as PROFILER_VIRTUAL_GPU gave it) and null when the model could not be read.
  const char* model_key();

  int initialise() override;
  DriverState state() const override { return state_.load(std::memory_order_acquire); }
  std::uint32_t device_count() const override;
  const Model& model(std::uint32_t device) const override { return *models_[device]; }

  void begin(ApiCall& call) override;
  void end(ApiCall& call, int result) override;
  bool in_host_function() const override;
  std::uint32_t thread_correlation() const override;

  Context* current() const override;
  void set_current(Context* context) override;
  Context* find_primary(std::uint32_t device) const override;
  Context* primary(std::uint32_t device) override;
  bool primary_active(std::uint32_t device) const override;
  void reset_primary(std::uint32_t device) override;
  Context* create_context(std::uint32_t device) override;
  bool destroy_context(Context* context) override;
  bool context_facts(Context* context, ContextFacts& facts) const override;
  int synchronize(Context* context) override;
  int drain(Context* context) override;
  std::size_t contexts(Context** list, std::size_t capacity) const override;

  Stream* find_stream(Context* context, void* handle, bool per_thread) override;
  Stream* create_stream(Context* context, unsigned flags, bool blocking, int priority) override;
  int destroy_stream(Context* context, Stream* stream) override;
  StreamFacts stream_facts(const Stream* stream) const override;
  int query(Stream* stream) override;
  int synchronize(Stream* stream) override;

  Event* create_event(Context* context, unsigned flags) override;
  int destroy_event(Event* event) override;
  int record(Event* event, Stream* stream) override;
  int query(Event* event) override;
  int synchronize(Event* event) override;
  int elapsed_ms(float* ms, Event* from, Event* to) override;
  int wait_event(Stream* stream, Event* event) override;

  int submit(Operation operation, Stream* stream, bool wait) override;
  int call_host(Stream* stream, void (*function)(void*), void* data) override;
  const Kernel* kernel(const char* mangled) override;

  void* allocate(MemoryKind kind, std::uint64_t bytes, Context* context) override;
  bool free_device(void* address) override;
  bool free_host(void* address) override;
  int register_host(void* address, std::uint64_t bytes, Context* context) override;
  int unregister_host(void* address) override;
  MemoryKind memory(const void* address, std::uint64_t* bytes) const override;
  std::uint64_t free_bytes(std::uint32_t device) const override;

  std::uint32_t add_module() override;
  bool has_module(std::uint32_t context, std::uint32_t module) const override;
  void load_module(std::uint32_t context, std::uint32_t module) override;

  void set_tracer(Tracer* tracer) override { tracer_ = tracer; }
  void set_api_wanted(ApiDomain domain, bool wanted) override { stamps(domain) = wanted; }
  void set_clock(std::uint64_t (*clock)()) override;
  std::uint64_t timestamp() const override { return clock_.load(std::memory_order_acquire)(); }
  void advance() override;
  void report(const Overhead& overhead) override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  Process();
  bool read_models(std::string& error);
  Context* make_context(std::uint32_t device, bool primary);
  void end_context(Context* context);
  // Releases the lock. On failure the task is gone.
  int enqueue(Task* task, Stream* stream, Task* after, Lock& lock);
  // Takes over one reference, and releases the lock.
  void wait_for(Task* task, Lock& lock);
  void wait_for_all(std::vector<Task*>& tasks, Lock& lock);
  std::vector<Task*> tails(const Stream* stream);
  void start_worker();
  void work();
  void stop();  // at exit
  void forked();
  Times reported(const Task& task) const;
  void load_kernel(std::uint32_t context, const Kernel* kernel);
  Overhead begin_overhead(OverheadKind kind) const;
  // Takes `ns` of this thread. Report it when nothing is locked.
  Overhead spend(OverheadKind kind, std::uint64_t ns) const;
  std::uint64_t stamp_after(std::uint64_t ns) const;  // later than `ns` if the clock moves at all
  // Whether anyone learns of waits.
  bool observed() const { return tracer_.load() != nullptr || log_.is_open(); }
  // Around a wait; nothing is locked. Pass `result` on.
  Synchronization begin_wait(SyncKind kind, std::uint32_t context, std::uint32_t stream) const;
  int end_wait(Synchronization& wait, int result);
  std::atomic<bool>& stamps(ApiDomain domain) {
    return stamps_[domain == ApiDomain::kRuntime ? 1 : 0];
  }

  std::atomic<DriverState> state_{DriverState::kUnused};
  std::mutex initialising_;
  std::atomic<int> initialising_thread_{0};
  bool injected_ = false;
  bool models_read_ = false;
  std::string model_error_;
  int process_id_ = 0;

  std::vector<std::unique_ptr<Model>> models_;  // one per device
  TruthLog log_;
  AddressTable memory_;
  std::atomic<Tracer*> tracer_{nullptr};
  std::atomic<bool> stamps_[2] = {};  // driver calls, runtime calls
  std::atomic<std::uint64_t (*)()> clock_;
  std::atomic<std::int64_t> clock_offset_{0};  // reported = device time + offset
  std::atomic<std::uint32_t> correlation_{0};

  // Everything below is guarded by mutex_. The tracer's locks come after it.
  mutable std::mutex mutex_;
  std::condition_variable work_;  // for the worker
  std::condition_variable done_;  // a host call has ended
  Scheduler scheduler_;
  std::vector<Context*> contexts_;  // never freed: handles stay recognisable
  std::vector<Context*> primaries_;
  std::unordered_set<const void*> streams_;  // live handles
  std::unordered_set<const void*> events_;
  std::uint32_t next_stream_ = 7;
  std::uint32_t next_event_ = 0;
  std::uint64_t event_records_ = 0;
  bool worker_runs_ = false;
  bool worker_rests_ = false;

  std::atomic<std::uint32_t> modules_{0};
  std::mutex loading_;  // held while something is loaded, before mutex_

  std::mutex kernels_mutex_;
  std::unordered_map<std::string, Kernel*> kernels_;
};

}  // namespace virtual_gpu
