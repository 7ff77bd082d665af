// NVTX functions that are left out (categories' names, resources, OpenCL, synchronisation objects,
// names of devices, contexts and events) keep doing nothing: nothing is made of what they tell.
#include "injector/nvtx_tables.h"

#include <cstddef>
#include <cstdint>

#include "injector/nvtx_recorder.h"
#include "injector/nvtx_registry.h"
#include "injector/nvtx_text.h"
#include "injector/session.h"

namespace profiler::injector {
namespace {

// Handles are the registry's numbers, never pointers: whatever a program passes does no harm.
std::uint32_t number_of(const void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  return number <= NvtxRegistry::kMaxNames ? static_cast<std::uint32_t>(number) : 0;
}
template <typename Handle>
Handle handle_of(std::uint32_t number) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): opaque to the program
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(number));
}

// What a call says about its event.
class Event {
 public:
  explicit Event(const char* message) : text_(message) {}
  explicit Event(const wchar_t* message) : text_(message) {}
  Event(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes)
      : domain_(number_of(domain)) {
    // A caller of another version may have less behind the pointer.
    if (attributes == nullptr || attributes->size < sizeof *attributes) return;
    category_ = attributes->category;
    switch (attributes->messageType) {
      case NVTX_MESSAGE_TYPE_ASCII:
        text_.set(attributes->message.ascii);
        break;
      case NVTX_MESSAGE_TYPE_UNICODE:
        text_.set(attributes->message.unicode);
        break;
      case NVTX_MESSAGE_TYPE_REGISTERED:
        string_ = number_of(attributes->message.registered);
        break;
      default:
        break;
    }
  }

  NvtxRecorder::Attributes attributes() const { return {domain_, category_, string_, &text_}; }

 private:
  std::uint32_t domain_ = 0;
  std::uint32_t category_ = 0;
  std::uint32_t string_ = 0;
  NvtxText text_;
};

void record_mark(const Event& event) {
  if (NvtxRecorder* recorder = NvtxRecorder::active()) recorder->mark(event.attributes());
}

nvtxRangeId_t record_start(const Event& event) {
  NvtxRecorder* recorder = NvtxRecorder::active();
  return recorder == nullptr ? NvtxRecorder::new_unrecorded_range()
                             : recorder->start(event.attributes());
}

void record_end(std::uint32_t domain, nvtxRangeId_t range) {
  if (NvtxRecorder* recorder = NvtxRecorder::active()) recorder->end(domain, range);
}

int record_push(const Event& event) {
  NvtxRecorder* recorder = NvtxRecorder::active();
  return recorder == nullptr ? NVTX_NO_PUSH_POP_TRACKING : recorder->push(event.attributes());
}

int record_pop(std::uint32_t domain) {
  NvtxRecorder* recorder = NvtxRecorder::active();
  return recorder == nullptr ? NVTX_NO_PUSH_POP_TRACKING : recorder->pop(domain);
}

// ---- Core ---------------------------------------------------------------------------------------

void NVTX_API mark_ex(const nvtxEventAttributes_t* attributes) {
  record_mark(Event(nullptr, attributes));
}
template <typename Char>
void NVTX_API mark(const Char* message) {
  record_mark(Event(message));
}
nvtxRangeId_t NVTX_API range_start_ex(const nvtxEventAttributes_t* attributes) {
  return record_start(Event(nullptr, attributes));
}
template <typename Char>
nvtxRangeId_t NVTX_API range_start(const Char* message) {
  return record_start(Event(message));
}
void NVTX_API range_end(nvtxRangeId_t range) {
  record_end(0, range);
}
int NVTX_API range_push_ex(const nvtxEventAttributes_t* attributes) {
  return record_push(Event(nullptr, attributes));
}
template <typename Char>
int NVTX_API range_push(const Char* message) {
  return record_push(Event(message));
}
int NVTX_API range_pop() {
  return record_pop(0);
}
template <typename Char>
void NVTX_API name_thread(std::uint32_t tid, const Char* name) {
  if (NvtxRecorder* recorder = NvtxRecorder::active()) recorder->name_thread(tid, NvtxText(name));
}

// ---- Domains ------------------------------------------------------------------------------------

void NVTX_API domain_mark_ex(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  record_mark(Event(domain, attributes));
}
nvtxRangeId_t NVTX_API domain_range_start_ex(nvtxDomainHandle_t domain,
                                             const nvtxEventAttributes_t* attributes) {
  return record_start(Event(domain, attributes));
}
void NVTX_API domain_range_end(nvtxDomainHandle_t domain, nvtxRangeId_t range) {
  record_end(number_of(domain), range);
}
int NVTX_API domain_range_push_ex(nvtxDomainHandle_t domain,
                                  const nvtxEventAttributes_t* attributes) {
  return record_push(Event(domain, attributes));
}
int NVTX_API domain_range_pop(nvtxDomainHandle_t domain) {
  return record_pop(number_of(domain));
}
template <typename Char>
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const Char* string) {
  return handle_of<nvtxStringHandle_t>(nvtx_strings().number(NvtxText(string)));
}
// A domain stays known when it is destroyed: its events may not have been read yet.
template <typename Char>
nvtxDomainHandle_t NVTX_API create_domain(const Char* name) {
  return handle_of<nvtxDomainHandle_t>(nvtx_domains().number(NvtxText(name)));
}

