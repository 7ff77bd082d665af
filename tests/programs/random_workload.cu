// A random program that is the same for the same seed, as far as what it calls goes:
//   random_workload SEED [STEPS]
// One to four threads do STEPS (24) things each: kernels, copies and sets of all kinds on several
// streams, allocations, events, waits, polling, host functions, pauses, NVTX ranges, and now and
// then a call that must fail. It uses only what the virtual GPU has, checks no result (there are
// none on a virtual GPU) and exits with 0.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

__global__ void tiny(float* data) {
  data[threadIdx.x] += 1.0f;
}
__global__ void scale(float* data, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= by;
}
template <typename Number, int kUnroll>
__global__ void reduce(const Number* from, Number* to, int n) {
  Number sum = 0;
  for (int i = 0; i < kUnroll && i < n; ++i) sum += from[i];
  *to = sum;
}
__global__ void forward_layer(float* data, int n) {
  if (n > 0) data[0] = 1.0f;
}
__global__ void spin(float* data) {
  data[0] += 1.0f;
}

namespace {

constexpr size_t kBytes = 1 << 20;
constexpr int kFloats = kBytes / sizeof(float);
constexpr int kStreams = 5;
constexpr int kQueueDepth = 1024;  // of the virtual GPU's models

void pause_us(long us) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long until = now.tv_sec * 1000000 + now.tv_nsec / 1000 + us;
  do {
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec * 1000000 + now.tv_nsec / 1000 < until);
}

void host_function(void* us) {
  pause_us(static_cast<long>(reinterpret_cast<size_t>(us)));
}

// One for all threads.
cudaStream_t streams[kStreams];

class Worker {
 public:
  Worker(unsigned long seed, int steps) : random_(seed), steps_(steps), pageable_(kBytes) {}

  void run() {
    begin();
    work();
    finish();
  }

  void begin() {
    cudaMalloc(&device_, kBytes);
    cudaMalloc(&other_, kBytes);
    cudaMallocHost(&pinned_, kBytes);
    cudaEventCreate(&event_);
    cudaEventCreateWithFlags(&untimed_, cudaEventDisableTiming);
  }

  void work() {
    for (int i = 0; i < steps_; ++i) step();
    while (open_ranges_ > 0) pop();
    if (one_in(2)) cudaDeviceSynchronize();
  }

  void finish() {
    cudaEventDestroy(event_);
    cudaEventDestroy(untimed_);
    cudaFreeHost(pinned_);
    cudaFree(other_);
    cudaFree(device_);
  }

  // Many launches on one stream.
  void burst() {
    for (int i = 0; i < kQueueDepth + 64; ++i) tiny<<<1, 32, 0, streams[2]>>>(device_);
  }

  // The stream waits for the host and holds as much as it can, so that the launch waits too, and
  // the GPU, which has nothing else to do, for the launch.
  void fill_queue() {
    cudaDeviceSynchronize();
    tiny<<<1, 32, 0, streams[2]>>>(device_);
    cudaLaunchHostFunc(streams[2], host_function, reinterpret_cast<void*>(size_t{10000}));
    for (int i = 0; i < kQueueDepth + 16; ++i) cudaEventRecord(event_, streams[2]);
    tiny<<<1, 32, 0, streams[2]>>>(device_);
    cudaStreamSynchronize(streams[2]);
  }

 private:
  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  bool one_in(int n) { return number(n) == 0; }
  cudaStream_t stream() { return streams[number(kStreams)]; }
  size_t bytes() { return size_t{4} << number(19); }  // 4 B … 1 MiB
  void* memory(int kind) {
    return kind == 0   ? static_cast<void*>(pageable_.data())
           : kind == 1 ? static_cast<void*>(pinned_)
                       : device_;
  }

