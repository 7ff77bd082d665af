// The tables of a run as CSV files in a folder, for spreadsheets and scripts: RFC 4180, one header
// row, times in ns and sizes in bytes as integers. Times of moments are since the start of the run.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "collector/result.h"
#include "collector/summary.h"

namespace profiler {

// A row of operations.csv: one piece of GPU work. Empty texts and unknown numbers are empty cells.
struct CsvOperation {
  std::uint64_t start_ns = 0;
  std::uint64_t duration_ns = 0;
  std::string_view kind;     // "kernel", "copy", "set"
  std::string_view name;     // kernel: demangled; copy: "HtoD"
  std::uint64_t device = 0;  // index into Summary::devices
  std::uint64_t pid = 0;
  std::uint64_t context = 0;
  std::uint64_t stream = 0;
  std::uint64_t correlation = 0;
  bool has_bytes = false;
  std::uint64_t bytes = 0;
  std::string_view source;  // kinds of memory; copies
  std::string_view destination;
  bool has_launch = false;  // the next ones are of the submitting call
  std::uint64_t tid = 0;
  std::string_view call;
  std::uint64_t call_start_ns = 0;
  std::uint64_t call_duration_ns = 0;
};

// A row of gaps.csv: one piece of a gap, the time of one cause. Those of one gap share `gap`.
struct CsvGapPiece {
  std::uint64_t gap = 0;     // from 1, in order of time on its device
  std::uint64_t device = 0;  // index into Summary::devices
  std::uint64_t gap_start_ns = 0;
  std::uint64_t gap_duration_ns = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t duration_ns = 0;
  std::string_view cause;
  std::uint64_t pid = 0;  // of the thread that the GPU waited for; 0 = none
  std::uint64_t tid = 0;
  std::string_view before;  // operations
  std::string_view after;
  std::string_view opened_by;  // call
  std::string_view nvtx_path;
};

class CsvWriter {
 public:
  // Makes the folder where it is missing. Files that exist are overwritten only by `force`; without
  // it nothing is written when one of them exists.
  static Result<CsvWriter> create(const std::string& directory, bool force);

  // kernels.csv, copies.csv, api.csv.
  void tables(const Summary& summary);
  void operation(const CsvOperation& operation);
  void gap_piece(const CsvGapPiece& piece);

  // Closes the files; the first error there was.
  Status finish();

 private:
  struct File {
    std::string path;
    std::ofstream stream;
  };
  enum Table : std::size_t { kKernels, kCopies, kApi, kGaps, kOperations, kTables };

  CsvWriter() = default;
  void cell(std::string_view text);
  void cell(std::uint64_t number);
  void empty_cell() { cell(std::string_view()); }
  void end_row(Table table);

  std::vector<File> files_;  // by Table
  std::string row_;
};

}  // namespace profiler
