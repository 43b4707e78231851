// SPDX-License-Identifier: BSD-3-Clause
// Figures 5 and 6, the two engines beside each other, and what slower reads could cost at most.
#include <fmt/format.h>

#include "papers/nvheaps/evaluation/b_tree.h"
#include "papers/nvheaps/evaluation/claims.h"
#include "papers/nvheaps/evaluation/paper_nvheaps.h"
#include "papers/nvheaps/evaluation/races.h"

namespace perdure::bench::nvheaps {
namespace {

constexpr const char* kPictureOnly =
    "The paper's values are in a picture only; the sentences of its text stand below.";

Section section_of(std::string id, std::string title, std::string method) {
  Section section;
  section.id = std::move(id);
  section.title = std::move(title);
  section.method = std::move(method);
  section.missing = kPictureOnly;
  section.x_name = "1 SPS, 2 SixDegs, 3 BTree, 4 HashTable, 5 RBTree, 6 SSCA";
  for (const Work work : kAllWork) {
    section.x.push_back(static_cast<double>(section.x.size() + 1));
    section.places.emplace_back(work_name(work));
  }
  section.log_y = true;
  return section;
}

std::string sizes_text(const Sizes& sizes) {
  return fmt::format(
      "SPS swaps two of {} words; SixDegs has {} vertices and {} edges, of which half are there; "
      "BTree (nodes of {} keys, weak references to parents), HashTable and RBTree hold {} "
      "integers of twice as many; SSCA 2^{} vertices with {} edges each, an operation is one "
      "vertex of kernel 4.",
      sizes.array_words, sizes.vertices, sizes.edges, kMostKeys, sizes.keys, sizes.scale,
      sizes.edges_per_vertex);
}

Section figure5(const Settings& settings, const Races& races) {
  Section section = section_of(
      "figure5", "Figure 5: NV-heap performance",
      sizes_text(settings.nvheaps.sizes) +
          " C-TX, by CPU time; also with one thread isolation is paid for, as in the paper "
          "(another thread is in a transaction all the time). NoDur is the engine `volatile`. STTM "
          "and PCM: lines on their way to memory take 95 and 215 ns, one after the other; reads "
          "are those of DRAM (see \"reads\").");
  const std::string base = "NoDur, 1 thread";
  std::vector<std::string> names;
  for (const unsigned threads : thread_counts()) {
    std::vector<std::string> ways = {"NoDur", "DRAM", "STTM", "PCM"};
    for (const Memory& memory : kMemories) ways.push_back(undo_of(memory.name));
    for (const std::string& way : ways) {
      names.push_back(in_threads(way, threads));
      section.add(names.back(), "operations/s", Origin::kPerdure).values =
          races.rates(way, threads);
    }
  }
  for (const std::string& name : names) {
    if (name != base) section.add_ratio(name + " / " + base, name, base);
  }

  judge_performance(section);
  return section;
}

Section figure6(const Settings& settings, const Races& races) {
  Section section = section_of(
      "figure6", "Figure 6: the price of safety",
      sizes_text(settings.nvheaps.sizes) +
          " Every structure is written once, as a template over the layer. BASE: relative pointers "
          "and plain fields, memory freed by hand. SAFE: object heaps without transactions "
          "(object_heap::unprotected). TX: transactions of one thread that is alone, C-TX with "
          "isolation, NoDur without durability. One thread, DRAM, CPU time. BASE and SAFE save "
          "nothing, but where they are \"check-pointed\" (§5.2; the paper tells neither when nor "
          "how): there what changed in the memory goes into a file in " +
          settings.dir +
          fmt::format(" by the library's protocol, every {} ms of CPU time (our choice) or after "
                      "each operation, so that as much is durable as in TX. After the races each "
                      "checkpoint is read back and checked.",
                      kCheckpointPeriod.count()));
  for (const char* way : {"BASE", "SAFE", "TX", "DRAM", "NoDur"})
    section.add(std::string(way) == "DRAM" ? "C-TX" : way, "operations/s", Origin::kPerdure)
        .values = races.rates(way);
  std::vector<std::string> saved;
  for (const char* way : {"BASE", "SAFE"}) {
    saved.push_back(check_pointed(way));
    saved.push_back(check_pointed_each_time(way));
  }
  for (const std::string& way : saved)
    section.add(way, "operations/s", Origin::kPerdure).values = races.rates(way);
  section.add(undo_of("TX"), "operations/s", Origin::kPerdure).values = races.rates(undo_of("TX"));
  section.add(undo_of("C-TX"), "operations/s", Origin::kPerdure).values =
      races.rates(undo_of("DRAM"));
  std::vector<std::string> layers = {"SAFE", "TX", "C-TX"};
  for (const unsigned threads : thread_counts()) {
    if (threads == 1) continue;
    layers.push_back(in_threads("C-TX", threads));
    section.add(layers.back(), "operations/s", Origin::kPerdure).values =
        races.rates("DRAM", threads);
  }
  for (const std::string& layer : layers) section.add_ratio("BASE / " + layer, "BASE", layer);
  for (const std::string& way : saved) {
    std::vector<std::optional<double>> pages, bytes;
    for (const Work work : kAllWork) {
      const auto& checkpoint = races.of(work, way).checkpoint.value();
      pages.emplace_back(checkpoint.pages);
      bytes.emplace_back(checkpoint.bytes);
    }
    section.add_values(way + ": pages", "per checkpoint", Origin::kPerdure, pages).charted = false;
    section.add_values(way + ": bytes", "per checkpoint", Origin::kPerdure, bytes).charted = false;
  }

  judge_price_of_safety(section);
  return section;
}

Section engines(const Races& races) {
  Section section = section_of(
      "engines", "Beyond the paper: its log of whole objects beside our default",
      "The engines undo-objects (objects copied to the log at the first write, changed in place, "
      "as "
      "in §3.5) and mnemosyne (words in a redo log, written back one commit later) on the same "
      "heaps and workloads: C-TX and TX, one thread, CPU time. Flushes, fences and bytes are what "
      "an "
      "operation asks of memory, reads included among the operations.");
  section.missing.clear();
  for (const char* way : {"TX", "DRAM", "STTM", "PCM"}) {
    section.add(way, "operations/s", Origin::kPerdure).values = races.rates(way);
    section.add(undo_of(way), "operations/s", Origin::kPerdure).values = races.rates(undo_of(way));
  }
  for (const char* way : {"TX", "DRAM", "STTM", "PCM"})
    section.add_ratio(fmt::format("default / undo-objects, {}", way), way, undo_of(way));
  const auto cost = [&](const std::string& way, const std::string& name, double Cost::* which) {
    std::vector<std::optional<double>> values;
    for (const Work work : kAllWork) values.emplace_back(races.of(work, way).cost.*which);
    section.add_values(name, "per operation", Origin::kPerdure, values).charted = false;
  };
  for (const auto& [name, which] :
       {std::pair("flushes", &Cost::flushes), std::pair("fences", &Cost::fences),
        std::pair("bytes", &Cost::bytes)}) {
    cost("DRAM", fmt::format("{}, default", name), which);
    cost(undo_of("DRAM"), fmt::format("{}, undo-objects", name), which);
  }
  judge_logs(section);
  return section;
}

Section reads(const Races& races) {
  Section section = section_of(
      "reads", "Slower reads: a bound",
      "The paper's STTM and PCM read a line in 29 and 67 ns, DRAM in 25. That is not emulated: no "
      "instruction tells a program that it missed a cache. Instead the lines are counted that an "
      "operation reads of its structure, each once, in the layer BASE (headers of objects add at "
      "most one for each object). If every one of them missed the last-level cache the "
      "operation would take 4 and 42 ns longer for each; none can cost more, and most are hits.");
  section.missing.clear();
  std::vector<std::optional<double>> lines;
  std::vector<std::optional<double>> sttm;
  std::vector<std::optional<double>> pcm;
  std::vector<std::optional<double>> share;
  for (const Work work : kAllWork) {
    const double count = races.lines[static_cast<std::size_t>(work)];
    lines.emplace_back(count);
    sttm.emplace_back(count * (kSttm.read_ns - kDram.read_ns) / 1e3);
    pcm.emplace_back(count * (kPcm.read_ns - kDram.read_ns) / 1e3);
    share.emplace_back(100 * *pcm.back() * races.rate(work, "PCM") / 1e6);
  }
  section.add_values("lines read", "per operation", Origin::kPerdure, lines);
  section.add_values("STTM, at most", "us more", Origin::kDerived, sttm);
  section.add_values("PCM, at most", "us more", Origin::kDerived, pcm);
  section.add_values("the same of an operation on PCM", "%", Origin::kDerived, share);
  return section;
}

}  // namespace

std::vector<Section> measure_benchmarks(const Settings& settings) {
  const Races races = race_all(settings);
  return {figure5(settings, races), figure6(settings, races), engines(races), reads(races)};
}

}  // namespace perdure::bench::nvheaps
