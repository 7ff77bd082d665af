#include "collector/partition.h"

#include <algorithm>

namespace profiler {
namespace {

class GapPartition {
 public:
  GapPartition(Gap gap, const Launch& launch, std::uint64_t launch_window_ns, ThreadLanes& lanes,
               std::vector<GapPiece>& pieces)
      : gap_(gap),
        launch_(launch),
        window_(launch_window_ns),
        lanes_(lanes),
        pieces_(pieces),
        first_(pieces.size()),
        call_start_(std::min(launch.start, gap.end)),
        call_end_(std::max(launch.end, call_start_)) {}

  void run() {
    if (call_start_ > gap_.start) wait_for_host();
    launching();
  }

 private:
  void append(GapPiece piece) {
    if (piece.start >= piece.end) return;
    if (pieces_.size() > first_) {
      GapPiece& last = pieces_.back();
      if (last.cause == piece.cause && last.thread == piece.thread &&
          last.handed_over == piece.handed_over && last.end == piece.start) {
        last.end = piece.end;
        return;
      }
    }
    pieces_.push_back(piece);
  }

  // Rule 3: [a, cs).
  void wait_for_host() {
    const std::uint64_t from = gap_.start;
    const std::uint64_t to = call_start_;
    const bool silent = !lanes_.has_call(launch_.thread, from, to);
    quiet_.clear();
    own_.clear();
    sweep_innermost(
        lanes_.records(launch_.thread, from, to), from, to,
        [&](std::uint64_t start, std::uint64_t end, const OpenRecord* record) {
          if (record == nullptr) {
            quiet_.push_back({start, end});
          } else {
            own_.push_back({start, end, lanes_.cause_of(*record), launch_.thread, false});
          }
        });
    // What the thread itself did, and between that what others did, in order of time.
    std::size_t next_own = 0;
    for (const Gap& part : quiet_) {
      while (next_own < own_.size() && own_[next_own].start < part.start) append(own_[next_own++]);
      fill(part, silent);
    }
    while (next_own < own_.size()) append(own_[next_own++]);
  }

  // Instants at which the launching thread had nothing open.
  void fill(Gap part, bool silent) {
    if (!silent) {
      host_code(part);
      return;
    }
    sweep_innermost(lanes_.waiting_elsewhere(launch_.thread, gap_.start, call_start_), part.start,
                    part.end,
                    [&](std::uint64_t start, std::uint64_t end, const OpenRecord* record) {
                      if (record == nullptr) {
                        host_code({start, end});
                        return;
                      }
                      append({start, end, lanes_.class_of(record->index),
                              lanes_.calls()[record->index].thread, true});
                    });
  }

  void host_code(Gap part) {
    const std::uint64_t hello = std::clamp(launch_.process_hello_ns, part.start, part.end);
    append({part.start, hello, Cause::kProcessStarting, launch_.thread, false});
    append({hello, part.end, Cause::kCpuCode, launch_.thread, false});
  }

  // Rules 4 and 5: [max(a, cs), b).
  void launching() {
    const std::uint64_t from = std::max(gap_.start, call_start_);
    const std::uint64_t call_end = std::clamp(call_end_, from, gap_.end);
    sweep_innermost(overheads(from, call_end), from, call_end,
                    [&](std::uint64_t start, std::uint64_t end, const OpenRecord* record) {
                      if (record == nullptr) {
                        on_its_way({start, end});
                      } else {
                        append({start, end, lanes_.cause_of(*record), kNone, false});
                      }
                    });
    on_its_way({call_end, gap_.end});
  }

  std::span<const OpenRecord> overheads(std::uint64_t from, std::uint64_t to) {
    overheads_.clear();
    for (const OpenRecord& record : lanes_.records(launch_.thread, from, to)) {
      if (ThreadLanes::is_overhead(record)) overheads_.push_back(record);
    }
    return overheads_;
  }

  void on_its_way(Gap part) {
    if (launch_.is_staged_copy) {
      append({part.start, part.end, Cause::kStaging, kNone, false});
      return;
    }
    if (call_start_ > gap_.start) {
      append({part.start, part.end, Cause::kLaunchLatency, kNone, false});
      return;
    }
    // Submitted before the gap: an undisturbed launch explains the window after its start, and the
    // whole of a call that returned before the operation began.
    std::uint64_t late = call_start_ + std::min(window_, UINT64_MAX - call_start_);
    if (call_end_ < gap_.end) late = std::max(late, call_end_);
    late = std::clamp(late, part.start, part.end);
    append({part.start, late, Cause::kLaunchLatency, kNone, false});
    append({late, part.end, Cause::kScheduling, kNone, false});
  }

  Gap gap_;
  const Launch& launch_;
  std::uint64_t window_;
  ThreadLanes& lanes_;
  std::vector<GapPiece>& pieces_;
  std::size_t first_;
  std::uint64_t call_start_;
  std::uint64_t call_end_;
  std::vector<Gap> quiet_;
  std::vector<GapPiece> own_;
  std::vector<OpenRecord> overheads_;
};

}  // namespace

bool partition_gap(Gap gap, const Launch* launch, std::uint64_t launch_window_ns,
                   ThreadLanes& lanes, std::vector<GapPiece>& pieces) {
  if (launch == nullptr) {
    pieces.push_back({gap.start, gap.end, Cause::kUnknownLaunch, kNone, false});
    return false;
  }
  GapPartition(gap, *launch, launch_window_ns, lanes, pieces).run();
  return launch->start > gap.end;
}

}  // namespace profiler
