// The kinds of activity records that the injector knows, one row each.
#pragma once

#include <cupti.h>

#include "injector/record_encoder.h"

namespace profiler::injector {

enum class KindUse {
  kAlways,     // enabled from start to end: definitions that later records refer to
  kRecording,  // enabled while recording
  kReadOnly,   // encoded if CUPTI delivers it, not enabled by us
};

struct ActivityKindRow {
  CUpti_ActivityKind kind;
  KindUse use;
  const char* name;
  void (RecordEncoder::*encode)(const CUpti_Activity*);
};

// Device and context first: their records then precede those that refer to them.
inline constexpr ActivityKindRow kActivityKinds[] = {
    {CUPTI_ACTIVITY_KIND_DEVICE, KindUse::kAlways, "DEVICE", &RecordEncoder::device},
    {CUPTI_ACTIVITY_KIND_CONTEXT, KindUse::kAlways, "CONTEXT", &RecordEncoder::context},
    {CUPTI_ACTIVITY_KIND_RUNTIME, KindUse::kRecording, "RUNTIME", &RecordEncoder::runtime_call},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, KindUse::kRecording, "CONCURRENT_KERNEL",
     &RecordEncoder::kernel},
    {CUPTI_ACTIVITY_KIND_MEMCPY, KindUse::kRecording, "MEMCPY", &RecordEncoder::copy},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, KindUse::kRecording, "MEMCPY2", &RecordEncoder::peer_copy},
    {CUPTI_ACTIVITY_KIND_MEMSET, KindUse::kRecording, "MEMSET", &RecordEncoder::set},
    {CUPTI_ACTIVITY_KIND_DRIVER, KindUse::kRecording, "DRIVER", &RecordEncoder::driver_call},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, KindUse::kRecording, "SYNCHRONIZATION",
     &RecordEncoder::synchronization},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, KindUse::kRecording, "CUDA_EVENT",
     &RecordEncoder::event_record},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, KindUse::kRecording, "OVERHEAD", &RecordEncoder::overhead},
    {CUPTI_ACTIVITY_KIND_KERNEL, KindUse::kReadOnly, "KERNEL", &RecordEncoder::kernel},
};

// Null for a kind that is not in the table.
inline const ActivityKindRow* find_activity_kind(CUpti_ActivityKind kind) {
  for (const ActivityKindRow& row : kActivityKinds) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

}  // namespace profiler::injector
