#include "samples/virtual_gpu/cuda/process.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "samples/virtual_gpu/cuda/injection.h"
#include "samples/virtual_gpu/cuda/results.h"
#include "samples/virtual_gpu/cuda/thread_state.h"
#include "samples/virtual_gpu/engine/api_names.h"
#include "samples/virtual_gpu/engine/clock.h"

namespace virtual_gpu {
namespace {

// CUPTI numbers the default stream 7 and the program's own streams from 13.
constexpr std::uint32_t kFirstOwnStream = 13;

std::uint64_t realtime() {
  return read_clock(CLOCK_REALTIME);
}

std::string models_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&models_folder), &info) == 0 || info.dli_fname == nullptr) {
    return "models";
  }
  char* absolute = realpath(info.dli_fname, nullptr);
  std::string path = absolute != nullptr ? absolute : info.dli_fname;
  std::free(absolute);
  const std::size_t slash = path.rfind('/');
  return (slash == std::string::npos ? std::string(".") : path.substr(0, slash)) + "/models";
}

std::string model_names(const std::string& folder) {
  std::vector<std::string> names;
  if (DIR* directory = opendir(folder.c_str())) {
    while (const dirent* entry = readdir(directory)) {
      const std::string name = entry->d_name;
      if (name.size() > 6 && name.compare(name.size() - 6, 6, ".model") == 0) {
        names.push_back(name.substr(0, name.size() - 6));
      }
    }
    closedir(directory);
  }
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

Process& Process::instance() {
  static Process* const process = new Process;
  return *process;
}

Process::Process() : clock_(&now_ns) {
  scheduler_.listen({[](void* self, Task& task) {
                       if (task.slot == nullptr) return;
                       auto* process = static_cast<Process*>(self);
                       process->tracer_.load()->started(task.slot,
                                                        process->reported(task).start_ns);
                     },
                     [](void* self, Task& task) {
                       const Work work = task.operation.work;
                       if (work == Work::kMarker || work == Work::kHostCall) return;
                       auto* process = static_cast<Process*>(self);
                       Times times = process->reported(task);
                       if (task.slot != nullptr) {
                         times = process->tracer_.load()->ended(task.slot, times);
                       }
                       process->log_.operation(task.operation, times);
                     },
                     this});
  pthread_atfork(nullptr, nullptr, [] { instance().forked(); });
}

void Process::forked() {
  if (state_ == DriverState::kUnused) return;
  state_ = DriverState::kForked;
  log_.drop();
}

bool Process::read_models(std::string& error) {
  if (models_read_) {
    error = model_error_;
    return error.empty();
  }
  models_read_ = true;
  const char* wanted = std::getenv("PROFILER_VIRTUAL_GPU");
  const std::string name = wanted != nullptr && *wanted != 0 ? wanted : "h100";
  const std::string folder = models_folder();
  auto model = std::make_unique<Model>();
  if (!read_model(name, folder, *model, model_error_)) {
    const std::string known = model_names(folder);
    if (model_error_.rfind("no model", 0) == 0 && !known.empty())
      model_error_ += "; there are: " + known;
  } else {
    models_.push_back(std::move(model));
  }
  error = model_error_;
  return error.empty();
}

const char* Process::model_key() {
  std::string error;
  // From inside InitializeInjection the lock is ours already.
  if (initialising_thread_ == thread_id())
    return read_models(error) ? models_[0]->key.c_str() : nullptr;
  const std::lock_guard lock(initialising_);
  return read_models(error) ? models_[0]->key.c_str() : nullptr;
}

int Process::initialise() {
  const DriverState before = state();
  if (before == DriverState::kForked) return kOperatingSystem;
  if (before == DriverState::kStopped) return kUnloading;
  if (initialising_thread_ == thread_id()) {  // from inside InitializeInjection
    return before == DriverState::kFailed ? kNoDevice : kSuccess;
  }
  const std::lock_guard lock(initialising_);
  std::string error;
  const bool first = !models_read_ || state() == DriverState::kUnused;
  const bool found = read_models(error);
  if (first) {
    process_id_ = getpid();
    {
      const Lock guard(mutex_);
      for (const auto& model : models_) scheduler_.add_device(model.get());
      primaries_.resize(models_.size());
    }
    state_ = found ? DriverState::kInitialising : DriverState::kFailed;
    // Before the injection registers its own, so that this one runs after it.
    std::atexit([] { instance().stop(); });
  }
  if (!injected_) {
    initialising_thread_ = thread_id();
    injected_ = load_injection();
    initialising_thread_ = 0;
  }
  if (!found) {
    if (first) std::fprintf(stderr, "virtual GPU: %s\n", error.c_str());
    return kNoDevice;
  }
  if (!first) return kSuccess;
  log_.open();
  log_.process(*models_[0], timestamp());
  for (std::uint32_t i = 0; i < models_.size(); ++i) log_.device(i, *models_[i]);
  state_ = DriverState::kReady;
  if (Tracer* tracer = tracer_) tracer->initialised();
  return kSuccess;
}

std::uint32_t Process::device_count() const {
  return static_cast<std::uint32_t>(models_.size());
}

void Process::stop() {
  if (state() == DriverState::kForked || getpid() != process_id_) return;
  {
    const Lock lock(mutex_);
    if (state() == DriverState::kReady) {
      scheduler_.advance(now_ns());
      // What has not ended never will.
      for (const Stream* stream : scheduler_.streams()) {
        for (Task* task = stream->head; task != nullptr; task = task->next_in_stream) {
          const Work work = task->operation.work;
          if (work == Work::kMarker || work == Work::kHostCall) continue;
          Times times{reported(*task).start_ns, 0};
          // A record that was given away unfinished keeps what it said.
          if (task->slot != nullptr) times = tracer_.load()->ended(task->slot, times);
          log_.operation(task->operation, times);
        }
      }
      state_ = DriverState::kStopped;
    }
  }
  log_.flush();
}

// --- API calls ---------------------------------------------------------------------------------

void Process::begin(ApiCall& call) {
  if (call.cbid == 0 || state() != DriverState::kReady) return;
  call.open = true;
  ApiCall* outer = thread_state.call;
  const bool nested = outer != nullptr && call.domain == ApiDomain::kDriver;
  const bool shared = nested && models_[0]->driver_records == DriverRecords::kShared;
  call.correlation = shared ? outer->correlation : ++correlation_;
  call.work_correlation = nested ? outer->work_correlation : call.correlation;
  call.outer = outer;
  thread_state.call = &call;
  Tracer* tracer = tracer_.load(std::memory_order_acquire);
  if (stamps(call.domain).load(std::memory_order_relaxed) || log_.is_open()) {
    call.stamped = true;
    call.start_ns =
        stamp_after(outer != nullptr ? std::max(outer->start_ns, outer->inner_end_ns) : 0);
  }
  if (tracer != nullptr) tracer->enter(call);
}

void Process::end(ApiCall& call, int result) {
  if (!call.open) return;
  call.open = false;
  thread_state.call = call.outer;
  if (!call.stamped) return;
  const std::uint64_t end_ns = stamp_after(call.inner_end_ns);
  if (call.outer != nullptr) call.outer->inner_end_ns = end_ns;
  if (Tracer* tracer = tracer_.load(std::memory_order_acquire)) {
    tracer->exit(call, end_ns, static_cast<std::uint32_t>(result));
  }
  if (log_.is_open() && state() == DriverState::kReady) {
    const char* name =
        call.domain == ApiDomain::kRuntime ? runtime_name(call.cbid) : driver_name(call.cbid);
    log_.api(call, name, end_ns, static_cast<std::uint32_t>(result));
  }
}

std::uint64_t Process::stamp_after(std::uint64_t ns) const {
  // A profiler's own clock may be coarse, so there is an end to the attempts.
  std::uint64_t stamp = timestamp();
  for (int i = 0; stamp <= ns && i < 100; ++i) stamp = timestamp();
  return stamp;
}

bool Process::in_host_function() const {
  return thread_state.in_host_function;
}

std::uint32_t Process::thread_correlation() const {
  return thread_state.call != nullptr ? thread_state.call->work_correlation : 0;
}

void Process::set_clock(std::uint64_t (*clock)()) {
  if (clock == nullptr) clock = &realtime;
  // When the callback reads CLOCK_MONOTONIC, records and device share one clock exactly. Else the
  // narrowest of a few brackets tells how far apart the two clocks are.
  std::int64_t offset = 0;
  std::uint64_t narrowest = ~std::uint64_t{0};
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = now_ns();
    const std::uint64_t theirs = clock();
    const std::uint64_t after = now_ns();
    if (before <= theirs && theirs <= after) {
      offset = 0;
      break;
    }
    if (after - before < narrowest) {
      narrowest = after - before;
      offset = static_cast<std::int64_t>(theirs - before - narrowest / 2);
    }
  }
  clock_offset_ = offset;
  clock_.store(clock, std::memory_order_release);
}

