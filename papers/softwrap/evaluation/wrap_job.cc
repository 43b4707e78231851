// SPDX-License-Identifier: BSD-3-Clause
#include "papers/softwrap/evaluation/wrap_job.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "papers/pool.h"
#include "perdure/domain/latency.h"

namespace perdure::bench::reproduce {
namespace {

using Clock = std::chrono::steady_clock;

papers::LabOptions pool_options(const WrapLoad& options) {
  papers::LabOptions pool;
  pool.domain = DomainKind::kAdr;
  pool.engine = options.engine;
  pool.latency = write_combining_buffer(options.line_ns, options.wait_ns);
  pool.in_place_bytes = ~std::size_t{0};
  pool.tables.limits.words = options.alias_words;
  pool.log_slots = options.threads + 1;  // and the thread that sets everything up
  pool.ring_bytes = options.log_bytes;
  pool.count = options.count;
  return pool;
}

}  // namespace

struct WrapJob::Thread {
  static constexpr std::size_t kRecent = 64;  // words that may be reused

  std::uint64_t* array = nullptr;
  std::mt19937_64 random;
  std::vector<std::uint64_t> recent;
  std::size_t next_recent = 0;
  Done done;
};

WrapJob::WrapJob(const WrapLoad& options)
    : options_(options),
      file_(options.dir, "wraps"),
      pool_(papers::create(file_.path(), pool_options(options)).value()),
      wraps_(pool_, {{.words = options.alias_words}}),
      // Not pinned: the thread that retires is started by one of these, and would share its CPU.
      team_(options.threads, false) {
  for (unsigned i = 0; i < options_.threads; ++i) {
    threads_.push_back(std::make_unique<Thread>());
    Thread& thread = *threads_.back();
    thread.random.seed(options_.seed + i);
    auto* root = pool_.root<pptr<std::uint64_t>>("array " + std::to_string(i));
    thread.array = pool_.atomically([&](Tx& tx) {
      auto* array =
          static_cast<std::uint64_t*>(tx.allocate(options_.array_words * sizeof(std::uint64_t)));
      tx.store(*root, tx.link_to(array));
      return array;
    });
    warm_up(thread.array);
  }
}
WrapJob::~WrapJob() = default;

/// Whose first store to a page it is would pay for the page: in the wrap, or in the thread that retires. What is measured is
/// a program that has run for a while.
void WrapJob::warm_up(std::uint64_t* array) {
  constexpr std::uint64_t kPageWords = kPageBytes / kWordBytes;
  constexpr std::uint64_t kAtOnce = 64 * kPageWords;
  for (std::uint64_t begin = 0; begin < options_.array_words; begin += kAtOnce) {
    const std::uint64_t end = std::min(begin + kAtOnce, options_.array_words);
    pool_.atomically([&](Tx& tx) {
      for (std::uint64_t word = begin; word < end; word += kPageWords) tx.store(array[word], word);
    });
  }
  pool_.checkpoint();
}

DomainCounts WrapJob::counts() const { return pool_.counts(); }

void WrapJob::run_thread(Thread& thread, double seconds, double per_s) {
  const auto any_word = [&]() -> std::uint64_t {
    if (!thread.recent.empty() && thread.random() % 100 < options_.reuse_percent)
      return thread.recent[thread.random() % thread.recent.size()];
    const std::uint64_t word = thread.random() % options_.array_words;
    if (options_.reuse_percent == 0) return word;
    if (thread.recent.size() < Thread::kRecent) {
      thread.recent.push_back(word);
    } else {
      thread.recent[thread.next_recent++ % Thread::kRecent] = word;
    }
    return word;
  };
  const double ticks_per_ns = TscClock::ticks_per_ns();
  const auto begin = Clock::now();
  const std::uint64_t first = TscClock::now();
  const double interval = per_s > 0 ? 1e9 / per_s * ticks_per_ns : 0;
  double ticks = 0;
  std::vector<std::uint64_t> words(options_.stores);
  thread.done = {};
  do {
    for (std::uint64_t& word : words) word = any_word();
    std::uint64_t arrival = TscClock::now();
    if (per_s > 0) {
      arrival =
          first + static_cast<std::uint64_t>(interval * static_cast<double>(thread.done.wraps));
      TscClock::spin_until(arrival);
    }
    if (options_.by_wraps) {
      wraps_.open();
      for (const std::uint64_t word : words)
        wraps_.store(thread.array[word], word + thread.done.wraps);
      wraps_.close();
    } else {
      pool_.atomically([&](Tx& tx) {
        for (const std::uint64_t word : words)
          tx.store(thread.array[word], word + thread.done.wraps);
      });
    }
    const auto response = static_cast<double>(TscClock::now() - arrival);
    if (options_.trace)
      thread.done.trace.push_back({static_cast<double>(arrival - first) / ticks_per_ns / 1e3,
                                   response / ticks_per_ns / 1e3});
    ticks += response;
    ++thread.done.wraps;
  } while (thread.done.wraps < options_.least_wraps ||
           std::chrono::duration<double>(Clock::now() - begin).count() < seconds);
  const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
  thread.done.response_us = ticks / ticks_per_ns / 1e3 / static_cast<double>(thread.done.wraps);
  thread.done.per_s = static_cast<double>(thread.done.wraps) / wall;
}

WrapJob::Done WrapJob::run(double seconds, double per_s) {
  team_.run([&](unsigned index) { run_thread(*threads_[index], seconds, per_s); });
  Done all;
  all.trace = threads_.front()->done.trace;
  for (const auto& thread : threads_) {
    all.wraps += thread->done.wraps;
    all.per_s += thread->done.per_s;
    all.response_us += thread->done.response_us / static_cast<double>(threads_.size());
  }
  return all;
}

WrapCounts counts_of(const WrapSystem& system, WrapLoad options, double seconds) {
  options.engine = system.engine;
  options.by_wraps = system.by_wraps;
  options.count = true;
  WrapJob job(options);
  job.run(seconds / 4, 0);
  const DomainCounts before = job.counts();
  const auto wraps = static_cast<double>(job.run(seconds, 0).wraps);
  const DomainCounts counts = job.counts() - before;
  return {static_cast<double>(counts.fences) / wraps, static_cast<double>(counts.flushes) / wraps};
}

std::vector<WrapResult> race_wraps(std::span<const WrapSystem> systems, const WrapLoad& options,
                                   double arrivals_per_s, const RaceRules& rules) {
  struct Runs {
    std::vector<double> response_us;
    std::vector<double> per_s;
  };
  std::vector<Runs> runs(systems.size());
  for (unsigned repetition = 0; repetition < rules.repetitions; ++repetition) {
    for (std::size_t i = 0; i < systems.size(); ++i) {
      WrapLoad of_system = options;
      of_system.engine = systems[i].engine;
      of_system.by_wraps = systems[i].by_wraps;
      WrapJob job(of_system);
      job.run(rules.seconds / 4, arrivals_per_s);
      const WrapJob::Done done = job.run(rules.seconds, arrivals_per_s);
      runs[i].response_us.push_back(done.response_us);
      runs[i].per_s.push_back(done.per_s);
    }
  }
  std::vector<WrapResult> results;
  for (const Runs& of : runs) results.push_back({spread_of(of.response_us), spread_of(of.per_s)});
  return results;
}

}  // namespace perdure::bench::reproduce
