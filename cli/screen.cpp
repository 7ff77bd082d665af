#include "cli/screen.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "cli/summary_view.h"
#include "cli/terminal.h"

namespace profiler {
void print(std::string_view text, int fd) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // whoever read our screen is gone
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void show_summary(const Summary& summary, const ViewChoice& choice, const std::string& trace_path,
                  ReportFile* file, int fd) {
  const TerminalFacts terminal = terminal_facts(fd);
  ViewOptions view;
  view.width = terminal.width;
  view.color = terminal.color && file == nullptr;
  view.unicode = terminal.unicode;
  view.top = choice.top;
  view.top_gaps = choice.top_gaps;
  view.advice = choice.advice;
  view.quiet = choice.quiet;
  view.trace_path = trace_path;
  const std::string text = render_summary(summary, view);
  if (file == nullptr) {
    print("\n" + text, fd);
    return;
  }
  const Status status = file->write(text);
  if (!status) spdlog::error("{}", status.error().message);
}

}  // namespace profiler
