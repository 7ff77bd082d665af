// The classic first lesson: C = A * B + bias, many times over.
//
// Small matrices (--size 64) are launch-bound: each kernel runs for a few microseconds, less than
// it takes to launch it, and the GPU waits for the CPU. Large ones (--size 4096) are compute-bound:
// the CPU is far ahead and the GPU is busy all the time. The program is the same; the trace is not.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

// Every CUDA call can fail, and an error that is not looked at turns up somewhere else.
#define CHECK(call)                                                           \
  do {                                                                        \
    const cudaError_t error = (call);                                         \
    if (error != cudaSuccess) {                                               \
      std::fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, \
                   cudaGetErrorString(error), cudaGetErrorName(error));       \
      std::exit(1);                                                           \
    }                                                                         \
  } while (0)

constexpr int kTile = 16;

// Each block computes one tile of C; A and B pass through shared memory a tile at a time.
__global__ void matmul(const float* a, const float* b, float* c, int size) {
  __shared__ float tile_a[kTile][kTile];
  __shared__ float tile_b[kTile][kTile];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0;
  for (int start = 0; start < size; start += kTile) {
    const int a_column = start + threadIdx.x;
    const int b_row = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] =
        row < size && a_column < size ? a[static_cast<size_t>(row) * size + a_column] : 0;
    tile_b[threadIdx.y][threadIdx.x] =
        b_row < size && column < size ? b[static_cast<size_t>(b_row) * size + column] : 0;
    __syncthreads();
    for (int k = 0; k < kTile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  if (row < size && column < size) c[static_cast<size_t>(row) * size + column] = sum;
}

__global__ void add_bias(float* c, const float* bias, int size) {
  const size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < static_cast<size_t>(size) * size) c[i] += bias[i % size];
}

void multiply(const float* a, const float* b, const float* bias, float* c, int size) {
  const dim3 block(kTile, kTile);
  const unsigned tiles = (size + kTile - 1) / kTile;
  matmul<<<dim3(tiles, tiles), block>>>(a, b, c, size);
  CHECK(cudaGetLastError());  // a launch returns nothing itself
  const size_t elements = static_cast<size_t>(size) * size;
  add_bias<<<static_cast<unsigned>((elements + 255) / 256), 256>>>(c, bias, size);
  CHECK(cudaGetLastError());
}

[[noreturn]] void usage(FILE* to, int status) {
  std::fputs(
      "usage: matmul_bias [--size N] [--iterations N]\n"
      "  --size N        rows and columns of the matrices, 1 to 16384 (1024)\n"
      "  --iterations N  how often to multiply, from 1 (20000 up to size 256, else 100)\n",
      to);
  std::exit(status);
}

int number(int argc, char** argv, int& i, int most) {
  char* end = nullptr;
  const long value = i + 1 < argc ? std::strtol(argv[i + 1], &end, 10) : 0;
  if (value < 1 || value > most || *end != 0) {
    std::fprintf(stderr, "matmul_bias: %s needs a number from 1 to %d\n", argv[i], most);
    usage(stderr, 2);
  }
  ++i;
  return static_cast<int>(value);
}

int main(int argc, char** argv) {
  int size = 1024;
  int iterations = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--size") == 0) {
      size = number(argc, argv, i, 16384);
    } else if (std::strcmp(argv[i], "--iterations") == 0) {
      iterations = number(argc, argv, i, 1000000);
    } else if (std::strcmp(argv[i], "--help") == 0) {
      usage(stdout, 0);
    } else {
      std::fprintf(stderr, "matmul_bias: unknown argument %s\n", argv[i]);
      usage(stderr, 2);
    }
  }

  // Small products are over in microseconds: only many of them are longer than setting up.
  if (iterations == 0) iterations = size <= 256 ? 20000 : 100;

  const size_t elements = static_cast<size_t>(size) * size;
  const size_t bytes = elements * sizeof(float);
  float* host = static_cast<float*>(std::malloc(bytes));
  if (host == nullptr) {
    std::fprintf(stderr, "matmul_bias: no memory for %d x %d numbers\n", size, size);
    return 1;
  }
  for (size_t i = 0; i < elements; ++i) host[i] = static_cast<float>(i % 7);

  float *a, *b, *c, *bias;
  CHECK(cudaMalloc(&a, bytes));
  CHECK(cudaMalloc(&b, bytes));
  CHECK(cudaMalloc(&c, bytes));
  CHECK(cudaMalloc(&bias, size * sizeof(float)));
  CHECK(cudaMemcpy(a, host, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(b, host, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(bias, 0, size * sizeof(float)));

  // The first launch also loads the kernels: keep it out of the measurement.
  multiply(a, b, bias, c, size);
  CHECK(cudaDeviceSynchronize());

  // Events are stamped by the GPU, in the order of the stream.
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(begin));
  for (int i = 0; i < iterations; ++i) multiply(a, b, bias, c, size);
  CHECK(cudaEventRecord(end));
  CHECK(cudaEventSynchronize(end));
  float ms = 0;
  CHECK(cudaEventElapsedTime(&ms, begin, end));
  CHECK(cudaMemcpy(host, c, bytes, cudaMemcpyDeviceToHost));

  const double each = static_cast<double>(ms) / iterations;
  const double operations = 2.0 * size * size * size + static_cast<double>(elements);
  std::printf("%d x %d: %.4f ms per iteration, %.1f GFLOP/s\n", size, size, each,
              operations / each * 1e-6);

  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(c));
  CHECK(cudaFree(bias));
  std::free(host);
  return 0;
}
