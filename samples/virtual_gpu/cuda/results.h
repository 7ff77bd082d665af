// The results of the driver that this library gives, by number: cudaError_t shares them.
#pragma once

namespace virtual_gpu {

enum Result : int {
  kSuccess = 0,
  kUnloading = 4,
  kNoDevice = 100,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kNotReady = 600,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
};

}  // namespace virtual_gpu
