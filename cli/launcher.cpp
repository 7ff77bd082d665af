#include "cli/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/program.h"

namespace profiler {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& text : strings) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::variant<LaunchedProgram, LaunchFailure> launch(const std::string& path,
                                                    const std::vector<std::string>& arguments,
                                                    const std::vector<std::string>& environment,
                                                    const sigset_t& signal_mask) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0)
    return LaunchFailure{kExitFault, std::string("cannot make a pipe: ") + std::strerror(errno)};
  OwnedFd reader(ends[0]);
  OwnedFd writer(ends[1]);
  std::vector<char*> argv = pointers(arguments);
  std::vector<char*> envp = pointers(environment);
  // A script without #! is run by the shell, as execvp does.
  std::vector<char*> shell_argv = {const_cast<char*>("sh"), const_cast<char*>(path.c_str())};
  shell_argv.insert(shell_argv.end(), argv.begin() + 1, argv.end());

  const pid_t pid = fork();
  if (pid < 0)
    return LaunchFailure{kExitFault, std::string("cannot fork: ") + std::strerror(errno)};
  if (pid == 0) {
    sigprocmask(SIG_SETMASK, &signal_mask, nullptr);
    execve(path.c_str(), argv.data(), envp.data());
    if (errno == ENOEXEC) execve("/bin/sh", shell_argv.data(), envp.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(writer.get(), &error, sizeof error);
    _exit(kExitNotExecutable);
  }
  writer = OwnedFd{};
  int error = 0;
  ssize_t bytes = 0;
  do {
    bytes = read(reader.get(), &error, sizeof error);
  } while (bytes < 0 && errno == EINTR);
  if (bytes == static_cast<ssize_t>(sizeof error)) {
    waitpid(pid, nullptr, 0);
    return LaunchFailure{
        error == ENOENT ? kExitNotFound : kExitNotExecutable,
        "cannot execute " + path + ": " +
            (error == ENOENT ? "its interpreter (the #! line or the dynamic loader) does not exist"
                             : std::strerror(error))};
  }
  LaunchedProgram program;
  program.pid = pid;
  program.pidfd = OwnedFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return program;
}

ExitState poll_exit(pid_t pid) {
  int status = 0;
  pid_t reaped = 0;
  do {
    reaped = waitpid(pid, &status, WNOHANG);
  } while (reaped < 0 && errno == EINTR);
  if (reaped == 0) return {ExitState::Kind::kRunning, 0};
  if (reaped < 0) return {ExitState::Kind::kUnknown, 0};
  if (WIFSIGNALED(status))
    return {ExitState::Kind::kSignalled, static_cast<std::uint64_t>(WTERMSIG(status))};
  return {ExitState::Kind::kExited, static_cast<std::uint64_t>(WEXITSTATUS(status))};
}

int shell_status(const ExitState& exit) {
  switch (exit.kind) {
    case ExitState::Kind::kExited:
      return static_cast<int>(exit.code);
    case ExitState::Kind::kSignalled:
      return 128 + static_cast<int>(exit.code);
    case ExitState::Kind::kUnknown:
      return kExitFault;
    case ExitState::Kind::kRunning:
      return 128 + SIGINT;
  }
  return kExitFault;
}

}  // namespace profiler
