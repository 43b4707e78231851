// SPDX-License-Identifier: BSD-3-Clause
// Every engine x every domain x every container and face: from the one list of engine types (engines.h), crossed with the
// scenarios that are structures' own. Power cuts are explored in memory; kills are real, of a process with its file.
//
// A scenario's steps are numbered, so a check tells which of them a pool holds: after a power cut or a kill, one that is no
// older than the last acknowledged and no newer than the last begun.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <tuple>

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

/// Containers, and the faces through which a pool is used: transactions of words and of whole objects, wraps, an append-only
/// log, objects that are counted.
constexpr std::array kStructures = {"hash-map",       "btree-map", "btree-map-bytes",   "rb-map",
                                    "vector",         "string",    "objects",           "wraps",
                                    "new-append-log", "bytes",     "allocate-and-link", "relaxed"};

std::string test_name(std::string text) {
  std::erase(text, '-');
  return text;
}

Scenario scenario_on(EngineKind kind, const char* structure) {
  return with_engine(kind, [&]<class E>(E) { return on<E>(crash::pool_scenario(structure)); });
}

// ---- power cuts ---------------------------------------------------------------------------------

using Cut = std::tuple<EngineKind, Model, const char*>;
class PowerCuts : public ::testing::TestWithParam<Cut> {};

INSTANTIATE_TEST_SUITE_P(, PowerCuts,
                         ::testing::Combine(::testing::ValuesIn(kKinds),
                                            ::testing::Values(Model::kMemory, Model::kCaches,
                                                              Model::kFile),
                                            ::testing::ValuesIn(kStructures)),
                         [](const auto& of) {
                           return testing::name_of(std::get<0>(of.param)) + "_" +
                                  std::string(model_name(std::get<1>(of.param))) + "_" +
                                  test_name(std::get<2>(of.param));
                         });

TEST_P(PowerCuts, LeaveWhatTheEnginePromises) {
  const auto [kind, model, structure] = GetParam();
  Scenario scenario = scenario_on(kind, structure);
  scenario.steps = std::min<std::uint64_t>(scenario.steps, 5);
  crash::Options options;
  // A share of the images: perdure-lab explore has them all, for the pairs that are of interest.
  options.full_limit = 64;
  options.samples = 4;
  options.nested_full_limit = 8;
  options.nested_samples = 1;
  options.nest_every = 1 << 20;
  options.kill_every = 256;
  const crash::Report report = explore(subject_of(scenario), model, options);
  EXPECT_GT(report.images, 0u);
  if (is_durable(kind)) {
    for (const crash::Violation& violation : report.violations)
      ADD_FAILURE() << violation.what << "\n  perdure-lab explore --replay '" << violation.replay
                    << "'";
  } else {
    EXPECT_FALSE(report.violations.empty()) << "a baseline without a log loses something";
  }
}

// ---- kills --------------------------------------------------------------------------------------

using Kill = std::tuple<EngineKind, DomainKind, const char*>;
class Kills : public ::testing::TestWithParam<Kill> {};

/// Of which a kill may leave half a transaction: nobody looks at those.
constexpr bool survives_kills(EngineKind kind) { return is_durable(kind); }

std::vector<EngineKind> kinds_that_survive_kills() {
  std::vector<EngineKind> kinds;
  for (const EngineKind kind : kKinds) {
    if (survives_kills(kind)) kinds.push_back(kind);
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(, Kills,
                         ::testing::Combine(::testing::ValuesIn(kinds_that_survive_kills()),
                                            ::testing::Values(DomainKind::kAdr, DomainKind::kEadr,
                                                              DomainKind::kSync, DomainKind::kDram),
                                            ::testing::ValuesIn(kStructures)),
                         [](const auto& of) {
                           return testing::name_of(std::get<0>(of.param)) + "_" +
                                  std::string(domain_name(std::get<1>(of.param))) + "_" +
                                  test_name(std::get<2>(of.param));
                         });

/// What the worker tells the parent, in memory that both share.
struct Told {
  std::atomic<std::uint64_t> begun;
  std::atomic<std::uint64_t> acknowledged;
};

/// The step at which the pool stands: of those from `oldest` to `newest`, or nothing, with the reasons in `why`.
std::optional<std::uint64_t> standing_at(const Scenario& scenario, Pool& pool, std::uint64_t oldest,
                                         std::uint64_t newest, std::string& why) {
  for (std::uint64_t step = newest;; --step) {
    const auto wrong = scenario.check(pool, step);
    if (!wrong) return step;
    why += "step " + std::to_string(step) + ": " + *wrong + "; ";
    if (step == oldest) return std::nullopt;
  }
}

TEST_P(Kills, LeaveWhatWasAcknowledged) {
  const auto [kind, domain, structure] = GetParam();
  const Scenario scenario = crash::pool_scenario(structure);
  const testing::TempDir dir;
  LabOptions options;
  options.engine = kind;
  options.domain = domain;
  options.capacity_bytes = std::uint64_t{64} << 20;
  options.segment_bytes = scenario.geometry.segment_bytes;
  options.ring_bytes = scenario.geometry.ring_bytes;
  options.log_slots = 4;
  options.root_entries = scenario.geometry.root_entries;
  {
    LabPool pool = create(dir / "pool", options).value();
    if (scenario.setup) scenario.setup(pool);
  }
  void* const shared =
      ::mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const told = new (shared) Told{};
  std::minstd_rand random(static_cast<unsigned>(kind) * 100 + static_cast<unsigned>(domain));
  std::uint64_t at = 0;
  for (int life = 0; life < 3; ++life) {
    const pid_t worker = ::fork();
    ASSERT_GE(worker, 0);
    if (worker == 0) {
      ::alarm(60);
      LabPool pool = open(dir / "pool", options).value();
      const std::shared_ptr<void> opened = scenario.open ? scenario.open(pool) : nullptr;
      for (std::uint64_t step = at + 1;; ++step) {
        told->begun = step;
        scenario.step(pool, step);
        if (!scenario.durable || scenario.durable(step)) told->acknowledged = step;
      }
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (told->acknowledged < at + 1 + random() % 8 && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::microseconds(200 + random() % 800));
    ::kill(worker, SIGKILL);
    int status = 0;
    ::waitpid(worker, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it ended by itself";
    const std::uint64_t acknowledged = told->acknowledged;
    EXPECT_GT(acknowledged, at) << "it came nowhere in 20 s";
    LabPool pool = open(dir / "pool", options).value();
    const std::shared_ptr<void> opened = scenario.open ? scenario.open(pool) : nullptr;
    std::string why;
    const auto step = standing_at(scenario, pool, acknowledged, told->begun, why);
    ASSERT_TRUE(step.has_value()) << acknowledged << " was acknowledged, but " << why;
    at = *step;
    told->acknowledged = at;
  }
  ::munmap(shared, sizeof(Told));
}

}  // namespace
}  // namespace perdure::papers
