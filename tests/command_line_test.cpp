#include "cli/command_line.h"

#include "cli/program.h"
#include "tests/catch.h"

namespace profiler {
namespace {

using Arguments = std::vector<std::string>;

RunOptions run_of(const Arguments& arguments) {
  const auto parsed = parse_command_line(arguments);
  if (const auto* print = std::get_if<PrintAndExit>(&parsed)) FAIL(print->text);
  REQUIRE(std::holds_alternative<RunOptions>(parsed));
  return std::get<RunOptions>(parsed);
}

PrintAndExit print_of(const Arguments& arguments) {
  const auto parsed = parse_command_line(arguments);
  REQUIRE(std::holds_alternative<PrintAndExit>(parsed));
  return std::get<PrintAndExit>(parsed);
}

TEST_CASE("everything after -- belongs to the program") {
  const RunOptions options =
      run_of({"-o", "a.pftrace", "--top", "3", "--", "./train", "--top", "9", "--", "-o"});
  REQUIRE(options.command == Arguments{"./train", "--top", "9", "--", "-o"});
  REQUIRE(options.output == "a.pftrace");
  REQUIRE(options.view.top == 3);
  REQUIRE(run_of({"run", "--quiet", "--", "x"}).view.quiet);
  REQUIRE(run_of({"--", "report"}).command == Arguments{"report"});
}

TEST_CASE("the virtual GPU takes its model after = only") {
  REQUIRE_FALSE(run_of({"--", "x"}).virtual_gpu);
  const RunOptions plain = run_of({"--virtual-gpu", "--", "x"});
  REQUIRE(plain.virtual_gpu);
  REQUIRE(plain.model == "h100");
  REQUIRE(run_of({"--virtual-gpu=a100", "--", "x"}).model == "a100");
  REQUIRE(run_of({"--virtual-gpu=./my.model", "--", "x"}).model == "./my.model");
}

TEST_CASE("a program without -- gets the corrected line") {
  const PrintAndExit print = print_of({"./train", "--epochs", "1"});
  REQUIRE(print.exit_status == kExitUsage);
  REQUIRE(print.on_stderr);
  REQUIRE(print.text.find("profiler -- ./train --epochs 1") != std::string::npos);
  REQUIRE(print_of({"--virtual-gpu", "./train", "a b"})
              .text.find("profiler --virtual-gpu -- ./train 'a b'") != std::string::npos);
  REQUIRE(print_of({"run", "--top", "3", "./train"}).text.find("profiler run --top 3 -- ./train") !=
          std::string::npos);
  REQUIRE(print_of({"./train", "--", "x"}).text.find("profiler -- ./train -- x") !=
          std::string::npos);
}

TEST_CASE("bad usage is one sentence and status 2") {
  for (const Arguments& arguments :
       {Arguments{"--no-such-option", "--", "x"}, Arguments{"--top", "0", "--", "x"},
        Arguments{"--top", "many", "--", "x"}, Arguments{"--"}, Arguments{"-o"},
        Arguments{"report"}, Arguments{"report", "a", "b"}, Arguments{"report", "--nope", "a"},
        Arguments{"--no-trace", "-o", "a", "--", "x"}}) {
    const PrintAndExit print = print_of(arguments);
    INFO(print.text);
    REQUIRE(print.exit_status == kExitUsage);
    REQUIRE(print.on_stderr);
    REQUIRE(print.text.starts_with("profiler: "));
    REQUIRE(print.text.ends_with("\n"));
    REQUIRE(print.text.find('\n') == print.text.size() - 1);
  }
  REQUIRE(print_of({"--no-such-option", "--", "x"}).text.find("--no-such-option") !=
          std::string::npos);
}

TEST_CASE("help and version") {
  const PrintAndExit bare = print_of({});
  REQUIRE(bare.exit_status == kExitUsage);
  REQUIRE(bare.text.find("profiler -- ./train") != std::string::npos);
  const PrintAndExit help = print_of({"--help"});
  REQUIRE(help.exit_status == 0);
  REQUIRE_FALSE(help.on_stderr);
  REQUIRE(help.text.find("Usage: profiler [OPTIONS] -- PROGRAM") != std::string::npos);
  REQUIRE(help.text.find("Examples:") != std::string::npos);
  REQUIRE(print_of({"--version"}).text.starts_with("profiler 0."));
  REQUIRE(print_of({"report", "--help"}).text.find("profiler report FILE.pftrace") !=
          std::string::npos);
}

TEST_CASE("report") {
  const auto parsed = parse_command_line({"report", "a.pftrace", "--json", "-", "--top", "4"});
  REQUIRE(std::holds_alternative<ReportOptions>(parsed));
  const auto& options = std::get<ReportOptions>(parsed);
  REQUIRE(options.trace == "a.pftrace");
  REQUIRE(options.view.json == "-");
  REQUIRE(options.view.top == 4);
}

TEST_CASE("what is shown can be chosen") {
  const RunOptions plain = run_of({"--", "x"});
  REQUIRE(plain.view.advice);
  REQUIRE(plain.launch_window_ns == 10'000);
  const RunOptions options =
      run_of({"--no-advice", "--top-gaps", "7", "--csv", "out", "--launch-window", "0", "--", "x"});
  REQUIRE_FALSE(options.view.advice);
  REQUIRE(options.view.top_gaps == 7);
  REQUIRE(options.view.csv == "out");
  REQUIRE(options.launch_window_ns == 0);
  const auto parsed =
      parse_command_line({"report", "a.pftrace", "--recompute", "--at", "1.5s", "--no-advice"});
  REQUIRE(std::holds_alternative<ReportOptions>(parsed));
  REQUIRE(std::get<ReportOptions>(parsed).recompute);
  REQUIRE(std::get<ReportOptions>(parsed).at == "1.5s");
  REQUIRE_FALSE(std::get<ReportOptions>(parsed).view.advice);
}

TEST_CASE("explain takes a term of several words") {
  const auto term = parse_command_line({"explain", "launch", "latency"});
  REQUIRE(std::holds_alternative<ExplainOptions>(term));
  REQUIRE(std::get<ExplainOptions>(term).term == "launch latency");
  const auto list = parse_command_line({"explain", "--list"});
  REQUIRE(std::get<ExplainOptions>(list).list);
}

}  // namespace
}  // namespace profiler
