// SPDX-License-Identifier: BSD-3-Clause
// Figures 11 to 15: how the hash table depends on the sizes of values, transactions and logs, and on idle time.
#include "papers/blurred/evaluation/blurred.h"

namespace perdure::bench::reproduce {
namespace {

const std::vector<PaperSystem> kFour = {kBaseSystem, kMne, kBppm, kNp};

bool grows(const Series& series) { return series.values.back()->median > series.at(0); }

}  // namespace

Section measure_value_sizes(const Settings& settings) {
  const std::vector<std::uint64_t>& sizes = settings.blurred.value_bytes;
  Section section = begin_section("figure11", "Figure 11: sensitivity to the value size",
                                  "value (bytes)", "The hash table of Figure 9, one thread.");
  for (const std::uint64_t size : sizes) section.x.push_back(static_cast<double>(size));
  race_along(section, kFour, Work::kHash, settings, "", "tx/s",
             [&](std::size_t place, JobOptions& options) { options.value_bytes = sizes[place]; });
  std::vector<std::optional<double>> bytes;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    bytes.emplace_back(section.find("BPPM")->at(i) * section.x[i] / 1e6);
  section.add_values("BPPM, values", "MB/s", Origin::kDerived, bytes).charted = false;
  const double small = gain_percent(section, "BPPM", "BASE", 0);
  const double large = gain_percent(section, "BPPM", "BASE", sizes.size() - 1);
  const bool agrees = !grows(*section.find("BPPM")) && grows(*section.find("BPPM, values")) &&
                      small > large && large > 0;
  section.judgements.push_back({std::string(paper_blurred::kValues),
                                fmt::format("BPPM over BASE {:.0f} % at {:.0f} B, {:.0f} % at "
                                            "{:.0f} B; values at {:.0f} and {:.0f} MB/s",
                                            small, section.x.front(), large, section.x.back(),
                                            *bytes.front(), *bytes.back()),
                                agrees,
                                agrees ? ""
                                       : "A large value takes execution in log 16 bytes for each "
                                         "8, in lines that each are flushed at the whole latency; "
                                         "BASE and MNE stream theirs at the emulated bandwidth."});
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
  const auto growth = [&](const std::string& name) {
    const Series* series = section.find(name);
    return series->at(sizes.size() - 1) / series->at(0);
  };
  const bool agrees = growth("BASE") > 1.1 && growth("BPPM") > 1.1 && growth("NP") < growth("BASE");
  section.judgements.push_back(
      {std::string(paper_blurred::kTransactions),
       fmt::format("from {:.0f} to {:.0f} operations BASE does {:.2f} times as many a second, MNE "
                   "{:.2f}, BPPM {:.2f}, NP "
                   "{:.2f}",
                   section.x.front(), section.x.back(), growth("BASE"), growth("MNE"),
                   growth("BPPM"), growth("NP")),
       agrees, agrees ? "" : "What a wait costs is the smaller part of an operation here."});
  return section;
}

Section measure_log_sizes(const Settings& settings) {
  const std::vector<std::uint64_t>& sizes = settings.blurred.log_kib;
  Section section = begin_section("figure13", "Figure 13: impact of the log size on throughput",
                                  "log (KiB)", "BPPM on every workload of Figure 9, one thread.");
  for (const std::uint64_t size : sizes) section.x.push_back(static_cast<double>(size));
  std::string found;
  bool agrees = true;
  for (const Work work : kAllWork) {
    const std::string prefix = std::string(work_name(work)) + ": ";
    race_along(
        section, {kBppm}, work, settings, prefix, "tx/s",
        [&](std::size_t place, JobOptions& options) { options.log_bytes = sizes[place] << 10; });
    const Series* rate = section.find(prefix + "BPPM");
    const double growth = rate->at(sizes.size() - 1) / rate->at(0);
    agrees = agrees && growth > 0.95;
    found += fmt::format("{}{} {:.2f}", found.empty() ? "the largest against the smallest: " : ", ",
                         work_name(work), growth);
  }
  section.judgements.push_back(
      {std::string(paper_blurred::kLogs), found, agrees,
       agrees ? "" : "A larger log is colder: its next line is no longer in the cache."});
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
    options.engine = kBppm.engine;
    options.truncation = kBppm.truncation;
    options.log_bytes = sizes[place] << 10;
    const std::unique_ptr<Job> job = make_job(Work::kHash, options);
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
  const double small = *most.front();
  const double large = *most.back();
  const bool agrees = large > small && small <= kTolerance * paper_blurred::kRecoverySmallUs;
  section.judgements.push_back(
      {std::string(paper_blurred::kRecovery),
       fmt::format("at most {:.0f} us at {:.0f} KiB, {:.0f} us at {:.0f} KiB", small,
                   section.x.front(), large, section.x.back()),
       agrees,
       agrees ? ""
              : "3.2 us are 1,600 records of 16 bytes each in 2 ns: the paper's time is that of a "
                "scan. Ours also judges every "
                "record, sorts, replays, forces the home lines at the emulated latency, and "
                "empties the log."});
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
  std::vector<double> over_sync;
  std::vector<double> over_async;
  for (std::size_t i = 0; i < idle.size(); ++i) {
    over_sync.push_back(gain_percent(section, "BPPM", "MNE", i));
    over_async.push_back(gain_percent(section, "BPPM", "MNE-ASYNC", i));
  }
  const bool agrees = seen(over_sync).low > 0 && seen(over_async).low > 0;
  section.judgements.push_back(
      {std::string(paper_blurred::kIdle),
       fmt::format("BPPM over MNE {}, over MNE-ASYNC {}", range_text(seen(over_sync), " %"),
                   range_text(seen(over_async), " %")),
       agrees,
       agrees ? ""
              : "At 1024 B execution in log flushes 2 KiB of records, each line at the whole "
                "latency; MNE's log streams 1 KiB."});
  return section;
}

}  // namespace perdure::bench::reproduce
