// The wire stream of a made-up run for benchmarks, frame by frame: nothing of it is kept.
//
// Four threads launch kernels of sixteen functions, each thread alternately on two streams of its
// own; a launch takes some 3 µs every 8 µs and a kernel runs for 1 to 3 µs, so that the device is
// idle between most of them. After every 1024 launches all threads pause for 20 to 200 µs. Frames
// have the size that the injector sends and, as its buffers do, hold either API calls of one thread
// after the other or kernels. The same for every call with the same arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "proto/encoder.h"
#include "proto/session.h"

namespace profiler::bench {

class SyntheticRun {
 public:
  static constexpr std::uint32_t kThreads = 4;
  static constexpr std::uint32_t kQueues = 8;
  static constexpr std::uint32_t kKernels = 16;
  static constexpr std::uint64_t kStart = 1'000'000'000'000;  // ns

  explicit SyntheticRun(std::uint64_t launches)
      : launches_left_(launches), buffer_(kMostBytes), encoder_(buffer_.data(), buffer_.size()) {
    host_.fill(kStart + 1'000'000);
    calls_.reserve(kBatch);
    kernels_.reserve(kBatch);
  }

  // The next frame with its length before it, valid until the next call; empty at the end.
  std::span<const std::uint8_t> next() {
    encoder_.rewind(0);
    switch (stage_) {
      case Stage::kBegin:
        stage_ = Stage::kCalls;
        hello();
        break;
      case Stage::kCalls:
        if (launches_left_ == 0) {
          stage_ = Stage::kEnd;
          goodbye();
          break;
        }
        make_batch();
        stage_ = Stage::kKernels;
        put_calls();
        break;
      case Stage::kKernels:
        stage_ = Stage::kCalls;
        put_kernels();
        break;
      case Stage::kEnd:
        return {};
    }
    bytes_ += encoder_.size();
    return {encoder_.data(), encoder_.size()};
  }

  std::uint64_t bytes() const { return bytes_; }  // of all frames so far
  std::uint64_t end_ns() const { return *std::max_element(queue_free_.begin(), queue_free_.end()); }

 private:
  enum class Stage { kBegin, kCalls, kKernels, kEnd };
  static constexpr std::uint64_t kBatch = 1024;  // launches
  static constexpr std::size_t kMostBytes = 128 * 1024;

  struct Call {
    std::uint64_t start;
    std::uint64_t end;
    std::uint32_t thread;  // from 0
    std::uint32_t correlation;
  };
  struct Kernel {
    std::uint64_t start;
    std::uint64_t duration;
    std::uint32_t queue;  // from 0
    std::uint32_t function;
    std::uint32_t correlation;
  };

  // xorshift64*.
  std::uint64_t random(std::uint64_t below) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return ((state_ * 0x2545F4914F6CDD1DULL) >> 32) % below;
  }

  std::size_t open_frame(std::uint64_t base_ns, std::uint32_t base_correlation) {
    const std::size_t body = encoder_.open_length();
    encoder_.field_fixed64(1, base_ns);
    if (base_correlation != 0) encoder_.field_varint(2, base_correlation);
    return body;
  }

