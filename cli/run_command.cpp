#include "cli/run_command.h"

#include <poll.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>

#include "cli/csv_export.h"
#include "cli/driver_probe.h"
#include "cli/installation.h"
#include "cli/launcher.h"
#include "cli/program.h"
#include "cli/report_file.h"
#include "cli/screen.h"
#include "cli/target_environment.h"
#include "collector/pipe_server.h"
#include "collector/recording.h"
#include "collector/summarize.h"
#include "collector/summary_json.h"
#include "collector/trace_facts.h"
#include "collector/trace_file.h"
#include "collector/trace_writer.h"
#include "collector/version.h"
#include "proto/session.h"

namespace profiler {
namespace {

// Gaps shorter than this are not drawn: their slices would outnumber the kernels.
constexpr std::uint64_t kMinGapInTraceNs = 5'000;
// How long children that outlive the program may go on talking before the run is closed.
constexpr std::uint64_t kGraceNs = 1'000'000'000;
constexpr int kStepMs = 20;

std::uint64_t read_clock(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

ClockReading read_clocks() {
  ClockReading reading;
  const std::uint64_t before = read_clock(CLOCK_MONOTONIC);
  reading.boottime_ns = read_clock(CLOCK_BOOTTIME);
  reading.realtime_ns = read_clock(CLOCK_REALTIME);
  reading.monotonic_ns = before + (read_clock(CLOCK_MONOTONIC) - before) / 2;
  return reading;
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

struct Refusal {
  int exit_status = kExitFault;
  std::string message;
};

// What was found out and opened before the program starts.
struct Preparation {
  Installation installation;
  ProgramFile program;
  std::string model_file;
  std::optional<ReportFile> json;
  std::optional<ReportFile> summary;
  std::optional<CsvWriter> csv;
  std::unique_ptr<TraceWriter> writer;

  void discard() {
    if (writer) writer->discard();
    if (json) json->discard();
    if (summary) summary->discard();
  }
};

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::optional<Refusal> check_virtual_gpu(const RunOptions& options, Preparation& preparation) {
  const Installation& installation = preparation.installation;
  if (installation.virtual_gpu.empty()) {
    return Refusal{
        kExitFault,
        "this build has no virtual GPU (it was built without the CUDA toolkit); install the "
        "toolkit and build again."};
  }
  preparation.model_file = find_model(installation, options.model);
  if (preparation.model_file.empty()) {
    return Refusal{kExitUsage, "there is no device model '" + options.model +
                                   "'; known models are " + joined(installation.models) +
                                   ", or give the path of a model file."};
  }
  const ElfFacts elf = inspect_elf(preparation.program.path);
  if (elf.has_fat_binary && !elf.needs_shared_runtime) {
    return Refusal{kExitFault,
                   preparation.program.path +
                       " contains the static CUDA runtime, which only runs on NVIDIA's own driver; "
                       "build it with `nvcc -cudart shared` to run it on the virtual GPU."};
  }
  return std::nullopt;
}

std::optional<Refusal> check_injection(const RunOptions& options, const Preparation& preparation) {
  if (preparation.installation.injector.empty()) {
    return Refusal{
        kExitFault,
        "this build has no injector (it was built without the CUDA toolkit), so it cannot "
        "profile; install the toolkit and build again, or look at a trace with `profiler "
        "report`."};
  }
  const char* other = std::getenv(session::kCudaInjectionVariable);
  if (other != nullptr && *other != 0 && !options.replace_injection) {
    return Refusal{kExitFault,
                   std::string(session::kCudaInjectionVariable) + " is already set by " +
                       injection_owner(other) +
                       ", and the driver loads only one such library; unset it, or give "
                       "--replace-injection to take its place."};
  }
  return std::nullopt;
}

std::optional<Refusal> open_outputs(const RunOptions& options, Preparation& preparation) {
  const auto open_report = [](const std::string& path,
                              std::optional<ReportFile>& file) -> std::optional<Refusal> {
    if (path.empty()) return std::nullopt;
    Result<ReportFile> opened = ReportFile::open(path);
    if (!opened) return Refusal{kExitFault, opened.error().message};
    file = std::move(*opened);
    return std::nullopt;
  };
  if (auto refusal = open_report(options.view.json, preparation.json)) return refusal;
  if (auto refusal = open_report(options.view.summary_file, preparation.summary)) return refusal;
  if (!options.view.csv.empty()) {
    Result<CsvWriter> csv = CsvWriter::create(options.view.csv, options.force);
    if (!csv) return Refusal{kExitFault, csv.error().message};
    preparation.csv = std::move(*csv);
  }
  if (options.no_trace) return std::nullopt;
  Result<TraceFile> file =
      options.output.empty()
          ? TraceFile::create_numbered(trace_stem(options.command) + ".pftrace", options.force)
          : TraceFile::create(options.output, options.force);
  if (!file) return Refusal{kExitFault, file.error().message};
  preparation.writer = std::make_unique<TraceWriter>(std::move(*file));
  return std::nullopt;
}

std::optional<Refusal> prepare(const RunOptions& options, Preparation& preparation) {
  preparation.installation = find_installation();
  preparation.program = find_program(options.command.front());
  if (preparation.program.path.empty())
    return Refusal{preparation.program.exit_status, preparation.program.message};
  if (auto refusal = check_injection(options, preparation)) return refusal;
  if (options.virtual_gpu) {
    if (auto refusal = check_virtual_gpu(options, preparation)) return refusal;
  }
  if (inspect_elf(preparation.program.path).is_setuid) {
    return Refusal{kExitFault,
                   preparation.program.path +
                       " is setuid or setgid: the loader ignores injection for it; run it from an "
                       "account that needs no privileges."};
  }
  if (auto refusal = open_outputs(options, preparation)) {
    preparation.discard();
    return refusal;
  }
  return std::nullopt;
}

// The loop from the start of the program to the end of collection.
class Run {
 public:
  Run(const LaunchedProgram& program, PipeServer& server, int signal_fd)
      : program_(program), server_(server), signal_fd_(signal_fd) {}

  void loop() {
    while (!finished()) {
      std::array<pollfd, 3> waiting = {{{server_.poll_fd(), POLLIN, 0},
                                        {signal_fd_, POLLIN, 0},
                                        {program_ended_ ? -1 : program_.pidfd.get(), POLLIN, 0}}};
      poll(waiting.data(), waiting.size(), kStepMs);
      if (waiting[1].revents != 0) take_signals();
      check_program();
      server_.step();
    }
  }

  const ExitState& exit() const { return exit_; }
  std::uint64_t end_ns() const { return end_ns_; }
  bool cut_short() const { return stop_; }

 private:
  bool finished() {
    if (stop_) return true;
    if (!program_ended_) return false;
    // One more look at the announcements after the program's end: those of short-lived children.
    if (server_.open_connections() == 0) return quiet_steps_++ > 0;
    quiet_steps_ = 0;
    return read_clock(CLOCK_MONOTONIC) - end_ns_ > kGraceNs;
  }

  void check_program() {
    if (program_ended_) return;
    exit_ = poll_exit(program_.pid);
    end_ns_ = read_clock(CLOCK_MONOTONIC);
    program_ended_ = exit_.kind != ExitState::Kind::kRunning;
  }

  void take_signals() {
    signalfd_siginfo info = {};
    while (read(signal_fd_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      // Ctrl-C at a terminal reaches the program by itself; what was sent to us alone does not.
      if (info.ssi_code != SI_KERNEL && !program_ended_) kill(program_.pid, signal);
      if (signal == SIGINT && ++interrupts_ > 1) stop_ = true;
    }
  }

  const LaunchedProgram& program_;
  PipeServer& server_;
  int signal_fd_;
  ExitState exit_{ExitState::Kind::kRunning, 0};
  std::uint64_t end_ns_ = 0;
  bool program_ended_ = false;
  bool stop_ = false;
  int interrupts_ = 0;
  int quiet_steps_ = 0;
};

std::vector<std::string> notes_of_run(const RunOptions& options, const Run& run,
                                      const LaunchedProgram& program, const PipeServer& server,
                                      const Recording& recording) {
  std::vector<std::string> notes;
  if (run.cut_short() && run.exit().kind == ExitState::Kind::kRunning) {
    notes.push_back("Collection was ended by a second Ctrl-C; the program (pid " +
                    std::to_string(program.pid) + ") goes on without being profiled.");
  } else if (server.open_connections() != 0 && !run.cut_short()) {
    notes.push_back("Collection ended with the program; its children " + joined([&] {
                      std::vector<std::string> pids;
                      for (const std::uint64_t pid : server.open_pids())
                        pids.push_back(std::to_string(pid));
                      return pids;
                    }()) +
                    " were still running.");
  }
  if (!recording.processes().empty()) return notes;
  if (options.virtual_gpu) {
    notes.emplace_back(
        "The program made no CUDA call that starts the driver, so there is nothing to show; if it "
        "should have, check that it is linked with the shared CUDA runtime.");
  } else {
    notes.push_back(explain_silence(probe_driver(true)));
  }
  return notes;
}

}  // namespace

int run_command(const RunOptions& options) {
  Preparation preparation;
  if (const auto refusal = prepare(options, preparation)) {
    spdlog::error("{}", refusal->message);
    return refusal->exit_status;
  }

  Recording recording(preparation.writer.get());
  const char* temporary = std::getenv("TMPDIR");
  Result<std::unique_ptr<PipeServer>> server =
      PipeServer::create(temporary == nullptr || *temporary == 0 ? "/tmp" : temporary, recording);
  if (!server) {
    preparation.discard();
    spdlog::error("{}", server.error().message);
    return kExitFault;
  }

  TargetSettings settings;
  settings.session_directory = (*server)->directory();
  settings.model_file = preparation.model_file;
  settings.cupti = options.virtual_gpu ? preparation.installation.virtual_gpu_cupti
                                       : choose_cupti(probe_driver(false).version);

  // From here on signals are read, not taken: the trace is finished whatever arrives.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, signal);
  sigset_t previous;
  sigprocmask(SIG_BLOCK, &signals, &previous);
  const OwnedFd signal_fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));

  RunFacts facts;
  facts.command = options.command;
  facts.hostname = host_name();
  facts.launch_window_ns = options.launch_window_ns;
  facts.min_gap_in_trace_ns = kMinGapInTraceNs;
  if (options.virtual_gpu) facts.simulated_model = options.model;
  const ClockReading clocks = read_clocks();
  facts.start_ns = clocks.monotonic_ns;
  facts.start_realtime_ns = clocks.realtime_ns;
  if (preparation.writer) {
    const std::array<TraceAttribute, 2> attributes = {
        TraceAttribute{"command", shell_quoted(facts.command)},
        TraceAttribute{"hostname", facts.hostname}};
    preparation.writer->preamble(clocks, kProfilerVersion, attributes);
    preparation.writer->facts(facts_at_start(facts));
  }

  auto launched = launch(preparation.program.path, options.command,
                         target_environment(preparation.installation, settings), previous);
  if (const auto* failure = std::get_if<LaunchFailure>(&launched)) {
    preparation.discard();
    spdlog::error("{}", failure->message);
    return failure->exit_status;
  }
  const LaunchedProgram& program = std::get<LaunchedProgram>(launched);

  Run run(program, **server, signal_fd.get());
  run.loop();

  facts.root_pid = static_cast<std::uint64_t>(program.pid);
  facts.exit = run.exit();
  facts.end_ns = run.end_ns();
  facts.notes = notes_of_run(options, run, program, **server, recording);
  GapCollection gaps;
  Summary summary = recording.finish(facts, preparation.csv ? gaps.visitor() : GapVisitor{});
  (*server)->command(session::kStop);
  server->reset();

  std::string trace_path;
  if (preparation.writer) {
    const Status status = preparation.writer->finish();
    if (!status) {
      summary.notes.push_back("The trace is incomplete: " + status.error().message);
    }
    trace_path = preparation.writer->path();
  }
  if (preparation.json) {
    const Status status = preparation.json->write(to_json(summary) + "\n");
    if (!status) spdlog::error("{}", status.error().message);
  }
  if (preparation.csv) {
    const Status status = export_csv(*preparation.csv, summary, facts, recording.catalog(),
                                     recording.timeline(), recording.analysis(), gaps);
    if (!status) spdlog::error("{}", status.error().message);
  }
  show_summary(summary, options.view, trace_path,
               preparation.summary ? &*preparation.summary : nullptr, STDERR_FILENO);
  return shell_status(facts.exit);
}

}  // namespace profiler
