#include "cli/target_environment.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "proto/session.h"

namespace profiler {

std::vector<std::string> target_environment(const Installation& installation,
                                            const TargetSettings& settings) {
  std::vector<std::pair<std::string, std::string>> ours = {
      {session::kCudaInjectionVariable, installation.injector},
      {session::kNvtxInjectionVariable, installation.injector},
      {session::kDirectoryVariable, settings.session_directory}};
  if (!settings.cupti.empty()) ours.emplace_back(session::kCuptiVariable, settings.cupti);
  if (!settings.model_file.empty()) {
    ours.emplace_back(session::kVirtualGpuModelVariable, settings.model_file);
    const char* before = std::getenv("LD_LIBRARY_PATH");
    std::string path = installation.virtual_gpu;
    if (before != nullptr && *before != 0) path.append(":").append(before);
    ours.emplace_back("LD_LIBRARY_PATH", std::move(path));
  }
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : ours)
      replaced |= text.starts_with(name) && text.substr(name.size()).starts_with('=');
    if (!replaced) environment.emplace_back(text);
  }
  for (const auto& [name, value] : ours)
    environment.push_back(std::string(name).append("=").append(value));
  return environment;
}

std::string injection_owner(const std::string& path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kKnown = {{
      {"libToolsInjection", "Nsight Systems"},
      {"nsight-systems", "Nsight Systems"},
      {"nsight-compute", "Nsight Compute"},
      {"TreeLauncher", "Nsight Compute"},
      {"sanitizer", "Compute Sanitizer"},
      {"parcagpu", "parca-agent"},
      {"profiler_injector", "another run of profiler"},
  }};
  for (const auto& [part, tool] : kKnown) {
    if (path.find(part) != std::string::npos) return std::string(tool) + " (" + path + ")";
  }
  return path;
}

}  // namespace profiler
