// Lesson: the GPU itself is the limit.
//
// Wrong:   nothing about waiting: the CPU is far ahead and the GPU busy all the time. But the
// product
//          of matrices is computed the plain way, in single precision.
// Summary: GPU-bound. Busy more than 90 %, hardly any idle time, and one kernel has nearly all of
// the
//          kernel time. Now is the time to look into that kernel (with Nsight Compute).
// Fix:     less work for the same result: half precision on the tensor cores, many times as fast.
// (In
//          practice: take the product from cuBLAS.) Then the GPU waits for the CPU, and the summary
//          names the next thing to do: the bottleneck has moved.

#include "lesson.h"

#include <cuda_fp16.h>
#include <mma.h>

#include <cmath>

constexpr int kSize = 2048;
constexpr int kSteps = 100;
constexpr int kTile = 16;

// One thread per element of C, straight from global memory.
__global__ void matmul_plain(const float* a, const float* b, float* c) {
  const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  float sum = 0;
  for (int k = 0; k < kSize; ++k) {
    sum += a[static_cast<size_t>(row) * kSize + k] * b[static_cast<size_t>(k) * kSize + column];
  }
  c[static_cast<size_t>(row) * kSize + column] = sum;
}

// One warp per tile of C, on the tensor cores.
__global__ void matmul_half(const half* a, const half* b, float* c) {
  using namespace nvcuda;
  const size_t row = static_cast<size_t>(blockIdx.y * blockDim.y + threadIdx.y) * kTile;
  const size_t column = static_cast<size_t>(blockIdx.x) * kTile;
  wmma::fragment<wmma::matrix_a, kTile, kTile, kTile, half, wmma::row_major> tile_a;
  wmma::fragment<wmma::matrix_b, kTile, kTile, kTile, half, wmma::row_major> tile_b;
  wmma::fragment<wmma::accumulator, kTile, kTile, kTile, float> tile_c;
  wmma::fill_fragment(tile_c, 0.0f);
  for (int k = 0; k < kSize; k += kTile) {
    wmma::load_matrix_sync(tile_a, a + row * kSize + k, kSize);
    wmma::load_matrix_sync(tile_b, b + static_cast<size_t>(k) * kSize + column, kSize);
    wmma::mma_sync(tile_c, tile_a, tile_b, tile_c);
  }
  wmma::store_matrix_sync(c + row * kSize + column, tile_c, kSize, wmma::mem_row_major);
}

// What the program has to do on the CPU in each step anyway.
double work_on_cpu() {
  double sum = 0;
  for (int i = 1; i <= 60'000; ++i) sum += std::sin(static_cast<double>(i));
  return sum;
}

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  const size_t elements = static_cast<size_t>(kSize) * kSize;
  const size_t element_bytes = fixed ? sizeof(half) : sizeof(float);
  void *a, *b;
  float* c;
  CHECK(cudaMalloc(&a, elements * element_bytes));
  CHECK(cudaMalloc(&b, elements * element_bytes));
  CHECK(cudaMalloc(&c, elements * sizeof(float)));
  CHECK(cudaMemset(a, 0, elements * element_bytes));
  CHECK(cudaMemset(b, 0, elements * element_bytes));

  double sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    const unsigned tiles = kSize / kTile;
    if (fixed) {
      matmul_half<<<dim3(tiles, tiles / 4), dim3(32, 4)>>>(static_cast<half*>(a),
                                                           static_cast<half*>(b), c);
    } else {
      matmul_plain<<<dim3(tiles, tiles), dim3(kTile, kTile)>>>(static_cast<float*>(a),
                                                               static_cast<float*>(b), c);
    }
    CHECK(cudaGetLastError());
    sum += work_on_cpu();
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("sum %.3f\n", sum);

  CHECK(cudaFree(c));
  CHECK(cudaFree(b));
  CHECK(cudaFree(a));
  return 0;
}
