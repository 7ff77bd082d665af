// What the stand-in libcuda offers to the stand-in libcudart and libcupti, which are built with it
// and lie beside it. Programs never see this: one function, profilerVirtualGpuInterface, hands it
// over. Times are ns; results are CUresult numbers, which cudaError_t shares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "samples/virtual_gpu/engine/operation.h"

namespace virtual_gpu {

struct Stream;
struct Event;
struct Context;

inline constexpr std::uint32_t kInterfaceVersion = 2;

enum class ApiDomain : std::uint32_t { kDriver = 1, kRuntime = 2 };  // as CUpti_CallbackDomain

// A call of the program in progress, on the stack of the function that was called.
struct ApiCall {
  ApiDomain domain = ApiDomain::kRuntime;
  std::uint32_t cbid = 0;  // 0 = not recorded
  std::uint32_t correlation = 0;
  std::uint32_t work_correlation = 0;  // of what is submitted during the call
  ApiCall* outer = nullptr;            // the call of this thread that made this one
  std::uint64_t start_ns = 0;
  std::uint64_t inner_end_ns = 0;  // when the last call that it made ended
  bool open = false;
  bool stamped = false;          // start_ns was read
  bool traced = false;           // for the tracer: it wants a record at the end
  const char* symbol = nullptr;  // mangled name of the kernel that is launched
  const void* parameters = nullptr;
  std::uint64_t correlation_data = 0;  // the subscriber's
};

struct Times {
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
};

// Implemented by libcupti. Except for the two marked functions, nothing is locked during a call.
class Tracer {
 public:
  virtual void enter(ApiCall& call) = 0;
  virtual void exit(ApiCall& call, std::uint64_t end_ns, std::uint32_t result) = 0;
  // Reserves the record of an operation. Null if it has none.
  virtual void* submitted(const Operation& operation) = 0;
  virtual void started(void* slot, std::uint64_t start_ns) = 0;  // engine locked
  // Returns the times that the record carries: others than these if it was given away before.
  virtual Times ended(void* slot, Times times) = 0;  // engine locked
  virtual void synchronized(const Synchronization& synchronization) = 0;
  virtual void event_recorded(const EventRecording& recording) = 0;
  virtual void overhead(const Overhead& overhead) = 0;
  virtual void managed_memory() = 0;  // is about to be allocated
  virtual void initialised() = 0;     // at the end of cuInit
  virtual void context_created(Context* context) = 0;
  virtual void context_destroyed(Context* context) = 0;  // about to be
  virtual void stream_created(Context* context, Stream* stream) = 0;
  virtual void stream_destroyed(Context* context, Stream* stream) = 0;  // about to be
  virtual void module_loaded(Context* context, std::uint32_t module, bool loaded) = 0;

 protected:
  ~Tracer() = default;
};

struct StreamFacts {
  std::uint32_t id = 0;
  std::uint32_t context = 0;
  std::uint32_t device = 0;
  unsigned flags = 0;
  int priority = 0;
  bool is_legacy = false;
};

struct ContextFacts {
  std::uint32_t id = 0;
  std::uint32_t device = 0;
  std::uint32_t null_stream = 0;
};

enum class DriverState : std::uint8_t {
  kUnused,        // cuInit was not called
  kInitialising,  // inside cuInit, when the injection is loaded
  kReady,
  kFailed,  // no device
  kForked,  // a child of a process that had initialised; of no use
  kStopped  // the process exits
};

class VirtualGpu {
 public:
  virtual int initialise() = 0;  // cuInit
  virtual DriverState state() const = 0;
  virtual std::uint32_t device_count() const = 0;
  virtual const Model& model(std::uint32_t device) const = 0;

  // Opens a call: numbers it, stamps it if anyone records it. Close it on every path.
  virtual void begin(ApiCall& call) = 0;
  virtual void end(ApiCall& call, int result) = 0;
  virtual bool in_host_function() const = 0;
  // Of what this thread's open call submits: a runtime call's own, also within the driver calls
  // that it makes; 0 = no call is open.
  virtual std::uint32_t thread_correlation() const = 0;

