// Uses NVTX, and no CUDA: what is recorded is checked by nvtx_injector_test.cpp.
#include <nvtx3/nvToolsExt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <thread>

namespace {

nvtxEventAttributes_t registered(nvtxStringHandle_t string) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = 7;
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = string;
  return attributes;
}

}  // namespace

int main() {
  nvtxNameOsThreadA(static_cast<std::uint32_t>(syscall(SYS_gettid)), "main loop");
  const int outer = nvtxRangePushA("epoch");
  const int inner = nvtxRangePushW(L"Schritt f\u00fcr Schritt");
  nvtxMarkA("here");
  const int inner_end = nvtxRangePop();
  const int outer_end = nvtxRangePop();

  const nvtxDomainHandle_t domain = nvtxDomainCreateA("loader");
  const nvtxStringHandle_t batch = nvtxDomainRegisterStringA(domain, "batch");
  const nvtxEventAttributes_t attributes = registered(batch);
  const nvtxRangeId_t range = nvtxDomainRangeStartEx(domain, &attributes);
  std::thread other([&] { nvtxDomainRangeEnd(domain, range); });
  other.join();
  const int level = nvtxDomainRangePushEx(domain, &attributes);
  nvtxDomainRangePop(domain);
  nvtxDomainDestroy(domain);

  // Without a tool NVTX answers -2 throughout.
  std::printf("%d %d %d %d %d\n", outer, inner, inner_end, outer_end, level);
  return 0;
}
