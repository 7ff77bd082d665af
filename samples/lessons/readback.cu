// Lesson: reading a result back in every step.
//
// Wrong:   cudaMemcpy fetches the loss, four bytes, after every step (in PyTorch: .item(), .cpu(),
//          print(loss)). The copy waits for the kernel before it, and the CPU waits for the copy,
//          so the next step is launched only when the GPU has run out of work.
// Summary: readback. cudaMemcpy was open at the start of the gaps; as many small copies DtoH as
// steps. Fix:     keep the losses of many steps, in pinned memory, which cudaMemcpyAsync fills
// while the CPU
//          runs ahead, and look at them now and then. (Into pageable memory it would wait as well.)

#include "lesson.h"

constexpr size_t kElements = 3'000'000;
constexpr int kSteps = 2000;
constexpr unsigned kBlock = 256;

__global__ void train(float* weights, float* loss) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= kElements) return;
  weights[i] = weights[i] * 0.999f + 0.001f;
  if (i == 0) *loss = 1 - weights[0];
}

int main(int argc, char** argv) {
  const bool fixed = wants_fixed(argc, argv);
  float *weights, *loss, *losses;
  CHECK(cudaMalloc(&weights, kElements * sizeof(float)));
  CHECK(cudaMalloc(&loss, sizeof(float)));
  CHECK(cudaMallocHost(&losses, kSteps * sizeof(float)));
  CHECK(cudaMemset(weights, 0, kElements * sizeof(float)));

  for (int step = 0; step < kSteps; ++step) {
    train<<<blocks_for(kElements, kBlock), kBlock>>>(weights, loss);
    CHECK(cudaGetLastError());
    if (fixed) {
      CHECK(cudaMemcpyAsync(&losses[step], loss, sizeof(float), cudaMemcpyDeviceToHost));
    } else {
      float value;
      CHECK(cudaMemcpy(&value, loss, sizeof(float), cudaMemcpyDeviceToHost));
      losses[step] = value;
    }
  }
  CHECK(cudaDeviceSynchronize());
  std::printf("loss %.3f\n", losses[kSteps - 1]);

  CHECK(cudaFreeHost(losses));
  CHECK(cudaFree(loss));
  CHECK(cudaFree(weights));
  return 0;
}
