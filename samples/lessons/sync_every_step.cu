// Lesson: waiting for the GPU in every step.
//
// Wrong:   the loop waits for each step to end before it launches the next. From the end of the
// step
//          until the first kernel of the next has reached the GPU, the GPU has nothing to do.
// Summary: synchronization-bound. cudaDeviceSynchronize was open at the start of the gaps.
// Fix:     launch all steps and wait once. The kernels of a stream run in order anyway; streams
// that
//          need each other's results wait for events (cudaStreamWaitEvent), not the CPU.

#include "lesson.h"

constexpr size_t kElements = 2'000'000;
constexpr int kSteps = 1500;
constexpr unsigned kBlock = 256;

__global__ void predict(const float* position, float* velocity) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < kElements) velocity[i] -= 0.001f * position[i];
}

__global__ void move(float* position, const float* velocity) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < kElements) position[i] += 0.001f * velocity[i];
}

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  float *position, *velocity;
  CHECK(cudaMalloc(&position, kElements * sizeof(float)));
  CHECK(cudaMalloc(&velocity, kElements * sizeof(float)));
  CHECK(cudaMemset(position, 0, kElements * sizeof(float)));
  CHECK(cudaMemset(velocity, 0, kElements * sizeof(float)));

  for (int step = 0; step < kSteps; ++step) {
    predict<<<blocks_for(kElements, kBlock), kBlock>>>(position, velocity);
    move<<<blocks_for(kElements, kBlock), kBlock>>>(position, velocity);
    CHECK(cudaGetLastError());
    if (!fixed) CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaDeviceSynchronize());

  CHECK(cudaFree(position));
  CHECK(cudaFree(velocity));
  return 0;
}
