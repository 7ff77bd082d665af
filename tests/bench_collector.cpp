// How fast the collector is, and where its time goes: feeds it the wire stream of a synthetic run
// (tests/synthetic_run.h), without a pipe. Each measurement runs in a process of its own, so that
// its peak memory is its own; times are CPU seconds (user and system) of that process without the
// making of the stream. docs/benchmarks.md has results.
//
//   bench_collector [--launches N] [--no-trace | --trace FILE]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "collector/cause.h"
#include "collector/recording.h"
#include "collector/summarize.h"
#include "collector/summary_json.h"
#include "collector/trace_file.h"
#include "tests/synthetic_run.h"

namespace {

using namespace profiler;
using bench::SyntheticRun;

constexpr std::uint64_t kLaunchWindowNs = 10'000;
constexpr std::uint64_t kMinGapInTraceNs = 5'000;

struct Options {
  std::uint64_t launches = 10'000'000;
  std::optional<std::string> trace = "/dev/null";
};

std::uint64_t now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}
std::uint64_t cpu_now() {
  return now(CLOCK_PROCESS_CPUTIME_ID);
}

// Adds the CPU time of `body` to `total`, ns.
template <typename Body>
void timed(std::uint64_t& total, const Body& body) {
  const std::uint64_t before = cpu_now();
  body();
  total += cpu_now() - before;
}

