// SPDX-License-Identifier: BSD-3-Clause
// The examples of the four ways to update persistent memory, examples/mnemosyne/*.c, under the crash explorer: the very
// functions that the programs call, on an address space whose every crash image is recovered. Then each flush, fence,
// write-through and log_flush that they call is left out, and the explorer must object.
#include <algorithm>
#include <cstring>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#define PERDURE_NO_SHORT_NAMES
#include "perdure/api/pool_core.h"
#include "perdure/append_log.h"
#include "perdure/mnemosyne.h"
#include "perdure/mnemosyne/program.h"
#include "sim/crash/explorer.h"
#include "tests/private_space.h"

// ---- from the examples, which are compiled with main and the primitives renamed -----------------

extern "C" {
void rely_on_count(long* count);
void count_up(long* count);

int append_entry(perdure_log* journal, long number);
struct entry {
  long number;
  char text[96];
};

struct settings {
  long version;
  char theme[160];
};
struct document {
  settings* copies[2];
  long valid;
};
void rely_on_reference(document* document);
int change_to(document* document, long version);

struct node {
  node *next, *previous;
  long value;
};
struct list {
  node *first, *last;
};
int add(list* list, long value);
void drop(list* list, long value);
}

namespace {

/// The calls that order something or make it durable: those of the program's start, or those of a step. One of them can be
/// left out each time.
struct Calls {
  bool at_start = false;
  int made = 0;
  bool leave_out_at_start = false;
  int left_out = -1;

  void begin(bool start) {
    at_start = start;
    made = 0;
  }
  bool next() { return made++ != left_out || at_start != leave_out_at_start; }
};
Calls calls;

}  // namespace

extern "C" {
void update_flush(const void* address) {
  if (calls.next()) perdure_flush(address);
}
void update_fence() {
  if (calls.next()) perdure_fence();
}
void update_wtstore(void* to, const void* from, std::size_t size) {
  if (calls.next()) return perdure_wtstore(to, from, size);
  perdure_store(to, from, size);  // as if it had been a store that is never flushed
}
int update_log_flush(perdure_log* log) { return calls.next() ? perdure_log_flush(log) : 0; }
}

