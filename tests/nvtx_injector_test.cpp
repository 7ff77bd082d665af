#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <cwchar>
#include <map>
#include <set>
#include <thread>

#include "injector/nvtx_recorder.h"
#include "injector/nvtx_registry.h"
#include "injector/nvtx_ring.h"
#include "injector/nvtx_tables.h"
#include "injector/nvtx_text.h"
#include "injector/nvtx_writer.h"
#include "tests/injector_target.h"

extern "C" int InitializeInjection() noexcept;
extern "C" int InitializeInjectionNvtx2(void*) noexcept;

namespace {

using namespace profiler;
using namespace profiler::injector;
using namespace profiler::test;

std::uint64_t own_tid() {
  return static_cast<std::uint64_t>(syscall(SYS_gettid));
}

// ---- What arrives -------------------------------------------------------------------------------

struct Event {
  wire::NvtxEvent::Kind kind;
  std::uint64_t time;
  std::uint64_t tid;
  std::string domain;
  std::string text;
  std::uint64_t range;
  std::uint32_t category;
};

// Frames with their names put in; checks that each name precedes its use.
struct Received {
  std::vector<wire::Frame> frames;
  std::vector<Event> events;
  std::map<std::uint64_t, std::string> thread_names;  // by tid, the last
  std::vector<wire::StreamName> stream_names;
  std::uint64_t lost = 0;
  int hellos = 0;
  int goodbyes = 0;
  int cudas = 0;
  int kernels = 0;

  explicit Received(const std::string& bytes, std::size_t* rest = nullptr)
      : frames(decode(bytes, rest)) {
    std::map<std::uint32_t, std::uint64_t> tids;
    std::map<std::uint32_t, std::string> domains{{0, ""}};
    std::map<std::uint32_t, std::string> texts{{0, ""}};
    for (const wire::Frame& frame : frames) {
      hellos += frame.has_hello() ? 1 : 0;
      goodbyes += frame.has_goodbye() ? 1 : 0;
      cudas += frame.has_cuda() ? 1 : 0;
      kernels += frame.kernels_size();
      for (const auto& thread : frame.threads()) {
        tids[thread.id()] = thread.tid();
        thread_names[thread.tid()] = thread.name();
      }
      for (const auto& domain : frame.nvtx_domains()) domains[domain.id()] = domain.name();
      for (const auto& text : frame.texts()) {
        REQUIRE(texts.emplace(text.id(), text.text()).second);
      }
      for (const auto& event : frame.nvtx_events()) {
        events.push_back({event.kind(),
                          frame.base_ns() + static_cast<std::uint64_t>(event.time_delta()),
                          tids.at(event.thread_id()), domains.at(event.domain_id()),
                          texts.at(event.text_id()), event.range(), event.category()});
      }
      for (const auto& name : frame.stream_names()) stream_names.push_back(name);
      for (const auto& loss : frame.losses()) {
        if (loss.place() == wire::Loss::NVTX) lost += loss.count();
      }
    }
  }

  std::vector<Event> of(std::uint64_t tid) const {
    std::vector<Event> own;
    std::copy_if(events.begin(), events.end(), std::back_inserter(own),
                 [tid](const Event& event) { return event.tid == tid; });
    return own;
  }
  std::size_t count(wire::NvtxEvent::Kind kind) const {
    return static_cast<std::size_t>(std::count_if(
        events.begin(), events.end(), [kind](const Event& event) { return event.kind == kind; }));
  }
};

// "push a, pop, mark b ..."
std::string story(const std::vector<Event>& events) {
  static const char* const kNames[] = {"?", "push", "pop", "start", "end", "mark"};
  std::string text;
  for (const Event& event : events) {
    if (!text.empty()) text += ", ";
    text += kNames[event.kind];
    if (!event.domain.empty()) text += " " + event.domain + "/";
    if (!event.text.empty()) text += (event.domain.empty() ? " " : "") + event.text;
  }
  return text;
}

// ---- A copy of NVTX, as a program has it --------------------------------------------------------

template <std::size_t kSize>
struct Slots {
  std::array<NvtxFunctionPointer, kSize> functions{};
  std::array<NvtxFunctionPointer*, kSize + 1> table{};
  Slots() {
    for (std::size_t i = 1; i < kSize; ++i) table[i] = &functions[i];
  }
  template <typename Function>
  Function get(unsigned id) const {
    return reinterpret_cast<Function>(functions[id]);
  }
};

Slots<NVTX_CBID_CORE_SIZE> core;
Slots<NVTX_CBID_CORE2_SIZE> core2;
Slots<NVTX_CBID_CUDA_SIZE> cuda_table;
Slots<NVTX_CBID_CUDART_SIZE> cudart_table;
unsigned shortened = UINT32_MAX;  // how many slots an older NVTX has

int NVTX_API get_table(NvtxCallbackModule module, NvtxFunctionTable* table, unsigned* size) {
  const auto give = [&](auto& slots) {
    *table = slots.table.data();
    *size = std::min(static_cast<unsigned>(slots.table.size()), shortened);
    return 1;
  };
  switch (module) {
    case NVTX_CB_MODULE_CORE:
      return give(core);
    case NVTX_CB_MODULE_CORE2:
      return give(core2);
    case NVTX_CB_MODULE_CUDA:
      return give(cuda_table);
    case NVTX_CB_MODULE_CUDART:
      return give(cudart_table);
    default:
      return 0;
  }
}

const void* NVTX_API export_table(std::uint32_t id) {
  static const NvtxExportTableCallbacks callbacks{sizeof callbacks, &get_table};
  return id == NVTX_ETID_CALLBACKS ? &callbacks : nullptr;
}

void* entry() {
  return reinterpret_cast<void*>(&export_table);
}

// The calls of the program.
int push(const char* text) {
  return core.get<nvtxRangePushA_impl_fntype>(NVTX_CBID_CORE_RangePushA)(text);
}
int pop() {
  return core.get<nvtxRangePop_impl_fntype>(NVTX_CBID_CORE_RangePop)();
}
void mark(const char* text) {
  core.get<nvtxMarkA_impl_fntype>(NVTX_CBID_CORE_MarkA)(text);
}
nvtxRangeId_t start(const char* text) {
  return core.get<nvtxRangeStartA_impl_fntype>(NVTX_CBID_CORE_RangeStartA)(text);
}
void end(nvtxRangeId_t range) {
  core.get<nvtxRangeEnd_impl_fntype>(NVTX_CBID_CORE_RangeEnd)(range);
}
nvtxDomainHandle_t create_domain(const char* name) {
  return core2.get<nvtxDomainCreateA_impl_fntype>(NVTX_CBID_CORE2_DomainCreateA)(name);
}
nvtxEventAttributes_t attributes_of(std::int32_t type) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = type;
  return attributes;
}

