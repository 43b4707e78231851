// SPDX-License-Identifier: BSD-3-Clause
#include "sim/checkpoint/prover.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "perdure/base/crc32c.h"
#include "sim/checkpoint/world.h"

namespace perdure::prover {
namespace {

struct MutantText {
  const char* name;
  const char* story;
};

// In the order of Mutant.
constexpr MutantText kMutantTexts[] = {
    {"none", "the protocol as it is"},
    {"exchange-while-checkpointing",
     "a clean entry is replaced while a checkpoint runs: home, which the penultimate epoch may "
     "need, is overwritten"},
    {"reuse-given-up-slots",
     "a slot that the newest backup names is given out at once, and overwritten"},
    {"store-in-place-while-checkpointing",
     "blocks are stored to in NVM while the penultimate epoch needs their places"},
    {"store-to-frozen-pages", "a page changes while it is written back"},
    {"write-pages-back-in-place", "a page is written over its own last checkpoint"},
    {"forget-blocks-of-new-pages",
     "a page in DRAM loses the entries of its blocks before its first checkpoint"},
    {"forget-leaving-pages", "a page leaves DRAM before it has been copied home"},
    {"keep-loans", "blocks lent to buffers are not in their page when it is written back"},
    {"store-in-last-slot", "a block is stored over its own last checkpoint"},
    {"look-in-pages-at-once",
     "a block is looked for in its page in DRAM before it has arrived there"},
    {"keep-fills-across-epochs",
     "what was on its way into a page is written when the page has left and come again"},
    {"save-incomplete-pages", "a page is written back without the blocks that it still lacks"},
    {"skip-block-copies", "blocks in DRAM buffers are not copied to NVM"},
    {"skip-block-table", "the block table is not saved"},
    {"skip-page-copies", "pages are not copied to NVM"},
    {"skip-page-table", "the page table is not saved"},
    {"skip-drain", "the backup is complete before the write queue is empty"},
    {"complete-before-drain", "the backup is complete first, the write queue is drained after"},
    {"commit-before-complete",
     "the next epoch uses the penultimate's places before the backup is complete"},
    {"save-over-newest-backup", "tables are written over the only backup that is complete"},
    {"unfreeze-before-copy", "a page may be stored to just before it is copied"},
    {"skip-merges", "blocks lent to buffers are dropped instead of merged"},
    {"skip-fills", "a page begins in DRAM without its blocks"},
    {"skip-replacement-copies", "an entry is replaced without bringing its block home"},
    {"recover-oldest", "recovery takes the older of two complete backups"},
    {"skip-fill-on-recovery", "recovery leaves pages in NVM that the tables say are in DRAM"},
    {"fill-over-stores", "a block that arrives in its page overwrites what was stored meanwhile"},
};
static_assert(std::size(kMutantTexts) == kMutants);

checkpoint::Geometry small(std::uint32_t blocks_per_page, std::uint32_t block_entries,
                           std::uint32_t pages) {
  checkpoint::Geometry geometry;
  geometry.blocks_per_page = blocks_per_page;
  geometry.block_entries = block_entries;
  geometry.block_slots = 2 * block_entries;
  geometry.buffers = block_entries;
  geometry.page_entries = pages;
  geometry.to_pages = 1;
  geometry.to_blocks = 1;
  return geometry;
}

using Fingerprint = std::pair<std::uint64_t, std::uint64_t>;
struct HashOfFingerprint {
  std::size_t operator()(const Fingerprint& print) const { return print.first; }
};

// 128 bits by two unlike hashes: among some millions of states no two are taken for one.
Fingerprint digest(const std::vector<std::uint32_t>& state) {
  std::uint64_t a = 0x9E3779B97F4A7C15, b = 0xC2B2AE3D27D4EB4F;
  for (const std::uint32_t word : state) {
    a = (a ^ word) * 0xFF51AFD7ED558CCD;
    a ^= a >> 32;
    b = (b + word) * 0xC4CEB9FE1A85EC53;
    b ^= b >> 29;
  }
  return {a, b};
}

struct Node {
  std::uint32_t before;
  std::uint8_t possibility;
};

// The shortest way to a node, told by walking it again from the start.
std::vector<std::string> story_of(const Setting& setting, Mutant mutant,
                                  const std::vector<Node>& nodes, std::uint32_t node) {
  std::vector<std::uint8_t> steps;
  for (; node != 0; node = nodes[node].before) steps.push_back(nodes[node].possibility);
  World world(setting, mutant);
  std::vector<std::string> story;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    story.push_back(world.happen(*step));
  return story;
}

}  // namespace

const char* mutant_name(Mutant mutant) { return kMutantTexts[int(mutant)].name; }
const char* mutant_story(Mutant mutant) { return kMutantTexts[int(mutant)].story; }

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> list;
    list.push_back({"one page of two blocks", small(2, 2, 1), 2});
    list.push_back({"two pages of one block, one in DRAM", small(1, 2, 1), 2});
    checkpoint::Geometry blocks = small(1, 2, 1);
    blocks.scheme = checkpoint::Scheme::kBlocksOnly;
    list.push_back({"blocks only, three for two entries", blocks, 3});
    checkpoint::Geometry spill = small(1, 1, 1);
    spill.scheme = checkpoint::Scheme::kBlocksOnly;
    spill.spill_entries = 1;
    spill.block_slots = 4;
    spill.buffers = 2;
    list.push_back({"blocks only, one entry and one for flushes", spill, 2});
    checkpoint::Geometry pages = small(2, 1, 1);
    pages.scheme = checkpoint::Scheme::kPagesOnly;
    list.push_back({"pages only, two for one entry", pages, 4});
    // The last one has entries of pages' blocks replaced.
    for (Setting setting :
         {list[0], list[1], {"two pages of one block, one entry", small(1, 1, 1), 2}}) {
      setting.name += ", coming while the epoch runs";
      setting.geometry.fill_while_running = setting.geometry.stay_until_wanted = true;
      list.push_back(std::move(setting));
    }
    return list;
  }();
  return all;
}

