// SPDX-License-Identifier: BSD-3-Clause
// Costs are claims too: what each kind of transaction asks of the persistence domain, counted, not
// timed. A fence more on one of these paths is a regression that no functional test would notice.
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "papers/pool.h"
#include "perdure/pool.h"

namespace perdure {
namespace {

struct Node {
  std::uint64_t key;
  pptr<Node> next;
  std::array<std::uint64_t, 6> value;
};
static_assert(sizeof(Node) == 64);

class CostTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kWords = 1 << 15;

  // On memory, whatever the test's file lies on: the counts are those of the calls, not of the
  // device.
  CostTest() : path_("/dev/shm/perdure-cost-" + std::to_string(::getpid())), pool_(make()) {
    list_ = pool_.root<pptr<Node>>("list");
    words_ = static_cast<Word*>(
        pool_.atomically([](Tx& tx) { return tx.allocate(kWords * kWordBytes); }));
    // Warm: the thread has its log, and the size class its superblock.
    pool_.atomically([&](Tx& tx) { push(tx, 0); });
  }
  ~CostTest() override { std::filesystem::remove(path_); }

  papers::LabPool make() {
    std::filesystem::remove(path_);
    papers::LabOptions options;
    options.domain = DomainKind::kAdr;
    options.count = true;
    return papers::create(path_, options).value();
  }

  void push(Tx& tx, std::uint64_t key) {
    auto* node = static_cast<Node*>(tx.allocate(sizeof(Node)));
    const Node content{key, tx.load(*list_), {key, key, key, key, key, key}};
    tx.write(node, &content, sizeof(content));
    tx.store(*list_, tx.link_to(node));
  }
  void pop(Tx& tx) {
    Node* node = tx.at(tx.load(*list_));
    tx.store(*list_, tx.load(node->next));
    tx.free(node);
  }
  /// The i-th of many words that lie on lines far apart.
  Word& word(std::uint64_t i) { return words_[i * 1'237 % kWords]; }

  template <class Body>
  DomainCounts cost(Body body) {
    const DomainCounts before = pool_.counts();
    pool_.atomically(body);
    return pool_.counts() - before;
  }
  DomainCounts cost_of_stores(std::uint64_t stores) {
    return cost([&](Tx& tx) {
      for (std::uint64_t i = 0; i < stores; ++i) tx.store(word(i), i);
    });
  }

  std::string path_;
  papers::LabPool pool_;
  pptr<Node>* list_ = nullptr;
  Word* words_ = nullptr;
};

TEST_F(CostTest, EmptyTransactionAsksNothing) {
  const DomainCounts spent = cost([](Tx&) {});
  EXPECT_EQ(spent.fences, 0u);
  EXPECT_EQ(spent.flushes, 0u);
  EXPECT_EQ(spent.bytes(), 0u);
}

TEST_F(CostTest, ReadingAsksNothing) {
  const auto read = [&](Tx& tx) { return tx.load(word(1)) + tx.load(tx.at(tx.load(*list_))->key); };
  const DomainCounts before = pool_.counts();
  pool_.read_only(read);
  pool_.atomically(read);
  const DomainCounts spent = pool_.counts() - before;
  EXPECT_EQ(spent.fences, 0u);
  EXPECT_EQ(spent.flushes, 0u);
  EXPECT_EQ(spent.bytes(), 0u);
}

TEST_F(CostTest, RolledBackTransactionAsksNothing) {
  const DomainCounts before = pool_.counts();
  EXPECT_THROW(pool_.atomically([&](Tx& tx) {
    push(tx, 1);
    throw 1;
  }),
               int);
  const DomainCounts spent = pool_.counts() - before;
  EXPECT_EQ(spent.fences, 0u);
  EXPECT_EQ(spent.flushes, 0u);
  EXPECT_EQ(spent.bytes(), 0u);
}

TEST_F(CostTest, StoresCostOneFenceHoweverMany) {
  for (const std::uint64_t stores : {1u, 2u, 10u, 64u, 500u}) {
    EXPECT_EQ(cost_of_stores(stores).fences, 1u) << stores << " stores";
  }
}

// A commit also writes back the home words of the one before it, so flushes are those of a
// transaction in a row of equal ones.

TEST_F(CostTest, OneStoreFitsALineOfLogAndItsHome) {
  cost_of_stores(1);
  for (int i = 0; i < 16; ++i) {  // wherever in a line the log stands
    const DomainCounts spent = cost_of_stores(1);
    EXPECT_LE(spent.bytes(), kLineBytes + kWordBytes);
    EXPECT_LE(spent.flushes, 3u) << "a record may straddle two lines; the home word has one";
  }
}

TEST_F(CostTest, NeighboursShareTheirWriteBack) {
  Word* line =
      reinterpret_cast<Word*>(round_up(reinterpret_cast<std::uintptr_t>(words_), kLineBytes));
  const auto fill = [&](Tx& tx) {
    for (std::uint64_t i = 0; i < 8; ++i) tx.store(line[i], i);
  };
  cost(fill);
  const DomainCounts spent = cost(fill);
  EXPECT_EQ(spent.fences, 1u);
  EXPECT_LE(spent.flushes, 4u)
      << "eleven log words lie on at most three lines, the eight home words on one";
}

TEST_F(CostTest, AllocateAndLinkCostsOneFence) {
  for (std::uint64_t i = 0; i < 50; ++i) EXPECT_EQ(cost([&](Tx& tx) { push(tx, i); }).fences, 1u);
}

TEST_F(CostTest, UnlinkAndFreeCostsOneFence) {
  for (std::uint64_t i = 0; i < 50; ++i) pool_.atomically([&](Tx& tx) { push(tx, i); });
  for (int i = 0; i < 50; ++i) EXPECT_EQ(cost([&](Tx& tx) { pop(tx); }).fences, 1u);
}

TEST_F(CostTest, AllocateFreeAndStoresTogetherCostOneFence) {
  const DomainCounts spent = cost([&](Tx& tx) {
    pop(tx);
    push(tx, 1);
    push(tx, 2);
    tx.store(word(7), 7);
  });
  EXPECT_EQ(spent.fences, 1u);
}

TEST_F(CostTest, EmptyingTheLogIsAmortised) {
  const DomainCounts before = pool_.counts();
  static constexpr std::uint64_t kTransactions = 100'000;  // several times the log's size
  for (std::uint64_t i = 0; i < kTransactions; ++i)
    pool_.atomically([&](Tx& tx) { tx.store(word(i), i); });
  const std::uint64_t fences = (pool_.counts() - before).fences;
  EXPECT_GT(fences, kTransactions) << "the log was never full: the test proves nothing";
  EXPECT_LE(fences, kTransactions + kTransactions / 100);
}

}  // namespace
}  // namespace perdure
