// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/directory.h"

#include <map>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/ldap/matching.h"
#include "perdure/expert.h"
#include "sim/crash/explorer.h"
#include "tests/small_pool.h"

namespace perdure::ldap {
namespace {

using perdure::testing::kSanitized;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Dn dn(const std::string& text) { return parse_dn(text).value(); }

class DirectoryTest : public ::testing::Test {
 protected:
  DirectoryTest() {
    path_ = ::testing::TempDir() + "directory-test-" + std::to_string(::getpid()) + "-" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".pool";
    ::unlink(path_.c_str());
    options_.capacity_bytes = 256 << 20;
    options_.domain = DomainKind::kAdr;
    pool_.emplace(Pool::create(path_, options_).value());
    directory_.emplace(*pool_);
    EXPECT_EQ(directory_->add(dn("dc=a"), {{"objectClass", "domain"}, {"dc", "a"}}, true).code,
              ResultCode::kSuccess);
  }
  ~DirectoryTest() override {
    EXPECT_THAT(directory_->verify(), IsEmpty());
    directory_.reset();
    pool_.reset();
    ::unlink(path_.c_str());
  }

  void reopen(const DirectoryOptions& options = {}) {
    directory_.reset();
    pool_.reset();
    pool_.emplace(Pool::open(path_, options_).value());
    directory_.emplace(*pool_, options);
  }
  ResultCode add(const std::string& name, const std::string& sn = "x") {
    const Dn parsed = dn(name);
    const NamePart& part = parsed.rdns[0].parts[0];
    return directory_
        ->add(parsed, {{"objectClass", "person"}, {part.attribute, part.value}, {"sn", sn}}, false)
        .code;
  }
  std::set<std::string> find(const std::string& filter, const std::string& base = "dc=a",
                             Search::Scope scope = Search::Scope::kSubtree) {
    std::set<std::string> found;
    Search search;
    search.base = dn(base);
    search.scope = scope;
    search.filter = parse_filter(filter).value();
    outcome_ = directory_->search(search, [&](const std::string& name, const Values&) {
      EXPECT_TRUE(found.insert(name).second) << name << " is found twice";
    });
    return found;
  }

