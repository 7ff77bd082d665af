#include "cli/program.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/launcher.h"
#include "tests/catch.h"

namespace profiler {
namespace {

TEST_CASE("the script names the trace, not the interpreter") {
  using Command = std::vector<std::string>;
  REQUIRE(trace_stem(Command{"./train"}) == "train");
  REQUIRE(trace_stem(Command{"build/train.bin", "x.py"}) == "train");
  REQUIRE(trace_stem(Command{"python", "train.py"}) == "train");
  REQUIRE(trace_stem(Command{"/usr/bin/python3.11", "-u", "a/train.py", "--x", "y.py"}) == "train");
  REQUIRE(trace_stem(Command{"python3", "-W", "ignore", "-X", "dev", "t.py"}) == "t");
  REQUIRE(trace_stem(Command{"python", "-m", "pkg.tool", "a"}) == "tool");
  REQUIRE(trace_stem(Command{"python", "-c", "print(1)"}) == "python");
  REQUIRE(trace_stem(Command{"sh", "-c", "./a | ./b"}) == "sh");
  REQUIRE(trace_stem(Command{"torchrun", "--standalone", "ddp.py"}) == "ddp");
  REQUIRE(trace_stem(Command{".hidden"}) == ".hidden");
}

TEST_CASE("programs are found as a shell finds them") {
  const ProgramFile sh = find_program("sh");
  REQUIRE(sh.path.ends_with("/sh"));
  REQUIRE(find_program("no-such-program-here").exit_status == kExitNotFound);
  REQUIRE(find_program("./no/such").exit_status == kExitNotFound);
  REQUIRE(find_program("/tmp").exit_status == kExitNotExecutable);
  REQUIRE(find_program("/etc/passwd").exit_status == kExitNotExecutable);
  REQUIRE(find_program("/etc/passwd").message.find("chmod +x") != std::string::npos);
}

TEST_CASE("what is no ELF file is said to be none") {
  REQUIRE_FALSE(inspect_elf("/etc/passwd").is_elf);
  REQUIRE_FALSE(inspect_elf("/no/such/file").is_elf);
  const ElfFacts self = inspect_elf("/proc/self/exe");
  REQUIRE(self.is_elf);
  REQUIRE_FALSE(self.has_fat_binary);
  REQUIRE_FALSE(self.needs_shared_runtime);
  const auto truncated = std::filesystem::temp_directory_path() / "profiler-truncated-elf";
  {
    std::ifstream in("/proc/self/exe", std::ios::binary);
    std::string head(100, 0);
    in.read(head.data(), 100);
    std::ofstream(truncated, std::ios::binary) << head;
  }
  REQUIRE(inspect_elf(truncated.string()).is_elf);
  std::filesystem::remove(truncated);
}

ExitState wait_for(pid_t pid) {
  while (true) {
    const ExitState state = poll_exit(pid);
    if (state.kind != ExitState::Kind::kRunning) return state;
    usleep(1000);
  }
}

TEST_CASE("exit statuses and failures of exec") {
  sigset_t none;
  sigemptyset(&none);
  const auto run = [&](const char* script) {
    const auto launched = launch("/bin/sh", {"sh", "-c", script}, {"PATH=/bin:/usr/bin"}, none);
    REQUIRE(std::holds_alternative<LaunchedProgram>(launched));
    return shell_status(wait_for(std::get<LaunchedProgram>(launched).pid));
  };
  REQUIRE(run("exit 0") == 0);
  REQUIRE(run("exit 7") == 7);
  REQUIRE(run("kill -9 $$") == 137);
  REQUIRE(run("kill -TERM $$") == 143);

  const auto folder = std::filesystem::temp_directory_path() / "profiler-launch-test";
  std::filesystem::create_directories(folder);
  const auto write_script = [&](const char* name, const char* text) {
    const std::string path = (folder / name).string();
    std::ofstream(path) << text;
    chmod(path.c_str(), 0755);
    return path;
  };
  const auto missing =
      launch(write_script("missing", "#!/no/such/interpreter\n"), {"missing"}, {}, none);
  REQUIRE(std::holds_alternative<LaunchFailure>(missing));
  REQUIRE(std::get<LaunchFailure>(missing).exit_status == kExitNotFound);
  REQUIRE(std::get<LaunchFailure>(missing).message.find("interpreter") != std::string::npos);
  // Without #! the shell runs it, as it would from a prompt.
  const auto plain = launch(write_script("plain", "exit 5\n"), {"plain"}, {}, none);
  REQUIRE(std::holds_alternative<LaunchedProgram>(plain));
  REQUIRE(shell_status(wait_for(std::get<LaunchedProgram>(plain).pid)) == 5);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace profiler
