#include "injector/session.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "injector/activity_kinds.h"
#include "injector/clock.h"
#include "proto/session.h"

namespace profiler::injector {
namespace {

constexpr std::uint64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kTick = 20 * kMillisecond;
// cuptiActivityFlushPeriod would deliver full buffers only, so it bounds nothing.
constexpr std::uint64_t kFlushPeriod = 200 * kMillisecond;
// How long hello waits for CUDA to start when NVTX was first: what CUDA is can then be told.
constexpr std::uint64_t kHelloWait = 200 * kMillisecond;
constexpr std::uint64_t kContextWait = 1000 * kMillisecond;
constexpr std::uint64_t kDefaultBufferCap = 256 * 1024 * 1024;
constexpr std::uint64_t kDefaultDrainBudgetMs = 5000;

// The session of this process; CUPTI's buffer callbacks carry no pointer of ours.
std::atomic<Session*> current{nullptr};
std::atomic<bool> fork_handler_registered{false};

std::uint64_t CUPTIAPI cupti_timestamp() {
  return now_ns();
}

std::uint64_t least(std::uint64_t a, std::uint64_t b) {
  return a < b ? a : b;
}

// CUDA calls of the program must not see our errno.
class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

}  // namespace

bool read_settings(SessionSettings& settings) {
  const char* directory = std::getenv(session::kDirectoryVariable);
  if (directory == nullptr || directory[0] != '/') return false;
  if (std::strlen(directory) >= sizeof settings.directory) return false;
  std::snprintf(settings.directory, sizeof settings.directory, "%s", directory);

  const char* cupti = std::getenv(session::kCuptiVariable);
  std::snprintf(settings.cupti_path, sizeof settings.cupti_path, "%s",
                cupti == nullptr ? "" : cupti);
  settings.buffer_cap = parse_number(std::getenv(session::kBufferCapVariable), kDefaultBufferCap);
  const std::uint64_t budget_ms =
      parse_number(std::getenv(session::kDrainBudgetVariable), kDefaultDrainBudgetMs);
  settings.drain_budget = least(budget_ms, 3'600'000) * kMillisecond;
  return true;
}

// ---- Set-up, on the thread that starts NVTX or CUDA ---------------------------------------------

Session* Session::find_or_start(const SessionSettings& settings) {
  Session* running = current.load(std::memory_order_acquire);
  if (running != nullptr && running->process_.pid == static_cast<std::uint32_t>(getpid())) {
    return running;
  }
  if (!PipeWriter::is_listened_to(settings.directory)) return nullptr;

  void* memory = std::malloc(sizeof(Session));
  if (memory == nullptr) return nullptr;
  auto* session = new (memory) Session(settings);
  if (!session->encoder_.ready()) return nullptr;
  if (!current.compare_exchange_strong(running, session, std::memory_order_acq_rel)) {
    return running;  // of two threads the other was faster
  }
  if (!fork_handler_registered.exchange(true)) {
    pthread_atfork(nullptr, nullptr, &Session::in_forked_child);
  }
  session->nvtx_.activate();
  if (!session->start_thread()) {
    NvtxRecorder::deactivate();
    current.store(nullptr, std::memory_order_release);
    return nullptr;
  }
  return session;
}

Session* Session::start_for_nvtx(const SessionSettings& settings) {
  Session* session = find_or_start(settings);
  if (session != nullptr && !session->exit_registered_.exchange(true)) {
    std::atexit(&Session::exit_handler);
  }
  return session;
}

Session* Session::start(const SessionSettings& settings, const CuptiFunctions* functions) {
  // Before anything else: without a collector CUPTI is left alone.
  if (!PipeWriter::is_listened_to(settings.directory)) return nullptr;
  Session* session = find_or_start(settings);
  if (session == nullptr || session->cuda_claimed_.exchange(true)) return session;
  session->set_up_cupti(functions);
  // The driver registered its own exit handler just before it called us, and libcupti its own when
  // it was loaded; handlers run in reverse order, so ours, registered last, finds both alive. One
  // that NVTX had registered before finds nothing left to do.
  session->exit_registered_.store(true);
  std::atexit(&Session::exit_handler);
  session->set_up_.increment();
  session->wake_.increment();
  return session;
}

Session::Session(const SessionSettings& settings)
    : settings_(settings),
      encoder_(cupti_, FrameSink{&Session::sink_write, this}),
      nvtx_(wake_),
      nvtx_writer_(encoder_) {
  read_process_facts(process_, read_clocks());
}

bool Session::start_thread() {
  // The program's signals are for its own threads; a blocked SIGPIPE turns into EPIPE.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, &Session::thread_main, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

void Session::find_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (driver == nullptr) return;
  using GetVersion = CUresult (*)(int*);
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(driver, "cuDriverGetVersion"));
  if (get_version != nullptr && get_version(&driver_version_) != CUDA_SUCCESS) driver_version_ = 0;
  using Model = const char* (*)();
  const auto model = reinterpret_cast<Model>(dlsym(driver, session::kVirtualGpuMark));
  if (model != nullptr) simulated_model_ = model();
}

