// SPDX-License-Identifier: BSD-3-Clause
#include "papers/mnemosyne/evaluation/churn.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "bench/workload.h"

namespace perdure::bench::reproduce {
namespace {

constexpr std::uint64_t kWarmUpUpdates = 200;  // of each thread

/// One thread's part of a store: its keys, and what its updates took.
class Lane {
 public:
  Lane(UpdateStore& store, const ChurnOptions& options, unsigned thread)
      : store_(store),
        churn_(options.live),
        random_(options.seed * 1000 + thread),
        first_key_(std::uint64_t{thread} << 32),
        value_(options.value_bytes, '\0'),
        idle_per_busy_(options.idle_part / (1 - options.idle_part)) {}

  void fill() {
    for (std::uint64_t i = 0; i < churn_.live(); ++i) {
      const std::uint64_t key = first_key_ + churn_.keys()[i];
      store_.put(key, value_of(key));
    }
  }
  void run(std::uint64_t updates) {
    const double cpu_before = thread_cpu_ns();
    const double delay_before = thread_delay_ns();
    begin_ = TscClock::now();
    for (; updates > 0; --updates) {
      const bool inserts = churn_.insert_is_next();
      const std::uint64_t key =
          first_key_ + (inserts ? churn_.insert(random_) : churn_.erase(random_));
      const std::string_view value = value_of(key);
      const std::uint64_t start = TscClock::now();
      if (inserts) {
        store_.put(key, value);
      } else {
        store_.erase(key);
      }
      const std::uint64_t end = TscClock::now();
      Times& times = inserts ? inserts_ : erasures_;
      times.ticks += end - start;
      ++times.count;
      TscClock::spin_until(
          end + static_cast<std::uint64_t>(static_cast<double>(end - start) * idle_per_busy_));
    }
    end_ = TscClock::now();
    delay_ns_ = thread_delay_ns() - delay_before;
    cpu_ns_ = thread_cpu_ns() - cpu_before;
  }
  /// Every live record, and some that are gone.
  void verify() {
    const std::uint64_t step = std::max<std::uint64_t>(1, churn_.keys().size() / 500);
    for (std::uint64_t i = 0; i < churn_.keys().size(); i += step) {
      const std::uint64_t key = first_key_ + churn_.keys()[i];
      const std::string expected(i < churn_.live() ? value_of(key) : std::string_view());
      if (store_.get(key) != expected)
        throw Exception(Code::kCorrupt,
                        "reproduce: a store does not hold what was put into it, key " +
                            std::to_string(key) + "; its figures would mean nothing");
    }
  }

  struct Times {
    std::uint64_t ticks = 0;
    std::uint64_t count = 0;

    Times& operator+=(const Times& more) {
      ticks += more.ticks;
      count += more.count;
      return *this;
    }
    double mean_us() const {
      return static_cast<double>(ticks) / static_cast<double>(count) / TscClock::ticks_per_ns() /
             1e3;
    }
  };
  /// Parts of the last run's time, from 0 to 1: not taken by others; waiting for a lock.
  /// Never nothing: of a short run the delays are known less exactly than its time.
  double own_part() const { return std::clamp(1 - delay_ns_ / wall_ns(), 0.01, 1.0); }
  double blocked_part() const {
    return std::clamp(1 - (cpu_ns_ + delay_ns_) / wall_ns(), 0.0, 1.0);
  }
  Times take_inserts() { return std::exchange(inserts_, {}); }
  Times take_erasures() { return std::exchange(erasures_, {}); }

 private:
  double wall_ns() const { return static_cast<double>(end_ - begin_) / TscClock::ticks_per_ns(); }

  /// Ends and begins with the key, so that a value of another key or a torn one would show.
  std::string_view value_of(std::uint64_t key) {
    std::memcpy(value_.data(), &key, sizeof(key));
    std::memcpy(value_.data() + value_.size() - sizeof(key), &key, sizeof(key));
    return value_;
  }

