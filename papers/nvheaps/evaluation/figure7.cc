// SPDX-License-Identifier: BSD-3-Clause
// Figure 7: other persistent storage systems.
#include "measure/judge.h"
#include "papers/nvheaps/evaluation/others.h"
#include "papers/nvheaps/evaluation/paper_nvheaps.h"
#include "papers/nvheaps/evaluation/sections.h"

namespace perdure::bench::nvheaps {
namespace {

using reproduce::range_text;
using reproduce::seen;
using reproduce::within;

constexpr std::array<Work, 4> kWorks = {Work::kSwaps, Work::kSixDegrees, Work::kBTree,
                                        Work::kHashTable};
constexpr unsigned kThreads = 2;

struct Beside {
  std::string name;
  const OtherKind* kind;
  bool on_disk;
  bool waits;
};

std::vector<Beside> besides() {
  std::vector<Beside> all;
  for (const OtherKind* kind : {&others().berkeley, &others().sqlite}) {
    if (kind->make == nullptr) continue;
    const std::string name(kind->name);
    all.push_back({name + ", RAM disk", kind, false, true});
    all.push_back({name + ", disk", kind, true, true});
    if (kind == &others().berkeley) {
      all.push_back({name + ", RAM disk, not waiting", kind, false, false});
      all.push_back({name + ", disk, not waiting", kind, true, false});
    }
  }
  return all;
}

/// What `above` does of `below`, where both were measured.
std::vector<double> ratios(const Section& section, const std::string& above,
                           const std::string& below) {
  std::vector<double> found;
  const reproduce::Series* const top = section.find(above);
  const reproduce::Series* const bottom = section.find(below);
  if (top == nullptr || bottom == nullptr) return found;
  for (std::size_t i = 0; i < section.x.size(); ++i) {
    if (top->values[i] && bottom->values[i]) found.push_back(top->at(i) / bottom->at(i));
  }
  return found;
}

void judge_range(Section& section, std::string_view claim, const std::vector<double>& found,
                 double low, double high, std::string why) {
  judge(section, claim,
        fmt::format("{}, on average {:.1f}", range_text(seen(found), "x"), mean(found)),
        within(seen(found), low, high), std::move(why));
}

void judge_all(Section& section) {
  const std::string berkeley = "Berkeley DB, RAM disk";
  if (section.find(berkeley) != nullptr) {
    const std::vector<double> over = ratios(section, "NV-heap DRAM", berkeley);
    judge_range(section, paper::kBerkeley, over, paper::kBerkeleyLeast, paper::kBerkeleyMost,
                "Berkeley DB on tmpfs has no device to wait for.");
    const std::vector<double> disk = ratios(section, berkeley, "Berkeley DB, disk");
    judge_range(section, paper::kRamDisk, disk, paper::kRamDiskOverSsd, paper::kRamDiskOverDisk,
                "What a synced write of this disk takes, beside what the library takes itself.");
    std::vector<double> updates;
    for (const std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{3}})
      updates.push_back(section.find("Berkeley DB, disk, not waiting")->at(i) /
                        section.find("Berkeley DB, disk")->at(i));
    judge_range(section, paper::kNoSync, updates, paper::kNoSyncLeast, paper::kNoSyncMost,
                "On this disk; without SixDegs, half of which are searches.");
    const double btree = section.find("NV-heap PCM")->at(2) / section.find(berkeley)->at(2);
    judge(section, paper::kPcmBTree,
          fmt::format("{:.1f} times (Berkeley DB on a RAM disk as quick as DRAM)", btree),
          within({btree, btree}, paper::kPcmBTreeFactor, paper::kPcmBTreeFactor),
          "Ours writes lines at 215 ns each, Berkeley DB's log goes to DRAM.");
    judge(
        section, paper::kSixDegrees,
        fmt::format("NV-heap DRAM does {:.1f} times its operations", over[1]), over[1] < 2,
        "A search reads objects here, in Berkeley DB it calls the library for each edge; searches "
        "take most of the time.");
  }
  const std::vector<double> over = ratios(section, "NV-heap DRAM", "SQLite, RAM disk");
  if (!over.empty())
    judge_range(section, paper::kStasis, over, paper::kStasisLeast, paper::kStasisMost,
                "SQLite stands here for Stasis.");
}

}  // namespace

