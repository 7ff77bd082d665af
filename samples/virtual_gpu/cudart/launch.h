// Kernel launches, however they are spelled.
#pragma once

#include "samples/virtual_gpu/cudart/call.h"

namespace virtual_gpu {

// `function` is a host stub or a kernel handle.
cudaError_t launch(std::uint32_t cbid, bool per_thread, const void* function, dim3 grid, dim3 block,
                   std::size_t shared_bytes, cudaStream_t stream);

}  // namespace virtual_gpu
