// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/evaluation/runtime.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "bench/system.h"
#include "papers/thynvm/evaluation/carried_run.h"
#include "perdure/error.h"

namespace perdure::bench::thynvm {

using reproduce::Origin;
using reproduce::Section;
using reproduce::Settings;

void judge_goal(Section& section, std::string_view goal, const reproduce::Found& found, double most,
                const std::string& why) {
  reproduce::Sentence(section, goal, true)
      .holds("at most that", found, reproduce::below(most))
      .because([&] { return why; });
}

namespace {

// By turns: the one beside which all are held comes first.
const std::vector<Mode> kModes = {
    {"plain", {}},
    {"track only, 10 ms", {"--epoch", "10ms", "--record", "nothing"}},
    {"page, 10 ms", {"--epoch", "10ms", "--record", "pages"}},
    {"block, 10 ms", {"--epoch", "10ms"}},
    {"page, 100 ms", {"--epoch", "100ms", "--record", "pages"}},
    {"block, 100 ms", {"--epoch", "100ms"}},
    {"block, 1 s", {"--epoch", "1s"}},
    {"block, auto", {"--epoch", "auto", "--budget", "5"}},
};
constexpr std::size_t kPlain = 0, kTrack = 1, kBlock10 = 3, kAuto = 7;
bool records(std::size_t mode) { return mode > kTrack; }
bool records_blocks(std::size_t mode) { return kModes[mode].name.starts_with("block"); }

constexpr double kAutoMost = 1.07;       // a budget of 5 %, and 2 points
constexpr double kBeyondTracking = 1.2;  // fixed epochs of 10 ms
constexpr double kLogMost = 1.3 * 1.05;

struct Rounds {
  CarriedProgram program;
  std::vector<std::vector<Ran>> runs;  // by round and mode
};

/// What one run says, beside the plain one of its round.
using Figure = std::function<double(const Ran& ran, const Ran& plain)>;

Spread spread_of(const Rounds& rounds, std::size_t mode, const Figure& figure) {
  std::vector<double> values;
  for (const std::vector<Ran>& round : rounds.runs)
    values.push_back(figure(round[mode], round[kPlain]));
  return bench::spread_of(std::move(values));
}

double slowdown(const Ran& ran, const Ran& plain) { return ran.wall_s / plain.wall_s; }
double cpu_ratio(const Ran& ran, const Ran& plain) { return ran.cpu_s / plain.cpu_s; }
double epoch_ms(const Ran& ran, const Ran& /*plain*/) {
  return ran.wall_s * 1e3 / ran.statistics.epochs;
}
double log_of_changed(const Ran& ran, const Ran& /*plain*/) {
  return ran.statistics.log_bytes / ran.statistics.changed_bytes();
}
Figure of_statistics(double (*figure)(const RunStatistics&)) {
  return [figure](const Ran& ran, const Ran&) { return figure(ran.statistics); };
}

/// What `perdure run` takes to start and end, whatever the program does.
double start_ms(const std::string& directory, unsigned rounds) {
  const CarriedProgram nothing{.name = "nothing", .command = {"/bin/true"}};
  std::vector<double> values;
  for (unsigned round = 0; round < 3 * rounds; ++round)
    values.push_back(run_carried(nothing, kModes[kAuto], directory).wall_s * 1e3);
  return bench::spread_of(std::move(values)).median;
}

class Views {
 public:
  Views(std::vector<Rounds> programs, std::string missing)
      : programs_(std::move(programs)), missing_(std::move(missing)) {}

  Section begin(std::string id, std::string title, std::string method) const {
    Section section;
    section.id = std::move(id);
    section.title = std::move(title);
    section.method = std::move(method);
    section.missing = missing_;
    for (const Rounds& rounds : programs_) {
      section.x.push_back(static_cast<double>(section.x.size() + 1));
      section.x_name += fmt::format("{}{} {}", section.x_name.empty() ? "" : ", ", section.x.size(),
                                    rounds.program.name);
    }
    return section;
  }

  /// A series of every mode from this one on that `wanted` lets pass.
  void add(Section& section, const std::string& prefix, const std::string& unit, Origin origin,
           const Figure& figure, const std::function<bool(std::size_t mode)>& wanted,
           bool charted = true) const {
    for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
      if (!wanted(mode)) continue;
      auto& series =
          section.add(fmt::format("{}{}{}", prefix, prefix.empty() ? "" : ": ", kModes[mode].name),
                      unit, origin);
      series.charted = charted;
      for (std::size_t i = 0; i < programs_.size(); ++i)
        series.values[i] = spread_of(programs_[i], mode, figure);
    }
  }

