// `--csv DIR`: the tables of a run, and every operation and gap of it, as CSV files.
#pragma once

#include "collector/analysis.h"
#include "collector/csv_writer.h"
#include "collector/gap_collection.h"
#include "collector/recording.h"
#include "collector/result.h"
#include "collector/summary.h"

namespace profiler {

// `gaps`: all of `analysis`. Closes the writer; the first error there was.
Status export_csv(CsvWriter& writer, const Summary& summary, const RunFacts& facts,
                  const Catalog& catalog, const Timeline& timeline, Analysis& analysis,
                  const GapCollection& gaps);

}  // namespace profiler
