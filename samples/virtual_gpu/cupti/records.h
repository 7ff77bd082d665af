// Fills the toolkit's own record structs, in the newest layout that it has.
#pragma once

#include <cupti.h>

#include <cstddef>

#include "samples/virtual_gpu/engine/interface.h"

namespace virtual_gpu {

#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
using CopyRecord = CUpti_ActivityMemcpy6;
using ContextRecord = CUpti_ActivityContext3;
using SynchronizationRecord = CUpti_ActivitySynchronization2;
using EventRecord = CUpti_ActivityCudaEvent2;
#else
using KernelRecord = CUpti_ActivityKernel9;
using CopyRecord = CUpti_ActivityMemcpy5;
using ContextRecord = CUpti_ActivityContext2;
using SynchronizationRecord = CUpti_ActivitySynchronization;
using EventRecord = CUpti_ActivityCudaEvent;
#endif
using OverheadRecord = CUpti_ActivityOverhead3;
using PeerCopyRecord = CUpti_ActivityMemcpyPtoP4;
using SetRecord = CUpti_ActivityMemset4;
using DeviceRecord = CUpti_ActivityDevice5;

// Bytes of a record of `kind`; 0 if this library writes none of that kind.
std::size_t record_bytes(CUpti_ActivityKind kind);

KernelRecord kernel_record(const Operation& operation, CUpti_ActivityKind kind,
                           std::uint64_t queued_ns);
CopyRecord copy_record(const Operation& operation);
SetRecord set_record(const Operation& operation);
// The name is the client's to free.
DeviceRecord device_record(std::uint32_t device, const Model& model);
ContextRecord context_record(const ContextFacts& facts, const Model& model);
CUpti_ActivityStream stream_record(const StreamFacts& facts, std::uint32_t correlation);
CUpti_ActivityAPI api_record(const ApiCall& call, std::uint64_t end_ns, std::uint32_t result,
                             std::uint32_t thread);
SynchronizationRecord synchronization_record(const Synchronization& synchronization);
EventRecord event_record(const EventRecording& recording);
// What overheadData points to is the client's to free.
OverheadRecord overhead_record(const Overhead& overhead, std::uint32_t thread);

// Writes start and end into the record of an operation.
void set_times(void* record, Times times);

}  // namespace virtual_gpu
