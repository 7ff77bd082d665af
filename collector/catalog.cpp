#include "collector/catalog.h"

#include <algorithm>
#include <cctype>

#include "collector/kernel_name.h"

namespace profiler {
namespace {

template <typename Map, typename Key, typename Table, typename Make>
std::uint32_t find_or_add(Map& index, const Key& key, Table& table, Make make) {
  const auto found = index.find(key);
  if (found != index.end()) return found->second;
  const auto added = static_cast<std::uint32_t>(table.size());
  table.push_back(make());
  index.emplace(key, added);
  return added;
}

bool strip_suffix(std::string_view& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  return true;
}

// "_v7000": the CUDA version at which the function took this form.
bool strip_version(std::string_view& name) {
  const std::size_t at = name.rfind("_v");
  if (at == std::string_view::npos || at == 0 || at + 2 == name.size()) return false;
  const std::string_view digits = name.substr(at + 2);
  if (!std::all_of(digits.begin(), digits.end(), [](unsigned char c) { return std::isdigit(c); }))
    return false;
  name.remove_suffix(name.size() - at);
  return true;
}

}  // namespace

std::string display_api_name(std::string_view raw) {
  std::string_view name = raw;
  while (name.starts_with("__")) name.remove_prefix(2);
  while (strip_suffix(name, "_ptsz") || strip_suffix(name, "_ptds") || strip_version(name)) {
  }
  return std::string(name);
}

ProcessIndex Catalog::add_process(Process process) {
  processes.push_back(std::move(process));
  return static_cast<ProcessIndex>(processes.size() - 1);
}

ThreadIndex Catalog::thread(ProcessIndex process, std::uint64_t tid) {
  return find_or_add(thread_index_, std::pair{process, tid}, threads, [&] {
    return Thread{process, tid, {}};
  });
}

DeviceIndex Catalog::device(ProcessIndex process, Device device) {
  DeviceIndex index = kNone;
  if (device.has_uuid) {
    index = find_or_add(device_by_uuid_, device.uuid, devices, [&] { return device; });
  } else {
    index = find_or_add(device_by_ordinal_, std::pair{process, device.ordinal}, devices,
                        [&] { return device; });
  }
  // Named by a queue before its own record arrived: fill in what is known now.
  if (devices[index].name.empty()) devices[index] = std::move(device);
  return index;
}

QueueIndex Catalog::queue(Queue queue) {
  return find_or_add(queue_index_,
                     std::tuple{queue.process, queue.device, queue.context, queue.stream}, queues,
                     [&] { return queue; });
}

FunctionIndex Catalog::api_function(ApiDomain domain, std::uint32_t callback_id,
                                    std::string_view raw_name) {
  return find_or_add(
      api_index_, std::tuple{domain, callback_id, std::string(raw_name)}, api_functions, [&] {
        std::string name = display_api_name(raw_name);
        if (name.empty()) {
          name = domain == ApiDomain::kDriver ? "driver call " : "runtime call ";
          name += std::to_string(callback_id);
        }
        return ApiFunction{domain, callback_id, std::string(raw_name), std::move(name)};
      });
}

FunctionIndex Catalog::kernel_function(std::string_view mangled, std::uint32_t registers,
                                       std::uint64_t static_shared_bytes,
                                       std::uint64_t local_bytes) {
  return find_or_add(kernel_index_,
                     std::tuple{std::string(mangled), registers, static_shared_bytes, local_bytes},
                     kernel_functions, [&] {
                       KernelFunction function;
                       function.mangled = mangled;
                       function.name = demangle(mangled);
                       function.short_name = short_kernel_name(function.name);
                       function.registers = registers;
                       function.static_shared_bytes = static_shared_bytes;
                       function.local_bytes = local_bytes;
                       return function;
                     });
}

TextId Catalog::text(std::string_view text) {
  return find_or_add(text_index_, std::string(text), texts, [&] { return std::string(text); });
}

DomainId Catalog::nvtx_domain(std::string_view name) {
  return find_or_add(domain_index_, std::string(name), nvtx_domains,
                     [&] { return std::string(name); });
}

}  // namespace profiler
