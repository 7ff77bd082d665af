// What the virtual GPU knows of the calling thread.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include "samples/virtual_gpu/engine/interface.h"

namespace virtual_gpu {

struct ThreadState {
  Context* context = nullptr;
  ApiCall* call = nullptr;  // the innermost open one
  bool in_host_function = false;
  int id = 0;
};

inline constinit thread_local ThreadState thread_state;

inline int thread_id() {
  if (thread_state.id == 0) thread_state.id = static_cast<int>(syscall(SYS_gettid));
  return thread_state.id;
}

}  // namespace virtual_gpu
