// Lesson: copying from pageable memory.
//
// Wrong:   the batches lie in memory from malloc. The GPU cannot read that, so the driver copies it
//          through a buffer of its own, at a fraction of the bandwidth, and the call returns only
//          when that is done: nothing else is launched meanwhile.
// Summary: pageable copies. "HtoD pageable" in the table of copies has a low throughput; with much
// of
//          it the verdict is transfer-bound.
// Fix:     batches in pinned memory (cudaMallocHost; in PyTorch pin_memory=True), copied with
//          cudaMemcpyAsync on a stream of its own, one batch ahead of the kernels. Events say when
//          a buffer is full and when it is free again.

#include "lesson.h"

#include <vector>

constexpr size_t kElements = 2'000'000;
constexpr size_t kBytes = kElements * sizeof(float);
constexpr size_t kOutputs = 1'000'000;
constexpr int kSteps = 150;
constexpr unsigned kBlock = 256;

__global__ void forward(const float* batch, float* sums) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= kOutputs) return;
  float sum = sums[i];
  for (int k = 0; k < 1000; ++k) sum += batch[(i + k) % kElements];
  sums[i] = sum;
}

void run_slow(float* sums) {
  std::vector<float> host(kElements, 1.0f);
  float* batch;
  CHECK(cudaMalloc(&batch, kBytes));
  CHECK(cudaMemset(sums, 0, kOutputs * sizeof(float)));
  for (int step = 0; step < kSteps; ++step) {
    CHECK(cudaMemcpy(batch, host.data(), kBytes, cudaMemcpyHostToDevice));
    forward<<<blocks_for(kOutputs, kBlock), kBlock>>>(batch, sums);
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(batch));
}

void run_fixed(float* sums) {
  float* host;
  CHECK(cudaMallocHost(&host, kBytes));
  for (size_t i = 0; i < kElements; ++i) host[i] = 1.0f;
  float* batches[2];
  cudaStream_t copies, kernels;
  cudaEvent_t full[2], free_again[2];
  CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaMalloc(&batches[i], kBytes));
    CHECK(cudaEventCreateWithFlags(&full[i], cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&free_again[i], cudaEventDisableTiming));
  }
  CHECK(cudaMemsetAsync(sums, 0, kOutputs * sizeof(float), kernels));
  for (int step = 0; step < kSteps; ++step) {
    const int i = step % 2;
    // An event that was never recorded keeps nobody waiting: so the first two copies begin at once.
    CHECK(cudaStreamWaitEvent(copies, free_again[i], 0));
    CHECK(cudaMemcpyAsync(batches[i], host, kBytes, cudaMemcpyHostToDevice, copies));
    CHECK(cudaEventRecord(full[i], copies));
    CHECK(cudaStreamWaitEvent(kernels, full[i], 0));
    forward<<<blocks_for(kOutputs, kBlock), kBlock, 0, kernels>>>(batches[i], sums);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(free_again[i], kernels));
  }
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaEventDestroy(full[i]));
    CHECK(cudaEventDestroy(free_again[i]));
    CHECK(cudaFree(batches[i]));
  }
  CHECK(cudaStreamDestroy(copies));
  CHECK(cudaStreamDestroy(kernels));
  CHECK(cudaFreeHost(host));
}

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  float* sums;
  CHECK(cudaMalloc(&sums, kOutputs * sizeof(float)));
  if (fixed) {
    run_fixed(sums);
  } else {
    run_slow(sums);
  }
  CHECK(cudaFree(sums));
  return 0;
}
