#include "injector/nvtx_recorder.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "injector/clock.h"
#include "injector/nvtx_writer.h"

namespace profiler::injector {
namespace {

// A thread without a ring looks for one again after this many events.
constexpr std::uint32_t kRetry = 64;
// A pass over the rings is repeated this often for a thread that is about to store an event.
constexpr int kPatience = 4;

std::atomic<NvtxRecorder*> active_recorder{nullptr};
std::atomic<std::uint64_t> last_range{0};

// Tells us of a thread's end.
pthread_key_t thread_key;
std::atomic<bool> has_thread_key{false};

// Plain data, as a destructor would need the C++ run-time library. Of the dynamic TLS model,
// although that costs a call: room for the static one is small and shared by all libraries, and
// where it is used up this one would not load.
struct OfThread {
  NvtxRecorder* recorder;  // that `ring` belongs to
  NvtxRing* ring;          // null: there was none to be had
  std::uint32_t misses;    // events since then
};
thread_local OfThread of_thread;

NvtxRecord make_record(NvtxKind kind, const NvtxRecorder::Attributes& attributes,
                       std::uint64_t number, std::uint64_t time_ns) {
  NvtxRecord record{};
  record.time_ns = time_ns;
  record.number = number;
  record.domain = attributes.domain;
  record.category = attributes.category;
  record.string = attributes.string;
  if (attributes.text != nullptr) {
    record.text_size = static_cast<std::uint16_t>(attributes.text->size());
  }
  record.kind = kind;
  return record;
}

const char* text_of(const NvtxRecorder::Attributes& attributes) {
  return attributes.text == nullptr ? nullptr : attributes.text->bytes();
}

}  // namespace

NvtxRecorder* NvtxRecorder::active() {
  return active_recorder.load(std::memory_order_acquire);
}

void NvtxRecorder::activate() {
  last_drain_ns_ = now_ns();
  if (!has_thread_key.load(std::memory_order_acquire) &&
      pthread_key_create(&thread_key, &NvtxRecorder::thread_ended) == 0) {
    has_thread_key.store(true, std::memory_order_release);
  }
  active_recorder.store(this, std::memory_order_release);
}

void NvtxRecorder::deactivate() {
  active_recorder.store(nullptr, std::memory_order_release);
}

std::uint64_t NvtxRecorder::new_range() {
  return last_range.fetch_add(1, std::memory_order_relaxed) + 1;
}

// ---- Rings --------------------------------------------------------------------------------------

NvtxRing* NvtxRecorder::ring_of_thread() {
  OfThread& thread = of_thread;
  if (thread.recorder != this) return attach();
  if (thread.ring != nullptr) return thread.ring;
  return ++thread.misses % kRetry == 0 ? attach() : nullptr;
}

// At a thread's first event: a ring that an ended thread left behind, or a new one.
NvtxRing* NvtxRecorder::attach() {
  const int saved_errno = errno;
  used_.store(true, std::memory_order_release);
  const auto tid = static_cast<std::uint64_t>(syscall(SYS_gettid));
  NvtxRing* ring = rings_.load(std::memory_order_acquire);
  while (ring != nullptr && !(ring->is_free() && ring->claim(tid))) ring = ring->next;
  if (ring == nullptr && ring_count_.fetch_add(1, std::memory_order_relaxed) < kMaxRings) {
    ring = NvtxRing::create();
    if (ring != nullptr) {
      ring->claim(tid);
      ring->next = rings_.load(std::memory_order_relaxed);
      while (!rings_.compare_exchange_weak(ring->next, ring, std::memory_order_release,
                                           std::memory_order_relaxed)) {
      }
    }
  } else if (ring == nullptr) {
    ring_count_.fetch_sub(1, std::memory_order_relaxed);
  }
  of_thread = {this, ring, 0};
  // Threads that ended may have left rings that only wait to be read.
  if (ring == nullptr) press();
  if (has_thread_key.load(std::memory_order_acquire)) pthread_setspecific(thread_key, ring);
  errno = saved_errno;
  return ring;
}

void NvtxRecorder::thread_ended(void* ring) {
  of_thread = {nullptr, nullptr, 0};
  static_cast<NvtxRing*>(ring)->release();
}

void NvtxRecorder::press() {
  if (pressed_.exchange(true, std::memory_order_acq_rel)) return;
  const int saved_errno = errno;
  wake_.increment();
  errno = saved_errno;
}

void NvtxRecorder::wake_if_filling(const NvtxRing& ring) {
  if (ring.is_half_full() && !pressed_.load(std::memory_order_relaxed)) press();
}

// ---- The program's threads ----------------------------------------------------------------------

// The ring of the calling thread, in use from beginning to end; null counts a loss.
class NvtxRecorder::Use {
 public:
  explicit Use(NvtxRecorder& recorder) : recorder_(recorder), ring_(recorder.ring_of_thread()) {
    if (ring_ == nullptr) {
      if (recorder.is_recording()) recorder.lost_.fetch_add(1, std::memory_order_relaxed);
    } else if (!ring_->begin()) {
      if (recorder.is_recording()) ring_->lose();
      ring_ = nullptr;
    }
  }
  ~Use() {
    if (ring_ == nullptr) return;
    ring_->end();
    recorder_.wake_if_filling(*ring_);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  NvtxRing* ring() const { return ring_; }

 private:
  NvtxRecorder& recorder_;
  NvtxRing* ring_;
};

int NvtxRecorder::push(const Attributes& attributes) {
  const Use use(*this);
  if (use.ring() == nullptr) return NvtxRing::kNoTracking;
  const NvtxRecord record = make_record(NvtxKind::kPush, attributes, 0, now_ns());
  return use.ring()->push(record, text_of(attributes), is_recording());
}

int NvtxRecorder::pop(std::uint32_t domain) {
  const Use use(*this);
  if (use.ring() == nullptr) return NvtxRing::kNoTracking;
  const Attributes attributes{domain, 0, 0, nullptr};
  return use.ring()->pop(make_record(NvtxKind::kPop, attributes, 0, now_ns()), is_recording());
}

std::uint64_t NvtxRecorder::start(const Attributes& attributes) {
  const std::uint64_t range = new_range();
  if (!is_recording()) return range | kUnrecorded;
  const Use use(*this);
  if (use.ring() == nullptr) return range | kUnrecorded;
  const NvtxRecord record = make_record(NvtxKind::kStart, attributes, range, now_ns());
  return use.ring()->write(record, text_of(attributes)) ? range : range | kUnrecorded;
}

void NvtxRecorder::end(std::uint32_t domain, std::uint64_t range) {
  if ((range & kUnrecorded) != 0) return;
  const Use use(*this);
  if (use.ring() == nullptr) return;
  const Attributes attributes{domain, 0, 0, nullptr};
  use.ring()->write(make_record(NvtxKind::kEnd, attributes, range, now_ns()), nullptr);
}

void NvtxRecorder::mark(const Attributes& attributes) {
  if (!is_recording()) return;
  const Use use(*this);
  if (use.ring() == nullptr) return;
  const NvtxRecord record = make_record(NvtxKind::kMark, attributes, 0, now_ns());
  use.ring()->write(record, text_of(attributes));
}

void NvtxRecorder::name(NvtxKind kind, std::uint64_t number, std::uint32_t category,
                        const NvtxText& name) {
  const Use use(*this);
  if (use.ring() == nullptr) return;
  const Attributes attributes{0, category, 0, &name};
  use.ring()->write(make_record(kind, attributes, number, now_ns()), name.bytes());
}

void NvtxRecorder::name_thread(std::uint64_t tid, const NvtxText& text) {
  name(NvtxKind::kThreadName, tid, 0, text);
}

void NvtxRecorder::name_stream(std::uint32_t context_id, std::uint32_t stream_id,
                               const NvtxText& text) {
  name(NvtxKind::kStreamName, stream_id, context_id, text);
}

// ---- Our thread ---------------------------------------------------------------------------------

NvtxRecorder::Drained NvtxRecorder::drain(NvtxWriter& writer) {
  pressed_.store(false, std::memory_order_release);
  Drained drained{};
  for (int pass = 0; pass < kPatience && !drained.quiet; ++pass) {
    if (pass != 0) sched_yield();
    drained.quiet = true;
    for (NvtxRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr;
         ring = ring->next) {
      if (ring->is_free()) continue;
      // Both before the reading, so that what they tell about is read.
      const bool released = ring->is_released();
      if (ring->is_busy()) drained.quiet = false;
      NvtxRecord record{};
      char text[NvtxRing::kMaxTextSize];
      const std::uint32_t end = ring->end_position();
      while (ring->read(record, text, end)) writer.write(record, text, ring->tid());
      drained.lost += ring->take_lost();
      if (released) ring->free();
    }
  }
  drained.lost += lost_.exchange(0, std::memory_order_relaxed);
  drained.from_ns = last_drain_ns_;
  drained.to_ns = last_drain_ns_ = now_ns();
  return drained;
}

}  // namespace profiler::injector
