#include <array>
#include <thread>

#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

using Words = std::array<std::uint64_t, 64>;

/// Every step writes the step's number into the shared word and `filler` others, from the thread that `runs` picks.
Scenario shared_word(std::string name, std::string claim, std::uint64_t steps, std::uint64_t filler,
                     std::function<void(std::uint64_t, const std::function<void()>&)> runs) {
  Scenario s;
  s.name = std::move(name);
  s.claim = std::move(claim);
  s.steps = steps;
  s.resume_steps = 14;
  s.setup = [](Pool& pool) { pool.root<Words>("words"); };
  s.step = [filler, runs = std::move(runs)](Pool& pool, std::uint64_t step) {
    runs(step, [&] {
      Words& words = root_of<Words>(pool, "words");
      pool.atomically([&](Tx& tx) {
        for (std::uint64_t i = 0; i <= filler; ++i) tx.store(words[i], step);
      });
    });
  };
  s.check = [filler](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    const Words& words = root_of<Words>(pool, "words");
    for (std::uint64_t i = 0; i <= filler; ++i) {
      if (words[i] != step) return "word " + std::to_string(i) + " is " + std::to_string(words[i]);
    }
    return std::nullopt;
  };
  s.reach = [](Pool&, const Scenario::Visit&) {};
  return s;
}

}  // namespace

std::vector<Subject> thread_scenarios() {
  return {
      subject_of(shared_word("two-threads",
                             "two threads write the same words in turn; recovery merges their logs by stamp", 8, 3,
                             [](std::uint64_t step, const std::function<void()>& work) {
                               if (step % 2 == 0) return on_second_thread(work);
                               work();
                             })),
      subject_of(shared_word("idle-log",
                             "an old record, alone in an idle thread's log, is never replayed over newer data", 24, 40,
                             [](std::uint64_t step, const std::function<void()>& work) {
                               if (step % 7 == 1) return on_second_thread(work);
                               work();
                             })),
      subject_of(shared_word("handed-over",
                             "threads end and others take their logs over, with home words still open", 14, 24,
                             [](std::uint64_t step, const std::function<void()>& work) {
                               if (step % 3 == 0) return work();
                               std::thread(work).join();
                             })),
  };
}

}  // namespace perdure::crash
