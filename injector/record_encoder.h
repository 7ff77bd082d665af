// Turns CUPTI's activity records into frames of proto/wire.proto.
//
// Records are read through the oldest struct that CUDA 11.8, 12.4 and 13.0 have in common
// (CUpti_ActivityKernel8 ...): revisions only append members, and libcupti itself does the walking
// from record to record, so one binary reads the records of all of them. Newer members may be read
// only after a check of the loaded library's version.
//
// One owner thread, no locks. Frames are handed to the sink at about 64 KiB, and by `send`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "injector/buffer_pool.h"
#include "injector/clock.h"
#include "injector/cupti_api.h"
#include "injector/intern_table.h"
#include "injector/kernel_names.h"
#include "injector/process_facts.h"
#include "proto/encoder.h"
#include "proto/session.h"

namespace profiler::injector {

// Takes one frame with its length prefix. False: it was not sent, and what it held is lost.
struct FrameSink {
  bool (*write)(void* context, const std::uint8_t* bytes, std::size_t size);
  void* context;
};

struct CudaFacts {
  int driver_version;           // 0 = no driver answered
  std::uint32_t cupti_version;  // 0 = no libcupti
  const char* cupti_path;       // null or "" = none
  const char* simulated_model;  // null = real
  const char* failure;          // null or "" = recording
};

struct HelloFacts {
  const ProcessFacts* process;
  ClockReading clocks;
  CudaFacts cuda;  // zero while CUDA is not initialised
};

struct GoodbyeFacts {
  bool session_lost;  // else the process exits
  ClockReading clocks;
  bool drain_incomplete;
  const char* detail;  // null = none
};

enum class LossPlace : std::uint32_t { kCupti = 1, kPool = 2, kPipe = 3, kNvtx = 4 };

struct NvtxEventFacts {
  std::uint32_t kind;     // NvtxEvent.Kind
  std::uint64_t time_ns;  // CLOCK_MONOTONIC
  std::uint64_t tid;
  std::uint32_t domain_id;  // as given to `nvtx_domain`; 0 = default
  std::uint32_t text_id;    // as given to `text`; 0 = none
  std::uint64_t range;      // 0 = none
  std::uint32_t category;   // 0 = none
};

class RecordEncoder {
 public:
  static constexpr std::size_t kFrameTarget = 64 * 1024;  // bytes

  // `cupti` names API functions and outlives the encoder.
  RecordEncoder(CuptiApi& cupti, FrameSink sink);
  ~RecordEncoder();
  RecordEncoder(const RecordEncoder&) = delete;
  RecordEncoder& operator=(const RecordEncoder&) = delete;

  // False: no memory for a frame; nothing else may be called then.
  bool ready() const { return frame_ != nullptr; }

  void hello(const HelloFacts& facts);
  void cuda(const CudaFacts& facts);  // when `hello` knew nothing of it
  void goodbye(const GoodbyeFacts& facts);

  // Records of kinds that are not encoded are skipped. `begin_buffer` precedes those of a buffer.
  void begin_buffer() { kernel_names_.begin_buffer(); }
  void record(const CUpti_Activity* record);

  // Sends the devices among the records of a buffer ahead of everything else in it: with a buffer
  // for each thread, those of the threads that launch can be full before CUPTI returns the one that
  // names the devices. Returns whether a device is known.
  bool devices_first(Buffer* buffer);
  bool knows_a_device() const { return known_devices_ != 0; }

  void loss(LossPlace place, std::uint64_t count, std::uint64_t from_ns, std::uint64_t to_ns);
  void watermark(std::uint64_t complete_until_ns, std::uint64_t buffers_outstanding);
  void failure(const CuptiCallFailure& failure);

  // NVTX; see nvtx_writer.h.
  void nvtx_event(const NvtxEventFacts& event);
  void nvtx_domain(std::uint32_t id, const char* name, std::size_t size);
  void text(std::uint32_t id, const char* text, std::size_t size);
  // `context_id` 0 = unknown.
  void stream_name(std::uint32_t context_id, std::uint64_t stream_id, const char* name,
                   std::size_t size);
  // Wins over the name that the system knows.
  void name_thread(std::uint64_t tid, const char* name, std::size_t size);