// ---- CUDA ---------------------------------------------------------------------------------------

template <typename Char>
void NVTX_API name_stream(void* stream, const Char* name) {
  Session::name_stream(static_cast<CUstream>(stream), NvtxText(name));
}

// ---- Tables -------------------------------------------------------------------------------------

struct Table {
  NvtxFunctionTable slots = nullptr;
  unsigned size = 0;

  template <typename Function>
  void set(unsigned id, Function function) const {
    // A copy of another version may know fewer functions.
    if (id >= size || slots[id] == nullptr) return;
    *slots[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  }
};

Table find_table(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
  Table table;
  if (callbacks.GetModuleFunctionTable(module, &table.slots, &table.size) != 1) return {};
  return table.slots == nullptr ? Table{} : table;
}

void fill_core(const Table& table) {
  table.set(NVTX_CBID_CORE_MarkEx, &mark_ex);
  table.set(NVTX_CBID_CORE_MarkA, &mark<char>);
  table.set(NVTX_CBID_CORE_MarkW, &mark<wchar_t>);
  table.set(NVTX_CBID_CORE_RangeStartEx, &range_start_ex);
  table.set(NVTX_CBID_CORE_RangeStartA, &range_start<char>);
  table.set(NVTX_CBID_CORE_RangeStartW, &range_start<wchar_t>);
  table.set(NVTX_CBID_CORE_RangeEnd, &range_end);
  table.set(NVTX_CBID_CORE_RangePushEx, &range_push_ex);
  table.set(NVTX_CBID_CORE_RangePushA, &range_push<char>);
  table.set(NVTX_CBID_CORE_RangePushW, &range_push<wchar_t>);
  table.set(NVTX_CBID_CORE_RangePop, &range_pop);
  table.set(NVTX_CBID_CORE_NameOsThreadA, &name_thread<char>);
  table.set(NVTX_CBID_CORE_NameOsThreadW, &name_thread<wchar_t>);
}

void fill_core2(const Table& table) {
  table.set(NVTX_CBID_CORE2_DomainMarkEx, &domain_mark_ex);
  table.set(NVTX_CBID_CORE2_DomainRangeStartEx, &domain_range_start_ex);
  table.set(NVTX_CBID_CORE2_DomainRangeEnd, &domain_range_end);
  table.set(NVTX_CBID_CORE2_DomainRangePushEx, &domain_range_push_ex);
  table.set(NVTX_CBID_CORE2_DomainRangePop, &domain_range_pop);
  table.set(NVTX_CBID_CORE2_DomainRegisterStringA, &register_string<char>);
  table.set(NVTX_CBID_CORE2_DomainRegisterStringW, &register_string<wchar_t>);
  table.set(NVTX_CBID_CORE2_DomainCreateA, &create_domain<char>);
  table.set(NVTX_CBID_CORE2_DomainCreateW, &create_domain<wchar_t>);
}

}  // namespace

bool fill_nvtx_tables(NvtxGetExportTableFunc_t get_export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks ||
      callbacks->GetModuleFunctionTable == nullptr) {
    return false;
  }
  fill_core(find_table(*callbacks, NVTX_CB_MODULE_CORE));
  fill_core2(find_table(*callbacks, NVTX_CB_MODULE_CORE2));
  const Table driver = find_table(*callbacks, NVTX_CB_MODULE_CUDA);
  driver.set(NVTX_CBID_CUDA_NameCuStreamA, &name_stream<char>);
  driver.set(NVTX_CBID_CUDA_NameCuStreamW, &name_stream<wchar_t>);
  const Table runtime = find_table(*callbacks, NVTX_CB_MODULE_CUDART);
  runtime.set(NVTX_CBID_CUDART_NameCudaStreamA, &name_stream<char>);
  runtime.set(NVTX_CBID_CUDART_NameCudaStreamW, &name_stream<wchar_t>);

  const auto* version =
      static_cast<const NvtxExportTableVersionInfo*>(get_export_table(NVTX_ETID_VERSIONINFO));
  if (version != nullptr && version->struct_size >= sizeof *version &&
      version->SetInjectionNvtxVersion != nullptr) {
    version->SetInjectionNvtxVersion(NVTX_VERSION);
  }
  return true;
}

}  // namespace profiler::injector
