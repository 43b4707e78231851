// SPDX-License-Identifier: BSD-3-Clause
// Processes that work on a heap with several threads and are killed at random moments; the next one
// finds every count right and nothing leaked. PERDURE_OBJECT_KILLS=n: so many in all.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "tests/object_workload.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Graph;
using testing::GraphHeap;
using testing::kSanitized;
using testing::Worker;

constexpr std::uint64_t kKills = 60;
constexpr std::uint64_t kCombinations = 6;

std::uint64_t kills_of_each() {
  const char* const wanted = std::getenv("PERDURE_OBJECT_KILLS");
  const std::uint64_t kills = wanted != nullptr ? std::stoull(wanted) : kSanitized ? 12 : kKills;
  return (kills + kCombinations - 1) / kCombinations;
}

class ObjectTorture : public ::testing::TestWithParam<std::tuple<DomainKind, EngineKind>> {};

[[noreturn]] void work(const std::string& path, const papers::LabOptions& options,
                       std::uint64_t seed) {
  GraphHeap heap = GraphHeap::in_own_pool(papers::open_or_create(path, options).value()).value();
  prepare(heap);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < Graph::kThreads; ++t) {
    threads.emplace_back([&, t] {
      Worker worker(heap, t, seed + t);
      for (;;) {
        worker.step();
        if (worker.bad() != 0) ::_exit(3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ::_exit(4);
}

TEST_P(ObjectTorture, FindsTheHeapWholeAfterEachKill) {
  const testing::TempDir dir("/dev/shm/");
  const std::string path = dir / "torture.heap";
  papers::LabOptions options;
  std::tie(options.domain, options.engine) = GetParam();
  options.capacity_bytes = std::uint64_t{1} << 30;
  options.segment_bytes = std::uint64_t{128} << 10;
  options.ring_bytes = std::uint64_t{64} << 10;
  options.log_slots = 16;
  std::mt19937_64 random(std::random_device{}());
  std::uint64_t kills = 0;
  std::uint64_t replayed = 0;
  std::uint64_t with_orphans = 0;
  std::uint64_t with_lists = 0;
  std::uint64_t orphans = 0;
  std::uint64_t ended = 0;
  std::uint64_t made = 0;
  while (kills < kills_of_each()) {
    const std::uint64_t seed = random();
    const pid_t child = ::fork();
    if (child == 0) work(path, options, seed);
    std::this_thread::sleep_for(
        std::chrono::microseconds(random() % (kSanitized ? 900'000 : 120'000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status << " seed " << seed;
    ++kills;
    if (::access(path.c_str(), F_OK) != 0) continue;  // killed before it was made
    Result<GraphHeap> opened = GraphHeap::open(path, options);
    if (!opened && opened.error().code == Code::kNotFound) continue;
    ASSERT_TRUE(opened) << opened.error().message << " seed " << seed;
    GraphHeap heap = std::move(opened).value();
    if (heap.pool().recovery().records_replayed > 0) ++replayed;
    if (heap.recovery().orphans > 0) ++with_orphans;
    if (heap.recovery().lists > 0) ++with_lists;
    orphans += heap.recovery().orphans;
    ended += heap.recovery().ended;
    prepare(heap);
    ASSERT_EQ(complaints_about_graph(heap), "") << "seed " << seed;
    made = heap.read_only([](auto root) {
      std::uint64_t sum = 0;
      for (const auto& ledger : root->ledgers) sum += ledger->made;
      return sum;
    });
  }
  std::printf(
      "%s on %s: %lu kills; %lu with log records to replay, %lu with orphans (%lu), %lu with lists "
      "of the dead; %lu objects ended "
      "in opens; %lu links made\n",
      std::string(engine_name(options.engine)).c_str(),
      std::string(domain_name(options.domain)).c_str(), kills, replayed, with_orphans, orphans,
      with_lists, ended, made);
}

INSTANTIATE_TEST_SUITE_P(Engines, ObjectTorture,
                         ::testing::Combine(::testing::Values(DomainKind::kAdr, DomainKind::kDram),
                                            ::testing::Values(EngineKind::kMnemosyne,
                                                              EngineKind::kUndoObjects,
                                                              EngineKind::kSoftwrap)),
                         [](const auto& of) {
                           return testing::name_of(std::get<1>(of.param)) + "_" +
                                  std::string(domain_name(std::get<0>(of.param)));
                         });

}  // namespace
}  // namespace perdure