  /// The programs for which a mode's median is above `most`, with why_of() of each.
  struct Judged {
    double least = 1e300, highest = 0;
    std::string above, why;
  };
  Judged judge(std::size_t mode, const Figure& figure, double most) const {
    Judged judged;
    for (const Rounds& rounds : programs_) {
      const double value = spread_of(rounds, mode, figure).median;
      judged.least = std::min(judged.least, value);
      judged.highest = std::max(judged.highest, value);
      if (value <= most) continue;
      judged.above +=
          fmt::format("{}{} {:.2f}", judged.above.empty() ? "" : ", ", rounds.program.name, value);
      judged.why += (judged.why.empty() ? "" : "; ") + parts_of(rounds, mode);
    }
    return judged;
  }

  /// "bzip2: 3 % pauses, 4 % first writes, epochs of 50 ms"
  static std::string parts_of(const Rounds& rounds, std::size_t mode) {
    const auto percent = [&](const Figure& seconds) {
      return 100 * spread_of(rounds, mode, [&](const Ran& ran, const Ran& plain) {
                     return seconds(ran, plain) / plain.wall_s;
                   }).median;
    };
    return fmt::format(
        "{}: {:.0f} % pauses, {:.0f} % first writes, epochs of {:.0f} ms", rounds.program.name,
        percent([](const Ran& ran, const Ran&) { return ran.statistics.pause_total_ms / 1e3; }),
        percent([](const Ran& ran, const Ran&) {
          return ran.statistics.written_pages * ran.statistics.first_write_ns / 1e9;
        }),
        spread_of(rounds, mode, epoch_ms).median);
  }

  const std::vector<Rounds>& programs() const { return programs_; }

 private:
  std::vector<Rounds> programs_;
  std::string missing_;
};

/// The program that is farthest off, of all that are.
reproduce::Found found_of(const Views::Judged& judged, double most, const std::string& more = {}) {
  return reproduce::number(
      judged.highest, "x", "",
      fmt::format("{:.2f} to {:.2f}{}{}", judged.least, judged.highest,
                  judged.above.empty() ? "" : fmt::format("; above {:.2f}: {}", most, judged.above),
                  more));
}

Section slowdown_section(const Views& views, const Settings& settings, unsigned all_rounds,
                         double start_ms) {
  std::string programs;
  for (const Rounds& rounds : views.programs())
    programs += fmt::format(" {}: {} ({}).", rounds.program.name, rounds.program.what,
                            rounds.program.version);
  Section section = views.begin(
      "slowdown", "Unmodified programs under epochs",
      fmt::format("Wall time from start to end over that without `perdure run` in the same round; "
                  "{} rounds of all modes by turns. State directories in {} ({}); nothing is "
                  "synced (--durable process). Page: whole pages, as full-page increments hold "
                  "them; block: blocks of 64 bytes or pages; track only: nothing is recorded.{}",
                  all_rounds, settings.disk_dir, file_system_of(settings.disk_dir), programs));
  const auto beside_plain = [](std::size_t mode) { return mode != kPlain; };
  views.add(
      section, "", "s", Origin::kPerdure, [](const Ran& ran, const Ran&) { return ran.wall_s; },
      [](std::size_t mode) { return mode == kPlain; }, false);
  views.add(section, "", "x plain", Origin::kDerived, slowdown, beside_plain);
  views.add(section, "CPU time", "x plain's", Origin::kDerived, cpu_ratio, beside_plain, false);

  const Views::Judged by_budget = views.judge(kAuto, slowdown, kAutoMost);
  judge_goal(section,
             "--epoch auto with a budget of 5 % stays within 2 points of it: at most 1.07 of the "
             "plain time for every program",
             found_of(by_budget, kAutoMost,
                      fmt::format("; {:.0f} ms of each run are its start and end", start_ms)),
             kAutoMost,
             "The budget's parts, of the plain time, and the rest is what it does not count: " +
                 by_budget.why + ".");
  const Figure beyond = [](const Ran& ran, const Ran& track) { return ran.wall_s / track.wall_s; };
  Views::Judged fixed;
  for (const Rounds& rounds : views.programs()) {
    std::vector<double> ratios;
    for (const std::vector<Ran>& round : rounds.runs)
      ratios.push_back(beyond(round[kBlock10], round[kTrack]));
    const double ratio = bench::spread_of(ratios).median;
    fixed.least = std::min(fixed.least, ratio);
    fixed.highest = std::max(fixed.highest, ratio);
    if (ratio <= kBeyondTracking) continue;
    fixed.above +=
        fmt::format("{}{} {:.2f}", fixed.above.empty() ? "" : ", ", rounds.program.name, ratio);
    fixed.why += (fixed.why.empty() ? "" : "; ") + Views::parts_of(rounds, kBlock10);
  }
  judge_goal(
      section, "fixed epochs of 10 ms (block) take at most 1.2 times the time of tracking alone",
      found_of(fixed, kBeyondTracking), kBeyondTracking, "Of the plain time: " + fixed.why + ".");
  return section;
}

Section pause_section(const Views& views) {
  Section section = views.begin(
      "pauses", "Pauses of these programs",
      "How long the program stands still at an epoch's end, all epochs of a run but with the first "
      "one, which holds all memory. Epochs that could not end in time, as the one before was not "
      "written yet, are longer than asked for.");
  const auto carried = [](std::size_t mode) { return mode != kPlain; };
  views.add(section, "p50", "ms", Origin::kPerdure,
            of_statistics([](const RunStatistics& told) { return told.pause_p50_ms; }), carried);
  views.add(section, "p99", "ms", Origin::kPerdure,
            of_statistics([](const RunStatistics& told) { return told.pause_p99_ms; }), carried,
            false);
  views.add(section, "an epoch", "ms", Origin::kDerived, epoch_ms, carried, false);
  views.add(
      section, "written in an epoch", "pages", Origin::kDerived,
      of_statistics([](const RunStatistics& told) { return told.written_pages / told.epochs; }),
      carried, false);
  section.log_y = true;
  return section;
}

Section log_section(const Views& views) {
  Section section = views.begin(
      "log", "What is logged",
      "Bytes appended to the log, with its own marks and the first epoch, which holds all memory.");
  views.add(
      section, "in an epoch", "KiB", Origin::kPerdure,
      of_statistics([](const RunStatistics& told) { return told.log_bytes / told.epochs / 1024; }),
      records);
  views.add(section, "for a page written", "B", Origin::kPerdure,
            of_statistics([](const RunStatistics& told) {
              return told.log_bytes / std::max(1.0, told.written_pages);
            }),
            records, false);
  views.add(
      section, "in a second", "MB", Origin::kPerdure,
      [](const Ran& ran, const Ran&) { return ran.statistics.log_bytes / ran.wall_s / 1e6; },
      records, false);
  views.add(section, "of what changed", "x", Origin::kDerived, log_of_changed, records_blocks,
            false);
  Views::Judged all;
  for (std::size_t mode = 0; mode < kModes.size(); ++mode) {
    if (!records_blocks(mode)) continue;
    const Views::Judged judged = views.judge(mode, log_of_changed, kLogMost);
    all.least = std::min(all.least, judged.least);
    all.highest = std::max(all.highest, judged.highest);
    if (!judged.above.empty())
      all.above +=
          fmt::format("{}{}: {}", all.above.empty() ? "" : "; ", kModes[mode].name, judged.above);
  }
  judge_goal(
      section,
      "block mode logs at most 1.3 times what changed, and 5 %; what changed are the blocks of "
      "64 bytes that it found to differ and the pages that it took whole",
      found_of(all, kLogMost), kLogMost,
      fmt::format("Marks and commit records are the other {:.0f} %.", 100 * (all.highest - 1)));
  section.log_y = true;
  return section;
}

}  // namespace

