// A training loop in miniature, with the mistakes that make a GPU wait:
//
//  - the next batch is made ready on the CPU while nothing runs on the GPU;
//  - the labels are copied from pageable memory, so the driver copies them twice;
//  - the loss is read back in every step, so the CPU waits for the GPU and cannot run ahead.
//
// The mathematics is a plain network of eight layers on made-up data: nothing to learn, but every
// kernel does real work.

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>  // names parts of the program for profilers; costs nothing without

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#define CHECK(call)                                                           \
  do {                                                                        \
    const cudaError_t error = (call);                                         \
    if (error != cudaSuccess) {                                               \
      std::fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, \
                   cudaGetErrorString(error), cudaGetErrorName(error));       \
      std::exit(1);                                                           \
    }                                                                         \
  } while (0)

constexpr int kWidth = 512;  // numbers per sample, and per hidden layer
constexpr int kLayers = 8;
constexpr int kThreads = 256;

// out[sample] = tanh(weights * in[sample]); one thread per output.
__global__ void forward_layer(const float* in, const float* weights, float* out, int samples) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= samples * kWidth) return;
  const float* row = weights + static_cast<size_t>(i % kWidth) * kWidth;
  const float* sample = in + static_cast<size_t>(i / kWidth) * kWidth;
  float sum = 0;
  for (int k = 0; k < kWidth; ++k) sum += row[k] * sample[k];
  out[i] = tanhf(sum);
}

// The mean squared distance to the labels, and its gradient.
__global__ void loss_and_gradient(const float* out, const float* labels, float* gradient,
                                  float* loss, int samples) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= samples * kWidth) return;
  const float difference = out[i] - labels[i / kWidth];
  gradient[i] = 2 * difference / (samples * kWidth);
  atomicAdd(loss, difference * difference / (samples * kWidth));
}

// The gradient one layer down, and that of the weights.
__global__ void backward_layer(const float* in, const float* out, const float* weights,
                               const float* gradient, float* gradient_below, float* weight_gradient,
                               int samples) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= samples * kWidth) return;
  const int sample = i / kWidth;
  const int unit = i % kWidth;
  float sum = 0;
  for (int k = 0; k < kWidth; ++k) {
    const size_t j = static_cast<size_t>(sample) * kWidth + k;
    const float slope = gradient[j] * (1 - out[j] * out[j]);
    sum += slope * weights[static_cast<size_t>(k) * kWidth + unit];
    if (sample < kWidth && k == sample) {
      // One row of the weights' gradient per sample keeps this sample program short.
      weight_gradient[static_cast<size_t>(k) * kWidth + unit] = slope * in[i];
    }
  }
  gradient_below[i] = sum;
}

__global__ void optimizer_step(float* weights, const float* gradient, int count, float rate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) weights[i] -= rate * gradient[i];
}

