// The ground truth as JSON lines; docs/truth-log.md is its reference. Lines are gathered and
// appended whole, so that any number of processes can share the file. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "samples/virtual_gpu/engine/interface.h"

namespace virtual_gpu {

class TruthLog {
 public:
  // Opens what PROFILER_VIRTUAL_GPU_LOG names; without it nothing is written. A file that cannot
  // be opened is reported on stderr.
  void open();
  bool is_open() const { return file_ >= 0; }

  void process(const Model& model, std::uint64_t start_ns);
  void device(std::uint32_t device, const Model& model);
  void api(const ApiCall& call, const char* name, std::uint64_t end_ns, std::uint32_t result);
  void operation(const Operation& operation, Times times);
  void synchronization(const Synchronization& synchronization);
  void event(const EventRecording& recording);
  void overhead(const Overhead& overhead);  // of the calling thread
  void flush();

  // In a forked child: the parent's lines are the parent's to write.
  void drop();

 private:
  void finish_line(std::string&& line);
  void write_out();  // locked

  std::mutex mutex_;
  std::string lines_;
  int file_ = -1;
  int process_ = 0;
};

}  // namespace virtual_gpu
