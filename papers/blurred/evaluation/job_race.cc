// SPDX-License-Identifier: BSD-3-Clause
#include "papers/blurred/evaluation/job_race.h"

#include <algorithm>

namespace perdure::bench::reproduce {
namespace {

constexpr std::uint64_t kTrial = 300;  // transactions to tell how long one takes

/// Returns the wall time in ns, without what others took from threads that have a CPU each.
double run(Team& team, Job& job, std::uint64_t transactions) {
  std::vector<double> delays(team.threads());
  const double wall_ns = team.run([&](unsigned thread) {
                               const double before = thread_delay_ns();
                               job.run(transactions, thread);
                               delays[thread] = thread_delay_ns() - before;
                             })
                             .wall_ns;
  if (!team.pinned()) return wall_ns;
  return std::max(1.0, wall_ns - *std::max_element(delays.begin(), delays.end()));
}

}  // namespace

JobOptions options_of(const PaperSystem& system, const JobOptions& options) {
  JobOptions of_system = options;
  of_system.engine = system.engine;
  of_system.truncation = system.truncation;
  of_system.in_place = system.in_place;
  of_system.ring_bytes = round_up(
      static_cast<std::uint64_t>(static_cast<double>(options.ring_bytes) * system.ring_per_log),
      std::uint64_t{kPageBytes});
  return of_system;
}

std::vector<JobResult> race_jobs(std::span<const PaperSystem> systems, Work work,
                                 const JobOptions& options, const RaceRules& rules,
                                 std::uint64_t warm_up) {
  struct Runs {
    std::vector<double> per_s;
    std::vector<double> aborts;
    std::vector<double> warm_up_ms;
  };
  std::vector<Runs> runs(systems.size());
  for (unsigned repetition = 0; repetition < rules.repetitions; ++repetition) {
    for (std::size_t i = 0; i < systems.size(); ++i) {
      const std::unique_ptr<Job> job = make_job(work, options_of(systems[i], options));
      Team team(options.threads);
      runs[i].warm_up_ms.push_back(run(team, *job, warm_up) / 1e6);
      const double trial_ns = run(team, *job, kTrial);
      const auto transactions = std::max<std::uint64_t>(
          16, static_cast<std::uint64_t>(rules.seconds * 1e9 / trial_ns * kTrial));
      const double ns = run(team, *job, transactions);
      runs[i].per_s.push_back(static_cast<double>(transactions * options.threads) / ns * 1e9);
      runs[i].aborts.push_back(job->abort_part());
      job->verify();
    }
  }
  std::vector<JobResult> results;
  for (const Runs& of : runs)
    results.push_back(
        {spread_of(of.per_s), spread_of(of.aborts).median, spread_of(of.warm_up_ms).median});
  return results;
}

}  // namespace perdure::bench::reproduce
