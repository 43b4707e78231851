// SPDX-License-Identifier: BSD-3-Clause
#include "bench/contention.h"

#include <algorithm>
#include <functional>

#include "bench/workload.h"
#include "papers/pool.h"
#include "perdure/domain/latency.h"

namespace perdure::bench {
namespace {

constexpr std::size_t kMostThreads = 64;
constexpr std::uint64_t kAccounts = 65'536;  // a scan reads a part of them, or all

struct alignas(kLineBytes) Counter {
  Word value;
  std::array<Word, kLineBytes / kWordBytes - 1> rest;
};
using Counters = std::array<Counter, kMostThreads>;
/// Accounts 2i and 2i + 1 always hold the same sum together: 0.
using Accounts = std::array<Word, kAccounts>;

papers::LabOptions contention_pool(const SystemOptions& options) {
  papers::LabOptions pool;
  pool.domain = options.domain;
  pool.engine = options.engine;
  pool.truncation = options.truncation;
  pool.log_slots = options.threads + 1;
  return pool;
}

/// What one thread did in one repetition.
struct Tally {
  std::uint64_t done = 0;
  std::uint64_t attempts = 0;
  double wall_ns = 0;
  double cpu_ns = 0;
  double own_ns = 0;      // not taken by others, where that is known
  double longest_ns = 0;  // of one transaction
};

/// Runs `body(tx)` as one transaction after the other until `deadline`, which also ends one that
/// never comes to its end because of the others.
template <class Run>
Tally repeat_until(std::uint64_t deadline, bool without_delay, Run run) {
  Tally tally;
  const double delay_before = thread_delay_ns();
  const double cpu_before = thread_cpu_ns();
  const std::uint64_t begin = TscClock::now();
  std::uint64_t longest = 0;
  std::uint64_t now = begin;
  do {  // once at least, however late the thread got its CPU
    bool in_time = true;
    bool first = true;
    run([&] {
      ++tally.attempts;
      in_time = std::exchange(first, false) || TscClock::now() < deadline;
      return in_time;
    });
    if (in_time) ++tally.done;
    const std::uint64_t last = std::exchange(now, TscClock::now());
    longest = std::max(longest, now - last);
  } while (now < deadline);
  tally.longest_ns = static_cast<double>(longest) / TscClock::ticks_per_ns();
  tally.wall_ns = static_cast<double>(TscClock::now() - begin) / TscClock::ticks_per_ns();
  tally.cpu_ns = thread_cpu_ns() - cpu_before;
  tally.own_ns = tally.wall_ns;
  if (without_delay)
    tally.own_ns = std::max(1.0, tally.wall_ns - (thread_delay_ns() - delay_before));
  return tally;
}

class Contest {
 public:
  Contest(const SystemOptions& options, const RaceRules& rules)
      : rules_(rules),
        threads_(options.threads),
        seed_(options.seed),
        file_(options.dir, "contention"),
        pool_(papers::create(file_.path(), contention_pool(options)).value()),
        counters_(pool_.root<Counters>("counters")),
        accounts_(pool_.root<Accounts>("accounts")),
        team_(options.threads) {}

  ContentionRow increments(const std::string& name, bool shared) {
    return run(name, 0, threads_, [this, shared](unsigned thread, Random&) {
      Word& counter = counters_->at(shared ? 0 : thread).value;
      return [this, &counter](const auto& goes_on) {
        pool_.atomically([&](Tx& tx) {
          if (goes_on()) tx.store(counter, tx.load(counter) + 1);
        });
      };
    });
  }

  /// Thread 0 sums `count` accounts in one read-only transaction, the others make transfers.
  ContentionRow scans(std::uint64_t count) {
    return run("scan " + std::to_string(count) + " of 64K accounts", 1, threads_ - 1,
               [this, count](unsigned thread, Random& random) {
                 return [this, count, thread, &random](const auto& goes_on) {
                   if (thread == 0) {
                     scan(count, random, goes_on);
                   } else {
                     transfer(random, goes_on);
                   }
                 };
               });
  }

