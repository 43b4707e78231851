// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <thread>

#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

using Words = std::array<std::uint64_t, 64>;
using Work = std::function<void()>;

bool always_durable(std::uint64_t) { return true; }

/// Every step writes its number into `count` words, from the thread that `run` picks.
Scenario shared_words(std::string name, std::string claim, std::uint64_t steps, std::uint64_t count,
                      std::function<void(Pool&, std::uint64_t step, const Work&)> run,
                      std::function<bool(std::uint64_t step)> durable = always_durable) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.setup = [](Pool& pool) { pool.root<Words>("words"); };
  s.durable = durable;
  s.step = [=, run = std::move(run)](Pool& pool, std::uint64_t step) {
    run(pool, step, [&] {
      Words& words = root_of<Words>(pool, "words");
      const auto when = durable(step) ? Durability::kStrict : Durability::kRelaxed;
      pool.atomically(when, [&](Tx& tx) {
        for (std::uint64_t i = 0; i < count; ++i) tx.store(words[i], step);
      });
    });
  };
  s.check = [count](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Words words = committed(pool, root_of<Words>(pool, "words"));
    for (std::uint64_t i = 0; i < count; ++i) {
      if (words[i] != step) return "word " + std::to_string(i) + " is " + std::to_string(words[i]);
    }
    return std::nullopt;
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return s;
}

Scenario turns() {
  Scenario s = shared_words(
      "turns", "two threads write the same words in turn; recovery merges their logs by timestamp",
      8, 4, [](Pool&, std::uint64_t step, const Work& work) {
        if (step % 2 == 0) return on_second_thread(work);
        work();
      });
  // The second thread's log is used for the first time here. A process that dies while it clears it
  // is recovered, and what it had cleared, in caches only, must not come back under the next
  // record.
  s.depth = 3;
  return s;
}

/// Two logs, one of which fills up and is emptied with what the other holds by then, while commits may go on.
Scenario consumed() {
  Scenario s =
      shared_words("consumed", "a full log is emptied as far as a timestamp, with all others", 26,
                   40, [](Pool&, std::uint64_t step, const Work& work) {
                     if (step % 3 == 0) return on_second_thread(work);
                     work();
                   });
  s.truncation = Truncation::kWhenFull;
  s.resume_steps = 14;
  return s;
}

/// The same words by two threads, each commit of which leaves no record behind.
Scenario turns_each_commit() {
  Scenario s = turns();
  s.name = "turns-each-commit";
  s.claim = "two threads write the same words in turn, and drop their records one by one";
  s.depth = 2;
  s.truncation = Truncation::kEachCommit;
  return s;
}

/// Records of 51 log words: ten fill a ring. The checkpoint comes from one thread when the log of
/// the other is full, whose next record then overwrites the words under its old head.
Scenario foreign_checkpoint() {
  Scenario s =
      shared_words("foreign-checkpoint", "a thread's log is emptied by another thread, and used on",
                   23, 48, [](Pool& pool, std::uint64_t step, const Work& work) {
                     const bool after_checkpoint = step > 1 && step % 20 == 1;
                     if (step % 2 == 1 && !after_checkpoint) return work();
                     on_second_thread(work);
                     if (step % 20 == 0) pool.checkpoint();
                   });
  s.resume_steps = 3;
  return s;
}

Scenario idle_log() {
  Scenario s = shared_words(
      "idle-log", "an old record, alone in an idle thread's log, is never replayed over newer data",
      24, 41, [](Pool&, std::uint64_t step, const Work& work) {
        if (step % 7 == 1) return on_second_thread(work);
        work();
      });
  s.resume_steps = 14;
  return s;
}

Scenario handed_over() {
  return shared_words("handed-over",
                      "threads end and others take their logs over, with home words still open", 14,
                      25, [](Pool&, std::uint64_t step, const Work& work) {
                        if (step % 3 == 0) return work();
                        std::thread(work).join();
                      });
}

/// Records of 59 log words, eight and a part to a page of the log, of which there are two. Four commits of five wait for
/// nothing; the fifth, which another thread makes, builds on them.
Scenario relaxed() {
  Scenario s = shared_words(
      "relaxed", "of commits that wait for nothing the last are lost, and never one before another",
      22, 56,
      [](Pool&, std::uint64_t step, const Work& work) {
        if (step % 5 == 0) return on_second_thread(work);
        work();
      },
      [](std::uint64_t step) { return step % 5 == 0; });
  s.memory = false;  // there every commit waits
  s.geometry.ring_bytes = 8 << 10;
  s.resume_steps = 9;
  return s;
}

/// Each word of the root is the number of the step that was committed last.
std::uint64_t last_step(Pool& pool) {
  Words& words = root_of<Words>(pool, "words");
  return pool.read_only([&](Tx& tx) { return tx.load(words[0]); });
}
void commit_step(Pool& pool, std::uint64_t step) {
  Words& words = root_of<Words>(pool, "words");
  pool.atomically([&](Tx& tx) {
    if (tx.load(words[0]) != step - 1) throw Exception(Code::kCorrupt, "a step is missing");
    for (auto& word : words) tx.store(word, step);
  });
}

/// While one thread waits for its commit, another sees it: every other time it commits what builds on it, in between it
/// reads it and returns. What has returned must not be lost, and nothing may be there without what it builds on.
Scenario seen_early() {
  Scenario s = shared_words("seen-early",
                            "what others see of a commit that still waits for the device is never "
                            "lost once they have returned",
                            12, 64, [](Pool&, std::uint64_t, const Work&) {});
  // Both threads are there: one alone would show its commits to nobody.
  s.open = [](Pool& pool) -> std::shared_ptr<void> {
    pool.read_only([](Tx&) {});
    on_second_thread([&] { pool.read_only([](Tx&) {}); });
    return nullptr;
  };
  s.step = [](Pool& pool, std::uint64_t step) {
    if (last_step(pool) >= step) return;  // the step before has made it
    const bool builds_on = step % 4 == 1;
    const bool reads = step % 4 == 3;
    if (builds_on) {
      while_waiting([&, step](Trace& trace) {
        trace.mark(step - 1, step + 1);
        on_second_thread([&] { commit_step(pool, step + 1); });
        trace.mark(step + 1, step + 1);
      });
    }
    if (reads) {
      while_waiting([&, step](Trace& trace) {
        std::uint64_t seen = 0;
        on_second_thread([&] { seen = last_step(pool); });
        if (seen != step) throw Exception(Code::kCorrupt, "a commit is not seen");
        trace.mark(step, step);
      });
    }
    commit_step(pool, step);
    while_waiting(nullptr);
  };
  s.check = [check = s.check](Pool& pool, std::uint64_t step) {
    auto wrong = check(pool, step);
    return wrong && step % 4 == 1 && !check(pool, step + 1) ? std::nullopt : wrong;
  };
  s.memory = false;  // there nobody sees a commit before it is durable
  s.geometry.ring_bytes = 8 << 10;
  return s;
}

}  // namespace

std::vector<Scenario> thread_scenarios() {
  return {relaxed(),
          seen_early(),
          turns(),
          foreign_checkpoint(),
          idle_log(),
          handed_over(),
          consumed(),
          turns_each_commit(),
          in_private_pages(foreign_checkpoint()),
          in_private_pages(idle_log())};
}

}  // namespace perdure::crash
