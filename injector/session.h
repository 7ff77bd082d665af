// The injector in one process: what it sets up inside cuInit or the first call of NVTX, its one
// thread, and its end.
//
//   application threads                      our thread ("profiler")
//   NVTX: start_for_nvtx(), or    --------->  connects the pipe
//   CUDA: start(), sets CUPTI up  --------->  says hello (with NVTX first: after 200 ms at most)
//   NVTX events                   -> rings    every 20 ms: reads them
//   CUPTI asks for a buffer       <- pool     every 200 ms: flush, encode, send, watermark
//   CUPTI returns a buffer        -> pool     every 20 ms: reads `control`
//   exit(): at_exit()             --------->  forced flush, drain, goodbye
//
// A session is never destroyed: CUPTI, exit handlers and our thread may refer to it to the end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "injector/buffer_pool.h"
#include "injector/clock.h"
#include "injector/cupti_api.h"
#include "injector/nvtx_recorder.h"
#include "injector/nvtx_writer.h"
#include "injector/pipe_writer.h"
#include "injector/process_facts.h"
#include "injector/record_encoder.h"
#include "injector/sync.h"

namespace profiler::injector {

struct SessionSettings {
  char directory[3072];        // of the session
  char cupti_path[4096];       // "" = search
  std::size_t buffer_cap;      // bytes
  std::uint64_t drain_budget;  // ns that exit() waits for us at most
};

// From the environment. False: no session is wanted, stay inert.
bool read_settings(SessionSettings& settings);

class Session {
 public:
  // Both start the session of this process, unless it has one, and return it; null when there is
  // none to be had. They never wait for the collector.

  // Sets CUPTI up as well, once. `functions` are CUPTI's; null: libcupti is searched for.
  static Session* start(const SessionSettings& settings, const CuptiFunctions* functions);
  // Records NVTX events alone, until CUDA starts.
  static Session* start_for_nvtx(const SessionSettings& settings);

  // The program names a stream, by its CUDA handle. Only CUPTI can tell which one that is in the
  // records: without it, and for a stream of no context, the name is lost.
  static void name_stream(CUstream stream, const NvtxText& name);

  // What the exit handler does. Waits for our thread, at most for the drain budget.
  void at_exit();

  BufferPool& pool() { return pool_; }
  bool is_finished() const { return finished_.value() != 0; }

 private:
  explicit Session(const SessionSettings& settings);

  // On the thread that starts NVTX or CUDA.
  static Session* find_or_start(const SessionSettings& settings);
  bool start_thread();
  void set_up_cupti(const CuptiFunctions* functions);
  void find_driver();
  void fail(CUptiResult result);

  // Called by CUPTI, on any thread.
  static void CUPTIAPI on_buffer_request(std::uint8_t** buffer, std::size_t* size,
                                         std::size_t* max_records);
  static void CUPTIAPI on_buffer_completed(CUcontext context, std::uint32_t stream,
                                           std::uint8_t* buffer, std::size_t size,
                                           std::size_t valid);
  static void CUPTIAPI on_callback(void* user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                   const void* data);
  void context_destroyed();

  // fork and exit.
  static void in_forked_child();
  static void exit_handler();

  // Our thread.
  static void* thread_main(void* session);
  void run();
  void wait_to_begin();
  void say_hello();
  void notice_cuda();
  CudaFacts cuda_facts() const;
  void loop();
  void finish();
  void lose_session();
  void drain(bool last);
  bool drain_nvtx();
  void flush(bool forced);
  // Whether records of CUPTI are to be had: not before it has asked for a buffer, as cuInit may be
  // under way still.
  bool cupti_records() const;
  void report_failures();
  void report_cupti_drops();
  void read_control();
  void set_recording(bool on);
  bool stop_requested() const { return stop_.load(std::memory_order_acquire); }
  static bool sink_write(void* session, const std::uint8_t* bytes, std::size_t size);

  const SessionSettings settings_;
  ProcessFacts process_{};
  // The hello's: when this process became known to us, not when the pipe had a reader.
  const ClockReading start_clocks_ = read_clocks();
  CuptiApi cupti_;
  BufferPool pool_;
  PipeWriter pipe_;
  RecordEncoder encoder_;
  Counter wake_;
  NvtxRecorder nvtx_;
  NvtxWriter nvtx_writer_;

  // Written before `set_up_` counts, read by our thread after.
  int driver_version_ = 0;
  const char* simulated_model_ = nullptr;
  char failure_[1024] = "";
  bool recording_ = false;  // some kind is enabled; then our thread's

  std::atomic<bool> cuda_claimed_{false};  // some thread sets CUPTI up, or has done so
  std::atomic<bool> exit_registered_{false};
  Counter set_up_;
  Counter finished_;
  Counter flushes_;  // completed
  std::atomic<bool> stop_{false};
  std::atomic<bool> dead_{false};       // in a forked child
  std::atomic<bool> abandoned_{false};  // exit() no longer waits: CUPTI may be torn down
  std::atomic<bool> flush_wanted_{false};
  std::atomic<bool> contexts_wait_{true};
  std::atomic<int> live_contexts_{0};
  std::atomic<std::uint64_t> write_deadline_{UINT64_MAX};  // CLOCK_MONOTONIC, ns
  std::atomic<std::uint64_t> exit_deadline_{UINT64_MAX};

  // Our thread's.
  bool lost_ = false;         // the collector is gone
  bool cuda_known_ = false;   // CUPTI is set up, and the collector has been told
  bool wanted_ = true;        // what `control` said last: record
  int device_patience_ = 50;  // drains, each a tick at most, that wait for a device to be named
  bool drain_incomplete_ = false;
  std::uint64_t nvtx_complete_ns_ = 0;  // NVTX events that are older have been read
  std::uint64_t last_flush_ns_ = 0;
  std::uint64_t last_drop_check_ns_ = 0;
  std::uint64_t pipe_loss_ = 0;  // records, not yet reported
  std::uint64_t pipe_loss_from_ns_ = 0;
  std::size_t failures_reported_ = 0;
  std::uint32_t control_sequence_ = 0;
};

}  // namespace profiler::injector