unsigned blocks(int threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

// Makes a batch on the CPU: computed, not slept, as decoding and augmenting images would be.
// About 12 ms for a batch of 2048.
void load_batch(int step, float* samples, std::vector<float>& labels) {
  unsigned random = 2463534242u + static_cast<unsigned>(step);
  for (size_t s = 0; s < labels.size(); ++s) {
    float sum = 0;
    for (int k = 0; k < kWidth; ++k) {
      random ^= random << 13;
      random ^= random >> 17;
      random ^= random << 5;
      const float x = static_cast<float>(random >> 8) * (1.0f / 16777216.0f);
      samples[s * kWidth + k] = std::sin(x * 6.2831853f) * std::exp(-x * step);
      sum += samples[s * kWidth + k];
    }
    labels[s] = std::tanh(sum);
  }
}

[[noreturn]] void usage(FILE* to, int status) {
  std::fputs(
      "usage: train_loop [--steps N] [--batch N]\n"
      "  --steps N  training steps, from 1 (50)\n"
      "  --batch N  samples per step, 1 to 4096 (2048)\n",
      to);
  std::exit(status);
}

int number(int argc, char** argv, int& i, int most) {
  char* end = nullptr;
  const long value = i + 1 < argc ? std::strtol(argv[i + 1], &end, 10) : 0;
  if (value < 1 || value > most || *end != 0) {
    std::fprintf(stderr, "train_loop: %s needs a number from 1 to %d\n", argv[i], most);
    usage(stderr, 2);
  }
  ++i;
  return static_cast<int>(value);
}

int main(int argc, char** argv) {
  int steps = 50;
  int batch = 2048;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--steps") == 0) {
      steps = number(argc, argv, i, 1000000);
    } else if (std::strcmp(argv[i], "--batch") == 0) {
      batch = number(argc, argv, i, 4096);
    } else if (std::strcmp(argv[i], "--help") == 0) {
      usage(stdout, 0);
    } else {
      std::fprintf(stderr, "train_loop: unknown argument %s\n", argv[i]);
      usage(stderr, 2);
    }
  }

  const int outputs = batch * kWidth;
  const int weight_count = kWidth * kWidth;
  const size_t layer_bytes = outputs * sizeof(float);
  const size_t weight_bytes = weight_count * sizeof(float);

  // Samples lie in pinned memory, so that their copy runs beside the CPU; the labels do not.
  float* samples;
  CHECK(cudaMallocHost(&samples, layer_bytes));
  std::vector<float> labels(batch);

  float *device_labels, *loss, *gradient, *gradient_below;
  float *activations[kLayers + 1], *weights[kLayers], *weight_gradients[kLayers];
  CHECK(cudaMalloc(&device_labels, batch * sizeof(float)));
  CHECK(cudaMalloc(&loss, sizeof(float)));
  CHECK(cudaMalloc(&gradient, layer_bytes));
  CHECK(cudaMalloc(&gradient_below, layer_bytes));
  CHECK(cudaMalloc(&activations[0], layer_bytes));
  std::vector<float> start(weight_count);
  for (int i = 0; i < weight_count; ++i) start[i] = static_cast<float>(i % 13 - 6) * 0.01f;
  for (int l = 0; l < kLayers; ++l) {
    CHECK(cudaMalloc(&activations[l + 1], layer_bytes));
    CHECK(cudaMalloc(&weights[l], weight_bytes));
    CHECK(cudaMalloc(&weight_gradients[l], weight_bytes));
    CHECK(cudaMemcpy(weights[l], start.data(), weight_bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(weight_gradients[l], 0, weight_bytes));
  }
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));

  float last_loss = 0;
  for (int step = 0; step < steps; ++step) {
    nvtxRangePushA("step");
    nvtxRangePushA("load batch");
    load_batch(step, samples, labels);
    nvtxRangePop();

    CHECK(cudaMemcpyAsync(activations[0], samples, layer_bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(device_labels, labels.data(), batch * sizeof(float),
                          cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(loss, 0, sizeof(float), stream));

    for (int l = 0; l < kLayers; ++l) {
      forward_layer<<<blocks(outputs), kThreads, 0, stream>>>(activations[l], weights[l],
                                                              activations[l + 1], batch);
    }
    loss_and_gradient<<<blocks(outputs), kThreads, 0, stream>>>(activations[kLayers], device_labels,
                                                                gradient, loss, batch);
    for (int l = kLayers - 1; l >= 0; --l) {
      backward_layer<<<blocks(outputs), kThreads, 0, stream>>>(activations[l], activations[l + 1],
                                                               weights[l], gradient, gradient_below,
                                                               weight_gradients[l], batch);
      std::swap(gradient, gradient_below);
    }
    for (int l = 0; l < kLayers; ++l) {
      optimizer_step<<<blocks(weight_count), kThreads, 0, stream>>>(weights[l], weight_gradients[l],
                                                                    weight_count, 0.1f);
    }
    CHECK(cudaGetLastError());

    // Reading the loss waits for the whole step.
    CHECK(cudaMemcpyAsync(&last_loss, loss, sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    nvtxRangePop();
  }
  std::printf("%d steps of %d samples, last loss %.4f\n", steps, batch, last_loss);

  CHECK(cudaStreamDestroy(stream));
  for (int l = 0; l < kLayers; ++l) {
    CHECK(cudaFree(activations[l]));
    CHECK(cudaFree(weights[l]));
    CHECK(cudaFree(weight_gradients[l]));
  }
  CHECK(cudaFree(activations[kLayers]));
  CHECK(cudaFree(gradient));
  CHECK(cudaFree(gradient_below));
  CHECK(cudaFree(loss));
  CHECK(cudaFree(device_labels));
  CHECK(cudaFreeHost(samples));
  return 0;
}