  UpdateStore& store_;
  KeyChurn churn_;
  Random random_;
  std::uint64_t first_key_;
  std::string value_;
  double idle_per_busy_;
  std::uint64_t begin_ = 0;  // of the last run
  std::uint64_t end_ = 0;
  double cpu_ns_ = 0;
  double delay_ns_ = 0;
  Times inserts_;
  Times erasures_;
};

/// What the runs of one kind of store took.
struct Runs {
  std::vector<double> insert_us;
  std::vector<double> erase_us;
  std::vector<double> updates_per_s;
  std::vector<double> device_us;
  std::vector<double> retries;
  std::vector<double> blocked_part;

  ChurnResult result() const {
    return {spread_of(insert_us),      spread_of(erase_us),         spread_of(updates_per_s),
            spread_of(retries).median, spread_of(device_us).median, spread_of(blocked_part).median};
  }
};

/// One store and the team that updates it.
class Runner {
 public:
  Runner(UpdateStore& store, const ChurnOptions& options, Team& team) : store_(store), team_(team) {
    for (unsigned thread = 0; thread < options.threads; ++thread)
      lanes_.push_back(std::make_unique<Lane>(store, options, thread));
    store_.enter(Phase::kFill);
    for (const auto& lane : lanes_) lane->fill();
    store_.enter(Phase::kWarmUp);
    run(kWarmUpUpdates);
    store_.enter(Phase::kMeasure);
    const double warm_ns = run(kWarmUpUpdates);
    updates_ = std::max<std::uint64_t>(
        16, static_cast<std::uint64_t>(options.rules.seconds * 1e9 / warm_ns * kWarmUpUpdates));
    updates_ += updates_ % 2;  // as many inserts as deletes
    for (const auto& lane : lanes_) {
      lane->take_inserts();
      lane->take_erasures();
    }
  }

  void measure(Runs& runs) {
    const double device_before = store_.device_ns();
    const std::uint64_t retries_before = store_.retries();
    const double wall_ns = run(updates_);
    // Threads that have a CPU each do not take it from one another: when one could have run and did
    // not, another job of the machine had its CPU, and that does not count. Threads that share CPUs
    // delay each other, and nobody can tell who it was.
    double own_part = 0;
    double blocked_part = 0;
    for (const auto& lane : lanes_) {
      own_part += team_.pinned() ? lane->own_part() : 1;
      blocked_part += lane->blocked_part();
    }
    own_part /= static_cast<double>(lanes_.size());
    runs.blocked_part.push_back(blocked_part / static_cast<double>(lanes_.size()));
    const auto all = static_cast<double>(updates_ * lanes_.size());
    runs.updates_per_s.push_back(all / (wall_ns * own_part) * 1e9);
    runs.device_us.push_back((store_.device_ns() - device_before) / all / 1e3);
    runs.retries.push_back(static_cast<double>(store_.retries() - retries_before) / all);
    Lane::Times inserts;
    Lane::Times erasures;
    for (const auto& lane : lanes_) {
      inserts += lane->take_inserts();
      erasures += lane->take_erasures();
      lane->verify();
    }
    runs.insert_us.push_back(inserts.mean_us() * own_part);
    runs.erase_us.push_back(erasures.mean_us() * own_part);
  }

 private:
  /// Returns the wall time in ns.
  double run(std::uint64_t updates) {
    return team_.run([&](unsigned thread) { lanes_[thread]->run(updates); }).wall_ns;
  }

  UpdateStore& store_;
  Team& team_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::uint64_t updates_ = 0;  // of each thread, in one run
};

}  // namespace

std::vector<ChurnResult> race_updates(const std::vector<MakeStore>& stores,
                                      const ChurnOptions& options) {
  std::vector<Runs> runs(stores.size());
  for (unsigned repetition = 0; repetition < options.rules.repetitions; ++repetition) {
    for (std::size_t i = 0; i < stores.size(); ++i) {
      const std::unique_ptr<UpdateStore> store = stores[i]();
      // Threads that are new, too: they hold their part of a pool until they end.
      Team team(options.threads);
      Runner(*store, options, team).measure(runs[i]);
    }
  }
  std::vector<ChurnResult> results;
  for (const Runs& of_store : runs) results.push_back(of_store.result());
  return results;
}

}  // namespace perdure::bench::reproduce
