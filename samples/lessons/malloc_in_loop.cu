// Lesson: allocating in the loop.
//
// Wrong:   every step allocates a scratch buffer and frees it again. cudaFree waits until the GPU
// has
//          finished, and until it has returned and the next cudaMalloc is done, the GPU idles.
// Summary: allocation in the loop. cudaFree was open at the start of the gaps; cudaMalloc and
// cudaFree
//          are called as often as there are steps.
// Fix:     allocate once before the loop; or take the memory from a pool (cudaMallocAsync), as
//          PyTorch's allocator does.

#include "lesson.h"

constexpr size_t kElements = 2'000'000;
constexpr size_t kBytes = kElements * sizeof(float);
constexpr int kSteps = 1500;
constexpr unsigned kBlock = 256;

__global__ void square(const float* in, float* out) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < kElements) out[i] = in[i] * in[i];
}

__global__ void blend(float* data, const float* squares) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < kElements) data[i] = 0.9f * data[i] + 0.1f * squares[i];
}

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  float* data;
  float* scratch = nullptr;
  CHECK(cudaMalloc(&data, kBytes));
  CHECK(cudaMemset(data, 0, kBytes));
  if (fixed) CHECK(cudaMalloc(&scratch, kBytes));

  for (int step = 0; step < kSteps; ++step) {
    if (!fixed) CHECK(cudaMalloc(&scratch, kBytes));
    square<<<blocks_for(kElements, kBlock), kBlock>>>(data, scratch);
    blend<<<blocks_for(kElements, kBlock), kBlock>>>(data, scratch);
    CHECK(cudaGetLastError());
    if (!fixed) CHECK(cudaFree(scratch));
  }
  CHECK(cudaDeviceSynchronize());

  if (fixed) CHECK(cudaFree(scratch));
  CHECK(cudaFree(data));
  return 0;
}
