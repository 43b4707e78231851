// SPDX-License-Identifier: BSD-3-Clause
// The protocol at its real size, driven at random, beside a memory of versions: loads must see the
// last store, and what NVM holds must at any time be the newest committed epoch, whole.
#include <deque>
#include <random>
#include <string>
#include <unordered_map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/checkpoint/protocol.h"

namespace perdure::checkpoint {
namespace {

using Version = std::uint64_t;

class Driver {
 public:
  Driver(const Geometry& geometry, std::uint64_t seed) : protocol_(geometry), random_(seed) {}

  void run(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      // Mostly sparse; now and then a page is stored to from end to end; some epochs stay in few
      // pages.
      const std::uint32_t page = std::uint32_t(random_() % (few_pages_ ? 20 : 300));
      const bool dense = random_() % 64 == 0;
      const std::uint32_t first = page * 64 + (dense ? 0 : std::uint32_t(random_() % 64));
      for (std::uint32_t block = first; block < first + (dense ? 64 : 1); ++block)
        store(block, false);
      if (random_() % 2 == 0) progress();
      if (protocol_.geometry().fill_while_running && random_() % 32 == 0) fill();
      if (random_() % 4000 == 0) end_epoch();
      if (random_() % 16 == 0) load(std::uint32_t(random_() % (300 * 64)));
      if (random_() % 400 == 0) {
        ASSERT_EQ(protocol_.broken_invariant(), "") << "step " << step;
      }
      if (random_() % 3000 == 0) check_recovery();
      if (random_() % 20'000 == 0) crash();
    }
    finish();
    check_recovery();
  }

  std::uint64_t epochs = 0, waits = 0, overflows = 0, replacements = 0, crashes = 0;
  std::uint64_t to_pages = 0, pages_saved = 0, loans = 0;
  std::uint64_t filled = 0, overtaken = 0;  // blocks that were written to their page; or stored to
  const Protocol& protocol() const { return protocol_; }

 private:
  // Of one block, whatever the area counts.
  static std::uint64_t key(Place place, std::uint32_t block) {
    const bool pages = place.area == Area::kPageCache || place.area == Area::kPageSlot;
    const std::uint64_t index = pages ? std::uint64_t{place.index} * 64 + block % 64 : place.index;
    return std::uint64_t(place.area) << 40 | index;
  }
  Version at(Place place, std::uint32_t block) const {
    const auto found = memory_.find(key(place, block));
    return found == memory_.end() ? 0 : found->second;
  }

  void copy(const Copy& copy) {
    if (!copy.page) {
      memory_[key(copy.to, copy.number)] = at(copy.from, copy.number);
      return;
    }
    for (std::uint32_t block = copy.number * 64; block < copy.number * 64 + 64; ++block) {
      Place from = copy.from, to = copy.to;
      for (Place* place : {&from, &to})
        if (place->area == Area::kHome) place->index = block;
      memory_[key(to, block)] = at(from, block);
    }
  }

  void store(std::uint32_t block, bool may_spill) {
    for (;;) {
      const Place before = protocol_.visible(block);
      const StoreTo to = protocol_.store(block, may_spill);
      for (const Copy& move : protocol_.moves()) {
        replacements += move.cause == CopyCause::kReplacement ? 1 : 0;
        copy(move);
      }
      if (to.verdict == Verdict::kStore) {
        ASSERT_EQ(at(before, block), golden_[block]);
        memory_[key(to.place, block)] = golden_[block] = ++version_;
        loans += protocol_.state(block) == BlockState::kLoan ? 1 : 0;
        return;
      }
      if (to.verdict == Verdict::kWait) {
        ++waits;
        ASSERT_TRUE(protocol_.checkpointing());
        progress();
      } else {
        ++overflows;
        ASSERT_FALSE(protocol_.checkpointing());
        end_epoch();
      }
    }
  }

  // Reads what a page lacks, or writes what was read.
  void fill() {
    if (protocol_.fill_under_way().empty()) {
      arriving_.clear();
      for (const Copy& each : protocol_.begin_fill())
        arriving_[each.number] = at(each.from, each.number);
      return;
    }
    for (const Copy& each : protocol_.end_fill()) {
      ++filled;
      memory_[key(each.to, each.number)] = arriving_.at(each.number);
      arriving_.erase(each.number);
    }
    overtaken += arriving_.size();
  }

  void load(std::uint32_t block) {
    const auto found = golden_.find(block);
    ASSERT_EQ(at(protocol_.visible(block), block), found == golden_.end() ? 0 : found->second)
        << block;
  }

  void end_epoch() {
    if (protocol_.checkpointing()) return;
    if (protocol_.geometry().spill_entries + protocol_.geometry().spill_pages != 0)
      for (int i = 0; i < 300; ++i) store(std::uint32_t(random_() % (300 * 64)), true);
    const Plan& plan = protocol_.end_epoch();
    ++epochs;
    to_pages += plan.promoted;
    few_pages_ = random_() % 2 == 0;
    ended_ = golden_;
    for (const Copy& each : plan.merges) copy(each);
    for (const Copy& each : plan.fills) copy(each);
    blocks_left_.assign(plan.blocks.begin(), plan.blocks.end());
    pages_done_ = 0;
  }

