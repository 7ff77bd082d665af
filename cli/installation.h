// Where the parts of this installation lie, found from the running binary itself, so that a tree
// can be moved or linked to.
#pragma once

#include <string>
#include <vector>

namespace profiler {

struct Installation {
  std::string injector;             // libprofiler_injector.so; empty = not built
  std::string virtual_gpu;          // folder of the stand-ins; empty = not built
  std::string virtual_gpu_cupti;    // the stand-in libcupti in it
  std::vector<std::string> models;  // names of the device models, sorted
};

Installation find_installation();

// A model name becomes the path of its file; a path stays. Empty = there is no such model.
std::string find_model(const Installation& installation, const std::string& model);

}  // namespace profiler