 private:
  template <class GoesOn>
  void scan(std::uint64_t count, Random& random, const GoesOn& goes_on) {
    const std::uint64_t first = 2 * random.below((kAccounts - count) / 2 + 1);
    const Word sum = pool_.read_only([&](Tx& tx) {
      Word all = 0;
      if (!goes_on()) return all;
      for (std::uint64_t i = first; i < first + count; ++i) all += tx.load((*accounts_)[i]);
      return all;
    });
    if (sum != 0)
      throw Exception(Code::kCorrupt,
                      file_.path() + ": a scan saw half of a transfer; its figures mean nothing");
  }
  template <class GoesOn>
  void transfer(Random& random, const GoesOn& goes_on) {
    const std::uint64_t first = 2 * random.below(kAccounts / 2);
    const Word amount = random.next();
    pool_.atomically([&](Tx& tx) {
      if (!goes_on()) return;
      Word& from = (*accounts_)[first];
      Word& to = (*accounts_)[first + 1];
      tx.store(from, tx.load(from) - amount);
      tx.store(to, tx.load(to) + amount);
    });
  }

  /// `make(thread, random)` returns what a thread does for one transaction.
  template <class Make>
  ContentionRow run(const std::string& name, unsigned readers, unsigned writers, Make make) {
    ContentionRow row;
    row.name = name;
    row.readers = readers;
    row.writers = writers;
    row.pinned = team_.pinned();
    double wall_ns = 0;
    double cpu_ns = 0;
    std::vector<double> reads;
    std::vector<double> writes;
    Tally all_reads;
    Tally all_writes;
    // The first repetition warms up.
    for (unsigned repetition = 0; repetition <= rules_.repetitions; ++repetition) {
      std::vector<Tally> tallies(threads_);
      const std::uint64_t deadline =
          TscClock::now() +
          static_cast<std::uint64_t>(rules_.seconds * 1e9 * TscClock::ticks_per_ns());
      team_.run([&](unsigned thread) {
        Random random(seed_ * 1000 + thread);
        tallies[thread] = repeat_until(deadline, team_.pinned(), make(thread, random));
      });
      if (repetition == 0) continue;
      std::uint64_t least = ~std::uint64_t{0};
      std::uint64_t together = 0;
      for (unsigned thread = 0; thread < threads_; ++thread) {
        row.longest_ns = std::max(row.longest_ns, tallies[thread].longest_ns);
        if (thread < readers) continue;
        least = std::min(least, tallies[thread].done);
        together += tallies[thread].done;
      }
      if (together != 0)
        row.least_share = std::min(
            row.least_share, static_cast<double>(least) * writers / static_cast<double>(together));
      const auto sum = [&](unsigned from, unsigned count, Tally& all) {
        double per_s = 0;
        for (unsigned thread = from; thread < from + count; ++thread) {
          per_s += static_cast<double>(tallies[thread].done) / tallies[thread].own_ns * 1e9;
          all.done += tallies[thread].done;
          all.attempts += tallies[thread].attempts;
          cpu_ns += tallies[thread].cpu_ns;
          wall_ns += tallies[thread].wall_ns;
        }
        return per_s;
      };
      reads.push_back(sum(0, readers, all_reads));
      writes.push_back(sum(readers, writers, all_writes));
    }
    const auto retries = [](const Tally& all) {
      return static_cast<double>(all.attempts - all.done) /
             static_cast<double>(std::max<std::uint64_t>(1, all.done));
    };
    row.reads_per_s = quartiles(std::move(reads));
    row.writes_per_s = quartiles(std::move(writes));
    row.cpu_part = std::min(1.0, cpu_ns / wall_ns);
    row.read_retries = retries(all_reads);
    row.write_retries = retries(all_writes);
    return row;
  }

  RaceRules rules_;
  unsigned threads_;
  std::uint64_t seed_;
  ScratchFile file_;
  Pool pool_;
  Counters* counters_;
  Accounts* accounts_;
  Team team_;  // last: its threads hold their part of the pool until they end
};

}  // namespace

std::vector<ContentionRow> measure_contention(const SystemOptions& options,
                                              const RaceRules& rules) {
  Contest contest(options, rules);
  std::vector<ContentionRow> rows;
  rows.push_back(contest.increments("add to a counter of one's own", false));
  if (options.threads > 1) rows.push_back(contest.increments("add to the same counter", true));
  for (const std::uint64_t count : {std::uint64_t{64}, std::uint64_t{1024}, kAccounts})
    rows.push_back(contest.scans(count));
  return rows;
}

}  // namespace perdure::bench
