#include "samples/virtual_gpu/cuda/process.h"

#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "samples/virtual_gpu/cuda/injection.h"
#include "samples/virtual_gpu/engine/api_names.h"
#include "samples/virtual_gpu/engine/clock.h"

namespace virtual_gpu {
namespace {

// CUresult numbers, which cudaError_t shares.
enum : int {
  kSuccess = 0,
  kUnloading = 4,
  kNoDevice = 100,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kNotReady = 600,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
};
constexpr unsigned kEventDisableTiming = 2;

constexpr std::uint64_t kWorkerTickNs = 5'000'000;
constexpr std::uint64_t kWorkerRestNs = 50'000'000;
constexpr std::uint64_t kLogFlushNs = 100'000'000;

// CUPTI numbers the default stream 7 and the program's own streams from 13.
constexpr std::uint32_t kFirstOwnStream = 13;

thread_local Context* current_context = nullptr;
thread_local const ApiCall* innermost_call = nullptr;
thread_local bool host_function_runs = false;

int thread_id() {
  static thread_local const int id = static_cast<int>(syscall(SYS_gettid));
  return id;
}

std::chrono::steady_clock::time_point time_point(std::uint64_t ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(ns));
}

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
  call.correlation = ++correlation_;
  innermost_call = &call;
  Tracer* tracer = tracer_.load(std::memory_order_acquire);
  if (api_wanted_.load(std::memory_order_relaxed) || log_.is_open()) {
    call.stamped = true;
    call.start_ns = timestamp();
  }
  if (tracer != nullptr) tracer->enter(call);
}

void Process::end(ApiCall& call, int result) {
  if (!call.open) return;
  call.open = false;
  innermost_call = nullptr;
  if (!call.stamped) return;
  const std::uint64_t end_ns = timestamp();
  if (Tracer* tracer = tracer_.load(std::memory_order_acquire)) {
    tracer->exit(call, end_ns, static_cast<std::uint32_t>(result));
  }
  if (log_.is_open() && state() == DriverState::kReady) {
    const char* name =
        call.domain == ApiDomain::kRuntime ? runtime_name(call.cbid) : driver_name(call.cbid);
    log_.api(call, name, end_ns, static_cast<std::uint32_t>(result));
  }
}

bool Process::in_host_function() const {
  return host_function_runs;
}

