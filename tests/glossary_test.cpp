#include "collector/glossary.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "cli/explain_command.h"
#include "cli/labels.h"
#include "cli/text.h"
#include "collector/cause.h"
#include "collector/findings.h"
#include "collector/verdict.h"
#include "tests/catch.h"

namespace profiler {
namespace {

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string explain(const std::string& term, bool& known) {
  return explanation({term, false}, 80, true, known);
}

TEST_CASE("every label of the screen is explained", "[glossary]") {
  const auto labels = screen_labels();
  CHECK(labels.size() > 60);
  for (const std::string_view label : labels) {
    INFO(label);
    CHECK(find_term(label).term != nullptr);
  }
}

TEST_CASE("every cause, verdict and rule is explained under its own name", "[glossary]") {
  std::set<std::string> names;
  for (const Term& term : glossary()) names.insert(term.name);
  for (std::size_t i = 0; i < kCauseCount; ++i) {
    const std::string name(cause_name(static_cast<Cause>(i)));
    INFO(name);
    CHECK(names.count(name) == 1);
    CHECK(find_cause_text(name) != nullptr);
  }
  for (const std::string_view rule : finding_rules()) {
    INFO(rule);
    CHECK(names.count(std::string(rule)) == 1);
  }
  for (const char* kind : {kGpuBound, kLaunchBound, kHostBound, kSynchronizationBound,
                           kTransferBound, kOutside, kNotReliable, kNoGpuWork}) {
    INFO(kind);
    CHECK(names.count(kind) == 1);
  }
}

TEST_CASE("a name stands for one term", "[glossary]") {
  std::set<std::string> names;
  for (const Term& term : glossary()) {
    std::vector<std::string> all = term.aliases;
    all.push_back(term.name);
    for (const std::string& name : all) {
      INFO(name);
      CHECK(names.insert(lower(name)).second);
      CHECK(find_term(name).term == &term);
    }
    INFO(term.name);
    CHECK(term.definition.size() > 10);
    CHECK((term.definition.back() == '.' || term.definition.back() == '?'));
  }
}

TEST_CASE("terms are found whatever the case, and by their beginning", "[glossary]") {
  bool known = false;
  CHECK(contains(explain("LAUNCH LATENCY", known), "launch latency\n"));
  CHECK(known);
  CHECK(contains(explain("synchronization", known), "synchronization-bound"));
  CHECK(known);
  CHECK(contains(explain("idle_opened_by", known), "opened by"));
  CHECK(known);

  const std::string ambiguous = explain("launch-", known);
  CHECK(known);  // launch-bound alone begins so
  CHECK(contains(ambiguous, "launch-bound"));
  CHECK(contains(explain("launch l", known), "launch latency"));
  CHECK(known);
  const std::string several = explain("alloc", known);
  CHECK(!known);
  CHECK(contains(several, "Near to it: "));
  CHECK(contains(several, "allocation in the loop"));
  CHECK(contains(several, "allocating/freeing"));

  CHECK(contains(explain("schedulling", known), "scheduling"));
  CHECK(!known);
  CHECK(contains(explain("xyzzy", known), "--list"));
  CHECK(!known);
  CHECK(!contains(explain("\x1b[31m", known), "\x1b"));
  CHECK(!known);
  CHECK(!explain(std::string(1'000'000, 'x'), known).empty());
  CHECK(!known);
}

TEST_CASE("the list names every term, the introduction too", "[glossary]") {
  bool known = false;
  const std::string list = explanation({"", true}, 80, true, known);
  CHECK(known);
  CHECK(static_cast<std::size_t>(std::count(list.begin(), list.end(), '\n')) == glossary().size());
  std::string introduction = explanation({"", false}, 1'000'000, true, known);
  CHECK(known);
  CHECK(contains(introduction, "idle"));
  for (const Term& term : glossary()) {
    INFO(term.name);
    CHECK(contains(list, term.name + "\n"));
    CHECK(contains(introduction, term.name));
    bool found = false;
    const std::string text = explanation({term.name, false}, 60, false, found);
    CHECK(found);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      CHECK(display_width(text.substr(at, end - at)) <= 60);
      at = end + 1;
    }
    CHECK(std::all_of(text.begin(), text.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
    CHECK(!contains(text, "\\u"));
  }
}

}  // namespace
}  // namespace profiler
