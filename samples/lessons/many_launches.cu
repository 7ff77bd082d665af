// Lesson: many launches.
//
// Wrong:   each row of a matrix gets a kernel of its own. A row is done in about 2 us, but it takes
//          the CPU longer than that to launch the next kernel, so the GPU waits for every launch.
// Summary: launch-bound. Many short gaps, nearly all kernels shorter than their launch; "launch
//          latency" and "CPU code outside CUDA" lead the causes.
// Fix:     one kernel for the whole matrix. Where the kernels are not one's own: larger batches,
// fused
//          kernels (torch.compile), or a CUDA graph.

#include "lesson.h"

constexpr int kColumns = 8192;
constexpr int kRows = 2000;
constexpr int kSteps = 8;
constexpr unsigned kBlock = 256;

__global__ void fill_row(float* row, float value) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (column < kColumns) row[column] = value * static_cast<float>(column);
}

__global__ void fill_matrix(float* matrix, float value) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < static_cast<size_t>(kRows) * kColumns)
    matrix[i] = value * static_cast<float>(i % kColumns);
}

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  const size_t elements = static_cast<size_t>(kRows) * kColumns;
  float* matrix;
  CHECK(cudaMalloc(&matrix, elements * sizeof(float)));

  for (int step = 0; step < kSteps; ++step) {
    if (fixed) {
      fill_matrix<<<blocks_for(elements, kBlock), kBlock>>>(matrix, 0.5f);
    } else {
      for (int row = 0; row < kRows; ++row) {
        float* first = matrix + static_cast<size_t>(row) * kColumns;
        fill_row<<<blocks_for(kColumns, kBlock), kBlock>>>(first, 0.5f);
      }
    }
    CHECK(cudaGetLastError());  // a launch returns nothing itself
  }
  CHECK(cudaDeviceSynchronize());

  CHECK(cudaFree(matrix));
  return 0;
}
