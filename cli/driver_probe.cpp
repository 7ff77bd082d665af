#include "cli/driver_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "collector/session_directory.h"
#include "proto/session.h"

namespace profiler {
namespace {

// What the probing child writes into the pipe, in one piece.
struct Answer {
  bool found = false;
  std::int32_t version = 0;
  std::int32_t init_result = -1;
  std::array<char, 1024> path{};
};

void answer_in_child(int fd, bool initialise) {
  // The probe must not load an injector, ours or another.
  unsetenv(session::kCudaInjectionVariable);
  const int null = open("/dev/null", O_RDWR);
  if (null >= 0) {
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
  }
  Answer answer;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver != nullptr) {
    answer.found = true;
    link_map* map = nullptr;
    if (dlinfo(driver, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr)
      std::strncpy(answer.path.data(), map->l_name, answer.path.size() - 1);
    if (void* symbol = dlsym(driver, "cuDriverGetVersion")) {
      int version = 0;
      if (reinterpret_cast<int (*)(int*)>(symbol)(&version) == 0) answer.version = version;
    }
    if (void* symbol = initialise ? dlsym(driver, "cuInit") : nullptr)
      answer.init_result = reinterpret_cast<int (*)(unsigned)>(symbol)(0);
  }
  [[maybe_unused]] const ssize_t written = write(fd, &answer, sizeof answer);
}

std::string version_text(std::int32_t version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

DriverProbe probe_driver(bool initialise) {
  DriverProbe probe;
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return probe;
  OwnedFd reader(ends[0]);
  OwnedFd writer(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return probe;
  if (pid == 0) {
    answer_in_child(writer.get(), initialise);
    _exit(0);
  }
  writer = OwnedFd{};
  // A driver that hangs must not hang us.
  constexpr int kPatienceMs = 10'000;
  pollfd waiting = {reader.get(), POLLIN, 0};
  Answer answer;
  ssize_t bytes = 0;
  if (poll(&waiting, 1, kPatienceMs) > 0) bytes = read(reader.get(), &answer, sizeof answer);
  if (bytes != static_cast<ssize_t>(sizeof answer)) kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  if (bytes != static_cast<ssize_t>(sizeof answer)) return probe;
  probe.found = answer.found;
  probe.path = answer.path.data();
  probe.version = answer.version;
  probe.init_result = answer.init_result;
  return probe;
}

std::string explain_silence(const DriverProbe& probe) {
  if (!probe.found) {
    return "There is no CUDA driver on this machine (libcuda.so.1 was not found): install the "
           "NVIDIA "
           "driver, or in a container start it with --gpus all; `--virtual-gpu` simulates a GPU.";
  }
  if (probe.init_result == kCudaErrorStubLibrary) {
    return "The libcuda.so.1 that is found first is the toolkit's stub (" + probe.path +
           "), not a driver: take the stubs folder out of LD_LIBRARY_PATH.";
  }
  if (probe.init_result == kCudaErrorNoDevice) {
    return "The CUDA driver (" + version_text(probe.version) +
           ") finds no GPU: check nvidia-smi, CUDA_VISIBLE_DEVICES and, in a container, --gpus "
           "all; "
           "`--virtual-gpu` simulates one.";
  }
  if (probe.init_result != 0) {
    return "The CUDA driver does not start on this machine (cuInit returned " +
           std::to_string(probe.init_result) + "): see nvidia-smi.";
  }
  return "The program made no CUDA call that starts the driver; if it should have, its CUDA "
         "runtime "
         "may be newer than the driver (" +
         version_text(probe.version) + "), or it runs where the profiler's variables do not reach.";
}

std::string choose_cupti(std::int32_t driver_version) {
  if (driver_version <= 0) return {};
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* root = std::getenv(variable); root != nullptr && *root != 0) {
      folders.push_back(std::string(root) + "/extras/CUPTI/lib64");
      folders.push_back(std::string(root) + "/lib64");
    }
  }
  for (const char* folder :
       {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu", "/usr/lib64"})
    folders.emplace_back(folder);
  constexpr std::int32_t kOldestMajor = 11;
  for (std::int32_t major = driver_version / 1000; major >= kOldestMajor; --major) {
    const std::string name = "libcupti.so." + (major == 11 ? "11.8" : std::to_string(major));
    for (const std::string& folder : folders) {
      std::error_code error;
      const std::filesystem::path path = std::filesystem::path(folder) / name;
      if (std::filesystem::exists(path, error)) return path.string();
    }
  }
  return {};
}

}  // namespace profiler
