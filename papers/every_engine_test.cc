// SPDX-License-Identifier: BSD-3-Clause
// Every engine x every domain x every container and face: from the one list of engine types (engines.h), crossed with the
// scenarios that are structures' own. Power cuts are explored in memory; kills are real, of a process with its file.
//
// A scenario's steps are numbered, so a check tells which of them a pool holds: after a power cut or a kill, one that is no
// older than the last acknowledged and no newer than the last begun. The baselines, which promise nothing, have to lose
// something under the same eyes: else these would see nothing.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "papers/scenarios.h"
#include "tests/small_pool.h"

namespace perdure::papers {
namespace {

using crash::Model;
using crash::Scenario;

template <class... E>
constexpr auto kinds_of(std::tuple<E...>) {
  return std::array{E::kKind...};
}
constexpr auto kKinds = kinds_of(AllEngines{});
static_assert(kKinds.size() == kEngineKinds.size(), "each engine that has a name is in the list");

/// Containers, and the faces through which a pool is used: transactions of words, of bytes and of whole objects, roots,
/// threads, relaxed commits, wraps, an append-only log, objects that are counted, held by handles, and end.
constexpr std::array kStructures = {
    "hash-map", "btree-map",   "btree-map-bytes", "rb-map",         "vector",         "string",
    "objects",  "objects-end", "objects-orphans", "wraps",          "new-append-log", "bytes",
    "reuse",    "huge",        "aborts",          "spilled-record", "roots",          "relaxed",
    "turns"};

constexpr std::array<std::string_view, 4> kSanitizedToo = {"hash-map", "objects", "bytes",
                                                           "spilled-record"};

/// Wraps read without locks what the engine undo-objects has in place before it is committed: that pair is refused.
bool go_together(EngineKind kind, std::string_view structure) {
  return kind != EngineKind::kUndoObjects || structure != "wraps";
}
/// Every second step ends where the one before began: when all is lost, nothing is missed.
bool can_miss_something(std::string_view structure) { return structure != "objects-end"; }

Scenario scenario_on(EngineKind kind, const char* structure) {
  return with_engine(kind, [&]<class E>(E) { return on<E>(crash::pool_scenario(structure)); });
}

/// All of them, of the engines that `is_meant`.
template <class Domain, std::size_t kDomains, class IsMeant>
auto crossed(const std::array<Domain, kDomains>& domains, IsMeant is_meant) {
  std::vector<std::tuple<EngineKind, Domain, const char*>> all;
  for (const EngineKind kind : kKinds) {
    if (!is_meant(kind)) continue;
    for (const Domain domain : domains) {
      for (const char* structure : kStructures) {
        // A sanitizer repeats what goes different ways through recovery.
        if (testing::kSanitized && std::find(kSanitizedToo.begin(), kSanitizedToo.end(),
                                             std::string_view(structure)) == kSanitizedToo.end())
          continue;
        if (go_together(kind, structure) && (is_durable(kind) || can_miss_something(structure)))
          all.emplace_back(kind, domain, structure);
      }
    }
  }
  return all;
}

std::string_view name_of(Model model) { return crash::model_name(model); }
std::string_view name_of(DomainKind domain) { return domain_name(domain); }

constexpr auto kNameOfCase = [](const auto& of) {
  const auto& [kind, domain, structure] = of.param;
  std::string name = testing::name_of(kind) + "_" + std::string(name_of(domain)) + "_" + structure;
  std::erase(name, '-');
  return name;
};

/// A T that is seen by the processes that are forked from now on.
template <class T>
class SharedWithChildren {
 public:
  SharedWithChildren() {
    void* const shared =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    PERDURE_CHECK(shared != MAP_FAILED, "no memory to share with a process");
    it_ = new (shared) T{};
  }
  ~SharedWithChildren() { ::munmap(it_, sizeof(T)); }
  SharedWithChildren(const SharedWithChildren&) = delete;
  SharedWithChildren& operator=(const SharedWithChildren&) = delete;

  T& operator*() const { return *it_; }
  T* operator->() const { return it_; }