  // Contexts. `current` is per thread; null = none.
  virtual Context* current() const = 0;
  virtual void set_current(Context* context) = 0;
  virtual Context* find_primary(std::uint32_t device) const = 0;  // null if there is none
  virtual Context* primary(std::uint32_t device) = 0;             // made if there is none
  virtual bool primary_active(std::uint32_t device) const = 0;
  virtual void reset_primary(std::uint32_t device) = 0;
  virtual Context* create_context(std::uint32_t device) = 0;
  virtual bool destroy_context(Context* context) = 0;  // false: no such context
  virtual bool context_facts(Context* context, ContextFacts& facts) const = 0;
  virtual int synchronize(Context* context) = 0;
  virtual int drain(Context* context) = 0;  // the same wait, of a call that only frees
  virtual std::size_t contexts(Context** list, std::size_t capacity) const = 0;

  // Streams. `handle` may be null, cudaStreamLegacy, cudaStreamPerThread or a stream; null if it
  // is none of them.
  virtual Stream* find_stream(Context* context, void* handle, bool per_thread) = 0;
  virtual Stream* create_stream(Context* context, unsigned flags, bool blocking, int priority) = 0;
  virtual int destroy_stream(Context* context, Stream* stream) = 0;
  virtual StreamFacts stream_facts(const Stream* stream) const = 0;
  virtual int query(Stream* stream) = 0;
  virtual int synchronize(Stream* stream) = 0;

  virtual Event* create_event(Context* context, unsigned flags) = 0;
  virtual int destroy_event(Event* event) = 0;
  virtual int record(Event* event, Stream* stream) = 0;
  virtual int query(Event* event) = 0;
  virtual int synchronize(Event* event) = 0;
  virtual int elapsed_ms(float* ms, Event* from, Event* to) = 0;
  virtual int wait_event(Stream* stream, Event* event) = 0;

  // Submits work. Fills in device, context and stream; the correlation is the open call's.
  // `wait`: return when it has ended.
  virtual int submit(Operation operation, Stream* stream, bool wait) = 0;
  virtual int call_host(Stream* stream, void (*function)(void*), void* data) = 0;
  virtual const Kernel* kernel(const char* mangled) = 0;

  virtual void* allocate(MemoryKind kind, std::uint64_t bytes, Context* context) = 0;
  virtual bool free_device(void* address) = 0;  // device or managed
  virtual bool free_host(void* address) = 0;
  virtual int register_host(void* address, std::uint64_t bytes, Context* context) = 0;
  virtual int unregister_host(void* address) = 0;
  // Kind of the memory at `address`, and how much of its range follows (0 for pageable memory).
  virtual MemoryKind memory(const void* address, std::uint64_t* bytes) const = 0;
  virtual std::uint64_t free_bytes(std::uint32_t device) const = 0;

  // Modules (fat binaries) are numbered from 1 as the program registers them, and loaded into a
  // context when they are first used there; so is each kernel, by its first launch.
  virtual std::uint32_t add_module() = 0;
  virtual bool has_module(std::uint32_t context, std::uint32_t module) const = 0;
  // Takes its time. Nothing happens if the context, by its number, has the module already.
  virtual void load_module(std::uint32_t context, std::uint32_t module) = 0;

  // For libcupti.
  virtual void set_tracer(Tracer* tracer) = 0;
  virtual void set_api_wanted(ApiDomain domain, bool wanted) = 0;  // whether to stamp its calls
  // The clock of all stamps and records; null = CLOCK_REALTIME, CUPTI's default.
  virtual void set_clock(std::uint64_t (*clock)()) = 0;
  virtual std::uint64_t timestamp() const = 0;
  // Into the truth log, and to the tracer. Nothing is done for one that has no end.
  virtual void report(const Overhead& overhead) = 0;
  virtual void advance() = 0;  // work off all that has happened until now

 protected:
  ~VirtualGpu() = default;
};

}  // namespace virtual_gpu

// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" virtual_gpu::VirtualGpu* profilerVirtualGpuInterface(std::uint32_t version);