void Session::fail(CUptiResult result) {
  explain_failure(failure_, sizeof failure_, result, cupti_.result_name(result), cupti_.version(),
                  driver_version_);
}

void Session::set_up_cupti(const CuptiFunctions* functions) {
  find_driver();
  if (functions != nullptr) {
    cupti_.use(*functions);
  } else if (!cupti_.load(settings_.cupti_path, driver_version_)) {
    const char* error = cupti_.load_error();
    std::snprintf(failure_, sizeof failure_,
                  "no libcupti was found: install CUPTI of the CUDA toolkit, or name its file in "
                  "%s%s%s",
                  session::kCuptiVariable, error[0] != '\0' ? ": " : "", error);
    return;
  }
  cupti_.read_version();
  pool_.configure(settings_.buffer_cap, cupti_.may_decline_buffers());

  cupti_.set_thread_ids_to_system();
  // The clock before any subscription or kind: a change in mid-session corrupts records.
  cupti_.register_timestamps(&cupti_timestamp);
  cupti_.promise_zeroed_buffers();
  CUptiResult result = cupti_.register_buffers(&on_buffer_request, &on_buffer_completed);
  if (result != CUPTI_SUCCESS) {
    fail(result);
    return;
  }
  // Without a subscription (another client has it) activity records still come.
  if (cupti_.subscribe(&on_callback) == CUPTI_SUCCESS) {
    cupti_.enable_resource_callback(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, "CONTEXT_CREATED");
    cupti_.enable_resource_callback(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
                                    "CONTEXT_DESTROY_STARTING");
  }
  for (const ActivityKindRow& row : kActivityKinds) {
    if (row.use == KindUse::kReadOnly) continue;
    const CUptiResult enabled = cupti_.enable(row.kind, row.name);
    if (enabled != CUPTI_SUCCESS) {
      result = enabled;
    } else if (row.use == KindUse::kRecording) {
      recording_ = true;
    }
  }
  if (!recording_) fail(result);
}

void Session::name_stream(CUstream stream, const NvtxText& name) {
  Session* session = current.load(std::memory_order_acquire);
  NvtxRecorder* recorder = NvtxRecorder::active();
  if (session == nullptr || recorder == nullptr || session->set_up_.value() == 0) return;
  const KeepErrno keep;
  CUcontext context = nullptr;
  if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
    using GetCurrent = CUresult (*)(CUcontext*);
    const auto get_current = reinterpret_cast<GetCurrent>(dlsym(driver, "cuCtxGetCurrent"));
    if (get_current == nullptr || get_current(&context) != CUDA_SUCCESS) context = nullptr;
  }
  std::uint32_t context_id = 0;
  std::uint32_t stream_id = 0;
  if (session->cupti_.stream_id(context, stream, &context_id, &stream_id)) {
    recorder->name_stream(context_id, stream_id, name);
  }
}

// ---- Called by CUPTI ----------------------------------------------------------------------------

void CUPTIAPI Session::on_buffer_request(std::uint8_t** buffer, std::size_t* size,
                                         std::size_t* max_records) {
  *buffer = nullptr;
  *size = 0;
  *max_records = 0;
  Session* session = current.load(std::memory_order_acquire);
  if (session == nullptr || session->dead_.load(std::memory_order_relaxed)) return;
  const KeepErrno keep;
  const Buffer* handed_out = session->pool_.hand_out(now_ns());
  if (handed_out == nullptr) return;
  *buffer = handed_out->data;
  *size = handed_out->size;
}