void set_session(const Directory& directory) {
  setenv("PROFILER_SESSION", directory.settings().directory, 1);
}

Session* start_cuda(const SessionSettings& settings) {
  const CuptiFunctions functions = fake_cupti::functions();
  return Session::start(settings, &functions);
}

void append_kernel() {
  union {
    CUpti_ActivityKernel8 kernel;
    unsigned char bytes[512];
  } record;
  std::memset(&record, 0, sizeof record);
  record.kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.kernel.start = fake_cupti::now();
  record.kernel.end = record.kernel.start + 1;
  fake_cupti::append(record.bytes, fake_cupti::record_size(record.kernel.kind));
}

// Receives everything that `body` records as the program.
Received record(const std::function<int()>& body, int expected_status = 0) {
  Directory directory;
  const pid_t target = start_target([&] {
    set_session(directory);
    if (InitializeInjectionNvtx2(entry()) != 1) return 99;
    return body();
  });
  const int fd = directory.open_pipe(directory.announcement());
  Received received(read_pipe(fd));
  close(fd);
  const int status = wait_for(target);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == expected_status);
  CHECK(received.hellos == 1);
  CHECK(received.goodbyes == 1);
  return received;
}

NvtxRecord plain(NvtxKind kind, std::uint32_t domain = 0) {
  NvtxRecord record{};
  record.kind = kind;
  record.domain = domain;
  return record;
}

// Rings are never freed; kept where a leak checker finds them.
NvtxRing& new_ring() {
  NvtxRing* ring = NvtxRing::create();
  REQUIRE(ring != nullptr);
  REQUIRE(ring->claim(1));
  return *ring;
}

std::vector<NvtxRecord> read_all(NvtxRing& ring) {
  std::vector<NvtxRecord> records;
  NvtxRecord record{};
  char text[NvtxRing::kMaxTextSize];
  const std::uint32_t end_position = ring.end_position();
  while (ring.read(record, text, end_position)) records.push_back(record);
  return records;
}

}  // namespace

// ---- Text ---------------------------------------------------------------------------------------

TEST_CASE("messages are cut at whole characters", "[nvtx]") {
  const std::string exact(1000, 'x');
  CHECK(NvtxText(exact.c_str()).size() == 1000);
  CHECK(std::string(NvtxText(exact.c_str()).bytes(), 1000) == exact);

  for (const std::size_t shift : {0, 1, 2}) {
    std::string text(shift, 'a');
    while (text.size() < 1003) text += "\xe2\x82\xac";  // three bytes
    const NvtxText cut(text.c_str());
    const std::string kept(cut.bytes(), cut.size());
    CHECK(kept.size() <= 1000);
    CHECK(kept.size() > 994);
    CHECK(kept.substr(kept.size() - 3) == "\xe2\x80\xa6");
    CHECK((kept.size() - 3 - shift) % 3 == 0);
    CHECK(text.compare(0, kept.size() - 3, kept, 0, kept.size() - 3) == 0);
  }
  // No UTF-8 at all: cut somewhere, kept as it is otherwise.
  CHECK(NvtxText(std::string(5000, '\x80').c_str()).size() <= 1000);
  CHECK(std::string(NvtxText("\xff\xfe").bytes(), 2) == "\xff\xfe");
  CHECK(NvtxText(static_cast<const char*>(nullptr)).size() == 0);
  CHECK(NvtxText("").size() == 0);
}

