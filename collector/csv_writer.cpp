#include "collector/csv_writer.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace profiler {
namespace {

constexpr std::pair<std::string_view, std::string_view> kFiles[] = {
    {"kernels.csv",
     "name,device,count,total_ns,mean_ns,median_ns,p99_ns,min_ns,max_ns,stddev_ns,"
     "launch_latency_median_ns,launch_latency_max_ns,queue_delay_median_ns,queue_delay_max_ns,"
     "shorter_than_launch"},
    {"copies.csv", "kind,source,destination,count,bytes,total_ns"},
    {"api.csv", "name,count,total_ns,self_ns,failures"},
    {"gaps.csv",
     "gap,device,gap_start_ns,gap_duration_ns,start_ns,duration_ns,cause,pid,tid,before,after,"
     "opened_by,nvtx_path"},
    {"operations.csv",
     "start_ns,duration_ns,kind,name,device,pid,context,stream,correlation,bytes,source,"
     "destination,tid,call,call_start_ns,call_duration_ns"},
};

Error cannot(const std::string& path, const char* what, const std::string& reason) {
  return {"'" + path + "' cannot be " + what + " (" + reason + ")."};
}

}  // namespace

Result<CsvWriter> CsvWriter::create(const std::string& directory, bool force) {
  namespace fs = std::filesystem;
  if (directory.empty()) return Error{"The folder for CSV files has an empty name."};
  std::error_code code;
  if (fs::exists(directory, code) && !fs::is_directory(directory, code)) {
    return Error{"'" + directory + "' is a file, and CSV files need a folder: name another one."};
  }
  fs::create_directories(directory, code);
  if (code) return cannot(directory, "made", code.message());

  CsvWriter writer;
  for (const auto& [name, header] : kFiles) {
    const fs::path path = fs::path(directory) / name;
    const fs::file_status status = fs::symlink_status(path, code);
    if (fs::exists(status) && !fs::is_regular_file(status)) {
      return Error{"'" + path.string() + "' is not a regular file: name another folder."};
    }
    if (fs::exists(status) && !force) {
      return Error{"'" + path.string() +
                   "' exists: name another folder, or overwrite it with --force."};
    }
    writer.files_.push_back({path.string(), {}});
  }
  for (std::size_t i = 0; i < writer.files_.size(); ++i) {
    File& file = writer.files_[i];
    file.stream.open(file.path, std::ios::binary | std::ios::trunc);
    if (!file.stream) return cannot(file.path, "written", std::strerror(errno));
    file.stream << kFiles[i].second << "\r\n";
  }
  return writer;
}

void CsvWriter::cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    row_.append(text);
  } else {
    row_ += '"';
    for (const char c : text) {
      if (c == '"') row_ += '"';
      row_ += c;
    }
    row_ += '"';
  }
  row_ += ',';
}

void CsvWriter::cell(std::uint64_t number) {
  row_ += std::to_string(number);
  row_ += ',';
}

void CsvWriter::end_row(Table table) {
  row_.pop_back();  // the comma after the last cell
  row_ += "\r\n";
  files_[table].stream.write(row_.data(), static_cast<std::streamsize>(row_.size()));
  row_.clear();
}

void CsvWriter::tables(const Summary& summary) {
  for (const KernelSummary& kernel : summary.kernels) {
    cell(kernel.name);
    for (const std::uint64_t number :
         {kernel.device, kernel.count, kernel.total_ns, kernel.mean_ns, kernel.median_ns,
          kernel.p99_ns, kernel.min_ns, kernel.max_ns, kernel.stddev_ns,
          kernel.launch_latency.median_ns, kernel.launch_latency.max_ns,
          kernel.queue_delay.median_ns, kernel.queue_delay.max_ns, kernel.shorter_than_launch}) {
      cell(number);
    }
    end_row(kKernels);
  }
  for (const CopySummary& copy : summary.copies) {
    cell(copy.kind);
    cell(copy.source);
    cell(copy.destination);
    cell(copy.count);
    cell(copy.bytes);
    cell(copy.total_ns);
    end_row(kCopies);
  }
  for (const ApiSummary& call : summary.api) {
    cell(call.name);
    cell(call.count);
    cell(call.total_ns);
    cell(call.self_ns);
    cell(call.failures);
    end_row(kApi);
  }
}

void CsvWriter::operation(const CsvOperation& operation) {
  cell(operation.start_ns);
  cell(operation.duration_ns);
  cell(operation.kind);
  cell(operation.name);
  cell(operation.device);
  cell(operation.pid);
  cell(operation.context);
  cell(operation.stream);
  cell(operation.correlation);
  if (operation.has_bytes) {
    cell(operation.bytes);
  } else {
    empty_cell();
  }
  cell(operation.source);
  cell(operation.destination);
  if (operation.has_launch) {
    cell(operation.tid);
    cell(operation.call);
    cell(operation.call_start_ns);
    cell(operation.call_duration_ns);
  } else {
    for (int i = 0; i < 4; ++i) empty_cell();
  }
  end_row(kOperations);
}

void CsvWriter::gap_piece(const CsvGapPiece& piece) {
  cell(piece.gap);
  cell(piece.device);
  cell(piece.gap_start_ns);
  cell(piece.gap_duration_ns);
  cell(piece.start_ns);
  cell(piece.duration_ns);
  cell(piece.cause);
  if (piece.pid != 0) {
    cell(piece.pid);
    cell(piece.tid);
  } else {
    empty_cell();
    empty_cell();
  }
  cell(piece.before);
  cell(piece.after);
  cell(piece.opened_by);
  cell(piece.nvtx_path);
  end_row(kGaps);
}

Status CsvWriter::finish() {
  Status status = Done{};
  for (File& file : files_) {
    file.stream.close();
    if (!file.stream && status.ok()) status = cannot(file.path, "written", std::strerror(errno));
  }
  return status;
}

}  // namespace profiler