double per(std::uint64_t total, std::uint64_t count) {
  return static_cast<double>(total) / static_cast<double>(count);
}
double seconds(std::uint64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

// Waits for `body` in a process of its own. False: it failed. `peak_bytes`: its memory at most.
bool in_own_process(const std::function<bool()>& body, std::uint64_t& peak_bytes) {
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    const bool good = body();
    std::fflush(nullptr);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  rusage usage{};
  if (pid < 0 || wait4(pid, &status, 0, &usage) != pid) return false;
  peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::unique_ptr<TraceWriter> make_writer(const std::optional<std::string>& path) {
  if (!path) return nullptr;
  auto file = TraceFile::create(*path, true);
  if (!file) {
    std::fprintf(stderr, "bench_collector: %s\n", file.error().message.c_str());
    std::exit(1);
  }
  auto writer = std::make_unique<TraceWriter>(std::move(*file));
  writer->preamble({SyntheticRun::kStart, SyntheticRun::kStart, SyntheticRun::kStart}, "benchmark",
                   {});
  return writer;
}

RunFacts facts_of(const SyntheticRun& run) {
  RunFacts facts;
  facts.command = {"synthetic"};
  facts.start_ns = SyntheticRun::kStart;
  facts.end_ns = run.end_ns() + 1;
  facts.launch_window_ns = kLaunchWindowNs;
  facts.min_gap_in_trace_ns = kMinGapInTraceNs;
  return facts;
}

// The splitter's room is as large as a read from a pipe: a frame may take several.
template <typename Commit>
void feed(FrameSplitter& splitter, std::span<const std::uint8_t> bytes, const Commit& commit) {
  while (!bytes.empty()) {
    const std::span<char> room = splitter.room();
    const std::size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    commit(count);
  }
}

// As `profiler` does it.
bool whole(std::uint64_t launches, const std::optional<std::string>& trace) {
  const std::unique_ptr<TraceWriter> writer = make_writer(trace);
  SyntheticRun run(launches);
  Recording recording(writer.get());
  const auto stream = recording.open(1);
  std::uint64_t receiving = 0;
  std::uint64_t finishing = 0;
  const std::uint64_t wall = now(CLOCK_MONOTONIC);
  for (auto frame = run.next(); !frame.empty(); frame = run.next()) {
    timed(receiving, [&] {
      feed(stream->splitter, frame, [&](std::size_t count) { recording.receive(*stream, count); });
    });
  }
  recording.close(*stream);
  Summary summary;
  timed(finishing, [&] {
    summary = recording.finish(facts_of(run));
    if (writer && !writer->finish()) std::exit(1);
  });
  const std::uint64_t total = receiving + finishing;
  const std::uint64_t records = 2 * launches;
  std::uint64_t gaps = 0;
  for (const DeviceActivity& device : recording.analysis().devices()) gaps += device.gap_count;
  std::printf(
      "  %.2f s CPU: %.2f while the program runs, %.2f at its end "
      "(%.2f s wall, making the stream included)\n",
      seconds(total), seconds(receiving), seconds(finishing), seconds(now(CLOCK_MONOTONIC) - wall));
  std::printf("  %.2f M records/s of one core; %.0f ns a record\n",
              static_cast<double>(records) * 1e3 / static_cast<double>(total), per(total, records));
  std::printf("  wire %.1f bytes a launch", per(run.bytes(), launches));
  if (writer) std::printf(", trace %.1f bytes a launch", per(writer->bytes(), launches));
  std::printf("; %.2f gaps a launch\n", per(gaps, launches));
  // A fast wrong result is worth nothing.
  const bool complete = recording.timeline().calls().size() == launches &&
                        recording.timeline().operations().size() == launches &&
                        recording.analysis().matches().launches == launches &&
                        recording.timeline().malformed() == 0;
  if (!complete) std::fprintf(stderr, "bench_collector: not every record came through\n");
  return complete;
}

struct Part {
  const char* name;
  std::uint64_t ns = 0;
};

// Every part on its own, in the order in which Recording and Analysis run them.
bool parts(std::uint64_t launches, const std::optional<std::string>& trace) {
  const std::unique_ptr<TraceWriter> writer = make_writer(trace);
  SyntheticRun run(launches);
  Catalog catalog;
  Timeline timeline(catalog);
  Part decoding{"decode"};
  Part adding{"timeline: add"};
  Part writing{"trace writer: records"};
  Part settling{"timeline: settle (sort, duplicates)"};
  Part laning{"lanes of threads"};
  Part matching{"launches matched"};
  Part partition{"gaps and partition"};
  Part writing_gaps{"trace writer: gaps"};
  Part statistics{"statistics of operations"};
  Part api_statistics{"statistics of API calls"};
  Part summarizing{"summary and its JSON"};

  {
    FrameSplitter splitter;
    WireDecoder decoder(catalog);
    DecodedFrame frame;
    bool good = true;
    const auto take = [&] {
      timed(adding.ns, [&] {
        timeline.add(std::span<const ApiCall>(frame.api_calls));
        timeline.add(std::span<const Operation>(frame.operations));
      });
      if (!writer) return;
      timed(writing.ns, [&] {
        if (frame.hello) writer->process(catalog, *frame.hello);
        for (const DeviceIndex device : frame.devices) writer->device(catalog, device);
        for (const ThreadIndex thread : frame.renamed_threads) writer->thread(catalog, thread);
        writer->api_calls(catalog, frame.api_calls);
        writer->operations(catalog, frame.operations);
      });
    };
    for (auto bytes = run.next(); !bytes.empty() && good; bytes = run.next()) {
      feed(splitter, bytes, [&](std::size_t count) {
        std::optional<std::string_view> body;
        timed(decoding.ns, [&] {
          splitter.commit(count);
          body = splitter.next();
          if (body) good = static_cast<bool>(decoder.decode(*body, frame));
        });
        if (body && good) take();
      });
    }
    if (!good) return false;
  }
  timed(settling.ns, [&] { timeline.settle(); });
  const RunFacts facts = facts_of(run);
  {
    std::optional<ThreadLanes> lanes;
    timed(laning.ns, [&] {
      lanes.emplace(timeline.calls(), timeline.overheads(), std::span<const NvtxRange>(), catalog);
    });
    LaunchMatches matches;
    timed(matching.ns, [&] { matches = match_launches(timeline, catalog, *lanes); });
    timed(partition.ns, [&] {
      analyse_devices(timeline, catalog, matches, *lanes, {}, facts.launch_window_ns, {});
    });
    if (writer) {
      // Against a second pass without writing: the first one also makes the memory's pages.
      std::uint64_t again = 0;
      timed(again, [&] {
        analyse_devices(timeline, catalog, matches, *lanes, {}, facts.launch_window_ns, {});
      });
      timed(writing_gaps.ns, [&] {
        analyse_devices(timeline, catalog, matches, *lanes, {}, facts.launch_window_ns,
                        [&](DeviceIndex device, const GapFacts& gap) {
                          if (gap.gap.end - gap.gap.start < facts.min_gap_in_trace_ns) return;
                          for (const GapPiece& piece : gap.pieces)
                            writer->gap(catalog, device, piece.start, piece.end,
                                        cause_name(piece.cause));
                        });
        if (!writer->finish()) std::exit(1);
      });
      writing_gaps.ns -= std::min(writing_gaps.ns, again);
    }
    timed(statistics.ns, [&] { add_up_operations(timeline, catalog, matches); });
    timed(api_statistics.ns, [&] { total_api_calls(*lanes, catalog); });
  }
  Analysis analysis(catalog, timeline, facts.launch_window_ns, facts.end_ns, {});
  std::string json;
  timed(summarizing.ns, [&] { json = to_json(summarize(facts, catalog, timeline, analysis, {})); });

  const std::array all = {decoding,  adding,       writing,    settling,       laning,     matching,
                          partition, writing_gaps, statistics, api_statistics, summarizing};
  std::uint64_t total = 0;
  for (const Part& part : all) total += part.ns;
  for (const Part& part : all) {
    if (part.ns == 0) continue;
    std::printf("  %-38s %7.2f s  %5.0f ns a record  %4.1f %%\n", part.name, seconds(part.ns),
                per(part.ns, 2 * launches),
                100 * static_cast<double>(part.ns) / static_cast<double>(total));
  }
  std::printf("  %-38s %7.2f s  %5.0f ns a record\n", "together", seconds(total),
              per(total, 2 * launches));
  return !json.empty();
}

bool measure(const char* title, std::uint64_t launches, const std::function<bool()>& body) {
  std::printf("%s\n", title);
  std::uint64_t peak = 0;
  const bool good = in_own_process(body, peak);
  std::printf("  peak memory %.0f MB; %.0f bytes a launch\n\n", static_cast<double>(peak) / 1e6,
              per(peak, launches));
  return good;
}

int usage() {
  std::fprintf(stderr, "usage: bench_collector [--launches N] [--no-trace | --trace FILE]\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--no-trace") {
      options.trace.reset();
    } else if (argument == "--trace" && i + 1 < argc) {
      options.trace = argv[++i];
    } else if (argument == "--launches" && i + 1 < argc) {
      const std::string_view number = argv[++i];
      const char* end = number.data() + number.size();
      const auto [rest, error] = std::from_chars(number.data(), end, options.launches);
      // Correlation ids and indices have 32 bits.
      if (error != std::errc{} || rest != end || options.launches == 0 ||
          options.launches > 2'000'000'000)
        return usage();
    } else {
      return usage();
    }
  }
  const std::uint64_t launches = options.launches;
  std::printf("%llu launches, each an API call and a kernel\n\n",
              static_cast<unsigned long long>(launches));
  bool good = measure("Without a trace", launches, [&] { return whole(launches, std::nullopt); });
  if (options.trace) {
    const std::string title = "With a trace, written to " + *options.trace;
    good &= measure(title.c_str(), launches, [&] { return whole(launches, options.trace); });
  }
  // The trace of this one lacks its end: it must not replace the whole one.
  const std::optional<std::string> sink =
      options.trace ? std::optional<std::string>("/dev/null") : std::nullopt;
  good &= measure("By parts", launches, [&] { return parts(launches, sink); });
  return good ? 0 : 1;
}
