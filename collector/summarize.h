// Puts the numbers of a run together.
#pragma once

#include <span>
#include <vector>

#include "collector/analysis.h"
#include "collector/catalog.h"
#include "collector/recording.h"
#include "collector/summary.h"
#include "collector/timeline.h"

namespace profiler {

// Verdict and findings included.
Summary summarize(const RunFacts& facts, const Catalog& catalog, const Timeline& timeline,
                  Analysis& analysis, std::span<const ProcessState> processes);

// Where each device of the catalog stands in Summary::devices (0 for those that are not in it).
std::vector<std::uint64_t> device_positions(const Analysis& analysis, const Catalog& catalog);

// "kernel gemm", "copy HtoD", "memset": an operation in a few words.
std::string operation_label(const Catalog& catalog, const Timeline& timeline,
                            std::uint32_t operation);

// "GPU-6b2e0c1a-..." as nvidia-smi prints it.
std::string uuid_text(const Device& device);
// A command line as one would type it.
std::string shell_quoted(const std::vector<std::string>& arguments);
// CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind in words; "unknown" for others.
std::string copy_kind_name(std::uint8_t kind);
std::string memory_kind_name(std::uint8_t kind);

}  // namespace profiler