 private:
  T* it_;
};

// ---- power cuts ---------------------------------------------------------------------------------

using Cut = std::tuple<EngineKind, Model, const char*>;
constexpr std::array kModels = {Model::kMemory, Model::kCaches, Model::kFile};

class PowerCuts : public ::testing::TestWithParam<Cut> {};
INSTANTIATE_TEST_SUITE_P(, PowerCuts, ::testing::ValuesIn(crossed(kModels, is_durable)),
                         kNameOfCase);

/// A share of the images: perdure-lab explore has them all, for the pairs that are of interest.
crash::Options share_of(Model model) {
  // Where caches are not lost each store is a moment, with one image, or none where it changes
  // nothing; and a kill is no more than a power cut.
  const bool one_image = model == Model::kCaches;
  crash::Options options;
  options.full_limit = 16;
  options.samples = 2;
  options.most_points = one_image ? 256 : 24;
  options.nested_full_limit = 4;
  options.nested_samples = 1;
  options.nested_most_points = one_image ? 24 : 4;
  options.nest_every = ~std::uint64_t{0};
  options.kill_every = one_image ? 4 : ~std::uint64_t{0};  // and at each moment that is cut
  return options;
}

TEST_P(PowerCuts, LeaveWhatTheEnginePromises) {
  const auto [kind, model, structure] = GetParam();
  Scenario scenario = scenario_on(kind, structure);
  scenario.steps = std::min<std::uint64_t>(scenario.steps, 5);
  scenario.resume_steps = 1;
  scenario.depth = 2;
  const crash::Report report = explore(subject_of(scenario), model, share_of(model));
  EXPECT_GT(report.images, 0u);
  EXPECT_GT(report.nested_images, 0u);
  for (const crash::Violation& violation : report.violations)
    ADD_FAILURE() << violation.what << "\n  perdure-lab explore --replay '" << violation.replay
                  << "'";
  RecordProperty("images", std::to_string(report.images + report.nested_images));
}

class PowerCutsOfBaselines : public ::testing::TestWithParam<Cut> {};
INSTANTIATE_TEST_SUITE_P(, PowerCutsOfBaselines,
                         ::testing::ValuesIn(crossed(kModels, std::not_fn(is_durable))),
                         kNameOfCase);

constexpr int kNothingWasLost = 100;  // an exit status that no sanitizer has

/// Ends with kNothingWasLost, or otherwise, after it has counted in `lives` how often the scenario began: in the run that is
/// cut, and then on each image. No exception leaves a process that a test has forked.
[[noreturn]] void explore_and_exit(const Cut& cut, std::atomic<std::uint64_t>& lives) noexcept {
  const auto [kind, model, structure] = cut;
  ::alarm(60);
  crash::Options options;
  options.depth = 1;
  crash::Subject subject = subject_of(scenario_on(kind, structure));
  subject.open = [&lives, open = std::move(subject.open)](crash::Lab& lab) {
    ++lives;
    return open(lab);
  };
  ::_exit(explore(subject, model, options).violations.empty() ? kNothingWasLost : 0);
}

/// In a process of its own: structures that are half there may bring down whoever looks at them.
TEST_P(PowerCutsOfBaselines, LoseSomething) {
  const SharedWithChildren<std::atomic<std::uint64_t>> lives;
  const pid_t explorer = ::fork();
  ASSERT_GE(explorer, 0);
  if (explorer == 0) explore_and_exit(GetParam(), *lives);
  int status = 0;
  ::waitpid(explorer, &status, 0);
  EXPECT_FALSE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) << "it did not end in time";
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == kNothingWasLost);
  EXPECT_GT(*lives, 1u) << "it came to no image";
}

// ---- kills --------------------------------------------------------------------------------------

using Kill = std::tuple<EngineKind, DomainKind, const char*>;
constexpr std::array kDomains = {DomainKind::kAdr, DomainKind::kEadr, DomainKind::kSync,
                                 DomainKind::kDram};

/// A pool, and processes that make a scenario's steps in it until they are killed.
class Killed {
 public:
  Killed(EngineKind kind, DomainKind domain, Scenario scenario)
      : scenario_(std::move(scenario)),
        options_(eventful()),
        random_(static_cast<unsigned>(kind) * 100 + static_cast<unsigned>(domain)) {
    options_.engine = kind;
    options_.domain = domain;
    options_.capacity_bytes = std::uint64_t{16} << 20;
    options_.segment_bytes = scenario_.geometry.segment_bytes;
    options_.ring_bytes = scenario_.geometry.ring_bytes;
    options_.log_slots = 4;
    options_.root_entries = scenario_.geometry.root_entries;
    LabPool pool = create(dir_ / "pool", options_).value();
    if (scenario_.setup) scenario_.setup(pool);
  }