void CUPTIAPI Session::on_buffer_completed(CUcontext, std::uint32_t, std::uint8_t* data,
                                           std::size_t, std::size_t valid) {
  Session* session = current.load(std::memory_order_acquire);
  if (session == nullptr || session->dead_.load(std::memory_order_relaxed)) return;
  const KeepErrno keep;
  Buffer* buffer = session->pool_.give_back(data, valid, now_ns());
  if (buffer == nullptr) return;  // another client's: not ours to read or free
  if (buffer->emergency) {
    // At once and here: were they queued, emergency buffers could grow without bound.
    const std::uint64_t records = session->cupti_.count_records(buffer->data, buffer->valid);
    session->pool_.discard(buffer, records, now_ns());
    return;
  }
  session->wake_.increment();
}

void CUPTIAPI Session::on_callback(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void*) {
  Session* session = current.load(std::memory_order_acquire);
  if (session == nullptr || session->dead_.load(std::memory_order_relaxed)) return;
  if (domain != CUPTI_CB_DOMAIN_RESOURCE) return;
  const KeepErrno keep;
  if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED) {
    session->live_contexts_.fetch_add(1, std::memory_order_relaxed);
  } else if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
    // Contexts that were made before us were not counted: below zero is the last one, too.
    if (session->live_contexts_.fetch_sub(1, std::memory_order_relaxed) <= 1) {
      session->context_destroyed();
    }
  }
}

// The last context is about to go. What is complete is delivered now, in case the program leaves
// with _exit. It is an ordinary flush: the work of the context may still run, and a forced flush
// would hand over its records unfinished, for good; the forced one follows at exit.
//
// This callback runs inside CUPTI. Should CUPTI hold a lock that the flush on our thread needs,
// neither could go on: so the wait is bounded, and once it ran out no later one is tried.
void Session::context_destroyed() {
  if (stop_requested() || !pool_.was_used() || !contexts_wait_.load(std::memory_order_relaxed)) {
    return;
  }
  const std::uint64_t deadline = now_ns() + least(kContextWait, settings_.drain_budget);
  const std::uint32_t seen = flushes_.value();
  flush_wanted_.store(true, std::memory_order_release);
  wake_.increment();
  while (flushes_.value() == seen && finished_.value() == 0) {
    const std::uint64_t now = now_ns();
    if (now >= deadline) {
      contexts_wait_.store(false, std::memory_order_relaxed);
      return;
    }
    flushes_.wait_beyond(seen, least(deadline - now, kTick));
  }
}

// ---- fork and exit ------------------------------------------------------------------------------

// The child has one thread, perhaps locked mutexes, and no usable CUDA: touch nothing.
void Session::in_forked_child() {
  Session* session = current.load(std::memory_order_relaxed);
  if (session == nullptr) return;
  session->dead_.store(true, std::memory_order_relaxed);
  NvtxRecorder::deactivate();
  session->pipe_.close_in_child();
}

void Session::exit_handler() {
  Session* session = current.load(std::memory_order_acquire);
  if (session != nullptr) session->at_exit();
}

void Session::at_exit() {
  if (dead_.load(std::memory_order_relaxed)) return;
  // A child made by the clone system call did not run the fork handler.
  if (process_.pid != static_cast<std::uint32_t>(getpid())) return;
  const std::uint64_t deadline = now_ns() + settings_.drain_budget;
  exit_deadline_.store(deadline, std::memory_order_relaxed);
  // The last eighth is for the goodbye.
  write_deadline_.store(deadline - settings_.drain_budget / 8, std::memory_order_relaxed);
  if (stop_.exchange(true, std::memory_order_acq_rel)) return;
  wake_.increment();
  while (finished_.value() == 0) {
    const std::uint64_t now = now_ns();
    if (now >= deadline) {
      abandoned_.store(true, std::memory_order_release);
      return;
    }
    finished_.wait_beyond(0, deadline - now);
  }
}

// ---- Our thread ---------------------------------------------------------------------------------

void* Session::thread_main(void* session) {
  prctl(PR_SET_NAME, "profiler");
  static_cast<Session*>(session)->run();
  return nullptr;
}

void Session::run() {
  lost_ = !pipe_.connect(settings_.directory, process_.pid, process_.start_ticks, &write_deadline_);
  wait_to_begin();
  last_drop_check_ns_ = now_ns();
  if (lost_) {
    lose_session();
  } else {
    say_hello();
  }
  loop();
  finish();
  NvtxRecorder::deactivate();
  finished_.increment();
}

