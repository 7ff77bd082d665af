// The environment that the program under profile gets.
#pragma once

#include <string>
#include <vector>

#include "cli/installation.h"
#include "collector/result.h"

namespace profiler {

struct TargetSettings {
  std::string session_directory;
  std::string cupti;       // empty = the injector finds one
  std::string model_file;  // empty = the machine's own driver
};

// Our own environment with what the injector and the virtual GPU need; entries "NAME=value".
std::vector<std::string> target_environment(const Installation& installation,
                                            const TargetSettings& settings);

// The tool behind an injection that is already set, in words: "Nsight Systems (…)".
std::string injection_owner(const std::string& path);

}  // namespace profiler
