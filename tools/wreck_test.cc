// SPDX-License-Identifier: BSD-3-Clause
// What is saved of pools in which one link was damaged at random.
#include "tools/wreck.h"

#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/expert.h"
#include "tests/small_pool.h"

namespace perdure::tools {
namespace {

constexpr std::uint64_t kRecords = 400;
constexpr int kDamages = testing::kSanitized ? 50 : 1000;

/// How keys and values of a map are made of a number.
template <class T>
struct Made {
  static T of(std::uint64_t n) { return n * 7919; }
};
template <>
struct Made<bytes> {
  static std::string of(std::uint64_t n) {
    return "no " + std::to_string(n) + std::string(n % 50, 'x');
  }
};

template <class Map>
struct TypesOf;
template <class K, class V>
struct TypesOf<hash_map<K, V>> {
  static constexpr bool kApart = false;
  using Key = K;
  using Value = V;
};
template <class K, class V, std::size_t kBytes>
struct TypesOf<btree_map<K, V, kBytes>> {
  static constexpr bool kApart = detail::kIsApart<V>;
  using Key = K;
  using Value = V;
};
template <class K, class V>
struct TypesOf<rb_map<K, V>> {
  static constexpr bool kApart = false;
  using Key = K;
  using Value = V;
};

template <class Map>
class WreckTest : public ::testing::Test {
 protected:
  using Key = Made<typename TypesOf<Map>::Key>;
  using Value = Made<typename TypesOf<Map>::Value>;