Section measure_other_systems(const Settings& settings) {
  Section section;
  section.id = "figure7";
  section.title = "Figure 7: other persistent storage systems";
  const Sizes& sizes = settings.nvheaps.beside_others;
  section.method = fmt::format(
      "{} threads, wall time without what other jobs of the machine took; {} entries (SPS), {} "
      "vertices and {} possible edges, {} integers. "
      "Berkeley DB 5.3: its B-tree and hash table as they are, SPS on the B-tree, SixDegs by hand "
      "on it (a key of two vertices for each edge; searches outside transactions). SQLite (WAL, "
      "synchronous FULL) in the place of Stasis, which is not packaged; it has no hash table. Both "
      "wait for the device at each commit but where it says so. RAM disk: {}; disk: {} ({}).",
      kThreads, sizes.array_words, sizes.vertices, sizes.edges, sizes.keys, settings.dir,
      settings.disk_dir, file_system_of(settings.disk_dir));
  section.missing =
      "The paper's values are in a picture only; the sentences of its text stand below.";
  if (others().berkeley.make == nullptr)
    section.missing += " Berkeley DB was not built in (libdb5.3-dev).";
  if (others().sqlite.make == nullptr)
    section.missing += " SQLite was not built in (libsqlite3-dev).";
  section.x_name = "1 SPS, 2 SixDegs, 3 BTree, 4 HashTable";
  section.log_y = true;
  const std::vector<Beside> beside = besides();
  std::vector<std::string> names;
  for (const Memory& memory : kMemories) names.push_back("NV-heap " + std::string(memory.name));
  for (const Beside& one : beside) names.push_back(one.name);
  std::vector<std::vector<std::optional<Spread>>> rates(names.size());
  for (const Work work : kWorks) {
    reproduce::tell_progress("figure 7: " + std::string(work_name(work)), section.x.size(),
                             kWorks.size());
    section.x.push_back(static_cast<double>(section.x.size() + 1));
    std::vector<std::unique_ptr<Job>> ours;
    std::vector<std::unique_ptr<OtherJob>> theirs;
    std::vector<Run> runs;
    std::vector<std::size_t> whose;
    for (const Memory& memory : kMemories) {
      ours.push_back(make_job(work, heap_setting(settings, Layer::kCTx, memory), sizes, kThreads,
                              settings.seed));
      whose.push_back(runs.size());
      runs.push_back([job = ours.back().get()](std::uint64_t operations, unsigned thread) {
        job->run(operations, thread);
      });
    }
    for (std::size_t i = 0; i < beside.size(); ++i) {
      OtherOptions options;
      options.work = work;
      options.dir = beside[i].on_disk ? settings.disk_dir : settings.dir;
      options.waits = beside[i].waits;
      options.sizes = sizes;
      options.threads = kThreads;
      options.seed = settings.seed;
      auto job = OtherJob::make(*beside[i].kind, options);
      if (job == nullptr) continue;
      whose.push_back(kMemories.size() + i);
      runs.push_back([job = job.get()](std::uint64_t operations, unsigned thread) {
        job->run(operations, thread);
      });
      theirs.push_back(std::move(job));
    }
    const std::vector<Spread> found = race_rates_by_wall(runs, kThreads, settings.rules);
    for (auto& of : rates) of.emplace_back();
    for (std::size_t i = 0; i < found.size(); ++i) rates[whose[i]].back() = found[i];
    for (const auto& job : ours) job->check();
    for (const auto& job : theirs) job->check();
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    section.add(names[i], "operations/s", i < kMemories.size() ? Origin::kPerdure : Origin::kPeer)
        .values = std::move(rates[i]);
  for (const Beside& one : beside)
    section.add_ratio("NV-heap DRAM / " + one.name, "NV-heap DRAM", one.name);
  judge_all(section);
  return section;
}

}  // namespace perdure::bench::nvheaps
