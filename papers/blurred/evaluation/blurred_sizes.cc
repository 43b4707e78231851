// SPDX-License-Identifier: BSD-3-Clause
// Figures 11 to 15: how the hash table depends on the sizes of values, transactions and logs, and on idle time.
#include <fmt/format.h>

#include "papers/blurred/evaluation/blurred.h"
#include "papers/blurred/evaluation/claims.h"

namespace perdure::bench::reproduce {
namespace {

const std::vector<PaperSystem> kFour = {kBaseSystem, kMne, kBppm, kNp};
const std::vector<PaperSystem> kFive = {kBaseSystem, kBaseStream, kMne, kBppm, kNp};

}  // namespace

Section measure_value_sizes(const Settings& settings) {
  const std::vector<std::uint64_t>& sizes = settings.blurred.value_bytes;
  Section section = begin_section("figure11", "Figure 11: sensitivity to the value size",
                                  "value (bytes)", "The hash table of Figure 9, one thread.");
  for (const std::uint64_t size : sizes) section.x.push_back(static_cast<double>(size));
  race_along(section, kFive, Work::kHash, settings, "", "tx/s",
             [&](std::size_t place, JobOptions& options) { options.value_bytes = sizes[place]; });
  std::vector<std::optional<double>> bytes;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    bytes.emplace_back(section.find("BPPM")->at(i) * section.x[i] / 1e6);
  section.add_values("BPPM, values", "MB/s", Origin::kDerived, bytes).charted = false;
  add_effects(section, "");
  paper_blurred::judge_value_sizes(section);
  return section;
}

Section measure_transaction_sizes(const Settings& settings) {
  const std::vector<std::uint64_t>& sizes = settings.blurred.operations;
  Section section =
      begin_section("figure12", "Figure 12: sensitivity to the transaction size",
                    "operations in a transaction", "The hash table of Figure 9, one thread.");
  for (const std::uint64_t size : sizes) section.x.push_back(static_cast<double>(size));
  race_along(
      section, kFour, Work::kHash, settings, "", "operations/s",
      [&](std::size_t place, JobOptions& options) { options.operations = sizes[place]; },
      [&](std::size_t place) { return section.x[place]; });
  paper_blurred::judge_transaction_sizes(section);
  return section;
}

Section measure_log_sizes(const Settings& settings) {
  const std::vector<std::uint64_t>& sizes = settings.blurred.log_kib;
  Section section = begin_section("figure13", "Figure 13: impact of the log size on throughput",
                                  "log (KiB)", "BPPM on every workload of Figure 9, one thread.");
  for (const std::uint64_t size : sizes) section.x.push_back(static_cast<double>(size));
  for (const Work work : kAllWork) {
    const std::string prefix = std::string(work_name(work)) + ": ";
    race_along(
        section, {kBppm}, work, settings, prefix, "tx/s",
        [&](std::size_t place, JobOptions& options) { options.ring_bytes = sizes[place] << 10; });
  }
  paper_blurred::judge_log_sizes(section);
  return section;
}

Section measure_recovery(const Settings& settings) {
  constexpr std::uint64_t kSamples = 9;
  const std::vector<std::uint64_t>& sizes = settings.blurred.log_kib;
  Section section = begin_section(
      "figure14", "Figure 14: impact of the log size on recovery time", "log (KiB)",
      fmt::format("The pool of Figure 9's hash table under BPPM is copied while it "
                  "runs, at {} moments, and the copies "
                  "opened. Recovered: what their recovery took, replay, write-back and "
                  "emptied logs included; most: "
                  "the slowest, with the fullest log.",
                  kSamples));
  for (const std::uint64_t size : sizes) section.x.push_back(static_cast<double>(size));
  std::vector<std::optional<Spread>> times;
  std::vector<std::optional<double>> most;
  for (std::size_t place = 0; place < sizes.size(); ++place) {
    tell_progress("figure 14", place, sizes.size());
    JobOptions options = job_options(settings);
    options.ring_bytes = sizes[place] << 10;
    const std::unique_ptr<Job> job = make_job(Work::kHash, options_of(kBppm, options));
    std::vector<double> samples;
    for (std::uint64_t i = 0; i < kSamples; ++i) {
      job->run(sizes[place] * 3 / 2 + 17 * i, 0);
      samples.push_back(job->recovery_us());
    }
    times.emplace_back(spread_of(samples));
    most.emplace_back(times.back()->max);
  }
  section.add("recovered", "us", Origin::kPerdure).values = std::move(times);
  section.add_values("most", "us", Origin::kPerdure, most);
  std::vector<std::optional<double>> paper(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 104) paper[i] = paper_blurred::kRecoverySmallUs;
    if (sizes[i] == 2048) paper[i] = paper_blurred::kRecoveryLargeUs;
  }
  section.add_values("paper: recovery", "us", Origin::kPaper, paper);
  section.missing = "The paper gives its ends in the text.";
  section.log_y = true;
  paper_blurred::judge_recovery(section);
  return section;
}

Section measure_idle_times(const Settings& settings) {
  const std::vector<unsigned>& idle = settings.blurred.idle_percent;
  Section section = begin_section(
      "figure15", "Figure 15: sensitivity to the transaction idle time", "idle (% of the time)",
      "The hash table of Figure 9 with values of 1024 bytes, one thread, "
      "which spins after each transaction "
      "for a part of its time. MNE is MNE-SYNC; MNE-ASYNC truncates in "
      "the background, on the other core.");
  for (const unsigned percent : idle) section.x.push_back(static_cast<double>(percent));
  race_along(section, {kBaseSystem, kMne, kMneAsync, kBppm, kNp}, Work::kHash, settings, "", "tx/s",
             [&](std::size_t place, JobOptions& options) {
               options.idle_part = idle[place] / 100.0;
               options.value_bytes = 1024;
             });
  paper_blurred::judge_idle_times(section);
  return section;
}

}  // namespace perdure::bench::reproduce