void Session::wait_to_begin() {
  const std::uint64_t deadline = now_ns() + kHelloWait;
  for (;;) {
    const std::uint32_t seen = wake_.value();
    if (set_up_.value() != 0 || stop_requested()) return;
    const bool cuda_starts = cuda_claimed_.load(std::memory_order_acquire);
    if (!cuda_starts && (nvtx_.is_pressed() || now_ns() >= deadline)) return;
    wake_.wait_beyond(seen, kTick);
  }
}

CudaFacts Session::cuda_facts() const {
  return {driver_version_, cupti_.version(), cupti_.path(), simulated_model_, failure_};
}

void Session::say_hello() {
  HelloFacts facts{};
  facts.process = &process_;
  facts.clocks = start_clocks_;
  cuda_known_ = set_up_.value() != 0;
  if (cuda_known_) facts.cuda = cuda_facts();
  encoder_.hello(facts);
  report_failures();
  encoder_.send();
}

// CUDA was initialised after hello.
void Session::notice_cuda() {
  if (cuda_known_ || set_up_.value() == 0) return;
  cuda_known_ = true;
  if (!lost_) {
    encoder_.cuda(cuda_facts());
    report_failures();
    encoder_.send();
  }
  // By now CUPTI records.
  if (lost_ || !wanted_) set_recording(false);
}

bool Session::cupti_records() const {
  return cuda_known_ && pool_.was_used();
}

void Session::loop() {
  while (!stop_requested()) {
    const std::uint32_t seen = wake_.value();
    notice_cuda();
    drain(false);
    drain_nvtx();
    if (!lost_) {
      read_control();
      const bool wanted = flush_wanted_.exchange(false, std::memory_order_acq_rel);
      const bool due =
          (cupti_records() || nvtx_.was_used()) && now_ns() - last_flush_ns_ >= kFlushPeriod;
      if (wanted || due) {
        if (last_flush_ns_ == 0 && !wanted) {
          last_flush_ns_ = now_ns();  // the first request was just now: a full period from here
        } else {
          flush(false);
        }
      }
    }
    if (stop_requested()) break;
    wake_.wait_beyond(seen, lost_ ? kFlushPeriod : kTick);
  }
}

// Reads the rings of NVTX, into frames. True: every event older than the call has been read.
bool Session::drain_nvtx() {
  if (lost_) return false;
  if (!nvtx_.was_used()) return true;
  const NvtxRecorder::Drained drained = nvtx_.drain(nvtx_writer_);
  if (lost_) return false;
  encoder_.loss(LossPlace::kNvtx, drained.lost, drained.from_ns, drained.to_ns);
  return drained.quiet;
}

// Reads what CUPTI returned, into frames. Until a device is known, what refers to one waits, but
// not for ever and not beyond the last drain.
void Session::drain(bool last) {
  if (!lost_ && !encoder_.knows_a_device()) {
    Buffer* waiting = pool_.next_completed(nullptr);
    const bool any = waiting != nullptr;
    while (waiting != nullptr && !encoder_.devices_first(waiting)) {
      waiting = pool_.next_completed(waiting);
    }
    if (any && !last && !encoder_.knows_a_device() && device_patience_ > 0) {
      --device_patience_;
      flush_wanted_.store(true, std::memory_order_release);
      return;
    }
  }
  while (Buffer* buffer = pool_.take_completed()) {
    if (!lost_ && !drain_incomplete_) {
      encoder_.begin_buffer();
      CUpti_Activity* record = nullptr;
      while ((record = cupti_.next_record(buffer->data, buffer->valid, record)) != nullptr) {
        encoder_.record(record);
      }
    } else if (!lost_) {
      pipe_loss_ += cupti_.count_records(buffer->data, buffer->valid);
      if (pipe_loss_from_ns_ == 0) pipe_loss_from_ns_ = buffer->handed_out_ns;
    }
    pool_.recycle(buffer);
    if (!abandoned_.load(std::memory_order_acquire)) report_cupti_drops();
  }
  if (lost_) return;
  const BufferPool::Loss loss = pool_.take_loss();
  encoder_.loss(LossPlace::kPool, loss.count, loss.from_ns, loss.to_ns);
}