Times Process::reported(const Task& task) const {
  const auto offset = static_cast<std::uint64_t>(clock_offset_.load(std::memory_order_relaxed));
  return {task.start_ns == 0 ? 0 : task.start_ns + offset,
          task.end_ns == 0 ? 0 : task.end_ns + offset};
}

// --- Contexts ----------------------------------------------------------------------------------

Context* Process::current() const {
  return thread_state.context;
}
void Process::set_current(Context* context) {
  thread_state.context = context;
}

Context* Process::make_context(std::uint32_t device, bool primary) {
  auto* context = new Context;
  context->primary = primary;
  context->facts.id = static_cast<std::uint32_t>(contexts_.size() + 1);
  context->facts.device = device;
  context->facts.null_stream = next_stream_;
  context->legacy = scheduler_.add_stream(device, context->facts.id, next_stream_++, 0, false, 0);
  next_stream_ = std::max(next_stream_, kFirstOwnStream);
  contexts_.push_back(context);
  return context;
}

Context* Process::find_primary(std::uint32_t device) const {
  const Lock lock(mutex_);
  return primaries_[device];
}

Context* Process::primary(std::uint32_t device) {
  Context* context = nullptr;
  {
    const Lock lock(mutex_);
    if (primaries_[device] != nullptr) return primaries_[device];
    context = primaries_[device] = make_context(device, true);
  }
  if (Tracer* tracer = tracer_) tracer->context_created(context);
  return context;
}

