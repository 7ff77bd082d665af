// Device attributes; the driver and the runtime number them alike.
#pragma once

#include "samples/virtual_gpu/engine/model.h"

namespace virtual_gpu {

inline constexpr unsigned kMaxThreadsPerBlock = 1024;
inline constexpr unsigned kSharedBytesPerBlock = 48 * 1024;
inline constexpr unsigned kSharedBytesPerBlockOptIn = 164 * 1024;
inline constexpr unsigned kMaxGrid[3] = {2147483647, 65535, 65535};
inline constexpr unsigned kMaxBlock[3] = {1024, 1024, 64};

// False if there is no such attribute. Attributes that mean nothing to the model are 0.
bool device_attribute(const Model& model, int attribute, int& value);

}  // namespace virtual_gpu
