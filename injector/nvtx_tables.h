// Our functions in the tables through which a copy of NVTX in the program calls its tool.
#pragma once

// Declarations alone: the inline functions would look for a tool themselves.
#ifndef NVTX_NO_IMPL
#define NVTX_NO_IMPL
#endif
#include <nvtx3/nvToolsExt.h>

namespace profiler::injector {

// Each library of the program can have a copy of NVTX, with tables of its own. False: the copy has
// no tables for us; its calls then do nothing.
bool fill_nvtx_tables(NvtxGetExportTableFunc_t get_export_table);

}  // namespace profiler::injector
