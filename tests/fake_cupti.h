// A stand-in for libcupti for the injector's unit tests: no device, no threads, records made by
// hand. It keeps CUPTI's ways of handling buffers: one is asked for when a record does not fit, it
// comes back when full or flushed, and records without a buffer are dropped and counted.
//
// State is the process's; a forked child has its own copy.
#pragma once

#include <cuda.h>
#include <cupti.h>

#include <cstddef>
#include <cstdint>

#include "injector/cupti_api.h"

namespace profiler::fake_cupti {

injector::CuptiFunctions functions();

void reset();
void set_version(std::uint32_t version);     // default 130001
void set_enable_result(CUptiResult result);  // of cuptiActivityEnable, for all kinds
void set_subscribe_result(CUptiResult result);
void set_flush_block_ms(std::uint32_t milliseconds);  // how long a forced flush hangs

// Puts a record into the open buffer. False: dropped.
bool append(const void* record, std::size_t size);
template <typename Record>
bool append(const Record& record) {
  return append(&record, sizeof record);
}
// The driver destroys a context: runs the resource callback.
void destroy_context();

std::uint64_t now();  // through the registered timestamp callback
bool is_enabled(CUpti_ActivityKind kind);
std::uint32_t requests_declined();

// How long the record of a kind is in CUDA 13.0; 0 for kinds that the stand-in does not know.
std::size_t record_size(CUpti_ActivityKind kind);

}  // namespace profiler::fake_cupti
