// Turns the bytes of one process's pipe into records. Trusts nothing: lengths, ids and types are
// checked; a frame that cannot be read is a fault of that process, and its pipe is read no further.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collector/catalog.h"
#include "collector/records.h"
#include "collector/result.h"

namespace profiler {

struct LossRecord {
  std::uint64_t count = 0;    // records
  std::uint64_t from_ns = 0;  // they began in [from, to)
  std::uint64_t to_ns = 0;
};

struct CuptiFailure {
  std::string function;
  std::uint32_t result = 0;
};

struct Goodbye {
  ClockReading clocks;
  std::uint64_t records_sent = 0;
  std::uint64_t records_dropped = 0;
  bool drain_incomplete = false;
  std::string detail;
};

// What one frame held. Reused from frame to frame.
struct DecodedFrame {
  std::optional<ProcessIndex> hello;  // the process was entered into the catalog
  bool cuda_facts = false;            // what the hello could not say about CUDA has come
  std::string failure;                // of hello or CUDA facts: why nothing is recorded
  std::optional<Goodbye> goodbye;
  std::vector<ThreadIndex> renamed_threads;
  std::vector<DeviceIndex> devices;
  std::vector<ApiCall> api_calls;
  std::vector<Operation> operations;
  std::vector<SyncRecord> syncs;
  std::vector<EventRecord> event_records;
  std::vector<OverheadRecord> overheads;
  std::vector<NvtxEvent> nvtx_events;
  std::vector<LossRecord> losses;
  std::vector<CuptiFailure> cupti_failures;
  std::optional<std::uint64_t> complete_until_ns;  // watermark

  void clear();
};

class WireDecoder {
 public:
  // `catalog` must outlive the decoder.
  explicit WireDecoder(Catalog& catalog) : catalog_(&catalog) {}

  // Decodes the body of one frame into `out` (cleared first). After an error the decoder must not
  // be used again.
  Status decode(std::string_view body, DecodedFrame& out);

  ProcessIndex process() const { return process_; }  // kNone before Hello

 private:
  struct Base {
    std::uint64_t ns = 0;
    std::uint32_t correlation = 0;
  };
  // The decoding functions return a reason, null when all went well.
  using Fault = const char*;
  Fault decode_frame(std::string_view body, DecodedFrame& out);
  Fault hello(std::string_view body, DecodedFrame& out);
  Fault cuda_facts(std::string_view body, DecodedFrame& out);
  Fault goodbye(std::string_view body, DecodedFrame& out);
  Fault device(std::string_view body, DecodedFrame& out);
  Fault queue(std::string_view body);
  Fault thread(std::string_view body, DecodedFrame& out);
  Fault api_function(std::string_view body);
  Fault kernel_function(std::string_view body);
  Fault api_call(std::string_view body, Base base, DecodedFrame& out);
  Fault kernel(std::string_view body, Base base, DecodedFrame& out);
  Fault copy(std::string_view body, Base base, DecodedFrame& out);
  Fault set(std::string_view body, Base base, DecodedFrame& out);
  Fault sync(std::string_view body, Base base, DecodedFrame& out);
  Fault event_record(std::string_view body, Base base, DecodedFrame& out);
  Fault overhead(std::string_view body, Base base, DecodedFrame& out);
  Fault nvtx_event(std::string_view body, Base base, DecodedFrame& out);
  Fault nvtx_domain(std::string_view body);
  Fault text(std::string_view body);
  Fault stream_name(std::string_view body);
  Fault loss(std::string_view body, DecodedFrame& out);

  Catalog* catalog_;
  ProcessIndex process_ = kNone;
  // Wire id - 1 → catalog index.
  std::vector<std::uint32_t> devices_;
  std::vector<std::uint32_t> queues_;
  std::vector<std::uint32_t> threads_;
  std::vector<std::uint32_t> api_functions_;
  std::vector<std::uint32_t> kernel_functions_;
  std::vector<std::uint32_t> nvtx_domains_;
  std::vector<std::uint32_t> texts_;
};

// Cuts a byte stream into frame bodies.
class FrameSplitter {
 public:
  // Room for the next read; `commit` says how much of it was filled.
  std::span<char> room();
  void commit(std::size_t bytes);
  // The next whole body, valid until the next call of `room`; nothing when more bytes are needed.
  // `fault()` turns true when the stream cannot be cut (length too large).
  std::optional<std::string_view> next();
  bool fault() const { return fault_; }
  std::size_t pending() const { return end_ - begin_; }

 private:
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool fault_ = false;
};

}  // namespace profiler
