#include "samples/virtual_gpu/engine/truth_log.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

namespace virtual_gpu {
namespace {

constexpr std::size_t kFlushBytes = 64 * 1024;

int thread_id() {
  static thread_local const int id = static_cast<int>(syscall(SYS_gettid));
  return id;
}

// One JSON object; keys and fixed words need no escaping.
class Object {
 public:
  explicit Object(const char* type, int process) {
    text_.reserve(512);
    text_ += "{\"type\":\"";
    text_ += type;
    text_ += '"';
    number("pid", static_cast<std::uint64_t>(process));
  }
  Object& number(const char* key, std::uint64_t value) {
    begin(key);
    append(value);
    return *this;
  }
  Object& word(const char* key, const char* value) {
    begin(key);
    text_ += '"';
    text_ += value;
    text_ += '"';
    return *this;
  }
  Object& flag(const char* key, bool value) {
    begin(key);
    text_ += value ? "true" : "false";
    return *this;
  }
  Object& string(const char* key, std::string_view value) {
    begin(key);
    text_ += '"';
    for (const char c : value) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_ += '\\';
        text_ += c;
      } else if (byte < 0x20) {
        char escape[8];
        std::snprintf(escape, sizeof escape, "\\u%04x", byte);
        text_ += escape;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
    return *this;
  }
  Object& size(const char* key, const std::uint32_t (&value)[3]) {
    begin(key);
    text_ += '[';
    append(value[0]);
    text_ += ',';
    append(value[1]);
    text_ += ',';
    append(value[2]);
    text_ += ']';
    return *this;
  }
  std::string finish() {
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  void begin(const char* key) {
    text_ += ",\"";
    text_ += key;
    text_ += "\":";
  }
  void append(std::uint64_t value) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, value);
    text_.append(digits, end.ptr);
  }
  std::string text_;
};

}  // namespace

void TruthLog::open() {
  const char* path = std::getenv("PROFILER_VIRTUAL_GPU_LOG");
  if (path == nullptr || *path == 0 || file_ >= 0) return;
  process_ = getpid();
  file_ = ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) {
    std::fprintf(stderr, "virtual GPU: cannot write PROFILER_VIRTUAL_GPU_LOG=%s: %s\n", path,
                 std::strerror(errno));
    return;
  }
  // Out of the way of programs that close or renumber their first descriptors.
  const int high = fcntl(file_, F_DUPFD_CLOEXEC, 900);
  if (high >= 0) {
    close(file_);
    file_ = high;
  }
}

void TruthLog::finish_line(std::string&& line) {
  const std::lock_guard lock(mutex_);
  lines_ += line;
  if (lines_.size() >= kFlushBytes) write_out();
}

void TruthLog::write_out() {
  std::size_t written = 0;
  while (file_ >= 0 && written < lines_.size()) {
    const ssize_t n = ::write(file_, lines_.data() + written, lines_.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  lines_.clear();
}

void TruthLog::flush() {
  const std::lock_guard lock(mutex_);
  write_out();
}

void TruthLog::drop() {
  // The mutex may have been held by a thread that does not exist here.
  new (&mutex_) std::mutex;
  new (&lines_) std::string;
  file_ = -1;
}

void TruthLog::process(const Model& model, std::uint64_t start_ns) {
  if (!is_open()) return;
  finish_line(
      Object("process", process_).string("model", model.key).number("start_ns", start_ns).finish());
}

void TruthLog::device(std::uint32_t device, const Model& model) {
  if (!is_open()) return;
  finish_line(Object("device", process_)
                  .number("device", device)
                  .string("name", model.name)
                  .string("uuid", uuid_text(model))
                  .number("memory_bytes", model.memory_bytes)
                  .number("multiprocessors", model.multiprocessors)
                  .finish());
}

void TruthLog::api(const ApiCall& call, const char* name, std::uint64_t end_ns,
                   std::uint32_t result) {
  if (!is_open()) return;
  finish_line(Object("api", process_)
                  .number("tid", static_cast<std::uint64_t>(thread_id()))
                  .word("domain", call.domain == ApiDomain::kDriver ? "driver" : "runtime")
                  .number("cbid", call.cbid)
                  .word("name", name)
                  .number("correlation", call.correlation)
                  .number("start_ns", call.start_ns)
                  .number("end_ns", end_ns)
                  .number("result", result)
                  .finish());
}

void TruthLog::operation(const Operation& operation, Times times) {
  if (!is_open()) return;
  const bool kernel = operation.work == Work::kKernel;
  const bool copy = operation.work == Work::kCopy;
  Object line(kernel ? "kernel" : copy ? "memcpy" : "memset", process_);
  line.number("device", operation.device)
      .number("context", operation.context)
      .number("stream", operation.stream)
      .number("correlation", operation.correlation)
      .number("start_ns", times.start_ns)
      .number("end_ns", times.end_ns);
  if (kernel) {
    line.string("name", operation.kernel->mangled)
        .string("demangled", operation.kernel->demangled)
        .size("grid", operation.grid)
        .size("block", operation.block)
        .number("static_shared_bytes", operation.kernel->cost.shared_bytes)
        .number("dynamic_shared_bytes", operation.dynamic_shared_bytes)
        .number("registers", operation.kernel->cost.registers);
  } else if (copy) {
    line.word("kind", kCopyKindNames[static_cast<int>(operation.copy)])
        .word("source", kMemoryKindNames[static_cast<int>(operation.source)])
        .word("destination", kMemoryKindNames[static_cast<int>(operation.destination)])
        .number("bytes", operation.bytes)
        .flag("async", operation.async);
  } else {
    line.number("bytes", operation.bytes)
        .number("value", operation.value)
        .word("destination", kMemoryKindNames[static_cast<int>(operation.destination)])
        .flag("async", operation.async);
  }
  finish_line(line.number("graph", 0).number("graph_node", 0).finish());
}

void TruthLog::synchronization(const Synchronization& synchronization) {
  if (!is_open()) return;
  finish_line(Object("sync", process_)
                  .word("kind", kSyncKindNames[static_cast<int>(synchronization.kind)])
                  .number("context", synchronization.context)
                  .number("stream", synchronization.stream)
                  .number("event", synchronization.event)
                  .number("correlation", synchronization.correlation)
                  .number("start_ns", synchronization.start_ns)
                  .number("end_ns", synchronization.end_ns)
                  .number("result", synchronization.result)
                  .finish());
}

void TruthLog::event(const EventRecording& recording) {
  if (!is_open()) return;
  finish_line(Object("event", process_)
                  .number("context", recording.context)
                  .number("stream", recording.stream)
                  .number("event", recording.event)
                  .number("correlation", recording.correlation)
                  .finish());
}

void TruthLog::overhead(const Overhead& overhead) {
  if (!is_open()) return;
  finish_line(Object("overhead", process_)
                  .number("tid", static_cast<std::uint64_t>(thread_id()))
                  .word("kind", kOverheadKindNames[static_cast<int>(overhead.kind)])
                  .number("start_ns", overhead.start_ns)
                  .number("end_ns", overhead.end_ns)
                  .number("correlation", overhead.correlation)
                  .finish());
}

}  // namespace virtual_gpu
