// What all lessons share: the check of every CUDA call, and the choice of the variant.
#pragma once

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

// Whether the argument asks for the fixed variant. Ends the program if it asks for neither.
inline bool wants_fixed(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "slow") == 0) return false;
  if (argc == 2 && std::strcmp(argv[1], "fixed") == 0) return true;
  std::fprintf(stderr, "usage: %s slow|fixed\n", argv[0]);
  std::exit(2);
}

inline unsigned blocks_for(size_t threads, unsigned block) {
  return static_cast<unsigned>((threads + block - 1) / block);
}
