// The two functions that the outside world calls: the CUDA driver inside cuInit, as
// CUDA_INJECTION64_PATH names this library, and NVTX at its first call, as NVTX_INJECTION64_PATH
// does.
//
// Both always return 1. After 0 the driver unmaps the library at once, under the feet of our
// thread and of what we registered with CUPTI, and calls again at the next cuInit; "nothing to
// record" is no reason for that.
#include "injector/nvtx_tables.h"
#include "injector/session.h"

extern "C" __attribute__((visibility("default"))) int InitializeInjection() noexcept;
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    void* get_export_table) noexcept;

int InitializeInjection() noexcept {
  using profiler::injector::Session;
  using profiler::injector::SessionSettings;
  SessionSettings settings{};
  if (profiler::injector::read_settings(settings)) Session::start(settings, nullptr);
  return 1;
}

// Without a session NVTX keeps its tables as they are: its calls do nothing.
int InitializeInjectionNvtx2(void* get_export_table) noexcept {
  using profiler::injector::Session;
  using profiler::injector::SessionSettings;
  SessionSettings settings{};
  if (get_export_table == nullptr || !profiler::injector::read_settings(settings)) return 1;
  if (Session::start_for_nvtx(settings) == nullptr) return 1;
  profiler::injector::fill_nvtx_tables(
      reinterpret_cast<NvtxGetExportTableFunc_t>(get_export_table));
  return 1;
}
