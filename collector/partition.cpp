#include "collector/partition.h"

#include <algorithm>

namespace profiler {
namespace {

void append(std::vector<GapPiece>& pieces, std::size_t first, GapPiece piece) {
  if (piece.start >= piece.end) return;
  if (pieces.size() > first && pieces.back().cause == piece.cause &&
      pieces.back().end == piece.start) {
    pieces.back().end = piece.end;
    return;
  }
  pieces.push_back(piece);
}

}  // namespace

std::string_view cause_name(Cause cause) {
  switch (cause) {
    case Cause::kUnknownLaunch:
      return "unknown launch";
    case Cause::kHost:
      return "host";
    case Cause::kLaunchLatency:
      return "launch latency";
    case Cause::kScheduling:
      return "scheduling";
  }
  return "";
}

bool partition_gap(Gap gap, const Launch* launch, std::uint64_t launch_window_ns,
                   std::vector<GapPiece>& pieces) {
  const std::size_t first = pieces.size();
  if (launch == nullptr) {
    append(pieces, first, {gap.start, gap.end, Cause::kUnknownLaunch});
    return false;
  }
  const std::uint64_t call_start = std::min(launch->start, gap.end);
  const std::uint64_t call_end = std::max(launch->end, call_start);
  const bool clock_fault = call_start != launch->start || call_end != launch->end;

  if (call_start > gap.start) {
    append(pieces, first, {gap.start, call_start, Cause::kHost});
    append(pieces, first, {call_start, gap.end, Cause::kLaunchLatency});
    return clock_fault;
  }
  // Submitted before the gap: an undisturbed launch explains the window after its start, and the
  // whole of a call that returned before the operation began.
  std::uint64_t late = call_start + std::min(launch_window_ns, UINT64_MAX - call_start);
  if (call_end < gap.end) late = std::max(late, call_end);
  late = std::clamp(late, gap.start, gap.end);
  append(pieces, first, {gap.start, late, Cause::kLaunchLatency});
  append(pieces, first, {late, gap.end, Cause::kScheduling});
  return clock_fault;
}

}  // namespace profiler
