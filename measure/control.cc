// SPDX-License-Identifier: BSD-3-Clause
#include "measure/control.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>

#include <fmt/format.h>

namespace perdure::bench {
namespace {

/// About a millisecond: a generator that adds its numbers up in 256 KiB, more than a first-level cache holds.
void fixed_work(std::vector<std::uint64_t>& memory) {
  std::uint64_t random = 88172645463325252;
  for (int step = 0; step < 400'000; ++step) {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    memory[random % memory.size()] += random;
  }
}

}  // namespace

Control::Used Control::used() {
  Used used;
  used.at = std::chrono::steady_clock::now();
  // Of all CPUs: user, nice, system, idle, iowait, irq, softirq, steal. Where it is not told, nobody else is seen.
  std::ifstream file("/proc/stat");
  std::string name;
  double ticks[8] = {};
  file >> name;
  for (double& value : ticks) file >> value;
  if (!file) return used;
  constexpr std::size_t kIdle = 3, kIoWait = 4;
  for (std::size_t i = 0; i < std::size(ticks); ++i) {
    if (i != kIdle && i != kIoWait) used.all_s += ticks[i];
  }
  used.all_s /= static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (const int whose : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(whose, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime})
      used.own_s += static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  }
  return used;
}

void Control::sample() {
  std::vector<std::uint64_t> memory(std::size_t{1} << 15);
  fixed_work(memory);  // The first time also maps the memory.
  for (int run = 0; run < 48; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const double before = thread_cpu_ns();
    fixed_work(memory);
    const double cpu_ns = thread_cpu_ns() - before;
    const std::chrono::duration<double, std::nano> wall = std::chrono::steady_clock::now() - begin;
    add(cpu_ns, wall.count());
  }
  const Used now = used();
  if (!begin_) {
    begin_ = now;
    return;
  }
  const double others_s = (now.all_s - begin_->all_s) - (now.own_s - begin_->own_s);
  const double passed_s = std::chrono::duration<double>(now.at - begin_->at).count();
  others_ = std::max(0.0, others_s / passed_s / std::thread::hardware_concurrency());
}

void Control::add(double cpu_ns, double wall_ns) {
  cpu_ns_.push_back(cpu_ns);
  all_cpu_ns_ += cpu_ns;
  all_wall_ns_ += wall_ns;
}

std::string Control::unsteady(MeasuredBy clock) const {
  if (clock == MeasuredBy::kSimulatedTime || cpu_ns_.empty()) return {};
  const Quartiles pace = quartiles(cpu_ns_);
  if (pace.high / pace.low > kMostPace)
    return fmt::format(
        "The machine's pace changed: the control measurement took {:.2f} to {:.2f} ms of CPU time "
        "before and after, more than {:g} times apart. Repeat it on an idle machine.",
        pace.low / 1e6, pace.high / 1e6, kMostPace);
  const double waiting = all_wall_ns_ / all_cpu_ns_;
  if (clock == MeasuredBy::kWallTime && waiting > kMostWaiting)
    return fmt::format(
        "Others had the CPU: the control measurement took {:.2f} times its CPU time by the clock, "
        "more than {:g} times. Repeat it on an idle machine.",
        waiting, kMostWaiting);
  if (clock == MeasuredBy::kWallTime && others_ > kMostOthers)
    return fmt::format(
        "Others kept {:.0f} % of the CPUs busy while it ran, more than {:.0f} %. Repeat it on an "
        "idle "
        "machine.",
        100 * others_, 100 * kMostOthers);
  return {};
}

}  // namespace perdure::bench