TEST_CASE("wide messages become UTF-8", "[nvtx]") {
  const auto converted = [](const wchar_t* text) {
    const NvtxText utf8(text);
    return std::string(utf8.bytes(), utf8.size());
  };
  CHECK(converted(L"a\u00e9\u20ac\U0001f600") == "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  const wchar_t invalid[] = {L'a',
                             static_cast<wchar_t>(0xd800),
                             static_cast<wchar_t>(0x110000),
                             static_cast<wchar_t>(-1),
                             L'b',
                             L'\0'};
  CHECK(converted(invalid) ==
        "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
        "b");
  CHECK(converted(nullptr).empty());
  for (const std::size_t shift : {0, 1, 2, 3}) {
    std::wstring wide(shift, L'a');
    wide += std::wstring(400, L'\U0001f600');
    const std::string cut = converted(wide.c_str());
    CHECK(cut.size() <= 1000);
    CHECK(cut.size() > 992);
    CHECK((cut.size() - 3 - shift) % 4 == 0);
    CHECK(cut.substr(cut.size() - 3) == "\xe2\x80\xa6");
  }
  CHECK(converted(std::wstring(1000, L'x').c_str()) == std::string(1000, 'x'));
}

TEST_CASE("the same text has one number, from any thread", "[nvtx]") {
  static NvtxRegistry registry;
  constexpr int kTexts = 500;
  std::vector<std::vector<std::uint32_t>> numbers(4);
  std::vector<std::thread> threads;
  for (auto& own : numbers) {
    threads.emplace_back([&own] {
      for (int i = 0; i < kTexts; ++i) {
        own.push_back(registry.number(NvtxText(("text " + std::to_string(i)).c_str())));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(std::set<std::uint32_t>(numbers[0].begin(), numbers[0].end()).size() == kTexts);
  for (const auto& own : numbers) CHECK(own == numbers[0]);
  const NvtxName* name = registry.find(numbers[0][42]);
  REQUIRE(name != nullptr);
  CHECK(std::string(name->text(), name->size) == "text 42");
  CHECK(registry.find(0) == nullptr);
  CHECK(registry.find(UINT64_MAX) == nullptr);
  CHECK(registry.find(NvtxRegistry::kMaxNames) == nullptr);
  CHECK(registry.number(NvtxText("")) == 0);
}

TEST_CASE("a registry that is full says so", "[nvtx]") {
  static NvtxRegistry registry;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i <= NvtxRegistry::kMaxNames; ++i) {
    last = registry.number(NvtxText(std::to_string(i).c_str()));
    if (i < NvtxRegistry::kMaxNames) REQUIRE(last == i + 1);
  }
  CHECK(last == 0);
  CHECK(registry.number(NvtxText("another")) == 0);
  CHECK(registry.number(NvtxText("17")) == 18);
}

// ---- The ring -----------------------------------------------------------------------------------

TEST_CASE("levels are counted for each domain", "[nvtx]") {
  NvtxRing& ring = new_ring();
  const auto push_in = [&](std::uint32_t domain) {
    return ring.push(plain(NvtxKind::kPush, domain), nullptr, true);
  };
  const auto pop_in = [&](std::uint32_t domain) {
    return ring.pop(plain(NvtxKind::kPop, domain), true);
  };
  CHECK(pop_in(0) == -1);
  CHECK(push_in(0) == 0);
  CHECK(push_in(0) == 1);
  CHECK(push_in(9) == 0);
  CHECK(pop_in(0) == 1);
  CHECK(pop_in(9) == 0);
  CHECK(pop_in(9) == -1);
  CHECK(pop_in(0) == 0);
  CHECK(pop_in(0) == -1);
  CHECK(read_all(ring).size() == 9);

  // So many domains at once are not followed; those that have no open range make room.
  for (std::uint32_t domain = 1; domain <= 32; ++domain) CHECK(push_in(domain) == 0);
  CHECK(push_in(33) == NvtxRing::kNoTracking);
  CHECK(ring.take_lost() == 1);
  CHECK(pop_in(5) == 0);
  CHECK(push_in(33) == 0);
}

TEST_CASE("a ring that is full loses whole ranges, and counts them", "[nvtx]") {
  NvtxRing& ring = new_ring();
  const std::string text(100, 't');
  NvtxRecord record = plain(NvtxKind::kPush);
  record.text_size = static_cast<std::uint16_t>(text.size());
  std::uint64_t lost = 0;
  std::uint64_t random = 1;
  int depth = 0;
  int open_as_seen = 0;
  std::uint64_t pushes = 0;
  std::uint64_t seen_pushes = 0;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 3'000; ++i) {
      random = random * 6364136223846793005ULL + 1442695040888963407ULL;
      if (depth > 0 && (random >> 60) < 8) {
        REQUIRE(ring.pop(plain(NvtxKind::kPop), true) == --depth);
      } else {
        REQUIRE(ring.push(record, text.data(), true) == depth++);
        ++pushes;
      }
    }
    for (const NvtxRecord& seen : read_all(ring)) {
      open_as_seen += seen.kind == NvtxKind::kPush ? 1 : -1;
      seen_pushes += seen.kind == NvtxKind::kPush ? 1 : 0;
      REQUIRE(open_as_seen >= 0);
    }
    lost += ring.take_lost();
  }
  while (depth > 0) REQUIRE(ring.pop(plain(NvtxKind::kPop), true) == --depth);
  for (const NvtxRecord& seen : read_all(ring))
    open_as_seen += seen.kind == NvtxKind::kPush ? 1 : -1;
  CHECK(open_as_seen == 0);
  CHECK(lost > 0);
  CHECK(seen_pushes + lost == pushes);
}

TEST_CASE("ranges deeper than can be followed are lost and counted", "[nvtx]") {
  NvtxRing& ring = new_ring();
  for (int i = 0; i < 300; ++i) CHECK(ring.push(plain(NvtxKind::kPush), nullptr, true) == i);
  for (int i = 299; i >= 0; --i) CHECK(ring.pop(plain(NvtxKind::kPop), true) == i);
  CHECK(ring.take_lost() == 300 - 256);
  CHECK(read_all(ring).size() == 512);
}

TEST_CASE("ranges that are open while recording stops still end", "[nvtx]") {
  NvtxRing& ring = new_ring();
  ring.push(plain(NvtxKind::kPush), nullptr, true);
  CHECK(ring.push(plain(NvtxKind::kPush), nullptr, false) == 1);
  CHECK(ring.pop(plain(NvtxKind::kPop), true) == 1);   // of one that was not recorded
  CHECK(ring.pop(plain(NvtxKind::kPop), false) == 0);  // of one that was
  CHECK(ring.pop(plain(NvtxKind::kPop), false) == -1);
  const auto records = read_all(ring);
  REQUIRE(records.size() == 2);
  CHECK(records[0].kind == NvtxKind::kPush);
  CHECK(records[1].kind == NvtxKind::kPop);
  CHECK(ring.take_lost() == 0);
}

TEST_CASE("text survives the end of the ring's memory", "[nvtx]") {
  NvtxRing& ring = new_ring();
  for (std::uint32_t i = 0; i < 5'000; ++i) {
    const std::string text(i % 999 + 1, static_cast<char>('a' + i % 26));
    NvtxRecord record = plain(NvtxKind::kMark);
    record.number = i;
    record.text_size = static_cast<std::uint16_t>(text.size());
    REQUIRE(ring.write(record, text.data()));
    NvtxRecord seen{};
    char bytes[NvtxRing::kMaxTextSize];
    REQUIRE(ring.read(seen, bytes, ring.end_position()));
    REQUIRE(seen.number == i);
    REQUIRE(std::string(bytes, seen.text_size) == text);
  }
}

// ---- The recorder, without a session ------------------------------------------------------------

TEST_CASE("what threads write while it is read arrives whole and in order", "[nvtx]") {
  const pid_t target = start_target([] {
    static Counter wake;
    static NvtxRecorder recorder(wake);
    std::string bytes;
    CuptiApi cupti;
    RecordEncoder encoder(cupti,
                          FrameSink{[](void* into, const std::uint8_t* part, std::size_t size) {
                                      static_cast<std::string*>(into)->append(
                                          reinterpret_cast<const char*>(part), size);
                                      return true;
                                    },
                                    &bytes});
    NvtxWriter writer(encoder);
    recorder.activate();
    fill_nvtx_tables(&export_table);
    constexpr int kThreads = 4;
    constexpr int kRanges = 20'000;
    std::atomic<int> running{kThreads};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&running] {
        for (int i = 0; i < kRanges; ++i) {
          push("range");
          mark(("mark " + std::to_string(i % 10)).c_str());
          pop();
        }
        running.fetch_sub(1);
      });
    }
    std::uint64_t lost = 0;
    while (running.load() != 0) lost += recorder.drain(writer).lost;
    for (std::thread& thread : threads) thread.join();
    const NvtxRecorder::Drained last = recorder.drain(writer);
    lost += last.lost;
    NvtxRecorder::deactivate();
    encoder.send();
    if (!last.quiet || push("nobody listens") != NvtxRing::kNoTracking) return 1;

    const Received received(bytes);
    if (received.count(wire::NvtxEvent::PUSH) != received.count(wire::NvtxEvent::POP)) return 2;
    if (received.count(wire::NvtxEvent::PUSH) + received.count(wire::NvtxEvent::MARK) + lost !=
        2ULL * kThreads * kRanges) {
      return 3;
    }
    std::map<std::uint64_t, std::uint64_t> last_time;
    for (const Event& event : received.events) {
      if (event.time < last_time[event.tid]) return 4;
      last_time[event.tid] = event.time;
    }
    return last_time.size() == kThreads ? 0 : 5;
  });
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
}

