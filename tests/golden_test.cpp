// Recorded wire streams against the summaries that they must give, as JSON and as a screen.
// tests/record_wire.py makes the streams; PROFILER_UPDATE_GOLDEN=1 writes the expected files anew,
// and the difference is then read like any other change.
#include <cstdlib>
#include <fstream>
#include <string>

#include "cli/summary_view.h"
#include "collector/partition.h"
#include "collector/recording.h"
#include "collector/summary_json.h"
#include "tests/catch.h"
#include "tests/scratch_folder.h"

namespace profiler {
namespace {

void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(PROFILER_TEST_DATA) + "/" + name;
  if (const char* update = std::getenv("PROFILER_UPDATE_GOLDEN");
      update != nullptr && *update == '1')
    std::ofstream(path, std::ios::binary) << text;
  REQUIRE(text == test::content(path));
}

Summary replay(const std::string& name) {
  const std::string bytes = test::content(std::string(PROFILER_TEST_DATA) + "/" + name);
  REQUIRE(bytes.size() > 1000);
  Recording recording(nullptr);
  auto stream = recording.open(4242);
  for (std::size_t at = 0; at < bytes.size() && !stream->ended;) {
    const std::span<char> room = stream->splitter.room();
    const std::size_t size = std::min(room.size(), bytes.size() - at);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), size, room.begin());
    recording.receive(*stream, size);
    at += size;
  }
  recording.close(*stream);
  const Process& process = recording.catalog().processes.at(0);
  RunFacts facts;
  facts.command = process.command_line;
  facts.root_pid = 4242;
  facts.exit = {ExitState::Kind::kExited, 0};
  // What the launcher would know is made up from the hello, so that it is the same every time.
  facts.start_ns = process.hello_clocks.monotonic_ns - 50'000'000;
  facts.end_ns = facts.start_ns + 1'000'000'000;
  facts.start_realtime_ns = process.hello_clocks.realtime_ns;
  facts.launch_window_ns = kDefaultLaunchWindowNs;
  facts.hostname = process.hostname;
  return recording.finish(facts);
}

TEST_CASE("recorded streams give the summaries that they gave") {
  for (const std::string name : {"train_loop", "matmul_bias"}) {
    Summary summary = replay(name + ".wire");
    REQUIRE(summary.checks.malformed == 0);
    REQUIRE(summary.checks.unmatched == 0);
    REQUIRE(summary.processes.at(0).said_goodbye);
    summary.profiler_version = "golden";  // does not change with each release
    check_golden(name + ".json", to_json(summary) + "\n");
    ViewOptions view;
    view.trace_path = name + ".pftrace";
    check_golden(name + ".txt", render_summary(summary, view));
  }
}

}  // namespace
}  // namespace profiler
