// SPDX-License-Identifier: BSD-3-Clause
// Figure 7: other persistent storage systems.
#include <fmt/format.h>

#include "papers/nvheaps/evaluation/claims.h"
#include "papers/nvheaps/evaluation/others.h"
#include "papers/nvheaps/evaluation/paper_nvheaps.h"
#include "papers/nvheaps/evaluation/races.h"
#include "papers/nvheaps/evaluation/sections.h"

namespace perdure::bench::nvheaps {
namespace {

constexpr std::array<Work, 4> kWorks = {Work::kSwaps, Work::kSixDegrees, Work::kBTree,
                                        Work::kHashTable};

struct Beside {
  std::string name;
  const OtherKind* kind;
  bool on_disk;
  bool waits;
  std::optional<reproduce::EmulatedMemory> disk = std::nullopt;
};

std::vector<Beside> besides() {
  std::vector<Beside> all;
  for (const OtherKind* kind : {&others().berkeley, &others().sqlite}) {
    if (kind->make == nullptr) continue;
    const std::string name(kind->name);
    all.push_back({name + ", RAM disk", kind, false, true});
    all.push_back({name + ", disk", kind, true, true});
    if (kind == &others().berkeley) {
      // A block as long as the lines that it has.
      const reproduce::EmulatedMemory pcm{kPcm.write_ns, kLineBytes / kPcm.write_ns};
      all.push_back({name + ", PCM disk", kind, false, true, pcm});
      all.push_back({name + ", RAM disk, not waiting", kind, false, false});
      all.push_back({name + ", disk, not waiting", kind, true, false});
    }
  }
  return all;
}

}  // namespace

Section measure_other_systems(const Settings& settings) {
  Section section;
  section.id = "figure7";
  section.title = "Figure 7: other persistent storage systems";
  const Sizes& sizes = settings.nvheaps.beside_others;
  const unsigned most_threads = thread_counts().back();
  section.method = fmt::format(
      "{} threads, wall time without what other jobs of the machine took; {} entries (SPS), {} "
      "vertices and {} possible edges, {} integers. "
      "Berkeley DB 5.3: its B-tree and hash table as they are, SPS on the B-tree, SixDegs by hand "
      "on it (a key of two vertices for each edge; searches outside transactions). SQLite (WAL, "
      "synchronous FULL) in the place of Stasis, which is not packaged; it has no hash table. Both "
      "wait for the device at each commit but where it says so. RAM disk: {}; PCM disk: the same, "
      "where a block takes as long to be written as its lines on PCM; disk: {} ({}).",
      most_threads, sizes.array_words, sizes.vertices, sizes.edges, sizes.keys, settings.dir,
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
  struct Ours {
    papers::EngineKind engine;
    Memory memory;
  };
  std::vector<Ours> heaps;
  for (const papers::EngineKind engine :
       {papers::EngineKind::kMnemosyne, papers::EngineKind::kUndoObjects}) {
    for (const Memory& memory : kMemories) {
      const std::string name = "NV-heap " + std::string(memory.name);
      names.push_back(engine == papers::EngineKind::kUndoObjects ? undo_of(name) : name);
      heaps.push_back({engine, memory});
    }
  }
  for (const Beside& one : beside) names.push_back(one.name);
  std::vector<std::vector<std::optional<Spread>>> rates(names.size());
  for (const Work work : kWorks) {
    reproduce::tell_progress("figure 7: " + std::string(work_name(work)), section.x.size(),
                             kWorks.size());
    section.x.push_back(static_cast<double>(section.x.size() + 1));
    section.places.emplace_back(work_name(work));
    std::vector<std::unique_ptr<Job>> ours;
    std::vector<std::unique_ptr<OtherJob>> theirs;
    std::vector<Run> runs;
    std::vector<std::size_t> whose;
    for (const Ours& heap : heaps) {
      ours.push_back(make_job(work, heap_setting(settings, Layer::kCTx, heap.memory, heap.engine),
                              sizes, most_threads, settings.seed));
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
      options.threads = most_threads;
      options.disk = beside[i].disk;
      options.seed = settings.seed;
      auto job = OtherJob::make(*beside[i].kind, options);
      if (job == nullptr) continue;
      whose.push_back(heaps.size() + i);
      runs.push_back([job = job.get()](std::uint64_t operations, unsigned thread) {
        job->run(operations, thread);
      });
      theirs.push_back(std::move(job));
    }
    const std::vector<Spread> found = race_rates_by_wall(runs, most_threads, settings.rules);
    for (auto& of : rates) of.emplace_back();
    for (std::size_t i = 0; i < found.size(); ++i) rates[whose[i]].back() = found[i];
    for (const auto& job : ours) job->check();
    for (const auto& job : theirs) job->check();
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    section.add(names[i], "operations/s", i < heaps.size() ? Origin::kPerdure : Origin::kPeer)
        .values = std::move(rates[i]);
  for (const Beside& one : beside)
    section.add_ratio("NV-heap DRAM / " + one.name, "NV-heap DRAM", one.name);
  judge_other_systems(section);
  return section;
}

}  // namespace perdure::bench::nvheaps
