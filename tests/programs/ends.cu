// Launches kernels and ends in the way that its arguments name, one after the other:
//   launch N      N kernels        sync        cudaDeviceSynchronize
//   sleep MS      do nothing       exit N      exit(N)
//   quick N       _exit(N)         abort       abort()
//   kill N        raise(N)         print TEXT  a line on stdout
//   deaf          ignore SIGINT    catch       exit(42) on SIGTERM or SIGINT, through a flag
#include <cuda_runtime.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__global__ void tiny() {}

static volatile sig_atomic_t caught = 0;
static void remember(int) {
  caught = 1;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* word = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : "0";
    if (strcmp(word, "launch") == 0) {
      for (int n = atoi(next); n > 0; --n) tiny<<<1, 32>>>();
      ++i;
    } else if (strcmp(word, "sync") == 0) {
      cudaDeviceSynchronize();
    } else if (strcmp(word, "sleep") == 0) {
      for (int ms = atoi(next); ms > 0; ms -= 10) {
        usleep(10000);
        if (caught) exit(42);
      }
      ++i;
    } else if (strcmp(word, "exit") == 0) {
      exit(atoi(next));
    } else if (strcmp(word, "quick") == 0) {
      _exit(atoi(next));
    } else if (strcmp(word, "abort") == 0) {
      abort();
    } else if (strcmp(word, "kill") == 0) {
      raise(atoi(next));
    } else if (strcmp(word, "deaf") == 0) {
      signal(SIGINT, SIG_IGN);
    } else if (strcmp(word, "catch") == 0) {
      signal(SIGTERM, remember);
      signal(SIGINT, remember);
    } else if (strcmp(word, "print") == 0) {
      puts(next);
      fflush(stdout);
      ++i;
    } else {
      fprintf(stderr, "ends: unknown word %s\n", word);
      return 2;
    }
  }
  return 0;
}
