// SPDX-License-Identifier: BSD-3-Clause
#include "measure/measure.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <exception>
#include <fstream>
#include <utility>

namespace perdure::bench {
namespace {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof(set), &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

}  // namespace

double thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double thread_delay_ns() {
  std::ifstream file("/proc/thread-self/schedstat");
  double ran = 0;
  double delayed = 0;
  return file >> ran >> delayed ? delayed : 0;
}

Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double part) {
    const double position = part * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], position - std::floor(position));
  };
  return {at(0.25), at(0.5), at(0.75)};
}

Spread spread_of(std::vector<double> runs) {
  const auto [least, most] = std::minmax_element(runs.begin(), runs.end());
  const Spread ends{0, *least, *most};
  return {quartiles(std::move(runs)).median, ends.min, ends.max};
}

Spread ratio_of(const Spread& above, const Spread& below) {
  return {above.median / below.median, above.min / below.max, above.max / below.min};
}

Team::Team(unsigned threads, bool pin)
    : start_(threads + 1), finish_(threads + 1), stays_(threads), failures_(threads) {
  const std::vector<int> cpus = allowed_cpus();
  pinned_ = pin && threads <= cpus.size();
  for (unsigned index = 0; index < threads; ++index) {
    members_.emplace_back([this, index] { serve(index); });
    if (!pinned_) continue;
    cpu_set_t set;
    CPU_ZERO(&set);
    // From the last CPU downwards: the first ones tend to serve the interrupts.
    CPU_SET(cpus[cpus.size() - 1 - index], &set);
    ::pthread_setaffinity_np(members_.back().native_handle(), sizeof(set), &set);
  }
}

Team::~Team() {
  work_ = nullptr;
  start_.arrive_and_wait();
}

void Team::serve(unsigned index) {
  for (;;) {
    start_.arrive_and_wait();
    if (work_ == nullptr) return;
    Stay& stay = stays_[index];
    const double before = thread_cpu_ns();
    stay.begin = std::chrono::steady_clock::now();
    try {
      (*work_)(index);
    } catch (...) {
      failures_[index] = std::current_exception();
    }
    stay.end = std::chrono::steady_clock::now();
    stay.cpu_ns = thread_cpu_ns() - before;
    finish_.arrive_and_wait();
  }
}

Team::Spent Team::run(const std::function<void(unsigned)>& work) {
  work_ = &work;
  start_.arrive_and_wait();
  finish_.arrive_and_wait();
  // By the clocks of those who work: on a busy machine, who starts them looks late at its own.
  auto begin = stays_.front().begin;
  auto end = stays_.front().end;
  Spent spent;
  for (const Stay& stay : stays_) {
    begin = std::min(begin, stay.begin);
    end = std::max(end, stay.end);
    spent.cpu_ns += stay.cpu_ns;
  }
  spent.wall_ns = std::chrono::duration<double, std::nano>(end - begin).count();
  for (std::exception_ptr& failure : failures_) {
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
  }
  return spent;
}

namespace {

Team::Spent run_batch(Team& team, const Contestant& contestant, std::uint64_t operations) {
  if (contestant.prepare)
    team.run([&](unsigned thread) { contestant.prepare(operations, thread); });
  return team.run([&](unsigned thread) { contestant.run(operations, thread); });
}

std::uint64_t calibrate(Team& team, const Contestant& contestant, double seconds) {
  std::uint64_t operations = 16;
  (void)run_batch(team, contestant,
                  operations);  // what is done once says nothing of how long the others take
  for (;;) {
    const Team::Spent spent = run_batch(team, contestant, operations);
    const double part = spent.wall_ns / (seconds * 1e9);
    if (part > 0.2 || operations == contestant.max_operations) {
      const double fitting = static_cast<double>(operations) / std::max(part, 1e-9);
      return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::min(fitting, 1e12)), 1,
                                       contestant.max_operations);
    }
    operations = std::min(operations * 4, contestant.max_operations);
  }
}

}  // namespace

std::vector<Timing> race(Team& team, const std::vector<Contestant>& contestants,
                         const RaceRules& rules) {
  struct Samples {
    std::vector<double> cpu;
    std::vector<double> wall;
  };
  std::vector<Timing> timings(contestants.size());
  std::vector<Samples> samples(contestants.size());
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    timings[i].operations = calibrate(team, contestants[i], rules.seconds);
  }
  for (unsigned repetition = 0; repetition < rules.repetitions; ++repetition) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const Team::Spent spent = run_batch(team, contestants[i], timings[i].operations);
      const double operations = static_cast<double>(timings[i].operations) * team.threads();
      samples[i].cpu.push_back(spent.cpu_ns / operations);
      samples[i].wall.push_back(spent.wall_ns / operations);
    }
  }
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    const Spread cpu = spread_of(samples[i].cpu);
    timings[i].fastest_cpu_ns = cpu.min;
    timings[i].slowest_cpu_ns = cpu.max;
    const Spread wall = spread_of(samples[i].wall);
    timings[i].fastest_wall_ns = wall.min;
    timings[i].slowest_wall_ns = wall.max;
    timings[i].cpu_ns = quartiles(std::move(samples[i].cpu));
    timings[i].wall_ns = quartiles(std::move(samples[i].wall));
  }
  return timings;
}

}  // namespace perdure::bench