bool Process::primary_active(std::uint32_t device) const {
  const Lock lock(mutex_);
  return primaries_[device] != nullptr;
}

Context* Process::create_context(std::uint32_t device) {
  Context* context = nullptr;
  {
    const Lock lock(mutex_);
    context = make_context(device, false);
  }
  if (Tracer* tracer = tracer_) tracer->context_created(context);
  return context;
}

void Process::end_context(Context* context) {
  drain(context);
  std::set<std::uint32_t> modules;
  {
    const Lock lock(mutex_);
    modules.swap(context->modules);
  }
  if (Tracer* tracer = tracer_) {
    for (const std::uint32_t module : modules) tracer->module_loaded(context, module, false);
    tracer->context_destroyed(context);
  }
  const Lock lock(mutex_);
  context->alive = false;
  std::vector<Stream*> streams;
  for (Stream* stream : scheduler_.streams()) {
    if (stream->context == context->facts.id && !stream->destroyed) streams.push_back(stream);
  }
  for (Stream* stream : streams) {
    streams_.erase(stream);
    scheduler_.destroy_stream(stream);
  }
  memory_.remove_context(context->facts.id);
}

void Process::reset_primary(std::uint32_t device) {
  Context* context = nullptr;
  {
    const Lock lock(mutex_);
    context = primaries_[device];
  }
  if (context == nullptr) return;
  end_context(context);
  const Lock lock(mutex_);
  if (primaries_[device] == context) primaries_[device] = nullptr;
}

bool Process::destroy_context(Context* context) {
  {
    const Lock lock(mutex_);
    if (std::find(contexts_.begin(), contexts_.end(), context) == contexts_.end() ||
        !context->alive || context->primary) {
      return false;
    }
  }
  end_context(context);
  return true;
}

bool Process::context_facts(Context* context, ContextFacts& facts) const {
  const Lock lock(mutex_);
  if (std::find(contexts_.begin(), contexts_.end(), context) == contexts_.end() ||
      !context->alive) {
    return false;
  }
  facts = context->facts;
  return true;
}

std::size_t Process::contexts(Context** list, std::size_t capacity) const {
  const Lock lock(mutex_);
  std::size_t count = 0;
  for (Context* context : contexts_) {
    if (!context->alive) continue;
    if (count < capacity) list[count] = context;
    ++count;
  }
  return count;
}

int Process::synchronize(Context* context) {
  Synchronization wait = begin_wait(SyncKind::kContext, context->facts.id, 0);
  return end_wait(wait, drain(context));
}

int Process::drain(Context* context) {
  Lock lock(mutex_);
  std::vector<Task*> tasks;
  for (const Stream* stream : scheduler_.streams()) {
    if (stream->context != context->facts.id || stream->tail == nullptr) continue;
    ++stream->tail->references;
    tasks.push_back(stream->tail);
  }
  wait_for_all(tasks, lock);
  return state() == DriverState::kReady ? kSuccess : kUnloading;
}

}  // namespace virtual_gpu

extern "C" {
// NOLINTBEGIN(readability-identifier-naming)

__attribute__((visibility("default"))) virtual_gpu::VirtualGpu* profilerVirtualGpuInterface(
    std::uint32_t version) {
  return version == virtual_gpu::kInterfaceVersion ? &virtual_gpu::Process::instance() : nullptr;
}

// The mark of the stand-in: programs and profilers can tell it from a driver by this name.
__attribute__((visibility("default"))) const char* profilerVirtualGpuModel() {
  return virtual_gpu::Process::instance().model_key();
}
// NOLINTEND(readability-identifier-naming)
}
