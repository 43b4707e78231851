// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/explorer.h"

#include <gtest/gtest.h>

#include "sim/crash/choices.h"

namespace perdure::crash {
namespace {

// ---- toy protocols over bare words --------------------------------------------------------------

/// Two words in different lines: the step's data, then the step itself, which vouches for the data.
class Toy final : public Session {
 public:
  using Protocol = std::function<void(Lab::LabDomain&, Word* data, Word* flag, std::uint64_t step)>;
  Toy(Lab& lab, const Protocol& protocol)
      : protocol_(&protocol),
        domain_(lab.domain()),
        data_(reinterpret_cast<Word*>(lab.base() + kPageBytes)),
        flag_(reinterpret_cast<Word*>(lab.base())) {
    // Recovery makes durable what it believes.
    domain_.flush(data_, kWordBytes, Site::kAdopt);
    domain_.flush(flag_, kWordBytes, Site::kAdopt);
    (void)domain_.fence(Site::kAdoptFence);
  }
  void step(std::uint64_t step) override { (*protocol_)(domain_, data_, flag_, step); }
  std::optional<std::string> check(std::uint64_t step) override {
    if (*flag_ != step) return "the flag is " + std::to_string(*flag_);
    // Data of the next step may be there already; the flag vouches for no less than its own.
    if (*data_ != step && *data_ != step + 1) return "the flag vouches for other data";
    return std::nullopt;
  }

