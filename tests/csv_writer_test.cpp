#include "collector/csv_writer.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/catch.h"
#include "tests/scratch_folder.h"

namespace profiler {
namespace {

using Folder = test::ScratchFolder;

// Without the header row.
std::string rows(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t end = text.find("\r\n");
  REQUIRE(end != std::string::npos);
  return text.substr(end + 2);
}

std::size_t columns(const std::string& path) {
  std::ifstream file(path);
  std::string header;
  std::getline(file, header);
  return static_cast<std::size_t>(std::count(header.begin(), header.end(), ',')) + 1;
}

TEST_CASE("tables become CSV files") {
  Folder folder;
  Summary summary;
  KernelSummary kernel;
  kernel.name = "void gemm<float, 4>(char const*, \"x\")";
  kernel.device = 1;
  kernel.count = 3;
  kernel.total_ns = UINT64_MAX;
  kernel.shorter_than_launch = 2;
  summary.kernels.push_back(kernel);
  summary.copies.push_back({"HtoD", "pageable", "device", 2, 4096, 77});
  ApiSummary call;
  call.name = "line\nbreak";
  call.count = 1;
  call.failures = 4;
  summary.api.push_back(call);

  Result<CsvWriter> writer = CsvWriter::create(folder / "new/csv", false);
  REQUIRE(writer.ok());
  writer->tables(summary);
  CsvOperation kernel_row;
  kernel_row.start_ns = 10;
  kernel_row.duration_ns = 5;
  kernel_row.kind = "kernel";
  kernel_row.name = "a,b";
  kernel_row.pid = 4242;
  kernel_row.context = 1;
  kernel_row.stream = 7;
  kernel_row.correlation = 9;
  writer->operation(kernel_row);
  CsvOperation copy_row = kernel_row;
  copy_row.kind = "copy";
  copy_row.name = "HtoD";
  copy_row.has_bytes = true;
  copy_row.source = "pinned";
  copy_row.destination = "device";
  copy_row.has_launch = true;
  copy_row.tid = 11;
  copy_row.call = "cudaMemcpyAsync";
  copy_row.call_start_ns = 1;
  copy_row.call_duration_ns = 2;
  writer->operation(copy_row);
  CsvGapPiece piece;
  piece.gap = 1;
  piece.gap_start_ns = 100;
  piece.gap_duration_ns = 50;
  piece.start_ns = 100;
  piece.duration_ns = 20;
  piece.cause = "launch latency";
  piece.after = "kernel x";
  writer->gap_piece(piece);
  piece.pid = 4242;
  piece.tid = 11;
  writer->gap_piece(piece);
  REQUIRE(writer->finish().ok());

  const std::string csv = folder / "new/csv/";
  CHECK(rows(csv + "kernels.csv") ==
        "\"void gemm<float, 4>(char const*, \"\"x\"\")\",1,3,18446744073709551615,0,0,0,0,0,0,0,0,"
        "0,0,2\r\n");
  CHECK(rows(csv + "copies.csv") == "HtoD,pageable,device,2,4096,77\r\n");
  CHECK(rows(csv + "api.csv") == "\"line\nbreak\",1,0,0,4\r\n");
  CHECK(rows(csv + "operations.csv") ==
        "10,5,kernel,\"a,b\",0,4242,1,7,9,,,,,,,\r\n"
        "10,5,copy,HtoD,0,4242,1,7,9,0,pinned,device,11,cudaMemcpyAsync,1,2\r\n");
  CHECK(rows(csv + "gaps.csv") ==
        "1,0,100,50,100,20,launch latency,,,,kernel x,,\r\n"
        "1,0,100,50,100,20,launch latency,4242,11,,kernel x,,\r\n");
  CHECK(columns(csv + "kernels.csv") == 15);
  CHECK(columns(csv + "operations.csv") == 16);
  CHECK(columns(csv + "gaps.csv") == 13);
}

TEST_CASE("CSV files are overwritten only by force") {
  Folder folder;
  REQUIRE(CsvWriter::create(folder / "csv", false)->finish().ok());
  std::filesystem::remove(folder / "csv/kernels.csv");
  const Result<CsvWriter> again = CsvWriter::create(folder / "csv", false);
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().message.find("--force") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "csv/kernels.csv"));
  CHECK(CsvWriter::create(folder / "csv", true).ok());
  CHECK(std::filesystem::exists(folder / "csv/kernels.csv"));

  std::ofstream(folder / "file") << "x";
  CHECK_FALSE(CsvWriter::create(folder / "file", true).ok());
  CHECK_FALSE(CsvWriter::create(folder / "file/csv", true).ok());
  CHECK_FALSE(CsvWriter::create("", true).ok());
  std::filesystem::remove(folder / "csv/api.csv");
  std::filesystem::create_symlink(folder / "file", folder / "csv/api.csv");
  CHECK_FALSE(CsvWriter::create(folder / "csv", true).ok());
}

}  // namespace
}  // namespace profiler
