// Lesson: the data loader.
//
// Wrong:   one thread loads a batch, submits it, loads the next. Loading takes longer than the GPU
//          takes for a batch, so the GPU waits in every step.
// Summary: host-bound. "CPU code outside CUDA" leads the causes, and the NVTX range "load batch"
// says
//          which code.
// Fix:     several threads load batches ahead (in PyTorch: DataLoader with num_workers and
//          pin_memory=True); the loop finds the next one ready. To mark code with an NVTX range
//          costs next to nothing, so do it for the parts of every step.

#include "lesson.h"

#include <nvtx3/nvToolsExt.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

constexpr size_t kElements = 250'000;
constexpr size_t kBytes = kElements * sizeof(float);
constexpr int kBatches = 50;
constexpr int kLayers = 16;
constexpr int kLoaders = 8;
constexpr unsigned kBlock = 256;

__global__ void forward(const float* batch, float* weights) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= kElements) return;
  float weight = batch[i];
  for (int k = 0; k < 10'000; ++k) weight = 0.99f * weight + 0.01f;
  weights[i] = weight;
}

// A batch's memory, used again when the GPU has copied it.
struct Buffer {
  float* host;
  cudaEvent_t copied;
};

// Reads a batch from storage. Waiting for the disk is most of it, here all.
void load_batch(const Buffer& buffer, int number) {
  nvtxRangePushA("load batch");
  std::this_thread::sleep_for(std::chrono::milliseconds(4));
  buffer.host[0] = static_cast<float>(number);
  nvtxRangePop();
}

// Submits the work of a batch, and does not wait for it.
void train_step(const Buffer& buffer, float* batch, float* weights) {
  CHECK(cudaMemcpyAsync(batch, buffer.host, kBytes, cudaMemcpyHostToDevice));
  CHECK(cudaEventRecord(buffer.copied));
  for (int layer = 0; layer < kLayers; ++layer) {
    forward<<<blocks_for(kElements, kBlock), kBlock>>>(batch, weights);
  }
  CHECK(cudaGetLastError());
}

void run_slow(std::vector<Buffer>& buffers, float* batch, float* weights) {
  for (int number = 0; number < kBatches; ++number) {
    const Buffer& buffer = buffers[number % kLoaders];
    CHECK(cudaEventSynchronize(buffer.copied));
    load_batch(buffer, number);
    train_step(buffer, batch, weights);
  }
  CHECK(cudaDeviceSynchronize());
}

void run_fixed(std::vector<Buffer>& buffers, float* batch, float* weights) {
  std::mutex mutex;
  std::condition_variable loaded_one, freed_one;
  std::queue<Buffer*> loaded, empty;
  for (Buffer& buffer : buffers) empty.push(&buffer);
  int next = 0;

  const auto load_ahead = [&] {
    for (;;) {
      std::unique_lock<std::mutex> lock(mutex);
      freed_one.wait(lock, [&] { return next == kBatches || !empty.empty(); });
      if (next == kBatches) return;
      const int number = next++;
      if (next == kBatches) freed_one.notify_all();
      Buffer* buffer = empty.front();
      empty.pop();
      lock.unlock();
      CHECK(cudaEventSynchronize(buffer->copied));
      load_batch(*buffer, number);
      lock.lock();
      loaded.push(buffer);
      loaded_one.notify_one();
    }
  };
  std::vector<std::thread> loaders;
  for (int i = 0; i < kLoaders; ++i) loaders.emplace_back(load_ahead);

  for (int i = 0; i < kBatches; ++i) {
    std::unique_lock<std::mutex> lock(mutex);
    loaded_one.wait(lock, [&] { return !loaded.empty(); });
    Buffer* buffer = loaded.front();
    loaded.pop();
    lock.unlock();
    train_step(*buffer, batch, weights);
    lock.lock();
    empty.push(buffer);
    freed_one.notify_one();
  }
  for (std::thread& loader : loaders) loader.join();
  CHECK(cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  float *batch, *weights;
  CHECK(cudaMalloc(&batch, kBytes));
  CHECK(cudaMalloc(&weights, kBytes));
  std::vector<Buffer> buffers(kLoaders);
  for (Buffer& buffer : buffers) {
    CHECK(cudaMallocHost(&buffer.host, kBytes));
    std::memset(buffer.host, 0, kBytes);
    CHECK(cudaEventCreateWithFlags(&buffer.copied, cudaEventDisableTiming));
  }

  if (fixed) {
    run_fixed(buffers, batch, weights);
  } else {
    run_slow(buffers, batch, weights);
  }

  for (Buffer& buffer : buffers) {
    CHECK(cudaEventDestroy(buffer.copied));
    CHECK(cudaFreeHost(buffer.host));
  }
  CHECK(cudaFree(weights));
  CHECK(cudaFree(batch));
  return 0;
}
