#include "bench/reproduce/churn.h"

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
  };
  Times take_inserts() { return std::exchange(inserts_, {}); }
  Times take_erasures() { return std::exchange(erasures_, {}); }

 private:
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
  Times inserts_;
  Times erasures_;
};

/// One store under measurement.
class Runner {
 public:
  Runner(UpdateStore& store, const ChurnOptions& options, Team& team)
      : store_(store), team_(team), rules_(options.rules) {
    for (unsigned thread = 0; thread < options.threads; ++thread)
      lanes_.push_back(std::make_unique<Lane>(store, options, thread));
    store_.enter(Phase::kFill);
    for (const auto& lane : lanes_) lane->fill();
    store_.enter(Phase::kWarmUp);
    run(kWarmUpUpdates);
    store_.enter(Phase::kMeasure);
    const double warm_ns = run(kWarmUpUpdates);
    updates_ = std::max<std::uint64_t>(
        16, static_cast<std::uint64_t>(rules_.seconds * 1e9 / warm_ns * kWarmUpUpdates));
    updates_ += updates_ % 2;  // as many inserts as deletes
    forget_times();
  }

  void measure() {
    const double device_before = store_.device_ns();
    const double wall_ns = run(updates_);
    const auto all = static_cast<double>(updates_ * lanes_.size());
    rate_.push_back(all / wall_ns * 1e9);
    device_us_.push_back((store_.device_ns() - device_before) / all / 1e3);
    Lane::Times inserts;
    Lane::Times erasures;
    for (const auto& lane : lanes_) {
      add(inserts, lane->take_inserts());
      add(erasures, lane->take_erasures());
    }
    insert_us_.push_back(microseconds(inserts));
    erase_us_.push_back(microseconds(erasures));
  }
  ChurnResult result() {
    for (const auto& lane : lanes_) lane->verify();
    return {spread_of(insert_us_), spread_of(erase_us_), spread_of(rate_),
            spread_of(device_us_).median};
  }

 private:
  double run(std::uint64_t updates) {
    return team_.run([&](unsigned thread) { lanes_[thread]->run(updates); }).wall_ns;
  }
  void forget_times() {
    for (const auto& lane : lanes_) {
      lane->take_inserts();
      lane->take_erasures();
    }
  }
  static void add(Lane::Times& sum, const Lane::Times& more) {
    sum.ticks += more.ticks;
    sum.count += more.count;
  }
  static double microseconds(const Lane::Times& times) {
    return static_cast<double>(times.ticks) / TscClock::ticks_per_ns() / 1e3 /
           static_cast<double>(times.count);
  }

  UpdateStore& store_;
  Team& team_;
  RaceRules rules_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::uint64_t updates_ = 0;  // of each thread, in one run
  std::vector<double> insert_us_;
  std::vector<double> erase_us_;
  std::vector<double> rate_;
  std::vector<double> device_us_;
};

}  // namespace

std::vector<ChurnResult> race_updates(const std::vector<UpdateStore*>& stores,
                                      const ChurnOptions& options) {
  Team team(options.threads);
  std::vector<std::unique_ptr<Runner>> runners;
  for (UpdateStore* store : stores)
    runners.push_back(std::make_unique<Runner>(*store, options, team));
  for (unsigned repetition = 0; repetition < options.rules.repetitions; ++repetition) {
    for (const auto& runner : runners) runner->measure();
  }
  std::vector<ChurnResult> results;
  for (const auto& runner : runners) results.push_back(runner->result());
  return results;
}

}  // namespace perdure::bench::reproduce