  std::string path_;
  ExpertOptions options_;
  std::optional<Pool> pool_;
  std::optional<Directory> directory_;
  Outcome outcome_;
};

TEST_F(DirectoryTest, NamesAreEqualHoweverTheyAreWritten) {
  EXPECT_EQ(add("cn=Doe\\, John+uid=JD,dc=a"), ResultCode::kSuccess);
  for (const char* same :
       {"UID=jd + CN=doe\\2c  JOHN, DC=A", "cn=\"x", "uid=jd+cn=Doe\\2C john,dc=a"}) {
    if (!parse_dn(same).ok()) continue;
    EXPECT_EQ(add(same), ResultCode::kAlreadyExists) << same;
  }
  EXPECT_THAT(find("(sn=x)"), ElementsAre("cn=Doe\\, John+uid=JD,dc=a"));
  for (const char* bad : {"cn", "cn=a,", "=a", "cn=a,,cn=b", "cn=a\\", "cn=#zz", "cn=a<b", "cn=a+"})
    EXPECT_FALSE(parse_dn(bad).ok()) << bad;
  EXPECT_TRUE(dn("  ").rdns.empty());
}

TEST_F(DirectoryTest, RefusalsNameTheReasonAndChangeNothing) {
  EXPECT_EQ(add("ou=b,dc=a"), ResultCode::kSuccess);
  EXPECT_EQ(add("ou=B,dc=a"), ResultCode::kAlreadyExists);
  EXPECT_EQ(add("dc=other"), ResultCode::kNoSuchObject);
  const Outcome orphan = directory_->add(dn("cn=x,ou=c,ou=b,dc=a"), {{"cn", "x"}}, false);
  EXPECT_EQ(orphan.code, ResultCode::kNoSuchObject);
  EXPECT_EQ(orphan.matched, "ou=b,dc=a");
  EXPECT_EQ(directory_->add(dn("cn=y,dc=a"), {{"cn", "y"}, {"cn", " Y"}}, false).code,
            ResultCode::kTypeOrValueExists);
  EXPECT_EQ(directory_->add(dn(""), {{"cn", "y"}}, true).code, ResultCode::kUnwillingToPerform);
  EXPECT_EQ(directory_->remove(dn("dc=a")).code, ResultCode::kNotAllowedOnNonLeaf);
  EXPECT_EQ(directory_->remove(dn("cn=x,dc=a")).code, ResultCode::kNoSuchObject);
  EXPECT_EQ(directory_->remove(dn("")).code, ResultCode::kNoSuchObject);

  using Kind = Change::Kind;
  const auto modify = [&](Kind kind, std::string_view attribute,
                          std::vector<std::string_view> values) {
    return directory_
        ->modify(dn("ou=b,dc=a"),
                 {{Kind::kReplace, "l", {"Berlin"}}, {kind, attribute, std::move(values)}})
        .code;
  };
  EXPECT_EQ(modify(Kind::kAdd, "sn", {"X"}), ResultCode::kTypeOrValueExists);
  EXPECT_EQ(modify(Kind::kDelete, "sn", {"y"}), ResultCode::kNoSuchAttribute);
  EXPECT_EQ(modify(Kind::kDelete, "mail", {}), ResultCode::kNoSuchAttribute);
  EXPECT_EQ(modify(Kind::kDelete, "ou", {}), ResultCode::kNotAllowedOnRdn);
  EXPECT_EQ(modify(Kind::kReplace, "objectClass", {}), ResultCode::kObjectClassViolation);
  EXPECT_EQ(modify(Kind::kIncrement, "sn", {"1"}), ResultCode::kConstraintViolation);
  EXPECT_THAT(find("(l=*)"), IsEmpty()) << "a change before the refused one was kept";
  EXPECT_EQ(modify(Kind::kReplace, "mail", {}), ResultCode::kSuccess);
  EXPECT_THAT(find("(l=berlin)"), ElementsAre("ou=b,dc=a"));
  EXPECT_EQ(modify(Kind::kAdd, "n", {"9223372036854775806"}), ResultCode::kSuccess);
  EXPECT_EQ(modify(Kind::kIncrement, "n", {"1"}), ResultCode::kSuccess);
  EXPECT_EQ(modify(Kind::kIncrement, "n", {"1"}), ResultCode::kConstraintViolation);
  EXPECT_THAT(find("(n=9223372036854775807)"), ElementsAre("ou=b,dc=a"));
}

TEST_F(DirectoryTest, ScopesAndBases) {
  for (const char* name : {"ou=b,dc=a", "cn=1,ou=b,dc=a", "cn=2,ou=b,dc=a", "cn=3,cn=2,ou=b,dc=a"})
    ASSERT_EQ(add(name), ResultCode::kSuccess);
  using Scope = Search::Scope;
  for (const char* filter : {"(objectClass=person)", "(sn=*)"}) {  // by index, by walking
    EXPECT_THAT(find(filter, "ou=b,dc=a", Scope::kBase), ElementsAre("ou=b,dc=a"));
    EXPECT_THAT(find(filter, "ou=b,dc=a", Scope::kOneLevel),
                ElementsAre("cn=1,ou=b,dc=a", "cn=2,ou=b,dc=a"));
    EXPECT_THAT(find(filter, "cn=2,ou=b,dc=a", Scope::kSubtree),
                UnorderedElementsAre("cn=2,ou=b,dc=a", "cn=3,cn=2,ou=b,dc=a"));
    EXPECT_THAT(find(filter, "cn=2,ou=b,dc=a", Scope::kBelow), ElementsAre("cn=3,cn=2,ou=b,dc=a"));
    EXPECT_EQ(find(filter, "").size(), 4u);
  }
  EXPECT_EQ(find("(|(cn=1)(cn=2)(sn=x))").size(), 4u);
  find("(cn=*)", "ou=none,ou=b,dc=a");
  EXPECT_EQ(outcome_.code, ResultCode::kNoSuchObject);
  EXPECT_EQ(outcome_.matched, "ou=b,dc=a");
}

TEST_F(DirectoryTest, RenamingMovesWhatIsBelow) {
  for (const char* name : {"ou=b,dc=a", "ou=c,dc=a", "cn=1,ou=b,dc=a", "cn=2,cn=1,ou=b,dc=a"})
    ASSERT_EQ(add(name), ResultCode::kSuccess);
  const Dn ou_c = dn("ou=c,dc=a");
  const Rdn one = parse_rdn("cn=One").value();
  EXPECT_EQ(directory_->rename(dn("cn=1,ou=b,dc=a"), one, true, &ou_c).code, ResultCode::kSuccess);
  EXPECT_THAT(find("(cn=*)"), UnorderedElementsAre("cn=One,ou=c,dc=a", "cn=2,cn=One,ou=c,dc=a"));
  EXPECT_THAT(find("(cn=1)"), IsEmpty());
  EXPECT_THAT(find("(cn=one)", "ou=c,dc=a"), ElementsAre("cn=One,ou=c,dc=a"));
  const Dn below = dn("cn=2,cn=One,ou=c,dc=a");
  EXPECT_EQ(directory_->rename(ou_c, parse_rdn("ou=c").value(), false, &below).code,
            ResultCode::kUnwillingToPerform);
  EXPECT_EQ(directory_->rename(ou_c, parse_rdn("ou=B").value(), false, nullptr).code,
            ResultCode::kAlreadyExists);
  EXPECT_EQ(directory_->rename(dn("dc=a"), parse_rdn("dc=b").value(), false, nullptr).code,
            ResultCode::kUnwillingToPerform);
  EXPECT_EQ(directory_->rename(ou_c, parse_rdn("ou=C").value(), true, nullptr).code,
            ResultCode::kSuccess)
      << "only the case changes";
  EXPECT_EQ(directory_->remove(dn("ou=b,dc=a")).code, ResultCode::kSuccess);
}

TEST_F(DirectoryTest, ANewIndexIsBuiltFromTheEntries) {
  for (int i = 0; i < 300; ++i)
    ASSERT_EQ(add("cn=" + std::to_string(i) + ",dc=a", std::to_string(i % 7)),
              ResultCode::kSuccess);
  const auto before = find("(sn=3)");
  EXPECT_EQ(before.size(), 43u);
  for (const char* list : {"sn", "", "cn,l,sn"}) {
    reopen({parse_attribute_list(list), {}});
    EXPECT_EQ(directory_->indexed_attributes(), parse_attribute_list(list));
    EXPECT_THAT(directory_->verify(), IsEmpty()) << list;
    EXPECT_EQ(find("(sn=3)"), before) << list;
  }
  reopen();
  EXPECT_THAT(directory_->indexed_attributes(), ElementsAre("cn", "l", "sn"));
  EXPECT_THROW(parse_attribute_list("cn,,sn"), Exception);
}

TEST_F(DirectoryTest, ManyThreadsAddFindAndRemove) {
  constexpr int kThreads = 8;
  constexpr int kEach = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::string name = "cn=" + std::to_string(t) + "-" + std::to_string(i) + ",dc=a";
        EXPECT_EQ(add(name, std::to_string(i)), ResultCode::kSuccess);
        EXPECT_EQ(add(name), ResultCode::kAlreadyExists);
        if (i % 4 != 0) continue;
        EXPECT_EQ(directory_->remove(dn(name)).code, ResultCode::kSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(directory_->size(), 1u + kThreads * kEach * 3 / 4);
  reopen();
  EXPECT_EQ(find("(sn=5)").size(), kThreads);
}

TEST_F(DirectoryTest, WhatOneUpdateThrowsTakesBackNothingOfTheOthers) {
  Combiner combiner(*pool_);
  auto* count = pool_->root<std::uint64_t>("count");
  std::atomic<int> thrown{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        try {
          combiner.run([&](Tx& tx) {
            tx.store(*count, tx.load(*count) + 1);
            if (t == 0) throw Exception(perdure::Code::kNoSpace, "full");
          });
        } catch (const Exception&) {
          ++thrown;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(thrown, 50);
  EXPECT_EQ(*count, 7u * 50);
}

// ---- against a model ----------------------------------------------------------------------------

/// Every name with its surname; what is above a name is there, too.
using Model = std::map<std::string, std::string>;

bool has_children(const Model& model, const std::string& name) {
  return std::any_of(model.begin(), model.end(), [&](const auto& each) {
    return each.first.size() > name.size() && each.first.ends_with("," + name);
  });
}

TEST_F(DirectoryTest, AgreesWithAModel) {
  std::mt19937_64 random(11);
  Model model{{"dc=a", "-"}};
  const auto some_name = [&] {
    std::string name = "dc=a";
    for (std::uint64_t levels = random() % 4; levels > 0; --levels)
      name = "cn=" + std::to_string(random() % 4) + "," + name;
    return name;
  };
  for (int round = 0; round < 6000; ++round) {
    const std::string name = some_name();
    const std::string above = name == "dc=a" ? "" : name.substr(name.find(',') + 1);
    const std::string sn = std::to_string(random() % 5);
    switch (random() % 5) {
      case 0:
      case 1: {
        const ResultCode expected = model.contains(name)     ? ResultCode::kAlreadyExists
                                    : !model.contains(above) ? ResultCode::kNoSuchObject
                                                             : ResultCode::kSuccess;
        ASSERT_EQ(add(name, sn), expected) << name;
        if (expected == ResultCode::kSuccess) model[name] = sn;
        break;
      }
      case 2: {
        if (name == "dc=a") break;
        const ResultCode expected = !model.contains(name)       ? ResultCode::kNoSuchObject
                                    : has_children(model, name) ? ResultCode::kNotAllowedOnNonLeaf
                                                                : ResultCode::kSuccess;
        ASSERT_EQ(directory_->remove(dn(name)).code, expected) << name;
        if (expected == ResultCode::kSuccess) model.erase(name);
        break;
      }
      case 3: {
        const ResultCode expected =
            model.contains(name) ? ResultCode::kSuccess : ResultCode::kNoSuchObject;
        ASSERT_EQ(directory_->modify(dn(name), {{Change::Kind::kReplace, "sn", {sn}}}).code,
                  expected);
        if (expected == ResultCode::kSuccess) model[name] = sn;
        break;
      }
      case 4: {
        const std::string superior = some_name();
        const std::string rdn = "cn=" + std::to_string(random() % 4);
        const std::string to = rdn + "," + superior;
        const Dn to_above = dn(superior);
        ResultCode expected = ResultCode::kSuccess;
        if (!model.contains(name)) {
          expected = ResultCode::kNoSuchObject;
        } else if (name == "dc=a") {
          expected = ResultCode::kUnwillingToPerform;
        } else if (!model.contains(superior)) {
          expected = ResultCode::kNoSuchObject;
        } else if (superior == name || superior.ends_with("," + name)) {
          expected = ResultCode::kUnwillingToPerform;
        } else if (to != name && model.contains(to)) {
          expected = ResultCode::kAlreadyExists;
        }
        ASSERT_EQ(directory_->rename(dn(name), parse_rdn(rdn).value(), true, &to_above).code,
                  expected)
            << name << " -> " << to;
        if (expected != ResultCode::kSuccess || to == name) break;
        Model moved;
        for (const auto& [each, value] : model) {
          const bool with = each == name || each.ends_with("," + name);
          moved[with ? each.substr(0, each.size() - name.size()) + to : each] = value;
        }
        model = std::move(moved);
        break;
      }
    }
    if (round % 500 != 0) continue;
    ASSERT_THAT(directory_->verify(), IsEmpty());
    std::set<std::string> names;
    for (const auto& each : model) names.insert(each.first);
    ASSERT_EQ(find("(objectClass=*)"), names);
    for (const std::string value : {"0", "3"}) {
      names.clear();
      for (const auto& each : model) {
        if (each.second == value) names.insert(each.first);
      }
      ASSERT_EQ(find("(sn=" + value + ")"), names);
    }
  }
  EXPECT_GT(model.size(), 5u);
}

// ---- power cuts ---------------------------------------------------------------------------------

/// Step by step: a suffix, entries below it, one changed, one moved, one removed, and again.
crash::Scenario updates() {
  const auto open = [](Pool& pool) { return Directory(pool, {parse_attribute_list("sn,cn"), 7}); };
  /// All entries after `step` steps, with their surnames.
  const auto expected = [](std::uint64_t step) {
    std::set<std::pair<std::string, std::string>> all;
    if (step >= 1) all.emplace("dc=a", "");
    const std::uint64_t round = step < 2 ? 0 : (step - 2) / 5;
    const std::uint64_t phase = step < 2 ? 0 : (step - 2) % 5 + 1;
    const std::string n = std::to_string(round);
    if (phase >= 1 && phase <= 2) all.emplace("cn=p" + n + ",dc=a", "old");
    if (phase == 2) all.emplace("cn=k,cn=p" + n + ",dc=a", "old");
    if (phase == 3) {
      all.emplace("cn=p" + n + ",dc=a", "new");
      all.emplace("cn=k,cn=p" + n + ",dc=a", "old");
    }
    if (phase == 4) {
      all.emplace("cn=p" + n + ",dc=a", "new");
    }
    // What was moved stays: one entry of each round that has come that far.
    for (std::uint64_t i = 0; i < round + (phase >= 4 ? 1 : 0); ++i)
      all.emplace("cn=m" + std::to_string(i) + ",dc=a", "old");
    return all;
  };
  crash::Scenario s;
  s.name = "ldap-updates";
  s.claim = "an update of the directory is entry, name, child and index, or nothing";
  s.steps = 7;
  s.geometry.capacity_bytes = 1 << 20;
  s.geometry.ring_bytes = 16 << 10;
  s.setup = [=](Pool& pool) { open(pool); };
  s.step = [=](Pool& pool, std::uint64_t step) {
    Directory directory = open(pool);
    Outcome outcome;
    if (step == 1) {
      outcome = directory.add(dn("dc=a"), {{"dc", "a"}}, true);
    } else {
      const std::string parent = "cn=p" + std::to_string((step - 2) / 5) + ",dc=a";
      const Dn suffix = dn("dc=a");
      switch ((step - 2) % 5) {
        case 0:
          outcome = directory.add(
              dn(parent), {{"cn", "p" + std::to_string((step - 2) / 5)}, {"sn", "old"}}, false);
          break;
        case 1:
          outcome = directory.add(dn("cn=k," + parent), {{"cn", "k"}, {"sn", "old"}}, false);
          break;
        case 2:
          outcome = directory.modify(dn(parent), {{Change::Kind::kReplace, "sn", {"new"}}});
          break;
        case 3:
          outcome = directory.rename(dn("cn=k," + parent),
                                     parse_rdn("cn=m" + std::to_string((step - 2) / 5)).value(),
                                     true, &suffix);
          break;
        default: outcome = directory.remove(dn(parent)); break;
      }
    }
    if (outcome.code != ResultCode::kSuccess)
      throw Exception(perdure::Code::kMisuse, "step " + std::to_string(step) + " was refused");
  };
  s.check = [=](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    if (pool.find_root<Store>(kRoot) == nullptr) return "there is no directory";
    Directory directory = open(pool);
    if (const auto wrong = directory.verify(); !wrong.empty()) return wrong[0];
    std::set<std::pair<std::string, std::string>> all;
    Search search;
    search.filter = parse_filter("(|(cn=*)(dc=*))").value();
    directory.search(search, [&](const std::string& name, const Values& values) {
      std::string sn;
      for (const Value& value : values) {
        if (value.attribute == "sn") sn = value.value;
      }
      all.emplace(name, sn);
    });
    if (all == expected(step)) return std::nullopt;
    std::string what = "after step " + std::to_string(step) + " there are:";
    for (const auto& [name, sn] : all) what += " " + name + "(" + sn + ")";
    return what;
  };
  s.reach = [](Pool& pool, const crash::Scenario::Visit& visit) {
    const Store* store = pool.find_root<Store>(kRoot);
    if (store == nullptr) return;
    const auto wrong = pool.read_only([&](Tx& tx) {
      return store->audit(tx, [&](Offset at) { visit(tx.at(pptr<std::byte>{at})); });
    });
    if (wrong) throw Exception(perdure::Code::kCorrupt, *wrong);
  };
  return s;
}

TEST(DirectoryPowerCuts, AnUpdateIsAllOrNothing) {
  crash::Options options;
  options.samples = kSanitized ? 2 : 24;
  options.kill_every = 256;
  if (kSanitized) {
    options.most_points = 40;
    options.nested_most_points = 3;
  }
  const crash::Report report = crash::explore(crash::subject_of(updates()), options);
  for (const crash::Violation& violation : report.violations)
    ADD_FAILURE() << violation.what << "\n  again with: " << violation.replay;
  EXPECT_GT(report.images, kSanitized ? 50u : 500u);
  std::printf("%lu crash images, %lu of cut recoveries, %.1f s\n",
              static_cast<unsigned long>(report.images),
              static_cast<unsigned long>(report.nested_images), report.seconds);
}

/// The test of the test: a fence left out must be noticed.
TEST(DirectoryPowerCuts, AMissingFenceIsFound) {
  crash::Options options;
  options.file = false;
  options.samples = 24;
  options.depth = 1;
  options.kill_every = 100000;
  options.omission.active = true;
  options.omission.site = Site::kLogCommit;
  EXPECT_FALSE(crash::explore(crash::subject_of(updates()), options).violations.empty());
}

}  // namespace
}  // namespace perdure::ldap