TEST_CASE("events that find no room are counted", "[nvtx]") {
  const pid_t target = start_target([] {
    static Counter wake;
    static NvtxRecorder recorder(wake);
    CuptiApi cupti;
    RecordEncoder encoder(
        cupti, FrameSink{[](void*, const std::uint8_t*, std::size_t) { return true; }, nullptr});
    NvtxWriter writer(encoder);
    recorder.activate();
    fill_nvtx_tables(&export_table);
    for (int i = 0; i < 5'000; ++i) mark("m");
    if (!recorder.is_pressed() || wake.value() == 0) return 1;
    const NvtxRecorder::Drained drained = recorder.drain(writer);
    encoder.send();
    if (encoder.records_sent() + drained.lost != 5'000 || drained.lost == 0) return 2;
    if (drained.from_ns == 0 || drained.from_ns > drained.to_ns) return 3;
    // A range whose start was lost leaves no end either.
    std::vector<nvtxRangeId_t> ranges;
    for (int i = 0; i < 5'000; ++i) ranges.push_back(start("s"));
    const std::uint64_t lost = recorder.drain(writer).lost;
    encoder.send();
    const std::uint64_t started = encoder.records_sent() - (5'000 - drained.lost);
    if (lost == 0 || started + lost != 5'000) return 4;
    if (std::set<nvtxRangeId_t>(ranges.begin(), ranges.end()).size() != 5'000) return 5;
    for (const nvtxRangeId_t range : ranges) {
      end(range);
      if (range % 500 == 0) recorder.drain(writer);
    }
    if (recorder.drain(writer).lost != 0) return 6;
    encoder.send();
    return encoder.records_sent() == 5'000 - drained.lost + 2 * started ? 0 : 7;
  });
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
}

// ---- Sessions -----------------------------------------------------------------------------------

TEST_CASE("a program without CUDA is recorded", "[nvtx]") {
  const Received received = record([&] {
    if (push("outer") != 0 || push("inner") != 1) return 1;
    mark("here");
    const nvtxRangeId_t range = start("across");
    std::thread([range] {
      if (push("other") != 0) std::exit(2);
      end(range);
      pop();
    }).join();
    if (pop() != 1 || pop() != 0 || pop() != -1) return 3;
    return range == 0 ? 4 : 0;
  });
  const auto pid = static_cast<std::uint64_t>(received.frames.front().hello().pid());
  CHECK(story(received.of(pid)) ==
        "push outer, push inner, mark here, start across, pop, pop, pop");
  REQUIRE(received.events.size() == 10);
  std::vector<Event> other;
  for (const Event& event : received.events) {
    if (event.tid != pid) other.push_back(event);
  }
  CHECK(story(other) == "push other, end, pop");
  CHECK(other[1].range == received.of(pid)[3].range);
  CHECK(other[1].range != 0);
  CHECK(received.lost == 0);
  CHECK_FALSE(received.frames.front().hello().has_cupti_version());
  CHECK_FALSE(received.frames.front().hello().has_failure());
  CHECK(received.frames.back().goodbye().records_sent() == 10);
  for (std::size_t i = 1; i < received.of(pid).size(); ++i) {
    CHECK(received.of(pid)[i - 1].time <= received.of(pid)[i].time);
  }
  CHECK(received.events.front().time >= received.frames.front().hello().start_ns());
}

TEST_CASE("domains, registered strings, categories and all ways to say a message", "[nvtx]") {
  const Received received = record([] {
    const nvtxDomainHandle_t domain = create_domain("d");
    if (domain == nullptr || create_domain("d") != domain) return 1;
    const auto wide_domain =
        core2.get<nvtxDomainCreateW_impl_fntype>(NVTX_CBID_CORE2_DomainCreateW)(L"w\u00e9");
    const auto text = core2.get<nvtxDomainRegisterStringA_impl_fntype>(
        NVTX_CBID_CORE2_DomainRegisterStringA)(domain, "registered");
    const auto wide_text = core2.get<nvtxDomainRegisterStringW_impl_fntype>(
        NVTX_CBID_CORE2_DomainRegisterStringW)(domain, L"wide");
    const auto push_ex =
        core2.get<nvtxDomainRangePushEx_impl_fntype>(NVTX_CBID_CORE2_DomainRangePushEx);
    const auto pop_ex = core2.get<nvtxDomainRangePop_impl_fntype>(NVTX_CBID_CORE2_DomainRangePop);

    nvtxEventAttributes_t attributes = attributes_of(NVTX_MESSAGE_TYPE_REGISTERED);
    attributes.message.registered = text;
    attributes.category = 3;
    if (push_ex(domain, &attributes) != 0) return 2;
    attributes.message.registered = wide_text;
    if (push_ex(wide_domain, &attributes) != 0) return 3;
    if (pop_ex(domain) != 0 || pop_ex(wide_domain) != 0) return 4;

    attributes = attributes_of(NVTX_MESSAGE_TYPE_ASCII);
    attributes.message.ascii = "narrow";
    core.get<nvtxMarkEx_impl_fntype>(NVTX_CBID_CORE_MarkEx)(&attributes);
    core2.get<nvtxDomainMarkEx_impl_fntype>(NVTX_CBID_CORE2_DomainMarkEx)(domain, &attributes);
    attributes = attributes_of(NVTX_MESSAGE_TYPE_UNICODE);
    attributes.message.unicode = L"\u00fc";
    core.get<nvtxRangePushEx_impl_fntype>(NVTX_CBID_CORE_RangePushEx)(&attributes);
    pop();
    core.get<nvtxRangePushW_impl_fntype>(NVTX_CBID_CORE_RangePushW)(L"pw");
    pop();
    core.get<nvtxMarkW_impl_fntype>(NVTX_CBID_CORE_MarkW)(L"mw");
    end(core.get<nvtxRangeStartW_impl_fntype>(NVTX_CBID_CORE_RangeStartW)(L"sw"));
    attributes = attributes_of(NVTX_MESSAGE_TYPE_ASCII);
    attributes.message.ascii = "se";
    end(core.get<nvtxRangeStartEx_impl_fntype>(NVTX_CBID_CORE_RangeStartEx)(&attributes));
    const auto range = core2.get<nvtxDomainRangeStartEx_impl_fntype>(
        NVTX_CBID_CORE2_DomainRangeStartEx)(domain, &attributes);
    core2.get<nvtxDomainRangeEnd_impl_fntype>(NVTX_CBID_CORE2_DomainRangeEnd)(domain, range);

    // Nonsense: no message, no attributes, too little of them, handles of nobody.
    attributes = attributes_of(NVTX_MESSAGE_UNKNOWN);
    core.get<nvtxMarkEx_impl_fntype>(NVTX_CBID_CORE_MarkEx)(&attributes);
    core.get<nvtxMarkEx_impl_fntype>(NVTX_CBID_CORE_MarkEx)(nullptr);
    attributes = attributes_of(NVTX_MESSAGE_TYPE_ASCII);
    attributes.message.ascii = "unread";
    attributes.size = 8;
    core.get<nvtxMarkEx_impl_fntype>(NVTX_CBID_CORE_MarkEx)(&attributes);
    attributes = attributes_of(NVTX_MESSAGE_TYPE_REGISTERED);
    attributes.message.registered = reinterpret_cast<nvtxStringHandle_t>(~std::uintptr_t{0});
    core2.get<nvtxDomainMarkEx_impl_fntype>(NVTX_CBID_CORE2_DomainMarkEx)(
        reinterpret_cast<nvtxDomainHandle_t>(&attributes), &attributes);
    return 0;
  });
  CHECK(story(received.events) ==
        "push d/registered, push w\xc3\xa9/wide, pop d/, pop w\xc3\xa9/, mark narrow, "
        "mark d/narrow, push \xc3\xbc, pop, push pw, pop, mark mw, start sw, end, start se, end, "
        "start d/se, end d/, mark, mark, mark, mark");
  REQUIRE(received.events.size() > 2);
  CHECK(received.events[0].category == 3);
  CHECK(received.events[2].category == 0);
}

TEST_CASE("an older NVTX gets the functions that it knows", "[nvtx]") {
  const pid_t target = start_target([] {
    shortened = NVTX_CBID_CORE_RangePop;
    core = {};
    core2 = {};
    for (std::size_t i = 1; i < core.functions.size(); ++i) core.table[i] = &core.functions[i];
    core.table[NVTX_CBID_CORE_MarkW] = nullptr;
    if (!fill_nvtx_tables(&export_table)) return 1;
    if (core.functions[NVTX_CBID_CORE_RangePushA] == nullptr) return 2;
    if (core.functions[NVTX_CBID_CORE_RangePop] != nullptr) return 3;
    if (core.functions[NVTX_CBID_CORE_MarkW] != nullptr) return 4;
    if (fill_nvtx_tables([](std::uint32_t) -> const void* { return nullptr; })) return 5;
    // Without a session the calls do nothing.
    return push("x") == NvtxRing::kNoTracking ? 0 : 6;
  });
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
}

TEST_CASE("rings of ended threads are used again", "[nvtx]") {
  constexpr std::size_t kThreads = 3'000;
  const Received received = record([] {
    for (std::size_t i = 0; i < kThreads; ++i) {
      std::thread([] {
        push("short");  // and never closed
      }).join();
    }
    // There may be no ring for now: what is lost then is counted, too.
    std::size_t attempt = 1;
    while (push(std::to_string(attempt).c_str()) != 0) {
      ++attempt;
      usleep(100);
    }
    return 0;
  });
  const auto pid = static_cast<std::uint64_t>(received.frames.front().hello().pid());
  REQUIRE(received.of(pid).size() == 1);
  const std::size_t attempts = std::stoul(received.of(pid)[0].text);
  CHECK(received.count(wire::NvtxEvent::PUSH) + received.lost == kThreads + attempts);
  CHECK(received.count(wire::NvtxEvent::PUSH) == received.events.size());
}

TEST_CASE("names of threads win over those of the system", "[nvtx]") {
  std::string long_name(200, 'n');
  const Received received = record([&] {
    const auto tid = static_cast<std::uint32_t>(own_tid());
    mark("before");
    core.get<nvtxNameOsThreadA_impl_fntype>(NVTX_CBID_CORE_NameOsThreadA)(tid, long_name.c_str());
    std::thread([] {
      core.get<nvtxNameOsThreadW_impl_fntype>(NVTX_CBID_CORE_NameOsThreadW)(
          static_cast<std::uint32_t>(own_tid()), L"w\u00efde");
      usleep(500'000);  // beyond the next reading of the system's names
      mark("late");
    }).join();
    mark("after");
    return 0;
  });
  const auto pid = static_cast<std::uint64_t>(received.frames.front().hello().pid());
  CHECK(received.thread_names.at(pid) == long_name);
  std::uint64_t other = 0;
  for (const Event& event : received.events) {
    if (event.tid != pid) other = event.tid;
  }
  CHECK(received.thread_names.at(other) ==
        "w\xc3\xaf"
        "de");
}

TEST_CASE("CUDA that starts at once is told in hello, a later one after it", "[nvtx]") {
  const bool late = GENERATE(false, true);
  Directory directory;
  const pid_t target = start_target([&] {
    set_session(directory);
    if (InitializeInjectionNvtx2(entry()) != 1) return 90;
    push("before CUDA");
    if (late) {
      while (access(directory.file("go").c_str(), F_OK) != 0) usleep(1'000);
    }
    if (start_cuda(directory.settings()) == nullptr) return 91;
    if (start_cuda(directory.settings()) == nullptr) return 92;  // nothing more happens
    append_kernel();
    pop();
    return 0;
  });
  const int fd = directory.open_pipe(directory.announcement());
  std::string bytes;
  if (late) {
    bytes = read_pipe(fd, [](const std::string& so_far) {
      std::size_t rest = 0;
      return Received(so_far, &rest).hellos == 1;
    });
    close(open(directory.file("go").c_str(), O_WRONLY | O_CREAT, 0600));
  }
  bytes += read_pipe(fd);
  close(fd);
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
  const Received received(bytes);
  CHECK(received.hellos == 1);
  CHECK(received.frames.front().has_hello());
  CHECK(received.goodbyes == 1);
  CHECK(received.kernels == 1);
  CHECK(story(received.events) == "push before CUDA, pop");
  const wire::Hello& hello = received.frames.front().hello();
  CHECK(hello.has_cupti_version() == !late);
  CHECK(received.cudas == (late ? 1 : 0));
  bool told = !late;
  for (const wire::Frame& frame : received.frames) {
    if (frame.has_cuda()) {
      CHECK(frame.cuda().cupti_version() == 130001);
      CHECK_FALSE(frame.cuda().has_failure());
      told = true;
    }
    if (frame.kernels_size() != 0) CHECK(told);
  }
}

TEST_CASE("NVTX joins a session that CUDA started", "[nvtx]") {
  Directory directory;
  const pid_t target = start_target([&] {
    set_session(directory);
    if (start_cuda(directory.settings()) == nullptr) return 90;
    if (InitializeInjectionNvtx2(entry()) != 1) return 91;
    push("a");
    pop();
    return 0;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
  CHECK(received.hellos == 1);
  CHECK(received.goodbyes == 1);
  CHECK(received.frames.front().hello().cupti_version() == 130001);
  CHECK(story(received.events) == "push a, pop");
  CHECK(directory.is_quiet());
}

TEST_CASE("CUDA and NVTX that start together share one session", "[nvtx]") {
  for (int round = 0; round < 10; ++round) {
    Directory directory;
    const pid_t target = start_target([&] {
      set_session(directory);
      std::atomic<int> ready{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          ready.fetch_add(1);
          while (ready.load() != 4) sched_yield();
          if (t % 2 == 0) {
            start_cuda(directory.settings());
          } else {
            Session::start_for_nvtx(directory.settings());
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      fill_nvtx_tables(&export_table);
      mark("m");
      return fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_RUNTIME) ? 0 : 1;
    });
    const int fd = directory.open_pipe(directory.announcement());
    const Received received(read_pipe(fd));
    close(fd);
    CHECK(WEXITSTATUS(wait_for(target)) == 0);
    CHECK(received.hellos == 1);
    CHECK(received.goodbyes == 1);
    CHECK(received.events.size() == 1);
    CHECK(directory.is_quiet());
  }
}

TEST_CASE("while the program runs its events arrive, with watermarks", "[nvtx]") {
  Directory directory;
  const pid_t target = start_target([&] {
    set_session(directory);
    if (InitializeInjectionNvtx2(entry()) != 1) return 90;
    push("open for ever");
    for (;;) pause();
  });
  const int fd = directory.open_pipe(directory.announcement());
  const std::string bytes = read_pipe(fd, [](const std::string& so_far) {
    std::size_t rest = 0;
    const Received received(so_far, &rest);
    return received.events.size() == 1 && !received.frames.empty() &&
           received.frames.back().has_watermark();
  });
  kill(target, SIGKILL);
  wait_for(target);
  close(fd);
  std::size_t rest = 0;
  const Received received(bytes, &rest);
  CHECK(received.frames.back().watermark().complete_until_ns() >= received.events[0].time);
  CHECK(received.goodbyes == 0);
}

TEST_CASE("a forked child says nothing of its own or its parent's ranges", "[nvtx]") {
  const Received received = record([] {
    push("parent");
    const pid_t child = fork();
    if (child == 0) {
      if (push("child") != NvtxRing::kNoTracking || pop() != NvtxRing::kNoTracking) std::exit(9);
      end(start("child"));
      mark("child");
      std::exit(5);
    }
    const int status = wait_for(child);
    pop();
    return WEXITSTATUS(status) == 5 ? 0 : 1;
  });
  CHECK(story(received.events) == "push parent, pop");
}

TEST_CASE("a forked child that starts CUDA records its ranges as its own", "[nvtx]") {
  Directory directory;
  const pid_t target = start_target([&] {
    set_session(directory);
    InitializeInjectionNvtx2(entry());
    const nvtxDomainHandle_t domain = create_domain("inherited");
    nvtxEventAttributes_t attributes = attributes_of(NVTX_MESSAGE_UNKNOWN);
    push("parent");
    // The parent is announced first.
    while (access(directory.file("go").c_str(), F_OK) != 0) usleep(1'000);
    const pid_t child = fork();
    if (child == 0) {
      if (start_cuda(directory.settings()) == nullptr) std::exit(92);
      core2.get<nvtxDomainMarkEx_impl_fntype>(NVTX_CBID_CORE2_DomainMarkEx)(domain, &attributes);
      mark("child");
      std::exit(0);
    }
    return WEXITSTATUS(wait_for(child));
  });
  const int first = directory.open_pipe(directory.announcement());
  close(open(directory.file("go").c_str(), O_WRONLY | O_CREAT, 0600));
  const auto announcement = directory.announcement();
  const int second = directory.open_pipe(announcement);
  const Received child(read_pipe(second));
  const Received parent(read_pipe(first));
  close(first);
  close(second);
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
  CHECK(story(parent.events) == "push parent");
  CHECK(story(child.events) == "mark inherited/, mark child");
  CHECK(child.events.front().tid == announcement.pid());
}

TEST_CASE("names of streams arrive under the ids that records have", "[nvtx]") {
  Directory directory;
  const pid_t target = start_target([&] {
    set_session(directory);
    InitializeInjectionNvtx2(entry());
    const auto name =
        cudart_table.get<nvtxNameCudaStreamA_fakeimpl_fntype>(NVTX_CBID_CUDART_NameCudaStreamA);
    const auto name_wide =
        cuda_table.get<nvtxNameCuStreamW_fakeimpl_fntype>(NVTX_CBID_CUDA_NameCuStreamW);
    void* const stream = &directory;
    name(stream, "too early");
    CuptiFunctions functions = fake_cupti::functions();
    functions.cuptiGetStreamIdEx = [](CUcontext, CUstream handle, std::uint8_t, std::uint32_t* id) {
      *id = 13;
      return handle == nullptr ? CUPTI_ERROR_INVALID_STREAM : CUPTI_SUCCESS;
    };
    if (Session::start(directory.settings(), &functions) == nullptr) return 90;
    name(stream, "compute");
    name(nullptr, "of nobody");
    name_wide(stream, L"copies");
    return 0;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
  REQUIRE(received.stream_names.size() == 2);
  CHECK(received.stream_names[0].name() == "compute");
  CHECK(received.stream_names[1].name() == "copies");
  CHECK(received.stream_names[0].stream_id() == 13);
  CHECK_FALSE(received.stream_names[0].has_context_id());
}

TEST_CASE("recording that is switched off stops NVTX and kinds enabled later", "[nvtx]") {
  Directory directory;
  const auto command = [&](std::uint32_t sequence, std::uint32_t what) {
    const session::Control content{sequence, what};
    const int fd = open(directory.file("control").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const bool written = pwrite(fd, &content, sizeof content, 0) == sizeof content;
    close(fd);
    return written;
  };
  const pid_t target = start_target([&] {
    set_session(directory);
    InitializeInjectionNvtx2(entry());
    push("recorded");
    if (!command(1, session::kStop)) return 90;
    // Marks disappear once the command has been read; the range ends all the same.
    while ((start("probe") >> 63) == 0) usleep(1'000);
    mark("not recorded");
    push("not recorded");
    if (start_cuda(directory.settings()) == nullptr) return 91;
    while (fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_RUNTIME)) usleep(1'000);
    if (!command(2, session::kStart)) return 92;
    while (!fake_cupti::is_enabled(CUPTI_ACTIVITY_KIND_RUNTIME)) usleep(1'000);
    if (pop() != 1 || pop() != 0) return 93;
    mark("again");
    return 0;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
  std::vector<Event> without_probes;
  for (const Event& event : received.events) {
    if (event.text != "probe") without_probes.push_back(event);
  }
  CHECK(story(without_probes) == "push recorded, pop, mark again");
  CHECK(received.lost == 0);
}

TEST_CASE("NVTX without a session or listener leaves its tables alone", "[nvtx]") {
  Directory directory;
  directory.stop_listening();
  const pid_t target = start_target([&] {
    core.functions = {};
    unsetenv("PROFILER_SESSION");
    if (InitializeInjectionNvtx2(entry()) != 1) return 1;
    set_session(directory);
    if (InitializeInjectionNvtx2(entry()) != 1) return 2;
    if (InitializeInjectionNvtx2(nullptr) != 1) return 3;
    return core.functions[NVTX_CBID_CORE_RangePushA] == nullptr ? 0 : 4;
  });
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
}

#ifdef PROFILER_NVTX_PROGRAM
TEST_CASE("NVTX's own headers load the library, without CUDA", "[nvtx]") {
  Directory directory;
  const std::string output = directory.file("output");
  const pid_t target = start_target([&] {
    set_session(directory);
    setenv("NVTX_INJECTION64_PATH", PROFILER_INJECTOR_FILE, 1);
    if (std::freopen(output.c_str(), "w", stdout) == nullptr) return 90;
    execl(PROFILER_NVTX_PROGRAM, PROFILER_NVTX_PROGRAM, nullptr);
    return 91;
  });
  const int fd = directory.open_pipe(directory.announcement());
  const Received received(read_pipe(fd));
  close(fd);
  CHECK(WEXITSTATUS(wait_for(target)) == 0);
  const auto pid = static_cast<std::uint64_t>(target);
  CHECK(story(received.of(pid)) ==
        "push epoch, push Schritt f\xc3\xbcr Schritt, mark here, pop, pop, start loader/batch, "
        "push loader/batch, pop loader/");
  CHECK(received.events.size() == 9);
  CHECK(received.count(wire::NvtxEvent::END) == 1);
  CHECK(received.thread_names.at(pid) == "main loop");
  CHECK(received.goodbyes == 1);
  char line[64] = "";
  std::FILE* file = std::fopen(output.c_str(), "r");
  REQUIRE(file != nullptr);
  CHECK(std::fgets(line, sizeof line, file) != nullptr);
  std::fclose(file);
  CHECK(std::string(line) == "0 1 1 0 0\n");
}
#endif
