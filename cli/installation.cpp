#include "cli/installation.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace profiler {
namespace {

namespace fs = std::filesystem;

constexpr char kInjectorName[] = "libprofiler_injector.so";
constexpr char kModelSuffix[] = ".model";

}  // namespace

Installation find_installation() {
  Installation found;
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  if (error) return found;
  const fs::path prefix = binary.parent_path().parent_path();
  // A build tree has lib/, an installed one lib/profiler/.
  for (const fs::path& folder : {prefix / "lib", prefix / "lib" / "profiler"}) {
    const fs::path injector = folder / kInjectorName;
    if (found.injector.empty() && fs::is_regular_file(injector, error))
      found.injector = injector.string();
    const fs::path virtual_gpu = folder / "virtual_gpu";
    if (!found.virtual_gpu.empty() || !fs::exists(virtual_gpu / "libcuda.so.1", error)) continue;
    found.virtual_gpu = virtual_gpu.string();
    for (const fs::directory_entry& entry : fs::directory_iterator(virtual_gpu, error)) {
      if (entry.path().filename().string().starts_with("libcupti.so"))
        found.virtual_gpu_cupti = entry.path().string();
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(virtual_gpu / "models", error)) {
      if (entry.path().extension() == kModelSuffix)
        found.models.push_back(entry.path().stem().string());
    }
    std::sort(found.models.begin(), found.models.end());
  }
  return found;
}

std::string find_model(const Installation& installation, const std::string& model) {
  std::error_code error;
  if (model.find('/') != std::string::npos || model.ends_with(kModelSuffix)) {
    const fs::path path = fs::absolute(model, error);
    return fs::is_regular_file(path, error) ? path.string() : std::string();
  }
  const fs::path path = fs::path(installation.virtual_gpu) / "models" / (model + kModelSuffix);
  return fs::is_regular_file(path, error) ? path.string() : std::string();
}

}  // namespace profiler
