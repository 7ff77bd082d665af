// Lesson: two threads that take turns.
//
// Wrong:   one thread launches, the main thread waits for each result and checks it, and only then
//          lets the other launch the next step. Two threads, but never more than one at work, and
//          the GPU idles while the result is checked and the turn handed over.
// Summary: host-bound. "CPU code outside CUDA" leads the causes, although the thread that the GPU
//          waited for ("launcher") did nothing but wait for the main thread. The part that the main
//          thread was still waiting for the GPU is counted as synchronizing.
// Fix:     let the launcher run ahead, each step with a result buffer and an event of its own; the
// main
//          thread waits for the events in turn and checks while the GPU works on.

#include "lesson.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>

#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

constexpr size_t kElements = 30'000'000;
constexpr int kResults = 4096;  // numbers of a result that are checked
constexpr int kSteps = 500;
constexpr unsigned kBlock = 256;

__global__ void simulate(float* state, int step) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < kElements) state[i] = __sinf(0.001f * static_cast<float>(i) + static_cast<float>(step));
}

// Some work on the CPU.
double check(const float* result) {
  nvtxRangePushA("check result");
  double sum = 0;
  for (int round = 0; round < 16; ++round) {
    for (int i = 0; i < kResults; ++i) sum += std::sin(result[i] + round);
  }
  nvtxRangePop();
  return sum;
}

// Counts steps up; threads wait for a count.
class Turn {
 public:
  void advance() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void wait_for(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  float *state, *results;
  CHECK(cudaMalloc(&state, kElements * sizeof(float)));
  CHECK(cudaMallocHost(&results, sizeof(float) * kResults * kSteps));
  std::vector<cudaEvent_t> done(kSteps);
  for (cudaEvent_t& event : done) {
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }

  Turn submitted, checked;
  std::thread launcher([&] {
    pthread_setname_np(pthread_self(), "launcher");
    for (int step = 0; step < kSteps; ++step) {
      if (!fixed) checked.wait_for(step);
      simulate<<<blocks_for(kElements, kBlock), kBlock>>>(state, step);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(results + static_cast<size_t>(step) * kResults, state,
                            kResults * sizeof(float), cudaMemcpyDeviceToHost));
      CHECK(cudaEventRecord(done[step]));
      submitted.advance();
    }
  });

  double sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    submitted.wait_for(step + 1);
    CHECK(cudaEventSynchronize(done[step]));
    sum += check(results + static_cast<size_t>(step) * kResults);
    checked.advance();
  }
  launcher.join();
  std::printf("sum %.1f\n", sum);

  for (cudaEvent_t event : done) CHECK(cudaEventDestroy(event));
  CHECK(cudaFreeHost(results));
  CHECK(cudaFree(state));
  return 0;
}
