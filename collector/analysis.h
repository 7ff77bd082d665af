// Everything that is worked out from a timeline once all records are there, in the order in which
// one part needs another.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "collector/api_activity.h"
#include "collector/catalog.h"
#include "collector/device_activity.h"
#include "collector/launch_index.h"
#include "collector/nvtx_ranges.h"
#include "collector/nvtx_statistics.h"
#include "collector/operation_statistics.h"
#include "collector/thread_lanes.h"
#include "collector/timeline.h"

namespace profiler {

class Analysis {
 public:
  // Settles `timeline`. Both must outlive the analysis. `end_ns` closes NVTX ranges that are open.
  Analysis(const Catalog& catalog, Timeline& timeline, std::uint64_t launch_window_ns,
           std::uint64_t end_ns, const GapVisitor& visitor);

  const std::vector<NvtxRange>& ranges() const { return pairs_.ranges; }
  const NvtxPairs& nvtx_pairs() const { return pairs_; }
  ThreadLanes& lanes() { return lanes_; }
  const LaunchMatches& matches() const { return matches_; }
  const std::vector<DeviceActivity>& devices() const { return devices_; }
  const OperationStatistics& operations() const { return operations_; }
  const std::vector<NvtxTotals>& nvtx() const { return nvtx_; }
  const std::map<std::string, ApiTotals>& api() const { return api_; }

 private:
  NvtxPairs pairs_;
  ThreadLanes lanes_;
  LaunchMatches matches_;
  std::vector<DeviceActivity> devices_;
  OperationStatistics operations_;
  std::vector<NvtxTotals> nvtx_;
  std::map<std::string, ApiTotals> api_;
};

}  // namespace profiler