  void hello() {
    const std::size_t body = open_frame(kStart, 0);
    std::size_t message = encoder_.open(3);
    encoder_.field_varint(1, session::kWireVersion);
    encoder_.field_varint(2, kPid);
    encoder_.field_varint(3, 1);
    encoder_.field_string(4, "/usr/bin/synthetic");
    encoder_.field_string(5, "synthetic");
    encoder_.field_varint(6, kStart);
    encoder_.close(message);
    message = encoder_.open(5);
    encoder_.field_varint(1, 1);
    encoder_.field_string(2, "Synthetic GPU");
    encoder_.close(message);
    for (std::uint32_t i = 0; i < kQueues; ++i) {
      message = encoder_.open(7);
      encoder_.field_varint(1, i + 1);
      encoder_.field_varint(2, 1);
      encoder_.field_varint(3, 1);
      encoder_.field_varint(4, 7 + 6 * i);
      encoder_.close(message);
    }
    for (std::uint32_t i = 0; i < kThreads; ++i) {
      message = encoder_.open(8);
      encoder_.field_varint(1, i + 1);
      encoder_.field_varint(2, kPid + i);
      encoder_.close(message);
    }
    message = encoder_.open(9);
    encoder_.field_varint(1, 1);
    encoder_.field_varint(2, 1);
    encoder_.field_varint(3, 211);
    encoder_.field_string(4, "cudaLaunchKernel_v7000");
    encoder_.close(message);
    for (std::uint32_t i = 0; i < kKernels; ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "_Z8kernel%02uPfi", i);
      message = encoder_.open(10);
      encoder_.field_varint(1, i + 1);
      encoder_.field_string(2, name);
      encoder_.field_varint(3, 32);
      encoder_.close(message);
    }
    encoder_.close(body);
  }

  void make_batch() {
    const auto count = static_cast<std::uint32_t>(std::min(launches_left_, kBatch));
    launches_left_ -= count;
    calls_.clear();
    kernels_.clear();
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t thread = i % kThreads;
      const std::uint32_t queue = 2 * thread + i / kThreads % 2;
      const std::uint64_t start = host_[thread];
      const std::uint64_t end = start + 2'000 + random(2'000);
      host_[thread] = end + 3'000 + random(4'000);
      calls_.push_back({start, end, thread, correlation_});
      const auto function = static_cast<std::uint32_t>(random(kKernels));
      const std::uint64_t begin = std::max(queue_free_[queue] + 500, end + 1'000 + random(2'000));
      const std::uint64_t duration = 1'000 + 100 * function + random(500);
      queue_free_[queue] = begin + duration;
      kernels_.push_back({begin, duration, queue, function, correlation_});
      ++correlation_;
    }
    std::stable_sort(calls_.begin(), calls_.end(),
                     [](const Call& a, const Call& b) { return a.thread < b.thread; });
    std::sort(kernels_.begin(), kernels_.end(), [](const Kernel& a, const Kernel& b) {
      return a.start + a.duration < b.start + b.duration;
    });
    host_.fill(*std::max_element(host_.begin(), host_.end()) + 20'000 + random(180'000));
  }

  void put_calls() {
    const std::uint64_t base = calls_.front().start;
    const std::uint32_t base_correlation = calls_.front().correlation;
    const std::size_t body = open_frame(base, base_correlation);
    for (const Call& call : calls_) {
      const std::size_t message = encoder_.open(11);
      encoder_.field_signed(1, static_cast<std::int64_t>(call.start - base));
      encoder_.field_varint(2, call.end - call.start);
      encoder_.field_varint(3, 1);
      encoder_.field_varint(4, call.thread + 1);
      put_correlation(5, call.correlation, base_correlation);
      encoder_.close(message);
    }
    encoder_.close(body);
  }

  void put_kernels() {
    const std::uint64_t base = kernels_.front().start;
    const std::uint32_t base_correlation = kernels_.front().correlation;
    const std::size_t body = open_frame(base, base_correlation);
    for (const Kernel& kernel : kernels_) {
      const std::size_t message = encoder_.open(12);
      encoder_.field_signed(1, static_cast<std::int64_t>(kernel.start - base));
      encoder_.field_varint(2, kernel.duration);
      encoder_.field_varint(3, kernel.queue + 1);
      encoder_.field_varint(4, kernel.function + 1);
      put_correlation(5, kernel.correlation, base_correlation);
      encoder_.field_varint(6, 256);
      encoder_.field_varint(7, 256);
      encoder_.close(message);
    }
    // Everything so far was sent.
    const std::size_t watermark = encoder_.open(16);
    encoder_.field_varint(1, *std::max_element(queue_free_.begin(), queue_free_.end()));
    encoder_.close(watermark);
    encoder_.close(body);
  }

  void put_correlation(std::uint32_t field, std::uint32_t correlation, std::uint32_t base) {
    const auto delta = static_cast<std::int32_t>(correlation - base);
    if (delta != 0) encoder_.field_signed(field, delta);
  }

  void goodbye() {
    const std::size_t body = open_frame(kStart, 0);
    const std::size_t message = encoder_.open(4);
    encoder_.field_varint(1, 1);
    encoder_.close(message);
    encoder_.close(body);
  }

  static constexpr std::uint32_t kPid = 4242;

  Stage stage_ = Stage::kBegin;
  std::uint64_t launches_left_;
  std::uint32_t correlation_ = 1;
  std::uint64_t state_ = 0x9E3779B97F4A7C15ULL;
  std::array<std::uint64_t, kThreads> host_{};       // when each thread launches next
  std::array<std::uint64_t, kQueues> queue_free_{};  // end of the last kernel of each queue
  std::vector<Call> calls_;                          // of the batch
  std::vector<Kernel> kernels_;
  std::vector<std::uint8_t> buffer_;
  proto::Encoder encoder_;
  std::uint64_t bytes_ = 0;
};

}  // namespace profiler::bench