std::vector<Section> measure_carried(const Settings& settings) {
  const std::string disk = std::filesystem::absolute(settings.disk_dir);
  const ScratchDirectory directory(disk, "programs");
  CarriedPrograms programs = carried_programs(directory.path(), settings.runtime.work);
  std::vector<Rounds> measured;
  for (CarriedProgram& program : programs.all) measured.push_back({std::move(program), {}});
  const auto begin = std::chrono::steady_clock::now();
  unsigned rounds = 0;
  for (double spent_s = 0; rounds < settings.rules.repetitions;) {
    for (std::size_t i = 0; i < measured.size(); ++i) {
      Rounds& of = measured[i];
      reproduce::tell_progress(of.program.name, rounds * measured.size() + i,
                               settings.rules.repetitions * measured.size());
      try {
        std::vector<Ran> runs;
        for (const Mode& mode : kModes)
          runs.push_back(run_carried(of.program, mode, directory.path()));
        of.runs.push_back(std::move(runs));
      } catch (const Exception& failure) {
        // The other programs are none the worse.
        programs.missing +=
            fmt::format("{}Not measured: {}", programs.missing.empty() ? "" : " ", failure.what());
        measured.erase(measured.begin() + static_cast<std::ptrdiff_t>(i--));
      }
    }
    ++rounds;
    spent_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    // A machine that has more to do gets fewer rounds, not a longer evaluation.
    if (spent_s * (rounds + 1) / rounds > settings.runtime.most_s) break;
  }
  if (rounds < settings.rules.repetitions)
    programs.missing +=
        fmt::format("{}Rounds: {} of {}, for lack of time.", programs.missing.empty() ? "" : " ",
                    rounds, settings.rules.repetitions);
  if (measured.empty()) {  // `perdure run` is refused here, say: the report says why.
    const Views none({}, std::move(programs.missing));
    return {none.begin("slowdown", "Unmodified programs under epochs", ""),
            none.begin("pauses", "Pauses of these programs", ""),
            none.begin("log", "What is logged", "")};
  }
  const double start = start_ms(directory.path(), rounds);
  const Views views(std::move(measured), std::move(programs.missing));
  return {slowdown_section(views, settings, rounds, start), pause_section(views),
          log_section(views)};
}

}  // namespace perdure::bench::thynvm