  // Reads the names of all known threads again and sends those that changed.
  void refresh_thread_names();

  // Hands the frame that is being built to the sink.
  void send();

  std::uint64_t records_sent() const { return records_sent_; }
  std::uint64_t records_lost() const { return records_lost_; }  // with all losses reported

  // One function for each kind, see activity_kinds.h.
  void runtime_call(const CUpti_Activity* record);
  void driver_call(const CUpti_Activity* record);
  void kernel(const CUpti_Activity* record);
  void copy(const CUpti_Activity* record);
  void peer_copy(const CUpti_Activity* record);
  void set(const CUpti_Activity* record);
  void device(const CUpti_Activity* record);
  void context(const CUpti_Activity* record);
  void synchronization(const CUpti_Activity* record);
  void event_record(const CUpti_Activity* record);
  void overhead(const CUpti_Activity* record);

 private:
  struct QueueKey {
    std::uint32_t device;
    std::uint32_t context;
    std::uint64_t stream;
    bool operator==(const QueueKey&) const = default;
    std::uint64_t hash() const {
      return mix_bits(mix_bits((std::uint64_t{device} << 32) + context) + stream);
    }
  };
  struct NumberKey {
    std::uint64_t value;
    bool operator==(const NumberKey&) const = default;
    std::uint64_t hash() const { return mix_bits(value); }
  };
  struct Nothing {};
  struct ThreadName {
    char text[16];  // "" = not known
    bool gone;
    bool given;  // by the program: `text` is not the name
  };
  // What the four kinds of device operations have in common.
  struct Operation {
    std::uint64_t start;
    std::uint64_t end;
    std::uint32_t device;
    std::uint32_t context;
    std::uint64_t stream;
    std::uint32_t correlation;
  };

  void begin_frame();
  // Makes sure that a frame is open and `bytes` more fit into it.
  void reserve(std::size_t bytes);
  void call(const CUpti_ActivityAPI& call, CUpti_CallbackDomain domain, std::uint32_t wire_domain);
  std::size_t open_operation(std::uint32_t field, const Operation& operation,
                             std::uint32_t queue_id);
  void close_record(std::size_t opened);
  void put_correlation(std::uint32_t field, std::uint32_t correlation);
  void put_clocks(std::uint32_t field, const ClockReading& clocks);
  void put_definition(std::uint32_t field, std::uint32_t id, const char* text, std::size_t size);
  void put_text(std::uint32_t field, const char* text, std::size_t length);
  void put_thread(std::uint32_t id, std::uint64_t tid, const char* name);

  std::uint32_t queue_id(std::uint32_t device, std::uint32_t context, std::uint64_t stream);
  std::uint32_t thread_id(std::uint64_t tid);
  // 0 for a call that is not recorded.
  std::uint32_t api_function_id(CUpti_CallbackDomain domain, std::uint32_t wire_domain,
                                std::uint32_t callback_id);
  std::uint32_t kernel_function_id(const CUpti_ActivityKernel8& kernel);

  bool is_known(std::uint32_t device) const;
  void remember(std::uint32_t device);

  CuptiApi& cupti_;
  FrameSink sink_;
  std::uint8_t* frame_;
  proto::Encoder encoder_;
  bool frame_open_ = false;
  std::size_t body_ = 0;
  std::uint64_t base_ns_ = 0;
  std::uint32_t base_correlation_ = 0;
  // For the next frame: the first record's own, so that its deltas are short.
  std::uint64_t next_base_ns_ = 0;
  std::uint32_t next_base_correlation_ = 0;

  std::uint64_t records_in_frame_ = 0;
  std::uint64_t records_sent_ = 0;
  std::uint64_t records_lost_ = 0;

  static constexpr std::uint32_t kMaxDevices = 4096;
  std::uint64_t device_bits_[kMaxDevices / 64] = {};
  std::uint32_t known_devices_ = 0;

  InternTable<QueueKey, Nothing> queues_;
  InternTable<NumberKey, ThreadName> threads_;
  InternTable<NumberKey, Nothing> api_functions_;
  InternTable<NumberKey, Nothing> denied_functions_;  // not sent, see denied_calls.h
  KernelNames kernel_names_;
};

}  // namespace profiler::injector