 private:
  const Protocol* protocol_;
  Lab::LabDomain domain_;
  Word* data_;
  Word* flag_;
};

Subject toy(const Toy::Protocol& protocol) {
  Subject subject{};
  subject.name = "toy";
  subject.bytes = 2 * kPageBytes;
  subject.steps = 3;
  subject.resume_steps = 2;
  subject.memory = true;
  subject.file = true;
  subject.format = [](std::byte*) { return std::uint64_t{2 * kPageBytes}; };
  subject.open = [&protocol](Lab& lab) { return std::make_unique<Toy>(lab, protocol); };
  return subject;
}

void persist(Lab::LabDomain& domain, Word* word, Word value) {
  domain.store(word, value);
  domain.flush(word, kWordBytes, Site::kUserFlush);
  (void)domain.fence(Site::kUserFence);
}

const Toy::Protocol kCorrect = [](Lab::LabDomain& domain, Word* data, Word* flag,
                                  std::uint64_t step) {
  persist(domain, data, step);
  persist(domain, flag, step);
};

TEST(Explorer, CorrectProtocolPassesOnMemoryAndFile) {
  const Report report = explore(toy(kCorrect));
  for (const Violation& violation : report.violations) ADD_FAILURE() << violation.what;
  EXPECT_EQ(report.model, "all");
  EXPECT_GT(report.images, 10u);
  EXPECT_GT(report.nested_images, 10u);
  EXPECT_EQ(report.exhaustive_points, report.crash_points);
}

TEST(Explorer, FlagWithoutAFenceAfterTheDataIsCaught) {
  const Toy::Protocol broken = [](Lab::LabDomain& domain, Word* data, Word* flag,
                                  std::uint64_t step) {
    domain.store(data, step);
    domain.flush(data, kWordBytes, Site::kUserFlush);
    persist(domain, flag, step);
  };
  for (const Model model : {Model::kMemory, Model::kFile}) {
    const Report report = explore(toy(broken), model, {});
    ASSERT_EQ(report.violations.size(), 1u) << model_name(model);
    EXPECT_NE(report.violations[0].what.find("other data"), std::string::npos)
        << report.violations[0].what;
  }
}

TEST(Explorer, OfCachesThatAreNotLostTheOrderOfStoresIsCaughtAndNothingElse) {
  const Toy::Protocol unflushed = [](Lab::LabDomain& domain, Word* data, Word* flag,
                                     std::uint64_t step) {
    domain.store(data, step);
    domain.store(flag, step);
  };
  const Report sound = explore(toy(unflushed), Model::kCaches, {});
  for (const Violation& violation : sound.violations) ADD_FAILURE() << violation.what;
  EXPECT_GE(sound.images, 2 * toy(unflushed).steps) << "between any two stores";
  const Toy::Protocol broken = [](Lab::LabDomain& domain, Word* data, Word* flag,
                                  std::uint64_t step) {
    domain.store(flag, step);
    persist(domain, data, step);
  };
  EXPECT_EQ(explore(toy(broken), Model::kCaches, {}).violations.size(), 1u);
}

TEST(Explorer, FlagWithoutAFlushIsCaught) {
  const Toy::Protocol broken = [](Lab::LabDomain& domain, Word* data, Word* flag,
                                  std::uint64_t step) {
    persist(domain, data, step);
    domain.store(flag, step);
    (void)domain.fence(Site::kUserFence);
  };
  EXPECT_EQ(explore(toy(broken), Model::kMemory, {}).violations.size(), 1u);
  EXPECT_EQ(explore(toy(broken), Model::kFile, {}).violations.size(), 1u);
}

TEST(Explorer, FlushByOneThreadIsNotCompletedByTheFenceOfAnother) {
  const Toy::Protocol broken = [](Lab::LabDomain& domain, Word* data, Word* flag,
                                  std::uint64_t step) {
    domain.store(data, step);
    on_second_thread([&] { domain.flush(data, kWordBytes, Site::kUserFlush); });
    (void)domain.fence(Site::kUserFence);
    persist(domain, flag, step);
  };
  EXPECT_EQ(explore(toy(broken), Model::kMemory, {}).violations.size(), 1u);
}

TEST(Explorer, RecoveryThatBelievesWhatItDoesNotPersistIsCaught) {
  // Only a chain can see it: killed, recovered from caches, and then the power fails.
  Options options;
  options.omission.active = true;
  options.omission.site = Site::kAdopt;
  const Report report = explore(toy(kCorrect), Model::kMemory, options);
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_NE(report.violations[0].what.find("killed"), std::string::npos)
      << report.violations[0].what;
}

TEST(Explorer, StoreAroundTheDomainIsReported) {
  const Toy::Protocol broken = [](Lab::LabDomain& domain, Word* data, Word* flag,
                                  std::uint64_t step) {
    kCorrect(domain, data, flag, step);
    data[1] = 77;
  };
  const Report report = explore(toy(broken), Model::kMemory, {});
  ASSERT_EQ(report.violations.size(), 1u);
  EXPECT_NE(report.violations[0].what.find("offset 4104 went around"), std::string::npos)
      << report.violations[0].what;
}

TEST(Explorer, ViolationIsReplayedFromItsLine) {
  Options options;
  options.omission.active = true;
  options.omission.site = Site::kUserFence;
  const Report report = explore(toy(kCorrect), Model::kMemory, options);
  ASSERT_EQ(report.violations.size(), 1u);
  const auto again = replay(toy(kCorrect), report.violations[0].replay);
  ASSERT_TRUE(again.ok()) << again.error().message;
  Result<Report> copy = again;
  ASSERT_EQ(copy->violations.size(), 1u);
  EXPECT_EQ(copy->violations[0].what, report.violations[0].what);
  EXPECT_EQ(copy->violations[0].replay, report.violations[0].replay);
  EXPECT_LE(copy->images + copy->nested_images + copy->kills, 2u);
}

TEST(Explorer, MalformedReplayTextIsRefused) {
  for (const char* text :
       {"toy", "toy/", "toy/disk@1:-", "toy/memory", "toy/memory@", "toy/memory@x:-",
        "toy/memory@1", "toy/memory!kNoSite#0#1@1:-", "toy/memory!kHome@1:-", "other/memory@1:-"}) {
    EXPECT_FALSE(replay(toy(kCorrect), text).ok()) << text;
  }
}

TEST(Explorer, SameSeedExploresTheSameImages) {
  const Report first = explore(toy(kCorrect));
  const Report second = explore(toy(kCorrect));
  EXPECT_EQ(first.images, second.images);
  EXPECT_EQ(first.nested_images, second.nested_images);
}

// ---- a structure in a pool ----------------------------------------------------------------------

struct Pair {
  std::uint64_t left;
  std::array<std::uint64_t, 7> apart;
  std::uint64_t right;
};

Scenario pair(std::function<void(Pool&, std::uint64_t)> step) {
  Scenario s;
  s.name = "pair";
  s.setup = [](Pool& pool) { pool.root<Pair>("pair"); };
  s.step = std::move(step);
  s.check = [](Pool& pool, std::uint64_t number) -> std::optional<std::string> {
    const Pair* found = pool.find_root<Pair>("pair");
    if (found != nullptr && found->left == number && found->right == number) return std::nullopt;
    return "the two differ";
  };
  return s;
}

TEST(Scenario, OneTransactionPasses) {
  const Report report = explore(pair([](Pool& pool, std::uint64_t step) {
    Pair& both = *pool.find_root<Pair>("pair");
    pool.atomically([&](Tx& tx) {
      tx.store(both.left, step);
      tx.store(both.right, step);
    });
  }));
  for (const Violation& violation : report.violations) ADD_FAILURE() << violation.what;
}

TEST(Scenario, TwoTransactionsForOneStepAreCaught) {
  const Report report = explore(pair([](Pool& pool, std::uint64_t step) {
    Pair& both = *pool.find_root<Pair>("pair");
    pool.atomically([&](Tx& tx) { tx.store(both.left, step); });
    pool.atomically([&](Tx& tx) { tx.store(both.right, step); });
  }));
  EXPECT_EQ(report.violations.size(), 3u) << "one a model";
}

TEST(Scenario, LeakIsCaughtByTheAudit) {
  Scenario s = pair([](Pool& pool, std::uint64_t step) {
    Pair& both = *pool.find_root<Pair>("pair");
    pool.atomically([&](Tx& tx) { tx.allocate(64); });
    pool.atomically([&](Tx& tx) {
      tx.store(both.left, step);
      tx.store(both.right, step);
    });
  });
  EXPECT_TRUE(explore(s).violations.empty());
  s.reach = [](Pool&, const Scenario::Visit&) {};
  const Report report = explore(s);
  ASSERT_FALSE(report.violations.empty());
  EXPECT_NE(report.violations[0].what.find("leaked"), std::string::npos)
      << report.violations[0].what;
}

}  // namespace
}  // namespace perdure::crash