void Session::report_cupti_drops() {
  const std::uint64_t dropped = cupti_.take_dropped();
  const std::uint64_t now = now_ns();
  if (!lost_) encoder_.loss(LossPlace::kCupti, dropped, last_drop_check_ns_, now);
  last_drop_check_ns_ = now;
}

void Session::report_failures() {
  CuptiCallFailure failures[8];
  std::size_t count = 0;
  while ((count = cupti_.failures(failures_reported_, failures, 8)) != 0) {
    for (std::size_t i = 0; i < count; ++i) encoder_.failure(failures[i]);
    failures_reported_ += count;
  }
}

void Session::flush(bool forced) {
  const std::uint64_t before = now_ns();
  const bool cupti = cupti_records() && !abandoned_.load(std::memory_order_acquire);
  if (cupti) cupti_.flush(forced);
  flushes_.increment();
  last_flush_ns_ = now_ns();
  drain(forced);
  if (drain_nvtx()) nvtx_complete_ns_ = before;
  if (lost_) return;
  // Also without a returned buffer: when all requests were declined none comes back.
  if (cupti) report_cupti_drops();
  encoder_.refresh_thread_names();
  report_failures();
  std::uint64_t outstanding = 0;
  const std::uint64_t complete_until = pool_.complete_until(before, &outstanding);
  encoder_.watermark(least(complete_until, nvtx_complete_ns_), outstanding);
  encoder_.send();
  pool_.trim();
}

// The descriptor is opened anew each time: the program may close any that stays open.
void Session::read_control() {
  char path[4096];
  std::snprintf(path, sizeof path, "%s/%s", settings_.directory, session::kControlName);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  session::Control control{};
  const ssize_t size = pread(fd, &control, sizeof control, 0);
  ::close(fd);
  if (size != static_cast<ssize_t>(sizeof control)) return;
  if (control.sequence == control_sequence_) return;
  control_sequence_ = control.sequence;
  switch (control.command) {
    case session::kStart:
    case session::kStop:
      wanted_ = control.command == session::kStart;
      nvtx_.set_recording(wanted_);
      if (cuda_known_) set_recording(wanted_);
      break;
    case session::kFlush:
      flush_wanted_.store(true, std::memory_order_release);
      break;
    default:
      break;
  }
}

void Session::set_recording(bool on) {
  if (failure_[0] != '\0' || recording_ == on) return;
  for (const ActivityKindRow& row : kActivityKinds) {
    if (row.use != KindUse::kRecording) continue;
    if (on) {
      cupti_.enable(row.kind, row.name);
    } else {
      cupti_.disable(row.kind, row.name);
    }
  }
  recording_ = on;
  if (!on) flush_wanted_.store(true, std::memory_order_release);
}

// Nobody listens any more: the program goes on without us. Buffers that CUPTI still returns are
// recycled by the loop.
void Session::lose_session() {
  lost_ = true;
  NvtxRecorder::deactivate();
  pipe_.close();
  if (cuda_known_ && !abandoned_.load(std::memory_order_acquire)) set_recording(false);
}

void Session::finish() {
  if (lost_) return;
  // After a stop before the end of set-up CUPTI's state is another thread's.
  notice_cuda();
  // Ahead of the forced flush, which may hang.
  drain_nvtx();
  if (!lost_) encoder_.send();
  if (!lost_ && (cupti_records() || nvtx_.was_used()) &&
      !abandoned_.load(std::memory_order_acquire)) {
    flush(true);
  }
  if (lost_) return;
  if (pipe_loss_ != 0) {
    encoder_.loss(LossPlace::kPipe, pipe_loss_, pipe_loss_from_ns_, now_ns());
  }
  write_deadline_.store(exit_deadline_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  GoodbyeFacts facts{};
  facts.clocks = read_clocks();
  facts.drain_incomplete = drain_incomplete_;
  encoder_.goodbye(facts);
  pipe_.close();
}

bool Session::sink_write(void* context, const std::uint8_t* bytes, std::size_t size) {
  auto* session = static_cast<Session*>(context);
  if (session->lost_) return false;
  switch (session->pipe_.write(bytes, size, &session->write_deadline_)) {
    case PipeWriter::Outcome::kWritten:
      return true;
    case PipeWriter::Outcome::kTimeout:
      session->drain_incomplete_ = true;
      return false;
    case PipeWriter::Outcome::kLost:
      break;
  }
  session->lose_session();
  return false;
}

}  // namespace profiler::injector
