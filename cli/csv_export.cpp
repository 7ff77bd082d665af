#include "cli/csv_export.h"

#include <vector>

#include "collector/cause.h"
#include "collector/moment.h"
#include "collector/summarize.h"

namespace profiler {
namespace {

std::uint64_t since(std::uint64_t start, std::uint64_t at) {
  return at > start ? at - start : 0;
}

void write_operations(CsvWriter& writer, const RunFacts& facts, const Catalog& catalog,
                      const Timeline& timeline, const Analysis& analysis,
                      const std::vector<std::uint64_t>& position) {
  const std::vector<LaneOperation>& operations = timeline.operations();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const LaneOperation& operation = operations[i];
    if (operation.queue == kNone) continue;
    const Queue& queue = catalog.queues[operation.queue];
    CsvOperation row;
    std::string name;
    std::string source;
    std::string destination;
    row.start_ns = since(facts.start_ns, operation.start);
    row.duration_ns = operation.end - operation.start;
    if (operation.kind == OperationKind::kKernel) {
      row.kind = "kernel";
      if (operation.what < catalog.kernel_functions.size())
        row.name = catalog.kernel_functions[operation.what].name;
    } else {
      const Transfer& transfer = timeline.transfers()[operation.what];
      const bool is_copy = operation.kind == OperationKind::kMemcpy;
      row.kind = is_copy ? "copy" : "set";
      if (is_copy) {
        name = copy_kind_name(transfer.copy_kind);
        source = memory_kind_name(transfer.source_kind);
      }
      destination = memory_kind_name(transfer.destination_kind);
      row.name = name;
      row.has_bytes = true;
      row.bytes = transfer.bytes;
      row.source = source;
      row.destination = destination;
    }
    row.device = queue.device == kNone ? 0 : position[queue.device];
    row.pid = catalog.processes[queue.process].pid;
    row.context = queue.context;
    row.stream = queue.stream;
    row.correlation = operation.correlation;
    if (const std::uint32_t index = analysis.matches().call_of_operation[i]; index != kNone) {
      const ApiCall& call = timeline.calls()[index];
      row.has_launch = true;
      row.tid = catalog.threads[call.thread].tid;
      row.call = catalog.api_functions[call.function].name;
      row.call_start_ns = since(facts.start_ns, call.start);
      row.call_duration_ns = call.end - call.start;
    }
    writer.operation(row);
  }
}

void write_gaps(CsvWriter& writer, const RunFacts& facts, const Catalog& catalog,
                const Timeline& timeline, Analysis& analysis, const GapCollection& gaps,
                const std::vector<std::uint64_t>& position) {
  std::vector<std::uint64_t> number(catalog.devices.size(), 0);
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    const GapFacts gap = gaps.gap(i);
    const std::string before = operation_label(catalog, timeline, gap.before);
    const std::string after = operation_label(catalog, timeline, gap.after);
    std::string path;
    if (gap.launch != kNone)
      path = nvtx_path(catalog, analysis, timeline.calls()[gap.launch].thread, gap.gap.start);
    CsvGapPiece row;
    row.gap = ++number[gaps.device(i)];
    row.device = position[gaps.device(i)];
    row.gap_start_ns = since(facts.start_ns, gap.gap.start);
    row.gap_duration_ns = gap.gap.end - gap.gap.start;
    row.before = before;
    row.after = after;
    row.nvtx_path = path;
    if (gap.opened_by != kNone)
      row.opened_by = catalog.api_functions[timeline.calls()[gap.opened_by].function].name;
    for (const GapPiece& piece : gap.pieces) {
      row.start_ns = since(facts.start_ns, piece.start);
      row.duration_ns = piece.end - piece.start;
      row.cause = cause_name(piece.cause);
      row.pid = 0;
      row.tid = 0;
      if (piece.thread != kNone) {
        row.pid = catalog.processes[catalog.threads[piece.thread].process].pid;
        row.tid = catalog.threads[piece.thread].tid;
      }
      writer.gap_piece(row);
    }
  }
}

}  // namespace

Status export_csv(CsvWriter& writer, const Summary& summary, const RunFacts& facts,
                  const Catalog& catalog, const Timeline& timeline, Analysis& analysis,
                  const GapCollection& gaps) {
  const std::vector<std::uint64_t> position = device_positions(analysis, catalog);
  writer.tables(summary);
  write_operations(writer, facts, catalog, timeline, analysis, position);
  write_gaps(writer, facts, catalog, timeline, analysis, gaps, position);
  return writer.finish();
}

}  // namespace profiler
