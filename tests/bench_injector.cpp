// What the injector costs: on its own thread for each record, and on the program's threads for each
// buffer, timestamp and NVTX range. CUPTI's own share is not in it: there is none here. Times are
// CPU ns of the calling thread. docs/benchmarks.md has results.
//
//   bench_injector [--launches N]
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <vector>

#include "injector/buffer_pool.h"
#include "injector/clock.h"
#include "injector/nvtx_recorder.h"
#include "injector/nvtx_text.h"
#include "injector/nvtx_writer.h"
#include "injector/record_encoder.h"
#include "tests/fake_cupti.h"

namespace {

using namespace profiler;
using namespace profiler::injector;

std::uint64_t cpu_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

template <typename Body>
void timed(std::uint64_t& total, const Body& body) {
  const std::uint64_t before = cpu_now();
  body();
  total += cpu_now() - before;
}

double per(std::uint64_t total, std::uint64_t count) {
  return static_cast<double>(total) / static_cast<double>(count);
}

// ---- Records as CUPTI writes them
// -----------------------------------------------------------------

template <typename Record>
union Padded {
  Record record;
  unsigned char bytes[256];
};

// An API call and the kernel that it launched. Sixteen kernels, eight streams.
class Launches {
 public:
  Launches() {
    std::memset(&call_, 0, sizeof call_);
    std::memset(&kernel_, 0, sizeof kernel_);
    call_.record.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    call_.record.cbid = 211;
    call_.record.processId = static_cast<std::uint32_t>(getpid());
    call_.record.threadId = call_.record.processId;
    kernel_.record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel_.record.contextId = 1;
    kernel_.record.gridX = 256;
    kernel_.record.blockX = 256;
    kernel_.record.gridY = kernel_.record.gridZ = 1;
    kernel_.record.blockY = kernel_.record.blockZ = 1;
    kernel_.record.registersPerThread = 32;
    for (std::size_t i = 0; i < kNames; ++i) {
      std::snprintf(names_[i].data(), names_[i].size(),
                    "_ZN7example6kernelILi%zuEfEEvPT0_PKS1_S4_i", i);
    }
  }

  void next() {
    ++correlation_;
    time_ += 8'000 + correlation_ * 37 % 1'000;
    call_.record.start = time_;
    call_.record.end = time_ + 3'000 + correlation_ * 101 % 500;
    call_.record.correlationId = correlation_;
    kernel_.record.start = time_ + 5'000;
    kernel_.record.end = time_ + 7'000 + correlation_ * 53 % 3'000;
    kernel_.record.correlationId = correlation_;
    kernel_.record.streamId = 7 + correlation_ % 8;
    kernel_.record.name = names_[correlation_ % kNames].data();
  }

  const CUpti_Activity* call() const { return as_activity(call_.bytes); }
  const CUpti_Activity* kernel() const { return as_activity(kernel_.bytes); }

 private:
  static constexpr std::size_t kNames = 16;

  static const CUpti_Activity* as_activity(const unsigned char* bytes) {
    return reinterpret_cast<const CUpti_Activity*>(bytes);
  }

  Padded<CUpti_ActivityAPI> call_;
  Padded<CUpti_ActivityKernel8> kernel_;
  std::array<std::array<char, 64>, kNames> names_{};
  std::uint64_t time_ = 1'000'000'000'000;
  std::uint32_t correlation_ = 0;
};

// ---- Where frames go
// ------------------------------------------------------------------------------

struct Sink {
  int fd = -1;  // -1: nowhere
  std::uint64_t bytes = 0;

  static bool take(void* self, const std::uint8_t* bytes, std::size_t size) {
    auto* sink = static_cast<Sink*>(self);
    sink->bytes += size;
    while (sink->fd >= 0 && size != 0) {
      const ssize_t written = write(sink->fd, bytes, size);
      if (written <= 0) return false;
      bytes += written;
      size -= static_cast<std::size_t>(written);
    }
    return true;
  }
};

// A reader in a process of its own, as the collector is one, that throws away what it reads.
class Reader {
 public:
  Reader() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[1]);
      static char part[1 << 18];
      while (read(ends[0], part, sizeof part) > 0) {
      }
      _exit(0);
    }
    close(ends[0]);
    fd_ = ends[1];
  }
  ~Reader() {
    if (fd_ >= 0) close(fd_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  int fd() const { return fd_; }

 private:
  pid_t pid_ = -1;
  int fd_ = -1;
};

// ---- The measurements
// -----------------------------------------------------------------------------

bool encode(std::uint64_t launches, int fd, const char* what) {
  CuptiApi cupti(fake_cupti::functions());
  Sink sink{fd};
  RecordEncoder encoder(cupti, FrameSink{&Sink::take, &sink});
  Launches records;
  constexpr std::uint32_t kPerBuffer = 4096;  // launches
  std::uint64_t made = 0;
  // Making the records is measured on its own, so that it can be taken off.
  timed(made, [&] {
    for (std::uint64_t i = 0; i < launches; ++i) {
      records.next();
      asm volatile("" : : "r"(records.call()), "r"(records.kernel()) : "memory");
    }
  });
  const auto some = [&](std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      if (i % kPerBuffer == 0) encoder.begin_buffer();
      records.next();
      encoder.record(records.call());
      encoder.record(records.kernel());
    }
    encoder.send();
  };
  some(kPerBuffer);  // names are sent once
  const std::uint64_t before = sink.bytes;
  std::uint64_t encoded = 0;
  timed(encoded, [&] { some(launches); });
  encoded -= made < encoded ? made : encoded;
  std::printf("  %-46s %6.1f ns a record, %.1f bytes a launch\n", what, per(encoded, 2 * launches),
              per(sink.bytes - before, launches));
  return encoder.records_lost() == 0;
}