  // One step of the running checkpoint.
  void progress() {
    if (!protocol_.checkpointing()) return;
    if (!blocks_left_.empty()) {
      copy(blocks_left_.front());
      blocks_left_.pop_front();
    } else if (pages_done_ < protocol_.plan().pages.size()) {
      copy(protocol_.plan().pages[pages_done_]);
      protocol_.page_saved(pages_done_++);
      ++pages_saved;
    } else {
      protocol_.commit();
      committed_ = protocol_.image();
      safe_ = ended_;
    }
  }
  void finish() {
    while (protocol_.checkpointing()) progress();
  }

  // What a crash now would bring back; DRAM is lost.
  void check_recovery() {
    const Protocol recovered(protocol_.geometry(), committed_);
    ASSERT_EQ(recovered.broken_invariant(), "");
    for (const auto& [block, version] : golden_) {
      Place place = recovered.visible(block);
      if (place.area == Area::kPageCache) place.area = Area::kPageSlot;
      ASSERT_TRUE(place.area == Area::kHome || place.area == Area::kSlot ||
                  place.area == Area::kPageSlot);
      const auto safe = safe_.find(block);
      ASSERT_EQ(at(place, block), safe == safe_.end() ? 0 : safe->second)
          << "block " << block << " after epoch " << committed_.epoch;
    }
  }

  void crash() {
    ++crashes;
    check_recovery();
    std::erase_if(memory_, [](const auto& each) {
      return Area(each.first >> 40) == Area::kBuffer || Area(each.first >> 40) == Area::kPageCache;
    });
    protocol_ = Protocol(protocol_.geometry(), committed_);
    ASSERT_EQ(protocol_.epoch(), committed_.epoch + 1);
    for (const PageAt& each : committed_.pages)
      for (std::uint32_t block = each.page * 64; block < each.page * 64 + 64; ++block)
        memory_[key({Area::kPageCache, each.slot}, block)] =
            at({Area::kPageSlot, each.slot}, block);
    golden_ = ended_ = safe_;
  }

  Protocol protocol_;
  std::mt19937_64 random_;
  std::unordered_map<std::uint64_t, Version> memory_;
  std::unordered_map<std::uint32_t, Version> golden_, ended_, safe_;  // by block
  std::unordered_map<std::uint32_t, Version> arriving_;  // read and not written, by block
  Image committed_;
  std::deque<Copy> blocks_left_;
  std::size_t pages_done_ = 0;
  Version version_ = 0;
  bool few_pages_ = false;
};

struct Case {
  Scheme scheme;
  std::uint32_t spill;
  bool overlap = false;
};

class AtRandom : public testing::TestWithParam<Case> {};

TEST_P(AtRandom, LoadsAndRecoveriesSeeWhatTheyMust) {
  const auto [scheme, spill, overlap] = GetParam();
  Geometry geometry;
  geometry.fill_while_running = geometry.stay_until_wanted = overlap;
  if (overlap) geometry.page_entries = 64;  // fewer than want to stay
  geometry.scheme = scheme;
  if (scheme == Scheme::kPagesOnly) {
    geometry.to_blocks = 1;
    geometry.page_entries = 200;
    geometry.spill_pages = 2 * spill;
  } else {
    geometry.spill_entries = 2 * spill;
    geometry.block_slots += 4 * spill;
  }
  Driver driver(geometry, 11 + spill);
  driver.run(overlap ? 120'000 : 60'000);
  EXPECT_GT(driver.epochs, 10U);
  EXPECT_GT(driver.overflows, 0U);
  EXPECT_GT(driver.waits, 0U);
  EXPECT_GT(driver.crashes, 0U);
  if (scheme != Scheme::kPagesOnly) {
    EXPECT_GT(driver.replacements, 100U);
  }
  if (scheme != Scheme::kBlocksOnly) {
    EXPECT_GT(driver.pages_saved, 50U);
  }
  if (scheme == Scheme::kDual) {
    EXPECT_GT(driver.to_pages, 50U);
    EXPECT_GT(driver.loans, 50U);
  }
  if (overlap) {
    EXPECT_GT(driver.filled, 1000U);
    EXPECT_GT(driver.overtaken, 5U);
  } else {
    EXPECT_EQ(driver.filled + driver.overtaken, 0U);
  }
  if (spill != 0) {
    EXPECT_GT(driver.protocol().spilled(), 0U);
  }
}

std::string name_of(const testing::TestParamInfo<Case>& test) {
  const Scheme scheme = test.param.scheme;
  return std::string(scheme == Scheme::kDual         ? "dual"
                     : scheme == Scheme::kBlocksOnly ? "blocksOnly"
                                                     : "pagesOnly") +
         (test.param.overlap ? "Overlap" : "") + (test.param.spill != 0 ? "Spilling" : "");
}

INSTANTIATE_TEST_SUITE_P(
    All, AtRandom,
    testing::Values(Case{Scheme::kDual, 0}, Case{Scheme::kDual, 400}, Case{Scheme::kDual, 0, true},
                    Case{Scheme::kDual, 400, true}, Case{Scheme::kBlocksOnly, 0},
                    Case{Scheme::kBlocksOnly, 400}, Case{Scheme::kPagesOnly, 0},
                    Case{Scheme::kPagesOnly, 400}),
    name_of);

}  // namespace
}  // namespace perdure::checkpoint
