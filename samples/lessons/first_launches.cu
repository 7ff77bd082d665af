// Lesson: the first launch of every kernel.
//
// Wrong:   each degree of a polynomial is a kernel of its own, made from a template. CUDA loads a
//          kernel onto the GPU when it is launched for the first time, and the launch waits for
//          that; a short run of many kernels does little else.
// Summary: module loading. "loading modules/JIT" leads the causes, and there are about as many gaps
// of
//          it as kernels.
// Fix:     fewer kernels: here the degree is an argument. Where they are all needed, load them
// before
//          it matters: run each once to warm up, or set CUDA_MODULE_LOADING=EAGER. In a long run
//          the first launches are but a short beginning; then leave them alone.

#include "lesson.h"

#include <utility>

constexpr size_t kElements = 500'000;
constexpr int kKernels = 64;
constexpr int kSteps = 4;
constexpr unsigned kBlock = 256;

template <int kDegree>
__global__ void polynomial_of_degree(float* x) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= kElements) return;
  float y = 0.5f;
  for (int k = 0; k < kDegree; ++k) y = y * x[i] + 0.5f;
  x[i] = 0.1f * y;
}

__global__ void polynomial(float* x, int degree) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= kElements) return;
  float y = 0.5f;
  for (int k = 0; k < degree; ++k) y = y * x[i] + 0.5f;
  x[i] = 0.1f * y;
}

template <int... kDegrees>
void launch_all(float* x, std::integer_sequence<int, kDegrees...>) {
  (polynomial_of_degree<kDegrees><<<blocks_for(kElements, kBlock), kBlock>>>(x), ...);
}

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  float* x;
  CHECK(cudaMalloc(&x, kElements * sizeof(float)));  // degree 0, the first, reads none of it

  for (int step = 0; step < kSteps; ++step) {
    if (fixed) {
      for (int degree = 0; degree < kKernels; ++degree) {
        polynomial<<<blocks_for(kElements, kBlock), kBlock>>>(x, degree);
      }
    } else {
      launch_all(x, std::make_integer_sequence<int, kKernels>());
    }
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());

  CHECK(cudaFree(x));
  return 0;
}