  void step() {
    if (open_ranges_ < 3 && one_in(4)) push();
    switch (number(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
        for (int n = 1 + number(6); n > 0; --n) launch(stream());
        break;
      case 4:
      case 5:
      case 6:
        copy();
        break;
      case 7:
        copy_async();
        copy_async();
        break;
      case 8:
        set();
        break;
      case 9:
        allocate();
        break;
      case 10:
        allocate_on_host();
        break;
      case 11:
        pass_event();
        break;
      case 12:
        time_kernel();
        break;
      case 13:
        launch(stream());
        cudaStreamSynchronize(stream());
        break;
      case 14:
        launch(stream());
        cudaDeviceSynchronize();
        break;
      case 15:
        poll();
        break;
      case 16:
        cudaLaunchHostFunc(stream(), host_function,
                           reinterpret_cast<void*>(static_cast<size_t>(number(200))));
        break;
      case 17:
        pause_us(number(300));
        break;
      case 18:
        ask();
        break;
      case 19:
      case 20:
        hand_over();
        break;
      case 21:
        fail();
        break;
      case 22:
        own_stream();
        break;
      default:
        launch_and_look();
        break;
    }
    if (open_ranges_ > 0 && one_in(4)) pop();
    if (one_in(5)) pause_us(number(50));
  }

  void push() {
    static const char* const kNames[] = {"load batch", "step", "exchange", "log"};
    nvtxRangePushA(kNames[number(4)]);
    ++open_ranges_;
  }
  void pop() {
    nvtxRangePop();
    --open_ranges_;
  }

  void launch(cudaStream_t to) {
    const int blocks = 1 << number(12);
    switch (number(8)) {
      case 0:
        scale<<<blocks, 256, 0, to>>>(device_, 2.0f, kFloats);
        break;
      case 1:
        reduce<float, 4><<<blocks, 128, 0, to>>>(device_, other_, kFloats);
        break;
      case 2:
        reduce<int, 8><<<1, 1024, 64, to>>>(nullptr, nullptr, 0);
        break;
      case 3:
        forward_layer<<<64, 128, 0, to>>>(device_, kFloats);
        break;
      case 4:
        if (one_in(4)) spin<<<1, 1, 0, to>>>(device_);
        break;
      default:
        tiny<<<1, 32, 0, to>>>(device_);
    }
  }

  void copy() {
    const int host = number(2);
    switch (number(4)) {
      case 0:
        cudaMemcpy(device_, memory(host), bytes(), cudaMemcpyHostToDevice);
        break;
      case 1:
        cudaMemcpy(memory(host), device_, bytes(), cudaMemcpyDeviceToHost);
        break;
      case 2:
        cudaMemcpy(other_, device_, bytes(), cudaMemcpyDeviceToDevice);
        break;
      default:
        cudaMemcpy(memory(host), other_, bytes(), cudaMemcpyDefault);
    }
  }

  void copy_async() {
    const int host = number(2);
    switch (number(4)) {
      case 0:
        cudaMemcpyAsync(device_, memory(host), bytes(), cudaMemcpyHostToDevice, stream());
        break;
      case 1:
        cudaMemcpyAsync(memory(host), device_, bytes(), cudaMemcpyDeviceToHost, stream());
        break;
      case 2:
        cudaMemcpyAsync(other_, device_, bytes(), cudaMemcpyDeviceToDevice, stream());
        break;
      default:
        cudaMemcpyAsync(other_, memory(host), bytes(), cudaMemcpyDefault, stream());
    }
    if (one_in(2)) tiny<<<1, 32, 0, stream()>>>(device_);
  }

  void set() {
    if (one_in(2)) {
      cudaMemset(device_, number(256), bytes());
    } else {
      cudaMemsetAsync(other_, number(256), bytes(), stream());
    }
  }

  void allocate() {
    void* more = nullptr;
    launch(stream());
    cudaMalloc(&more, bytes());
    cudaMemsetAsync(more, 0, 4, stream());
    cudaFree(more);
    launch(stream());
  }

  void allocate_on_host() {
    void* more = nullptr;
    if (one_in(2)) {
      cudaHostAlloc(&more, bytes(), cudaHostAllocDefault);
    } else {
      cudaMallocHost(&more, bytes());
    }
    cudaMemcpyAsync(device_, more, 4, cudaMemcpyHostToDevice, stream());
    cudaFreeHost(more);
  }

  // From one stream to another.
  void pass_event() {
    cudaStream_t from = stream();
    launch(from);
    cudaEventRecord(untimed_, from);
    cudaStream_t to = stream();
    cudaStreamWaitEvent(to, untimed_, 0);
    launch(to);
    if (one_in(2)) cudaEventSynchronize(untimed_);
  }

  void time_kernel() {
    cudaEvent_t begin = nullptr;
    cudaEventCreate(&begin);
    cudaStream_t on = stream();
    cudaEventRecord(begin, on);
    launch(on);
    cudaEventRecord(event_, on);
    if (one_in(2)) cudaEventSynchronize(event_);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, event_);  // fails where nobody has waited
    cudaEventDestroy(begin);
  }

