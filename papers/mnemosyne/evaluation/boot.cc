// SPDX-License-Identifier: BSD-3-Clause
// §6.3.2: what it costs to have the persistent regions again, when the machine boots and when a
// program starts.
#include <sys/mman.h>

#include <array>
#include <chrono>

#include <fmt/format.h>

#include "bench/frame_rows.h"
#include "bench/system.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "perdure/address_space.h"
#include "perdure/api/pool_core.h"

namespace perdure::bench::reproduce {

Section measure_boot(const Settings& settings) {
  Section section;
  section.id = "boot";
  section.title = "§6.3.2: reconstructing regions when the machine boots";
  section.method =
      "A frame pool whose 4 KiB frames all hold pages of one file is opened again: every entry of "
      "the mapping table is read, checked and indexed. Then pages are touched: the frame is there, "
      "and the access waits for its mapping. Wall time, in user space; the paper's kernel also "
      "initialises page descriptors and inodes of its own.";
  section.x_name = "memory (MiB)";
  for (const std::uint64_t mib : settings.frame_mib) section.x.push_back(static_cast<double>(mib));
  std::vector<std::optional<Spread>> whole;
  std::vector<std::optional<Spread>> per_gib;
  std::vector<std::optional<Spread>> touch;
  try {
    for (const std::uint64_t mib : settings.frame_mib) {
      tell_progress(fmt::format("boot: {} MiB", mib), whole.size(), settings.frame_mib.size());
      const FrameReconstruction found =
          measure_frame_reconstruction(settings.dir, mib << 20, settings.rules.repetitions);
      const Spread ns = spread_of(found.reconstruction_ns);
      const auto scaled = [](const Spread& spread, double factor) {
        return Spread{spread.median * factor, spread.min * factor, spread.max * factor};
      };
      whole.emplace_back(scaled(ns, 1e-6));
      per_gib.emplace_back(scaled(ns, 1e-6 * 1024 / static_cast<double>(mib)));
      touch.emplace_back(scaled(spread_of(found.soft_fault_ns), 1e-3));
    }
  } catch (const Exception& failure) {
    // Where userfaultfd is forbidden there is nothing to measure; the rest of the evaluation is
    // none the worse for it.
    section.missing = std::string("Not measured: ") + failure.what();
    return section;
  }
  section.add("reconstruct", "ms", Origin::kPerdure).values = std::move(whole);
  section.add("reconstruct, each GiB", "ms/GiB", Origin::kDerived).values = std::move(per_gib);
  section.add("first touch of a page", "us", Origin::kPerdure).values = std::move(touch);
  section.add_values("paper: each GB", "ms/GiB", Origin::kPaper,
                     std::vector<std::optional<double>>(section.x.size(), paper::kBootMsPerGib));
  paper::judge_boot(section);
  return section;
}

namespace {

constexpr std::uint64_t kRegionBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMostRegions = 4096;
using Variables = std::array<std::uint64_t, kMostRegions>;  // addresses of regions

AddressSpace::Options space_options(const Settings& settings) {
  AddressSpace::Options options;
  options.pool = new_pool_options(settings.memory);
  return options;
}

/// Opens the address space again, `repetitions` times; what is neither replay nor heap, in ms.
Spread remap_ms(const Settings& settings, std::uint64_t regions) {
  const ScratchDirectory directory(settings.dir, "space");
  const auto open = [&] {
    return AddressSpace::open_or_create(directory.path(), space_options(settings)).value();
  };
  {
    const auto space = open();
    auto* variables = space->pool().root<Variables>("regions");
    for (std::uint64_t i = 0; i < regions; ++i) {
      // A region's address is stored into persistent memory by the transaction that makes it; the
      // root keeps it as a number, because roots hold no pointers.
      auto** variable = reinterpret_cast<void**>(&variables->at(i));
      (void)space->map(variable, kRegionBytes, PROT_READ | PROT_WRITE).value();
    }
  }
  std::vector<double> runs;
  for (unsigned run = 0; run < settings.rules.repetitions; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const auto space = open();
    const std::chrono::duration<double, std::nano> whole = std::chrono::steady_clock::now() - start;
    const auto* variables = space->pool().find_root<Variables>("regions");
    if (space->regions().size() != regions || variables == nullptr || variables->at(0) == 0)
      throw Exception(Code::kCorrupt, directory.path() + ": not every region came back");
    runs.push_back((whole.count() - static_cast<double>(space->pool().recovery().nanoseconds) -
                    static_cast<double>(core_of(space->pool()).heap_rebuild_nanoseconds())) /
                   1e6);
  }
  return spread_of(std::move(runs));
}

}  // namespace

Section measure_remap(const Settings& settings) {
  Section section;
  section.id = "remap";
  section.title = "§6.3.2: mapping the regions again when a program starts";
  section.method =
      "An address space (a directory with a heap and n regions of 1 MiB, each a file at an address "
      "of its own) that was closed in order is opened again: everything but the replay of logs and "
      "the heap's indexes, which have rows of their own. Wall time.";
  section.x_name = "regions";
  for (const std::uint64_t n : settings.regions) section.x.push_back(static_cast<double>(n));
  std::vector<std::optional<Spread>> remap;
  for (const std::uint64_t n : settings.regions) {
    tell_progress(fmt::format("remap: {} regions", n), remap.size(), settings.regions.size());
    remap.emplace_back(remap_ms(settings, n));
  }
  section.add("remap", "ms", Origin::kPerdure).values = std::move(remap);
  section.add_values("paper: remap", "ms", Origin::kPaper,
                     std::vector<std::optional<double>>(section.x.size(), paper::kRemapMs));
  paper::judge_remap(section);
  return section;
}

}  // namespace perdure::bench::reproduce
