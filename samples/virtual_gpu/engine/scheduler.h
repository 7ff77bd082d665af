// The device model: a discrete-event simulation of streams, events, copy engines and a pool of
// multiprocessors. It knows no clock: callers pass the time (ns) and serialise all calls.
//
// Times only move forward: every event up to `now` is worked off (`advance`) before anything is
// added at `now`, and what is added starts no earlier than `now`. So an operation starts when its
// stream, its dependencies and a resource are free, whatever thread happens to call.
#pragma once

#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "samples/virtual_gpu/engine/model.h"
#include "samples/virtual_gpu/engine/operation.h"

namespace virtual_gpu {

struct Stream;
struct Event;

enum class TaskState : std::uint8_t { kBlocked, kReady, kRunning, kDone };

// One operation in a stream. Reference counted under the callers' lock: the scheduler holds one
// reference until the task is done, whoever waits for it holds another.
struct Task {
  Operation operation;
  Stream* stream = nullptr;
  Task* next_in_stream = nullptr;
  std::vector<Task*> dependents;  // in other streams
  std::uint32_t blockers = 0;     // tasks that must end before
  std::uint32_t references = 1;
  TaskState state = TaskState::kBlocked;
  int priority = 0;
  std::uint64_t sequence = 0;
  std::uint64_t ready_ns = 0;  // not before this
  std::uint64_t duration_ns = 0;
  std::uint64_t estimate_ns = 0;  // the earliest possible end
  std::uint64_t start_ns = 0;     // 0 = not started
  std::uint64_t end_ns = 0;       // 0 = not ended; known as soon as it runs, except host calls
  std::uint64_t share = 0;        // threads taken from the pool
  Event* event = nullptr;         // marker that completes this event
  void (*host_function)(void*) = nullptr;
  void* host_data = nullptr;
  void* slot = nullptr;  // the profiler's record
};

struct Stream {
  std::uint32_t id = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  int priority = 0;
  unsigned flags = 0;
  bool blocking = true;    // synchronises with the legacy default stream
  bool is_legacy = false;  // is the legacy default stream
  bool destroyed = false;
  Task* head = nullptr;  // oldest task that is not done
  Task* tail = nullptr;
  std::uint32_t length = 0;
};

struct Event {
  unsigned flags = 0;
  std::uint32_t id = 0;
  std::uint32_t device = 0;
  std::uint32_t context = 0;
  std::uint64_t record = 0;   // number of its last recording in the process; 0 = none
  Task* task = nullptr;       // pending record, not owned
  std::uint64_t done_ns = 0;  // 0 = never recorded
  bool recorded = false;
};

// Called as the simulation proceeds, with the callers' lock held.
struct TaskListener {
  void (*started)(void* self, Task& task) = nullptr;
  void (*ended)(void* self, Task& task) = nullptr;
  void* self = nullptr;
};

class Scheduler {
 public:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // `model` must outlive the scheduler. Returns the device's number.
  std::uint32_t add_device(const Model* model);
  void listen(const TaskListener& listener) { listener_ = listener; }

  // Streams of one context, oldest first; the first must be the legacy default stream.
  Stream* add_stream(std::uint32_t device, std::uint32_t context, std::uint32_t id, unsigned flags,
                     bool blocking, int priority);
  // The stream vanishes when its work is done.
  void destroy_stream(Stream* stream);

  // Adds the task at the end of `stream`. `after`, if not null, must end before it.
  void submit(Task* task, Stream* stream, Task* after, std::uint64_t now);

  // Works off all that happens up to `now`.
  void advance(std::uint64_t now);
  // When the next thing happens; kNever if nothing is under way (or only a host call is).
  std::uint64_t next_event() const { return events_.empty() ? kNever : events_.top().time_ns; }

  // Host calls that are due, in order; each must be finished by `finish_host_call`.
  Task* take_host_call();
  void finish_host_call(Task* task, std::uint64_t now);
  bool has_host_calls() const { return host_calls_ > 0; }

  std::uint64_t pending() const { return pending_; }
  const std::vector<Stream*>& streams() const { return streams_; }
  void release(Task* task);

 private:
  enum class Kind : std::uint8_t { kEnd, kReady };  // at one time, ends come first
  struct Happening {
    std::uint64_t time_ns;
    Kind kind;
    std::uint64_t sequence;
    Task* task;
    bool operator<(const Happening& other) const {  // std::priority_queue takes the largest
      if (time_ns != other.time_ns) return time_ns > other.time_ns;
      if (kind != other.kind) return kind > other.kind;
      return sequence > other.sequence;
    }
  };
  struct Later {  // lower number = higher priority; then first come, first served
    bool operator()(const Task* a, const Task* b) const {
      if (a->priority != b->priority) return a->priority > b->priority;
      return a->sequence > b->sequence;
    }
  };
  struct CopyEngine {
    bool busy = false;
    std::deque<Task*> waiting;
  };
  struct Device {
    const Model* model = nullptr;
    std::uint64_t free_threads = 0;
    std::uint32_t kernels = 0;
    std::priority_queue<Task*, std::vector<Task*>, Later> waiting;
    CopyEngine engines[3];  // by CopyKind; copies inside the host need none
  };

  void block_on(Task* task, Task* before);
  void make_ready(Task* task);
  void begin(Task* task, std::uint64_t now);
  void start(Task* task, std::uint64_t now);
  void finish(Task* task, std::uint64_t now);
  void unblock(Task* task, const Task& done);
  void start_kernels(Device& device, std::uint64_t now);
  void erase_stream(Stream* stream);

  std::vector<Device> devices_;
  std::vector<Stream*> streams_;
  std::priority_queue<Happening> events_;
  std::deque<Task*> due_host_calls_;
  std::uint64_t sequence_ = 0;
  std::uint64_t pending_ = 0;
  std::uint64_t host_calls_ = 0;
  TaskListener listener_;
};

}  // namespace virtual_gpu