Proof prove(const Setting& setting, Mutant mutant, std::uint64_t most_states) {
  Proof proof;
  proof.setting = setting.name;
  std::unordered_set<Fingerprint, HashOfFingerprint> seen;
  std::vector<Node> nodes;
  std::vector<std::pair<std::uint32_t, World>> level, next_level;
  level.emplace_back(0, World(setting, mutant));
  nodes.push_back({0, 0});
  seen.insert(digest(level.front().second.fingerprint()));

  const auto found = [&](std::string violation, std::uint32_t node, const char* last) {
    proof.violation = std::move(violation);
    proof.story = story_of(setting, mutant, nodes, node);
    if (last != nullptr) proof.story.emplace_back(last);
    proof.states = seen.size();
  };
  for (; !level.empty(); ++proof.depth) {
    next_level.clear();
    for (const auto& [number, world] : level) {
      World cut = world;
      ++proof.cuts;
      std::string wrong = cut.cut_and_recover();
      if (wrong.empty()) wrong = cut.cut_and_recover();
      if (!wrong.empty()) {
        found(wrong, number, "power cut, recovery");
        return proof;
      }
      for (int possibility = 0; possibility < world.possibilities(); ++possibility) {
        World after = world;
        if (after.happen(possibility).empty()) continue;
        ++proof.transitions;
        if (!seen.insert(digest(after.fingerprint())).second) continue;
        nodes.push_back({number, std::uint8_t(possibility)});
        const auto node = std::uint32_t(nodes.size() - 1);
        if (wrong = after.violation(); !wrong.empty()) {
          found(wrong, node, nullptr);
          return proof;
        }
        if (seen.size() >= most_states) {
          proof.states = seen.size();
          return proof;
        }
        next_level.emplace_back(node, std::move(after));
      }
    }
    level.swap(next_level);
  }
  proof.states = seen.size();
  proof.complete = true;
  return proof;
}

}  // namespace perdure::prover
