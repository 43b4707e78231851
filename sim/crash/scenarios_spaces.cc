// SPDX-License-Identifier: BSD-3-Clause
#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "sim/crash/scenarios.h"

namespace perdure::crash {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

/// What a program with two region pointers knows, in the heap.
struct Known {
  std::array<std::uint64_t, 2> addresses;
  void** variable(int region) { return reinterpret_cast<void**>(&addresses[region]); }
  std::byte* region(int region) const { return reinterpret_cast<std::byte*>(addresses[region]); }
};

/// Null before the first step.
const Known* known(AddressSpace& space) { return space.pool().find_root<Known>("known"); }

std::uint64_t& word_of(void* region, std::uint64_t page) {
  return static_cast<std::uint64_t*>(region)[page * kPageBytes / kWordBytes + 5];
}

/// A cycle of 8 steps; in it a region is made, written, cut at its end, and goes, and another lives on beside it.
SpaceScenario regions() {
  SpaceScenario s;
  s.name = "regions";
  s.claim = "pmap and punmap are all or nothing: table, file and pointer agree after every cut";
  s.steps = 9;
  s.resume_steps = 3;
  s.step = [](AddressSpace& space, std::uint64_t step) {
    Known& at = *space.pool().root<Known>("known");
    const auto write = [&](void* region, std::uint64_t page) {
      space.pool().atomically([&](Tx& tx) { tx.store(word_of(region, page), step); });
    };
    switch (step % 8) {
      case 1: return space.map(at.variable(0), 3 * kPageBytes, kReadWrite).value(), void();
      case 2: return write(at.region(0), 2);
      case 3: return space.map(at.variable(1), kPageBytes, kReadWrite).value(), void();
      case 4: return space.unmap(at.region(0) + kPageBytes, 1).value();
      case 5: return write(at.region(1), 0);
      case 6: return write(at.region(0), 2);
      case 7: return space.unmap(at.region(0), 3 * kPageBytes).value();
      default: return space.unmap(at.region(1), kPageBytes).value();
    }
  };
  s.check = [](AddressSpace& space, std::uint64_t step) -> std::optional<std::string> {
    const Known at = known(space) == nullptr ? Known{} : *known(space);
    const std::uint64_t phase = step % 8;
    std::vector<std::pair<void*, std::uint64_t>> expected;  // begin, bytes
    const auto page = [&](int region, std::uint64_t index) {
      return static_cast<void*>(at.region(region) + index * kPageBytes);
    };
    if (phase >= 1 && phase <= 3) expected.emplace_back(page(0, 0), 3 * kPageBytes);
    if (phase >= 4 && phase <= 6) {
      expected.emplace_back(page(0, 0), kPageBytes);
      expected.emplace_back(page(0, 2), kPageBytes);
    }
    if (phase >= 3 && phase <= 7) expected.emplace_back(page(1, 0), kPageBytes);
    std::sort(expected.begin(), expected.end());
    const std::vector<RegionEntry> found = space.regions();
    bool same = found.size() == expected.size();
    for (std::size_t i = 0; same && i < found.size(); ++i)
      same = space.base() + found[i].begin == expected[i].first &&
             found[i].bytes == expected[i].second;
    if (!same)
      return std::to_string(found.size()) + " regions, not those of step " + std::to_string(step);
    const auto holds = [&](void* region, std::uint64_t index, std::uint64_t value) {
      return load_word(&word_of(region, index)) == value;
    };
    if (phase == 1 && !holds(at.region(0), 2, 0)) return "a new region is not zeroed";
    if (phase >= 2 && phase <= 5 && !holds(at.region(0), 2, step - phase + 2))
      return "what was written to the first region is gone";
    if (phase == 6 && !holds(at.region(0), 2, step)) return "what was written last is not there";
    if ((phase == 3 || phase == 4) && !holds(at.region(1), 0, 0))
      return "the second region is not zeroed";
    if (phase >= 5 && phase <= 7 && !holds(at.region(1), 0, step - phase + 5))
      return "what was written to the second region is gone";
    return std::nullopt;
  };
  return s;
}

SpaceScenario statics() {
  SpaceScenario s;
  s.name = "statics";
  s.claim = "static variables take the executable's values once, and keep their own from then on";
  // The one at 40 has a line of its own and is never stored to.
  s.statics = {7, 11};
  s.statics.resize(41, 13);
  s.region_pages = 2;
  s.steps = 3;
  const auto variables = [](AddressSpace& space) {
    return reinterpret_cast<std::uint64_t*>(space.fixed_address(space.statics_begin()));
  };
  // A word elsewhere, which survives if the variables are taken for new. It is made before them, so that a step is the
  // first thing that happens after they are found; and the step is small, so that all its images are tried.
  s.start = [](AddressSpace& space) { space.pool().root<std::uint64_t>("beside"); };
  s.step = [variables](AddressSpace& space, std::uint64_t) {
    std::uint64_t* const values = variables(space);
    auto& beside = *space.pool().root<std::uint64_t>("beside");
    space.pool().atomically([&](Tx& tx) {
      tx.store(values[0], tx.load(values[0]) + 1);
      tx.store(beside, tx.load(beside) + 1);
    });
  };
  s.check = [variables](AddressSpace& space, std::uint64_t step) -> std::optional<std::string> {
    const std::uint64_t* const values = variables(space);
    const std::uint64_t beside = *space.pool().root<std::uint64_t>("beside");
    if (values[0] == 7 + step && values[1] == 11 && values[40] == 13 && values[100] == 0 &&
        beside == step)
      return std::nullopt;
    return "the variables are " + std::to_string(values[0]) + ", " + std::to_string(values[1]) +
           " and " + std::to_string(values[100]) + ", the word beside them " +
           std::to_string(beside);
  };
  return s;
}

}  // namespace

std::vector<Subject> space_scenarios() { return {subject_of(regions()), subject_of(statics())}; }

}  // namespace perdure::crash