  void poll() {
    cudaStream_t on = stream();
    launch(on);
    if (one_in(2)) {
      cudaEventRecord(untimed_, on);
      for (int i = 0; i < 200 && cudaEventQuery(untimed_) == cudaErrorNotReady; ++i) {
        if (one_in(3)) pause_us(3);
      }
    } else {
      for (int i = 0; i < 200 && cudaStreamQuery(on) == cudaErrorNotReady; ++i) {
      }
    }
    launch(on);
  }

  void ask() {
    int value = 0;
    size_t free = 0;
    size_t total = 0;
    launch(stream());
    cudaGetDevice(&value);
    cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0);
    cudaMemGetInfo(&free, &total);
    cudaPointerAttributes attributes{};
    cudaPointerGetAttributes(&attributes, device_);
    launch(stream());
  }

  // This thread waits, and another goes on.
  void hand_over() {
    launch(streams[1]);
    if (one_in(2)) {
      cudaStreamSynchronize(streams[1]);
    } else {
      cudaMemcpy(pageable_.data(), device_, 1 << 16, cudaMemcpyDeviceToHost);
    }
    std::thread([this] {
      tiny<<<1, 32, 0, streams[1]>>>(device_);
      if (one_in(2)) cudaStreamSynchronize(streams[1]);
    }).join();
  }

  void fail() {
    switch (number(5)) {
      case 0:
        cudaMemcpy(device_, nullptr, 16, cudaMemcpyHostToDevice);
        break;
      case 1:
        cudaSetDevice(77);
        break;
      case 2:
        cudaFree(pageable_.data() + 1);
        break;
      case 3:
        tiny<<<1, 4096, 0, stream()>>>(device_);  // no block is that large
        break;
      default: {
        void* none = nullptr;
        cudaMalloc(&none, size_t{1} << 60);
      }
    }
    cudaGetLastError();
  }

  void own_stream() {
    cudaStream_t own = nullptr;
    cudaStreamCreateWithFlags(&own, one_in(2) ? cudaStreamNonBlocking : cudaStreamDefault);
    launch(own);
    cudaMemsetAsync(device_, 0, bytes(), own);
    launch(own);
    cudaStreamDestroy(own);
  }

  // What a training loop does to print its loss.
  void launch_and_look() {
    cudaStream_t on = stream();
    for (int n = number(4); n >= 0; --n) launch(on);
    float loss = 0;
    cudaMemcpyAsync(&loss, other_, sizeof loss, cudaMemcpyDeviceToHost, on);
    cudaStreamSynchronize(on);
    tiny<<<1, 32, 0, on>>>(device_);
  }

  std::mt19937_64 random_;
  int steps_;
  int open_ranges_ = 0;
  float* device_ = nullptr;
  float* other_ = nullptr;
  char* pinned_ = nullptr;
  std::vector<char> pageable_;
  cudaEvent_t event_ = nullptr;
  cudaEvent_t untimed_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  char* end = nullptr;
  const unsigned long seed = argc > 1 ? strtoul(argv[1], &end, 10) : 0;
  const int steps = argc > 2 ? atoi(argv[2]) : 24;
  if (argc < 2 || argc > 3 || *argv[1] == 0 || *end != 0 || steps < 0) {
    fputs("usage: random_workload SEED [STEPS]\n", stderr);
    return 2;
  }
  std::mt19937_64 random(seed);
  nvtxRangePushA("set up");
  streams[0] = nullptr;
  cudaStreamCreate(&streams[1]);
  cudaStreamCreateWithFlags(&streams[2], cudaStreamNonBlocking);
  cudaStreamCreateWithPriority(&streams[3], cudaStreamNonBlocking, -1);
  cudaStreamCreateWithPriority(&streams[4], cudaStreamDefault, 0);
  nvtxRangePop();

  std::vector<Worker> workers;
  for (unsigned long n = random() % 4 + 1; n > 0; --n) workers.emplace_back(random(), steps);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers.size(); ++i) threads.emplace_back(&Worker::run, &workers[i]);
  workers[0].begin();
  workers[0].work();
  for (std::thread& thread : threads) thread.join();
  // These take a while, so that only few seeds have them.
  if (seed % 40 == 7) workers[0].burst();
  if (seed % 40 == 17) workers[0].fill_queue();
  workers[0].finish();

  // Without a wait some of this is never seen to end.
  if (seed % 3 == 0) spin<<<1, 1>>>(nullptr);
  for (int i = 1; i < kStreams; ++i) cudaStreamDestroy(streams[i]);
  if (seed % 3 != 0) cudaDeviceSynchronize();
  return 0;
}