std::uint32_t Process::thread_correlation() const {
  return innermost_call != nullptr ? innermost_call->correlation : 0;
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
  return current_context;
}
void Process::set_current(Context* context) {
  current_context = context;
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

Context* Process::primary(std::uint32_t device) {
  std::uint32_t modules = 0;
  Context* context = nullptr;
  {
    const Lock lock(mutex_);
    if (primaries_[device] != nullptr) return primaries_[device];
    context = primaries_[device] = make_context(device, true);
    modules = modules_;
  }
  if (Tracer* tracer = tracer_) {
    tracer->context_created(context);
    for (std::uint32_t i = 1; i <= modules; ++i) tracer->module_loaded(context, i, true);
  }
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
  synchronize(context);
  if (Tracer* tracer = tracer_) {
    for (std::uint32_t i = 1; i <= modules_; ++i) tracer->module_loaded(context, i, false);
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

// --- Streams -----------------------------------------------------------------------------------

Stream* Process::find_stream(Context* context, void* handle, bool per_thread) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  const Lock lock(mutex_);
  if (number == 1 || (number == 0 && !per_thread)) return context->legacy;
  if (number == 2 || number == 0) {
    Stream*& stream = context->per_thread[thread_id()];
    if (stream == nullptr) {
      stream = scheduler_.add_stream(context->facts.device, context->facts.id, next_stream_++, 0,
                                     true, 0);
    }
    return stream;
  }
  return streams_.count(handle) != 0 ? static_cast<Stream*>(handle) : nullptr;
}

Stream* Process::create_stream(Context* context, unsigned flags, bool blocking, int priority) {
  Stream* stream = nullptr;
  {
    const Lock lock(mutex_);
    stream = scheduler_.add_stream(context->facts.device, context->facts.id, next_stream_++, flags,
                                   blocking, priority);
    streams_.insert(stream);
  }
  if (Tracer* tracer = tracer_) tracer->stream_created(context, stream);
  return stream;
}

int Process::destroy_stream(Context* context, Stream* stream) {
  {
    const Lock lock(mutex_);
    if (streams_.erase(stream) == 0) return kInvalidHandle;
  }
  if (Tracer* tracer = tracer_) tracer->stream_destroyed(context, stream);
  const Lock lock(mutex_);
  scheduler_.advance(now_ns());
  scheduler_.destroy_stream(stream);
  return kSuccess;
}

StreamFacts Process::stream_facts(const Stream* stream) const {
  return {stream->id,    stream->context,  stream->device,
          stream->flags, stream->priority, stream->is_legacy};
}

std::vector<Task*> Process::tails(const Stream* stream) {
  std::vector<Task*> tasks;
  const auto take = [&](const Stream* from) {
    if (from->tail == nullptr) return;
    ++from->tail->references;
    tasks.push_back(from->tail);
  };
  take(stream);
  // The legacy default stream stands for all blocking streams of its context.
  if (stream->is_legacy) {
    for (const Stream* other : scheduler_.streams()) {
      if (other != stream && other->context == stream->context && other->blocking) take(other);
    }
  }
  return tasks;
}

int Process::query(Stream* stream) {
  const Lock lock(mutex_);
  scheduler_.advance(now_ns());
  std::vector<Task*> tasks = tails(stream);
  for (Task* task : tasks) scheduler_.release(task);
  return tasks.empty() ? kSuccess : kNotReady;
}

int Process::synchronize(Stream* stream) {
  Lock lock(mutex_);
  std::vector<Task*> tasks = tails(stream);
  wait_for_all(tasks, lock);
  return state() == DriverState::kReady ? kSuccess : kUnloading;
}

// --- Events ------------------------------------------------------------------------------------

Event* Process::create_event(std::uint32_t device, unsigned flags) {
  auto* event = new Event;
  event->flags = flags;
  event->device = device;
  const Lock lock(mutex_);
  events_.insert(event);
  return event;
}

int Process::destroy_event(Event* event) {
  const Lock lock(mutex_);
  if (events_.erase(event) == 0) return kInvalidHandle;
  if (event->task != nullptr) event->task->event = nullptr;
  delete event;
  return kSuccess;
}

int Process::record(Event* event, Stream* stream) {
  Lock lock(mutex_);
  if (events_.count(event) == 0 || event->device != stream->device) return kInvalidHandle;
  if (event->task != nullptr) event->task->event = nullptr;
  auto* task = new Task;
  task->event = event;
  event->task = task;
  event->recorded = true;
  return enqueue(task, stream, nullptr, lock);
}

int Process::query(Event* event) {
  const Lock lock(mutex_);
  if (events_.count(event) == 0) return kInvalidHandle;
  scheduler_.advance(now_ns());
  return event->task != nullptr ? kNotReady : kSuccess;
}

int Process::synchronize(Event* event) {
  Lock lock(mutex_);
  if (events_.count(event) == 0) return kInvalidHandle;
  if (event->task == nullptr) return kSuccess;
  ++event->task->references;
  wait_for(event->task, lock);
  return state() == DriverState::kReady ? kSuccess : kUnloading;
}

int Process::elapsed_ms(float* ms, Event* from, Event* to) {
  const Lock lock(mutex_);
  for (const Event* event : {from, to}) {
    if (events_.count(event) == 0 || !event->recorded ||
        (event->flags & kEventDisableTiming) != 0) {
      return kInvalidHandle;
    }
  }
  scheduler_.advance(now_ns());
  if (from->task != nullptr || to->task != nullptr) return kNotReady;
  *ms = static_cast<float>(static_cast<double>(static_cast<std::int64_t>(to->done_ns) -
                                               static_cast<std::int64_t>(from->done_ns)) *
                           1e-6);
  return kSuccess;
}

int Process::wait_event(Stream* stream, Event* event) {
  Lock lock(mutex_);
  if (events_.count(event) == 0) return kInvalidHandle;
  if (event->task == nullptr) return kSuccess;
  return enqueue(new Task, stream, event->task, lock);
}

// --- Work --------------------------------------------------------------------------------------

int Process::enqueue(Task* task, Stream* stream, Task* after, Lock& lock) {
  if (state() != DriverState::kReady) {
    if (task->event != nullptr) task->event->task = nullptr;
    delete task;
    return kUnloading;
  }
  if (after != nullptr) ++after->references;  // it may end right now
  const std::uint64_t now = now_ns();
  scheduler_.advance(now);
  scheduler_.submit(task, stream, after, now);
  if (after != nullptr) scheduler_.release(after);
  if (!worker_runs_) start_worker();
  const bool wake = worker_rests_ || task->operation.work == Work::kHostCall;
  worker_rests_ = false;
  lock.unlock();
  if (wake) work_.notify_one();
  return kSuccess;
}

int Process::submit(Operation operation, Stream* stream, bool wait) {
  operation.device = stream->device;
  operation.context = stream->context;
  operation.stream = stream->id;
  operation.correlation = thread_correlation();
  // Real drivers take their time to put a launch together; ours would be done too soon.
  if (operation.work == Work::kKernel)
    sleep_until(now_ns() + models_[operation.device]->launch_cost_ns);
  auto* task = new Task;
  if (Tracer* tracer = tracer_.load(std::memory_order_acquire)) {
    task->slot = tracer->submitted(operation);
  }
  task->operation = operation;
  if (wait) ++task->references;
  Lock lock(mutex_);
  if (stream->length >= models_[operation.device]->queue_depth) {
    scheduler_.advance(now_ns());
    while (stream->length >= models_[operation.device]->queue_depth &&
           state() == DriverState::kReady) {
      ++stream->head->references;
      wait_for(stream->head, lock);
      lock.lock();
    }
  }
  const int result = enqueue(task, stream, nullptr, lock);
  if (result != kSuccess) return result;
  if (wait) {
    lock.lock();
    wait_for(task, lock);
  }
  return state() == DriverState::kReady ? kSuccess : kUnloading;
}

int Process::call_host(Stream* stream, void (*function)(void*), void* data) {
  auto* task = new Task;
  task->operation.work = Work::kHostCall;
  task->host_function = function;
  task->host_data = data;
  Lock lock(mutex_);
  return enqueue(task, stream, nullptr, lock);
}

void Process::wait_for_all(std::vector<Task*>& tasks, Lock& lock) {
  // The longest first: the others have mostly ended by then.
  std::sort(tasks.begin(), tasks.end(),
            [](const Task* a, const Task* b) { return a->estimate_ns > b->estimate_ns; });
  for (Task* task : tasks) {
    if (!lock.owns_lock()) lock.lock();
    wait_for(task, lock);
  }
}

void Process::wait_for(Task* task, Lock& lock) {
  while (state() == DriverState::kReady) {
    const std::uint64_t now = now_ns();
    scheduler_.advance(now);
    if (task->state == TaskState::kDone) break;
    // Nothing can make the task end before its estimate; after it, the next event tells more.
    std::uint64_t target = task->estimate_ns;
    if (target <= now) target = scheduler_.next_event();
    if (target <= now) continue;
    if (scheduler_.has_host_calls()) {
      // The end of a host call cannot be foreseen, so sleep where it can wake us.
      target = std::min(target, now + kWorkerTickNs);
      done_.wait_until(lock, time_point(target));
      continue;
    }
    if (target == Scheduler::kNever) target = now + kWorkerTickNs;
    lock.unlock();
    sleep_until(target);
    lock.lock();
  }
  scheduler_.release(task);
  lock.unlock();
}

void Process::advance() {
  if (state() != DriverState::kReady) return;
  const Lock lock(mutex_);
  scheduler_.advance(now_ns());
}

void Process::start_worker() {
  worker_runs_ = true;
  // Signals of the program are for the program's threads.
  sigset_t all;
  sigset_t old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  pthread_t thread{};
  if (pthread_create(
          &thread, nullptr,
          [](void*) -> void* {
            instance().work();
            return nullptr;
          },
          nullptr) == 0) {
    pthread_setname_np(thread, "virtual-gpu");
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
}

// Runs host functions in time, and keeps the simulation moving while the program does not call.
void Process::work() {
  Lock lock(mutex_);
  std::uint64_t busy_ns = now_ns();
  std::uint64_t flushed_ns = busy_ns;
  while (state() == DriverState::kReady) {
    const std::uint64_t now = now_ns();
    scheduler_.advance(now);
    if (Task* task = scheduler_.take_host_call()) {
      lock.unlock();
      host_function_runs = true;
      task->host_function(task->host_data);
      host_function_runs = false;
      lock.lock();
      scheduler_.finish_host_call(task, now_ns());
      done_.notify_all();
      continue;
    }
    if (scheduler_.pending() > 0) busy_ns = now;
    if (now - flushed_ns >= kLogFlushNs || now - busy_ns >= kWorkerRestNs) {
      flushed_ns = now;
      log_.flush();
    }
    if (now - busy_ns >= kWorkerRestNs) {
      worker_rests_ = true;
      work_.wait(lock, [this] { return !worker_rests_; });
      busy_ns = now_ns();
      continue;
    }
    std::uint64_t wake = now + kWorkerTickNs;
    if (scheduler_.has_host_calls()) wake = std::min(wake, scheduler_.next_event());
    work_.wait_until(lock, time_point(wake));
  }
}

const Kernel* Process::kernel(const char* mangled) {
  const std::lock_guard lock(kernels_mutex_);
  Kernel*& kernel = kernels_[mangled];
  if (kernel == nullptr) {
    int status = 0;
    char* demangled = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    kernel = new Kernel;
    kernel->mangled = strdup(mangled);
    kernel->demangled = demangled != nullptr ? demangled : kernel->mangled;
    kernel->cost = kernel_cost(*models_[0], kernel->mangled, kernel->demangled);
  }
  return kernel;
}

// --- Memory ------------------------------------------------------------------------------------

void* Process::allocate(MemoryKind kind, std::uint64_t bytes, Context* context) {
  if (kind == MemoryKind::kDevice && bytes > free_bytes(context->facts.device)) return nullptr;
  return memory_.allocate(kind, bytes, context->facts.id);
}

bool Process::free_device(void* address) {
  return memory_.remove(
      address,
      [](const MemoryRange& range) {
        return range.kind == MemoryKind::kDevice || range.kind == MemoryKind::kManaged;
      },
      nullptr);
}

bool Process::free_host(void* address) {
  return memory_.remove(
      address,
      [](const MemoryRange& range) {
        return range.kind == MemoryKind::kPinned && !range.registered;
      },
      nullptr);
}

int Process::register_host(void* address, std::uint64_t bytes, Context* context) {
  return memory_.register_host(address, bytes, context->facts.id) ? kSuccess : kAlreadyRegistered;
}

int Process::unregister_host(void* address) {
  return memory_.remove(
             address, [](const MemoryRange& range) { return range.registered; }, nullptr)
             ? kSuccess
             : kNotRegistered;
}

MemoryKind Process::memory(const void* address, std::uint64_t* bytes) const {
  const MemoryRange range = memory_.find(address);
  if (bytes != nullptr) {
    *bytes = range.bytes == 0
                 ? 0
                 : range.begin + range.bytes - reinterpret_cast<std::uintptr_t>(address);
  }
  return range.kind;
}

std::uint64_t Process::free_bytes(std::uint32_t device) const {
  const std::uint64_t used = memory_.device_bytes();
  const std::uint64_t all = models_[device]->memory_bytes;
  return used < all ? all - used : 0;
}

void Process::load_module() {
  if (state() == DriverState::kForked) return;
  std::vector<Context*> alive;
  std::uint32_t module = 0;
  {
    const Lock lock(mutex_);
    module = ++modules_;
    for (Context* context : contexts_) {
      if (context->alive) alive.push_back(context);
    }
  }
  if (Tracer* tracer = tracer_) {
    for (Context* context : alive) tracer->module_loaded(context, module, true);
  }
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