// What CUPTI's two buffer callbacks do, beside a wake-up of our thread.
void buffers(bool busy) {
  static BufferPool pools[2];
  BufferPool& pool = pools[busy ? 1 : 0];
  pool.configure(256 << 20, true);
  constexpr std::uint64_t kRounds = 2'000;
  std::uint64_t on_program = 0;
  std::uint64_t on_ours = 0;
  std::uint64_t bytes = 0;
  std::uint64_t quiet_time = 0;  // so that buffers stay small
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    quiet_time += 10 * BufferPool::kFastFill;
    Buffer* buffer = nullptr;
    std::size_t size = 0;
    timed(on_program, [&] {
      const std::uint64_t now = now_ns();
      buffer = pool.hand_out(busy ? now : quiet_time);
      size = buffer->size;
    });
    std::memset(buffer->data, 1, size);  // CUPTI's part
    timed(on_program, [&] {
      const std::uint64_t now = now_ns();
      pool.give_back(buffer->data, size, busy ? now : quiet_time + 5 * BufferPool::kFastFill);
    });
    timed(on_ours, [&] { pool.recycle(pool.take_completed()); });
    bytes += size;
  }
  // Two timer readings a round are the benchmark's own.
  std::uint64_t timer = 0;
  for (std::uint64_t i = 0; i < 2 * kRounds; ++i) timed(timer, [] {});
  on_program -= timer < on_program ? timer : on_program;
  const std::uint64_t api = fake_cupti::record_size(CUPTI_ACTIVITY_KIND_RUNTIME);
  const std::uint64_t kernel = fake_cupti::record_size(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  const std::uint64_t records = bytes / ((api + kernel) / 2);
  std::printf(
      "  buffers of %4.0f KiB: request and completion       %6.0f ns a buffer, %.2f ns a record\n",
      per(bytes, kRounds) / 1024, per(on_program, kRounds), per(on_program, records));
  std::printf(
      "                       cleared on our own thread     %6.0f ns a buffer, %.2f ns a record\n",
      per(on_ours, kRounds), per(on_ours, records));
}

void wake_ups() {
  static Counter counter;
  constexpr std::uint64_t kRounds = 1'000'000;
  std::uint64_t total = 0;
  timed(total, [] {
    for (std::uint64_t i = 0; i < kRounds; ++i) counter.increment();
  });
  std::printf("  wake-up of our thread, once a buffer             %8.1f ns (nobody sleeps)\n",
              per(total, kRounds));
}

void timestamps() {
  constexpr std::uint64_t kRounds = 10'000'000;
  std::uint64_t total = 0;
  std::uint64_t sum = 0;
  timed(total, [&] {
    for (std::uint64_t i = 0; i < kRounds; ++i) sum += now_ns();
  });
  asm volatile("" : : "r"(sum));
  std::printf("  timestamp, twice an API call                     %8.1f ns\n", per(total, kRounds));
}

bool nvtx() {
  static Counter wake;
  static NvtxRecorder recorder(wake);
  CuptiApi cupti;
  Sink sink;
  RecordEncoder encoder(cupti, FrameSink{&Sink::take, &sink});
  NvtxWriter writer(encoder);
  recorder.activate();
  // Fewer than half a ring, so that nobody is woken up.
  constexpr std::uint64_t kPairs = 300;
  constexpr std::uint64_t kRounds = 5'000;
  std::uint64_t on_program = 0;
  std::uint64_t on_ours = 0;
  std::uint64_t lost = 0;
  std::uint64_t before = 0;
  for (std::uint64_t round = 0; round <= kRounds; ++round) {
    if (round == 1) {  // the first one makes the ring
      on_program = on_ours = 0;
      before = sink.bytes;
    }
    timed(on_program, [&] {
      for (std::uint64_t i = 0; i < kPairs; ++i) {
        const NvtxText text("training step");
        recorder.push({0, 0, 0, &text});
        recorder.pop(0);
      }
    });
    timed(on_ours, [&] { lost += recorder.drain(writer).lost; });
  }
  NvtxRecorder::deactivate();
  encoder.send();
  const std::uint64_t pairs = kPairs * kRounds;
  std::printf(
      "  NVTX push and pop                                %8.1f ns on the program's thread,\n"
      "                                                   %8.1f ns on ours, %.1f bytes\n",
      per(on_program, pairs), per(on_ours, pairs), per(sink.bytes - before, pairs));
  return lost == 0;
}

int usage() {
  std::fprintf(stderr, "usage: bench_injector [--launches N]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t launches = 2'000'000;
  if (argc == 3 && std::string_view(argv[1]) == "--launches") {
    const std::string_view number = argv[2];
    const char* end = number.data() + number.size();
    const auto [rest, error] = std::from_chars(number.data(), end, launches);
    if (error != std::errc{} || rest != end || launches == 0 || launches > 1'000'000'000)
      return usage();
  } else if (argc != 1) {
    return usage();
  }
  std::printf("The injector's own thread, %llu launches, each an API call and a kernel\n",
              static_cast<unsigned long long>(launches));
  bool good = encode(launches, -1, "encode");
  {
    const Reader reader;
    good &= encode(launches, reader.fd(), "encode and write to a pipe");
  }
  std::printf("\nThe program's threads, beside CUPTI's own\n");
  buffers(false);
  buffers(true);
  wake_ups();
  timestamps();
  good &= nvtx();
  if (!good) std::fprintf(stderr, "bench_injector: records were lost\n");
  return good ? 0 : 1;
}
