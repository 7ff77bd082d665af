// Builds the byte stream of one process for tests, with libprotobuf, so that it owes nothing to the
// encoder under test.
#pragma once

#include <cstdint>
#include <string>

#include "proto/session.h"
#include "proto/wire.pb.h"

namespace profiler::test {

inline std::string framed(const google::protobuf::MessageLite& message) {
  const std::string body = message.SerializeAsString();
  std::string bytes;
  std::uint64_t rest = body.size();
  while (rest >= 0x80) {
    bytes += static_cast<char>(rest | 0x80);
    rest >>= 7;
  }
  bytes += static_cast<char>(rest);
  return bytes + body;
}

// A process with one device and one context. Times are absolute; every record is a frame of its own
// so that tests can reorder them.
class WireStream {
 public:
  explicit WireStream(std::uint32_t pid) : pid_(pid) {}

  std::string hello() const {
    wire::Frame frame;
    wire::Hello* hello = frame.mutable_hello();
    hello->set_wire_version(session::kWireVersion);
    hello->set_pid(pid_);
    hello->set_ppid(1);
    hello->set_executable("/bin/train");
    hello->add_command_line("./train");
    hello->set_start_ns(1);
    hello->set_driver_version(13000);
    hello->set_cupti_version(130001);
    hello->set_hostname("host");
    return framed(frame);
  }

  // Device 0 with a UUID made of `uuid_byte`, the main thread (id 1), a second one (id 2), queues 1
  // and 2 (streams 7 and 13), the functions cudaLaunchKernel (1) and cudaMemcpyAsync (2), and the
  // kernels "_Z4gemmv" (1) and "_Z4biasv" (2).
  std::string definitions(char uuid_byte = 'a') const {
    wire::Frame frame;
    wire::Device* device = frame.add_devices();
    device->set_id(1);
    device->set_name("Test GPU");
    device->set_uuid(std::string(16, uuid_byte));
    for (std::uint32_t i = 1; i <= 2; ++i) {
      wire::Queue* queue = frame.add_queues();
      queue->set_id(i);
      queue->set_device_id(1);
      queue->set_context_id(1);
      queue->set_stream_id(i == 1 ? 7 : 13);
      wire::Thread* thread = frame.add_threads();
      thread->set_id(i);
      thread->set_tid(pid_ + i - 1);
      thread->set_name(i == 1 ? "main" : "worker");
      wire::ApiFunction* function = frame.add_api_functions();
      function->set_id(i);
      function->set_domain(wire::ApiFunction::RUNTIME);
      function->set_callback_id(i);
      function->set_name(i == 1 ? "cudaLaunchKernel_v7000" : "cudaMemcpyAsync_v3020");
      wire::KernelFunction* kernel = frame.add_kernel_functions();
      kernel->set_id(i);
      kernel->set_name(i == 1 ? "_Z4gemmv" : "_Z4biasv");
    }
    return framed(frame);
  }

  static std::string api(std::uint32_t correlation, std::uint64_t start, std::uint64_t end,
                         std::uint32_t thread = 1, std::uint32_t function = 1,
                         std::uint32_t result = 0) {
    wire::Frame frame;
    frame.set_base_ns(start);
    wire::ApiCall* call = frame.add_api_calls();
    call->set_duration(end - start);
    call->set_function_id(function);
    call->set_thread_id(thread);
    call->set_correlation_delta(static_cast<std::int32_t>(correlation));
    call->set_result(result);
    return framed(frame);
  }

  static std::string kernel(std::uint32_t correlation, std::uint64_t start, std::uint64_t end,
                            std::uint32_t queue = 1, std::uint32_t function = 1) {
    wire::Frame frame;
    frame.set_base_ns(start);
    wire::Kernel* kernel = frame.add_kernels();
    kernel->set_duration(end - start);
    kernel->set_queue_id(queue);
    kernel->set_function_id(function);
    kernel->set_correlation_delta(static_cast<std::int32_t>(correlation));
    return framed(frame);
  }

  static std::string copy(std::uint32_t correlation, std::uint64_t start, std::uint64_t end,
                          std::uint64_t bytes, std::uint32_t kind = 1, std::uint32_t source = 1,
                          std::uint32_t destination = 3) {
    wire::Frame frame;
    frame.set_base_ns(start);
    wire::Memcpy* copy = frame.add_copies();
    copy->set_duration(end - start);
    copy->set_queue_id(1);
    copy->set_bytes(bytes);
    copy->set_correlation_delta(static_cast<std::int32_t>(correlation));
    copy->set_copy_kind(kind);
    copy->set_source_kind(source);
    copy->set_destination_kind(destination);
    return framed(frame);
  }

  static std::string goodbye() {
    wire::Frame frame;
    frame.mutable_goodbye()->set_reason(wire::Goodbye::EXIT);
    return framed(frame);
  }

 private:
  std::uint32_t pid_;
};

}  // namespace profiler::test
