// Puts the numbers of a run together.
#pragma once

#include <span>
#include <vector>

#include "collector/catalog.h"
#include "collector/device_activity.h"
#include "collector/launch_index.h"
#include "collector/recording.h"
#include "collector/summary.h"
#include "collector/timeline.h"

namespace profiler {

Summary summarize(const RunFacts& facts, const Catalog& catalog, const Timeline& timeline,
                  const LaunchMatches& matches, std::span<const DeviceActivity> devices,
                  std::span<const ProcessState> processes);

// "GPU-6b2e0c1a-..." as nvidia-smi prints it.
std::string uuid_text(const Device& device);
// A command line as one would type it.
std::string shell_quoted(const std::vector<std::string>& arguments);
// CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind in words; "unknown" for others.
std::string copy_kind_name(std::uint8_t kind);
std::string memory_kind_name(std::uint8_t kind);

}  // namespace profiler