  WreckTest() {
    ExpertOptions options;
    options.domain = DomainKind::kDram;
    options.capacity_bytes = std::uint64_t{4} << 20;
    options.segment_bytes = std::uint64_t{128} << 10;
    options.ring_bytes = std::uint64_t{64} << 10;
    options.log_slots = 2;
    Pool pool = Pool::create(path_, options).value();
    auto* map = pool.root<Map>("map");
    auto* other = pool.root<hash_map<bytes, bytes>>("other");
    pool.atomically([&](Tx& tx) {
      // The same damages in every run.
      if constexpr (requires { map->use_seed(tx, 7); }) map->use_seed(tx, 7);
    });
    for (std::uint64_t n = 0; n < kRecords; ++n) {
      numbers_[Key::of(n)] = n;
      pool.atomically([&](Tx& tx) {
        map->put(tx, Key::of(n), Value::of(n + 1));
        other->put(tx, "of another", std::to_string(n));
      });
    }
  }
  /// Where the objects are that the map owns, and the words in them that are links to others.
  void find_links() {
    Pool pool = Pool::inspect(path_).value();
    std::set<Offset> live;
    std::map<Offset, std::uint64_t> owned;
    core_of(pool).heap().for_each_object(
        [&](Offset offset, std::uint64_t) { live.insert(offset); });
    Map* const map = pool.find_root<Map>("map");
    const Region& region = core_of(pool).region();
    const auto offset_of = [&](const void* at) {
      return static_cast<Offset>(static_cast<const std::byte*>(at) - region.base());
    };
    owned[offset_of(map)] = sizeof(Map);
    pool.read_only([&](Tx& tx) {
      EXPECT_EQ(
          map->audit(tx, [&](Offset at) { owned[at] = core_of(pool).heap().usable_bytes(at); }),
          std::nullopt);
    });
    for (const auto& [offset, size] : owned) {
      for (Offset at = offset; at < offset + size; at += kWordBytes) {
        const Word word = *region.word(at);
        if (owned.contains(word)) links_.push_back(at);
      }
      targets_.push_back(offset);
    }
    targets_.insert(targets_.end(), live.begin(), live.end());
  }
  void store(Offset at, Word word) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  Word word_at(Offset at) {
    std::ifstream file(path_, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    Word word = 0;
    file.read(reinterpret_cast<char*>(&word), sizeof(word));
    return word;
  }
  /// How many different records are saved; all are right.
  std::uint64_t saved(std::vector<std::string>& lost) {
    Wreck wreck(path_);
    std::set<std::uint64_t> seen;
    for (const Wreck::Root& root : wreck.roots()) {
      if (root.name != "map") continue;
      wreck.salvage<Map>(root, [&](const auto& key, const auto& value) {
        const auto found = numbers_.find(owned_t<typename TypesOf<Map>::Key>(key));
        ASSERT_NE(found, numbers_.end()) << "no such key";
        EXPECT_EQ(Value::of(found->second + 1), value);
        seen.insert(found->second);
      });
    }
    lost = wreck.lost();
    return seen.size();
  }

  testing::TempDir dir_;
  const std::string path_ = dir_ / "pool";
  std::map<owned_t<typename TypesOf<Map>::Key>, std::uint64_t> numbers_;
  std::vector<Offset> links_;
  std::vector<Offset> targets_;
};

using Maps =
    ::testing::Types<hash_map<bytes, bytes>, hash_map<std::uint64_t, std::uint64_t>,
                     btree_map<std::uint64_t, bytes>, btree_map<std::uint64_t, std::uint64_t>,
                     rb_map<std::uint64_t, std::uint64_t>>;
TYPED_TEST_SUITE(WreckTest, Maps);

TYPED_TEST(WreckTest, NothingIsLostOfWhatIsSound) {
  std::vector<std::string> lost;
  EXPECT_EQ(this->saved(lost), kRecords);
  EXPECT_TRUE(lost.empty());
}

TYPED_TEST(WreckTest, OneDamagedLinkCostsOneRecordAtMost) {
  this->find_links();
  ASSERT_GT(this->links_.size(), 20U);
  std::mt19937_64 random(22);
  for (int i = 0; i < kDamages; ++i) {
    const Offset at = this->links_[random() % this->links_.size()];
    const Word before = this->word_at(at);
    Word word = 0;
    switch (i % 4) {
      case 0: word = before ^ (Word{1} << random() % 64); break;
      case 1: word = 0; break;
      case 2: word = this->targets_[random() % this->targets_.size()]; break;
      case 3: word = random(); break;
    }
    if (word == before) continue;
    this->store(at, word);
    std::vector<std::string> lost;
    const std::uint64_t saved = this->saved(lost);
    // Where two keys have links to the same value, nobody knows whose it is.
    EXPECT_GE(saved, kRecords - (TypesOf<TypeParam>::kApart ? 2 : 1))
        << "the word at byte " << at << " was " << before << ", is " << word << ": "
        << ::testing::PrintToString(lost);
    EXPECT_TRUE(saved == kRecords || !lost.empty()) << "what is lost is told";
    this->store(at, before);
    if (this->HasFailure()) return;
  }
}

/// Of a vector its elements keep their places, and of a string all comes back or nothing.
TEST(WreckOfOthers, APieceOfAVectorIsLostAndTold) {
  testing::TempDir dir;
  const std::string path = dir / "pool";
  Offset link = 0;
  {
    ExpertOptions options;
    options.domain = DomainKind::kDram;
    options.capacity_bytes = std::uint64_t{32} << 20;
    Pool pool = Pool::create(path, options).value();
    auto* numbers = pool.root<vector<std::uint64_t>>("numbers");
    auto* text = pool.root<string>("text");
    pool.root<std::uint64_t>("one that leads nowhere");
    pool.atomically([&](Tx& tx) {
      for (std::uint64_t i = 0; i < 100; ++i) numbers->push_back(tx, i * i);
      text->assign(tx, "a text");
    });
    // Its second segment: elements 8 to 23.
    std::vector<Offset> objects;
    pool.read_only([&](Tx& tx) {
      EXPECT_EQ(numbers->audit(tx, [&](Offset at) { objects.push_back(at); }), std::nullopt);
    });
    const Region& region = core_of(pool).region();
    for (Offset at = objects[0]; link == 0; at += kWordBytes) {
      if (*region.word(at) == objects[2]) link = at;
    }
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(link));
    file << "damaged!";
  }
  Wreck wreck(path);
  std::map<std::uint64_t, std::uint64_t> found;
  std::string text;
  for (const Wreck::Root& root : wreck.roots()) {
    if (root.name == "numbers")
      wreck.salvage<vector<std::uint64_t>>(
          root, [&](std::uint64_t i, std::uint64_t value) { found[i] = value; });
    if (root.name == "text")
      wreck.salvage<string>(root, [&](const std::string& all) { text = all; });
  }
  EXPECT_EQ(text, "a text");
  EXPECT_EQ(found.size(), 84U);
  EXPECT_FALSE(found.contains(8));
  EXPECT_FALSE(found.contains(23));
  for (const auto& [i, value] : found) EXPECT_EQ(value, i * i);
  ASSERT_EQ(wreck.lost().size(), 1U);
  EXPECT_NE(wreck.lost()[0].find("elements 8 to 23"), std::string::npos) << wreck.lost()[0];
  EXPECT_EQ(wreck.strays(), 1U) << "the piece itself";
}

/// The root table tells of damage in it by its checksum, and by it an entry is found again.
TEST(WreckOfOthers, ADamagedRootIsFoundAgain) {
  testing::TempDir dir;
  const std::string path = dir / "pool";
  Offset table = 0;
  {
    ExpertOptions options;
    options.domain = DomainKind::kDram;
    options.capacity_bytes = std::uint64_t{32} << 20;
    Pool pool = Pool::create(path, options).value();
    auto* text = pool.root<string>("text");
    pool.atomically([&](Tx& tx) { text->assign(tx, "a text"); });
    table = core_of(pool).region().superblock().root_offset;
  }
  const std::string before = testing::contents_of(path);
  const auto text_with = [&](Offset at, const std::string& bytes) {
    std::string changed = before;
    changed.replace(at, bytes.size(), bytes);
    std::ofstream(path, std::ios::binary) << changed;
    Wreck wreck(path);
    std::string text;
    for (const Wreck::Root& root : wreck.roots()) {
      EXPECT_EQ(root.name, "text");
      wreck.salvage<string>(root, [&](const std::string& all) { text = all; });
    }
    EXPECT_FALSE(wreck.lost().empty()) << "the damage is told";
    return text;
  };
  EXPECT_EQ(text_with(table + offsetof(RootEntry, object), "????????"), "a text");
  EXPECT_EQ(text_with(table + 1, std::string(1, static_cast<char>('e' ^ 0x10))), "a text");
  EXPECT_EQ(text_with(table, "????"), "") << "of a name nothing can be told";
}

/// What a damaged log still tells is taken, up to the damage.
TEST(WreckOfOthers, OfADamagedLogThatComesBackWhichCameBefore) {
  testing::TempDir dir;
  const std::string path = dir / "pool";
  using Map = hash_map<std::uint64_t, std::uint64_t>;
  ExpertOptions options;
  options.domain = DomainKind::kSync;
  options.truncation = Truncation::kWhenFull;
  options.capacity_bytes = std::uint64_t{32} << 20;
  Pool::create(path, options).value().root<Map>("map");
  ASSERT_EQ(testing::in_child([&]() -> int {
              Pool pool = Pool::open(path, options).value();
              Map* const map = pool.root<Map>("map");
              for (std::uint64_t n = 0; n < 400; ++n)
                pool.atomically([&](Tx& tx) { map->put(tx, n, n * n); });
              ::_exit(0);  // nothing is home yet
            }),
            0);
  Offset ring = 0;
  {
    Pool pool = Pool::inspect(path).value();
    ring = core_of(pool).region().superblock().ring_offset;
    ASSERT_GE(pool.recovery().records_replayed, 400U);
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(ring + 8192));
    file << std::string(512, 'x');
  }
  ASSERT_EQ(Pool::inspect(path).error().code, Code::kCorrupt);
  Wreck wreck(path);
  std::uint64_t next = 0;
  std::set<std::uint64_t> found;
  for (const Wreck::Root& root : wreck.roots()) {
    wreck.salvage<Map>(root, [&](std::uint64_t n, std::uint64_t square) {
      EXPECT_EQ(square, n * n);
      found.insert(n);
    });
  }
  while (found.contains(next)) ++next;
  EXPECT_EQ(next, found.size()) << "no record without those before it";
  EXPECT_GT(next, 20U);
  EXPECT_LT(next, 400U);
  ASSERT_FALSE(wreck.lost().empty());
  EXPECT_NE(wreck.lost()[0].find("log 0"), std::string::npos) << wreck.lost()[0];
}

}  // namespace
}  // namespace perdure::tools