  /// One process, killed after some steps. What is wrong then, or nothing.
  std::optional<std::string> live() {
    const pid_t worker = ::fork();
    if (worker == 0) work();
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const std::uint64_t enough = at_ + 1 + random_() % 8;
    while (told_->acknowledged < enough && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 500));
    ::kill(worker, SIGKILL);
    int status = 0;
    ::waitpid(worker, &status, 0);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) return "the process ended by itself";
    const std::uint64_t acknowledged = told_->acknowledged;
    if (acknowledged < enough) return "the process came nowhere in 20 s";

    try {
      LabPool pool = open(dir_ / "pool", options_).value();
      const std::shared_ptr<void> opened = scenario_.open ? scenario_.open(pool) : nullptr;
      std::string why;
      for (std::uint64_t step = told_->begun; step >= acknowledged; --step) {
        const auto wrong = scenario_.check(pool, step);
        if (!wrong) {
          told_->acknowledged = at_ = step;
          return std::nullopt;
        }
        why += "; not in state " + std::to_string(step) + ": " + *wrong;
        if (step == 0) break;
      }
      return std::to_string(acknowledged) + " was acknowledged" + why;
    } catch (const Exception& error) {
      return std::string("it was killed, and now ") + error.what();
    }
  }

 private:
  /// What a process tells its parent, in memory that both share.
  struct Told {
    std::atomic<std::uint64_t> begun;
    std::atomic<std::uint64_t> acknowledged;
  };

  [[noreturn]] void work() noexcept {
    ::alarm(60);
    LabPool pool = open(dir_ / "pool", options_).value();
    const std::shared_ptr<void> opened = scenario_.open ? scenario_.open(pool) : nullptr;
    for (std::uint64_t step = at_ + 1;; ++step) {
      told_->begun = step;
      scenario_.step(pool, step);
      if (!scenario_.durable || scenario_.durable(step)) told_->acknowledged = step;
    }
  }

  const Scenario scenario_;
  LabOptions options_;
  testing::TempDir dir_;
  std::minstd_rand random_;
  SharedWithChildren<Told> told_;
  std::uint64_t at_ = 0;  // the step at which the pool stands
};

class Kills : public ::testing::TestWithParam<Kill> {};
INSTANTIATE_TEST_SUITE_P(, Kills, ::testing::ValuesIn(crossed(kDomains, is_durable)), kNameOfCase);

TEST_P(Kills, LeaveWhatWasAcknowledged) {
  const auto [kind, domain, structure] = GetParam();
  Killed killed(kind, domain, crash::pool_scenario(structure));
  for (int life = 0; life < 2; ++life) ASSERT_EQ(killed.live(), std::nullopt);
}

using Baseline = std::tuple<EngineKind, DomainKind>;
class KillsOfBaselines : public ::testing::TestWithParam<Baseline> {};
// On files, what the engine nonatomic has written in one go survives the process as a whole.
INSTANTIATE_TEST_SUITE_P(, KillsOfBaselines,
                         ::testing::Values(Baseline{EngineKind::kNonatomic, DomainKind::kAdr},
                                           Baseline{EngineKind::kNonatomic, DomainKind::kEadr},
                                           Baseline{EngineKind::kNonatomic, DomainKind::kDram},
                                           Baseline{EngineKind::kVolatile, DomainKind::kAdr},
                                           Baseline{EngineKind::kVolatile, DomainKind::kEadr},
                                           Baseline{EngineKind::kVolatile, DomainKind::kDram},
                                           Baseline{EngineKind::kVolatile, DomainKind::kSync}),
                         [](const auto& of) {
                           return testing::name_of(std::get<0>(of.param)) + "_" +
                                  std::string(name_of(std::get<1>(of.param)));
                         });

/// Of transactions of many words, one is killed before its end.
TEST_P(KillsOfBaselines, LoseSomething) {
  const auto [kind, domain] = GetParam();
  Killed killed(kind, domain, crash::pool_scenario("spilled-record"));
  constexpr int kMostLives = 1000;
  for (int life = 0; life < kMostLives; ++life) {
    if (killed.live()) return;
  }
  FAIL() << "nothing was lost in " << kMostLives << " kills";
}

}  // namespace
}  // namespace perdure::papers