namespace perdure::crash {
namespace {

/// A session's address space is the one of the C functions, for the time of a call.
class Bound {
 public:
  explicit Bound(AddressSpace& space) { mnemosyne::bind(&space); }
  ~Bound() { mnemosyne::bind(nullptr); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;
};

/// Where a variable stands in the static region: so that a struct begins in one sector and goes on in the next.
constexpr std::size_t kPlace = kSectorBytes - 2 * kWordBytes;

template <class T>
T& variables_of(AddressSpace& space) {
  return *reinterpret_cast<T*>(space.fixed_address(space.statics_begin() + kPlace));
}

void require(bool done) {
  if (!done) throw Exception(Code::kNoSpace, std::string("the update failed: ") + perdure_error());
}

/// An update of pstatic variables of type T, zeros at first.
template <class T>
SpaceScenario update(
    const char* name, std::function<void(T&, std::uint64_t)> step,
    std::function<std::optional<std::string>(AddressSpace&, const T&, long)> check) {
  SpaceScenario s;
  s.name = name;
  s.claim = "an update is there or not";
  s.statics.resize((kPlace + sizeof(T)) / kWordBytes);
  s.region_pages = 2;
  s.steps = 4;
  s.step = [=](AddressSpace& space, std::uint64_t number) {
    const Bound bound(space);
    calls.begin(false);
    step(variables_of<T>(space), number);
  };
  s.check = [=](AddressSpace& space, std::uint64_t number) {
    return check(space, variables_of<T>(space), static_cast<long>(number));
  };
  return s;
}

/// Nothing if the heap holds exactly the roots and `owned`.
std::optional<std::string> audit(AddressSpace& space, std::vector<const void*> owned) {
  Pool& pool = space.pool();
  const std::byte* const base = core_of(pool).world().base;
  pool.read_only([&](Tx& tx) {
    for (const RootEntry& root : core_of(pool).roots(tx)) owned.push_back(base + root.object);
  });
  std::vector<const void*> live;
  core_of(pool).heap().for_each_object(
      [&](Offset object, std::uint64_t) { live.push_back(base + object); });
  std::sort(owned.begin(), owned.end());
  std::sort(live.begin(), live.end());
  if (live == owned) return std::nullopt;
  return std::to_string(live.size()) + " objects in the heap, " + std::to_string(owned.size()) +
         " of them known";
}

Report must_survive(const SpaceScenario& scenario) {
  const Report report = explore(scenario);
  for (const Violation& violation : report.violations)
    ADD_FAILURE() << scenario.name << ": " << violation.what << "\n" << violation.replay;
  EXPECT_GT(report.images, 20u);
  EXPECT_GT(report.nested_images, 20u);
  return report;
}

/// What the program does at its start, on variables of type T.
template <class T>
void begin_with(SpaceScenario& scenario, std::function<void(T&)> start) {
  scenario.start = [=](AddressSpace& space) {
    const Bound bound(space);
    calls.begin(true);
    start(variables_of<T>(space));
  };
}

void must_need(const SpaceScenario& scenario, Model model, bool at_start, int call) {
  calls.leave_out_at_start = at_start;
  calls.left_out = call;
  EXPECT_FALSE(explore(subject_of(scenario), model, {}).violations.empty())
      << scenario.name << " survives without its call " << call
      << (at_start ? " at the start (" : " (") << model_name(model) << ")";
  calls.left_out = -1;
}

void each_call_is_needed(const SpaceScenario& scenario, int calls_of_start, int calls_of_step) {
  EXPECT_EQ(calls.made, calls_of_step) << "of the last step";
  for (int call = 0; call < calls_of_step; ++call) {
    must_need(scenario, Model::kMemory, false, call);
    must_need(scenario, Model::kFile, false, call);
  }
  // On a file, what a killed process has written arrives with the sync of the recovery.
  for (int call = 0; call < calls_of_start; ++call) must_need(scenario, Model::kMemory, true, call);
}

TEST(Updates, ASingleVariable) {
  SpaceScenario scenario = update<long>(
      "single-variable", [](long& count, std::uint64_t) { count_up(&count); },
      [](AddressSpace&, const long& count, long step) -> std::optional<std::string> {
        if (count == step) return std::nullopt;
        return "the count is " + std::to_string(count);
      });
  begin_with<long>(scenario, [](long& count) { rely_on_count(&count); });
  must_survive(scenario);
  each_call_is_needed(scenario, 2, 2);
}

std::optional<std::string> wrong_entry(std::span<const std::byte> record, long number) {
  entry found{};
  if (record.size() != sizeof(found)) return "an entry is torn";
  std::memcpy(&found, record.data(), sizeof(found));
  if (found.number == number && found.text == "entry " + std::to_string(number))
    return std::nullopt;
  return "entry " + std::to_string(number) + " is another";
}

TEST(Updates, AnAppend) {
  // Opening the log makes durable what is found there. The session that has just appended is not asked, or it would do so
  // in place of a log_flush that was left out.
  std::uint64_t just_appended = 0;
  const SpaceScenario scenario = update<long>(
      "append",
      [&](long&, std::uint64_t step) {
        perdure_log* const journal = perdure_log_create("journal", 4096, 0, nullptr, nullptr);
        require(journal != nullptr);
        require(append_entry(journal, static_cast<long>(step)) == 0);
        perdure_log_close(journal);
        just_appended = step;
      },
      [&](AddressSpace& space, const long&, long step) -> std::optional<std::string> {
        if (std::exchange(just_appended, 0) == static_cast<std::uint64_t>(step) && step > 0)
          return std::nullopt;
        const auto roots =
            space.pool().read_only([&](Tx& tx) { return core_of(space.pool()).roots(tx).size(); });
        long entries = 0;
        std::optional<std::string> wrong;
        if (roots > 1) {  // the region table, and a journal from the first step on
          Log::open_or_create(space.pool(), "journal", 4096)
              .value()
              .for_each([&](std::span<const std::byte> record) {
                if (auto complaint = wrong_entry(record, ++entries)) wrong = complaint;
              });
        }
        if (!wrong && entries != step) wrong = std::to_string(entries) + " entries";
        return wrong;
      });
  must_survive(scenario);
  each_call_is_needed(scenario, 0, 1);
}

std::optional<std::string> check_document(AddressSpace& space, const document& it, long step) {
  if (it.valid != 0 && it.valid != 1) return "the reference leads nowhere";
  std::vector<const void*> owned;
  for (const settings* copy : it.copies) {
    if (copy == nullptr) continue;
    if (!space.contains(copy)) return "a copy is not in the heap";
    owned.push_back(copy);
  }
  if (auto wrong = audit(space, owned)) return wrong;
  const settings* const valid = it.copies[it.valid];
  if (valid == nullptr) return step == 0 ? std::nullopt : std::optional("there is no copy");
  if (valid->version == step && valid->theme == "theme of run " + std::to_string(step))
    return std::nullopt;
  return "version " + std::to_string(valid->version) + " with '" +
         std::string(valid->theme, ::strnlen(valid->theme, sizeof(valid->theme))) + "'";
}

TEST(Updates, AShadow) {
  SpaceScenario scenario = update<document>(
      "shadow",
      [](document& it, std::uint64_t step) {
        require(change_to(&it, static_cast<long>(step)) == 0);
      },
      check_document);
  begin_with<document>(scenario, [](document& it) { rely_on_reference(&it); });
  must_survive(scenario);
  each_call_is_needed(scenario, 2, 4);
}

/// What a transaction has written stays in a log for a while, and recovery writes it again. Not over what the primitives have
/// written to the same variables, and to memory that was freed and allocated anew.
TEST(Updates, AShadowWhereTransactionsHaveWritten) {
  SpaceScenario scenario = update<document>(
      "shadow-after-transactions",
      [](document& it, std::uint64_t step) {
        if (step % 4 >= 2) return require(change_to(&it, static_cast<long>(step)) == 0);
        const long shadow = 1 - it.valid;
        perdure_pfree(&it.copies[shadow]);
        mnemosyne::space().pool().atomically([&](Tx& tx) {
          auto* const fresh = static_cast<settings*>(tx.allocate(sizeof(settings)));
          settings written = {.version = static_cast<long>(step), .theme = {}};
          const std::string theme = "theme of run " + std::to_string(step);
          theme.copy(written.theme, sizeof(written.theme));
          tx.write_exact(fresh, &written, sizeof(written));
          tx.write_exact(&it.copies[shadow], &fresh, sizeof(fresh));
          tx.write_exact(&it.valid, &shadow, sizeof(shadow));
        });
      },
      check_document);
  scenario.steps = 9;
  begin_with<document>(scenario, [](document& it) { rely_on_reference(&it); });
  must_survive(scenario);
}

// ---- in place: compiled transactions --------------------------------------------------------------

/// After each three steps there is one value more: the first two add, the third drops the older of them.
std::vector<long> values_after(long steps) {
  std::vector<long> values;
  for (long step = 1; step <= steps; ++step) {
    if (step % 3 != 0) {
      values.push_back(step);
    } else {
      std::erase(values, step - 2);
    }
  }
  return values;
}

std::optional<std::string> check_list(AddressSpace& space, const list& it, long step) {
  std::vector<const void*> owned;
  std::vector<long> found;
  const node* before = nullptr;
  for (const node* at = it.first; at != nullptr; before = at, at = at->next) {
    if (!space.contains(at) || owned.size() > 100) return "a link leads elsewhere";
    if (at->previous != before) return "a node's two neighbours disagree";
    owned.push_back(at);
    found.push_back(at->value);
  }
  if (it.last != before) return "the end is another than the last";
  if (found != values_after(step))
    return "the list is " + ::testing::PrintToString(found) + " after step " + std::to_string(step);
  return audit(space, owned);
}

SpaceScenario in_place() {
  SpaceScenario s = update<list>(
      "in-place",
      [](list& it, std::uint64_t number) {
        const long step = static_cast<long>(number);
        if (step % 3 == 0) return drop(&it, step - 2);
        require(add(&it, step) == 0);
      },
      check_list);
  s.steps = 7;
  return s;
}

TEST(Updates, InPlace) {
  must_survive(in_place());
  EXPECT_EQ(calls.made, 0) << "a transaction needs none of the primitives";
}

/// What the engine flushes and fences for these few transactions. Other sites have nothing to do here (spilled records), or
/// another covers them in so short a run; the explorer's suite has scenarios for all.
struct Duty {
  Model model;
  std::vector<Site> sites;
};
const Duty kDuties[] = {
    {Model::kMemory,
     {Site::kLogRecord, Site::kLogCommit, Site::kHome, Site::kTruncateHome, Site::kRetire,
      Site::kRetireFence, Site::kAdoptFence, Site::kReplayHome, Site::kReplayFence,
      Site::kEraseRing, Site::kAdopt}},
    {Model::kFile,
     {Site::kLogRecord, Site::kLogCommit, Site::kHomeBulk, Site::kTruncateHome, Site::kRetire,
      Site::kRetireFence, Site::kHead, Site::kAdoptFence, Site::kReplayHome, Site::kReplayFence,
      Site::kAdopt}},
};

TEST(Updates, InPlaceNeedsWhatTheEngineFlushesAndFences) {
  const Subject subject = subject_of(in_place());
  for (const Duty& duty : kDuties) {
    for (const Site site : duty.sites) {
      Options options;
      options.omission.active = true;
      options.omission.site = site;
      EXPECT_FALSE(explore(subject, duty.model, options).violations.empty())
          << "survives without " << kSites[static_cast<std::size_t>(site)].name << " ("
          << model_name(duty.model) << ")";
    }
  }
}

}  // namespace
}  // namespace perdure::crash
