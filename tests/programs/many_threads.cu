// THREADS threads, each with a stream of its own, launch KERNELS kernels each, with copies and sets
// between them; every third launch is followed by a wait.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>

#include <thread>
#include <vector>

__global__ void step(float* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1.0f;
}

static void work(int kernels) {
  constexpr int kCount = 1 << 16;
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  float* device = nullptr;
  cudaMalloc(&device, kCount * sizeof(float));
  std::vector<float> host(kCount);
  for (int i = 0; i < kernels; ++i) {
    if (i % 5 == 0) cudaMemcpyAsync(device, host.data(), 4096, cudaMemcpyHostToDevice, stream);
    if (i % 7 == 0) cudaMemsetAsync(device, 0, 1024, stream);
    step<<<kCount / 256, 256, 0, stream>>>(device, kCount);
    if (i % 3 == 0) cudaStreamSynchronize(stream);
  }
  cudaMemcpyAsync(host.data(), device, 4096, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  cudaFree(device);
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 4;
  const int kernels = argc > 2 ? atoi(argv[2]) : 100;
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) workers.emplace_back(work, kernels);
  for (std::thread& worker : workers) worker.join();
  const cudaError_t error = cudaDeviceSynchronize();
  printf("%d threads, %d kernels each: %s\n", threads, kernels, cudaGetErrorString(error));
  return error == cudaSuccess ? 0 : 1;
}
