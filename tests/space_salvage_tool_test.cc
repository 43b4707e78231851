// SPDX-License-Identifier: BSD-3-Clause
// `perdure salvage` of address spaces: everything stays at its address.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <set>

#include "perdure/address_space.h"
#include "perdure/api/pool_core.h"
#include "perdure/region/frame_layout.h"
#include "perdure/region/space_layout.h"
#include "tests/cli_fixture.h"
#include "tests/small_space.h"

namespace perdure {
namespace {

class SpaceSalvageTest : public CliTest {
 protected:
  static constexpr std::uint64_t kPages = 4;
  static constexpr std::uint64_t kNodes = 300;
  struct Node {
    Node* next;
    std::uint64_t number;
  };

  void SetUp() override {
    CliTest::SetUp();
    space_ = path("space");
    copy_ = path("copy");
    make();
  }
  static std::unique_ptr<AddressSpace> open(const std::string& directory,
                                            const testing::TestStatics* statics = nullptr) {
    AddressSpace::Options options = testing::small_space_options();
    if (statics != nullptr) options.statics = statics->declared({1, 2, 3}, {{"word", 0, 8}});
    return AddressSpace::open_or_create(directory, options).value();
  }
  /// A list of objects of many sizes, three regions, one of them in two pieces, and static variables.
  void make() {
    testing::TestStatics statics;
    const auto opened = open(space_, &statics);
    auto& receivers = testing::receivers_of(*opened);
    for (std::size_t i = 0; i < 3; ++i) {
      opened->map(receivers.variable(i), kPages * kPageBytes, testing::kReadWrite).value();
      for (std::uint64_t page = 0; page < kPages; ++page)
        testing::store_durably(*opened, testing::word_of(receivers.region(i), page),
                               100 * i + page + 1);
    }
    opened->unmap(receivers.region(1) + kPageBytes, kPageBytes).value();
    testing::store_durably(*opened, statics.word(0), 4711);
    opened->pool().atomically([&](Tx& tx) {
      Node* last = nullptr;
      for (std::uint64_t i = 0; i < kNodes; ++i) {
        auto* const node = static_cast<Node*>(tx.allocate(16 + i * i % 3000 + i % 20 / 19 * 9000));
        tx.write_exact(&node->next, &last, sizeof(last));
        tx.store(node->number, i);
        if (i % 3 == 0) {
          tx.free(node);
        } else {
          last = node;
        }
      }
      tx.write_exact(&receivers.address[9], &last, sizeof(last));
    });
  }
  /// All that make() made, at its address.
  void expect_whole(const std::string& directory) {
    testing::TestStatics statics;
    const auto opened = open(directory, &statics);
    EXPECT_EQ(statics.word(0), 4711u);
    auto& receivers = testing::receivers_of(*opened);
    EXPECT_EQ(opened->regions().size(), 4u);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::uint64_t page = 0; page < kPages; ++page) {
        if (i == 1 && page == 1) continue;
        EXPECT_EQ(testing::word_of(receivers.region(i), page), 100 * i + page + 1);
      }
    }
    std::uint64_t nodes = 0;
    for (auto* node = reinterpret_cast<Node*>(receivers.address[9]); node != nullptr;
         node = node->next)
      nodes += node->number % 3 != 0 ? 1 : 0;
    EXPECT_EQ(nodes, kNodes * 2 / 3);
  }

  using Objects = std::map<Offset, std::string>;
  static Objects objects_in(const std::string& directory) {
    Objects objects;
    const auto inspected = AddressSpace::inspect(directory).value();
    const Region& region = core_of(inspected->pool()).region();
    core_of(inspected->pool()).heap().for_each_object([&](Offset offset, std::uint64_t bytes) {
      objects[offset] = {reinterpret_cast<const char*>(region.base() + offset), bytes};
    });
    return objects;
  }
  void damage(const std::string& file, Offset at, const std::string& bytes) {
    overwrite(space_ + "/" + file, at, bytes);
  }
  void expect_refused(const std::string& why) {
    const ToolRun refused = run({"salvage", space_, copy_});
    EXPECT_EQ(refused.code, 3) << refused.out;
    EXPECT_EQ(refused.out, "");
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(copy_));
    EXPECT_FALSE(std::filesystem::exists(copy_ + ".salvaging"));
  }

  std::string space_;
  std::string copy_;
};

TEST_F(SpaceSalvageTest, OfASoundOneAllIsTaken) {
  const auto before = testing::contents_of_directory(space_);
  const Json made = json_of({"salvage", space_, copy_, "--json"});
  EXPECT_EQ(made["kind"], "address space");
  EXPECT_EQ(made["regions"], 4);
  EXPECT_EQ(made["left_out"], 0);
  EXPECT_EQ(made["what_was_put_right"].size(), 0u) << made.dump();
  EXPECT_EQ(testing::contents_of_directory(space_), before);
  EXPECT_EQ(objects_in(copy_), objects_in(space_));
  EXPECT_EQ(run({"check", copy_}).code, run({"check", space_}).code);
  expect_whole(copy_);
  EXPECT_EQ(run({"salvage", space_, copy_}).code, 3) << "it exists";
}

TEST_F(SpaceSalvageTest, WhatTheLogsHoldIsTaken) {
  ASSERT_EQ(testing::in_child([&] {
              testing::TestStatics statics;
              AddressSpace::Options options = testing::small_space_options();
              options.pool.truncation = Truncation::kWhenFull;
              options.statics = statics.declared({1, 2, 3}, {{"word", 0, 8}});
              const auto opened = AddressSpace::open_or_create(space_, options).value();
              auto& receivers = testing::receivers_of(*opened);
              opened->pool().atomically([&](Tx& tx) {
                tx.store(testing::word_of(receivers.region(0), 3), std::uint64_t{55});
                tx.store(statics.word(0), std::uint64_t{66});
                tx.store(receivers.address[20], std::uint64_t{77});
              });
              ::_exit(0);
              return 0;
            }),
            0);
  // As if a power cut had taken what was not home: the log has it.
  json_of({"salvage", space_, copy_, "--json"});
  testing::TestStatics statics;
  const auto opened = open(copy_, &statics);
  auto& receivers = testing::receivers_of(*opened);
  EXPECT_EQ(testing::word_of(receivers.region(0), 3), 55u);
  EXPECT_EQ(statics.word(0), 66u);
  EXPECT_EQ(receivers.address[20], 77u);
}

TEST_F(SpaceSalvageTest, WhatRepeatsItselfIsPutRight) {
  const auto whole = testing::contents_of_directory(space_);
  const std::string& heap = whole.at("heap.pool");
  const auto find_entry = [&](std::uint64_t file) {
    for (Offset at = 0; at + sizeof(RegionEntry) <= heap.size(); at += kWordBytes) {
      RegionEntry entry{};
      std::memcpy(&entry, heap.data() + at, sizeof(entry));
      if (entry.file == file && entry.state == RegionState::kLive && entry.bytes != 0 &&
          entry.check == check_of_region(entry))
        return at;
    }
    ADD_FAILURE() << "no entry";
    return Offset{0};
  };
  const Offset entry = find_entry(1);
  const Offset root = heap.find(kRegionTableRoot);
  const std::tuple<std::string, Offset, std::string> damages[] = {
      {"1.region", whole.at("1.region").size() - kPageBytes, std::string(512, 'x')},
      {"statics.region", whole.at("statics.region").size() - kPageBytes, std::string(8, 'x')},
      {"statics.region", 0, std::string(16, 'x')},
      {"heap.pool", entry, std::string(1, static_cast<char>(heap[entry] ^ 1))},
      {"heap.pool", entry + offsetof(RegionEntry, file), std::string(8, 'x')},
      {"heap.pool", entry + offsetof(RegionEntry, bytes), std::string(8, '\0')},
      {"heap.pool", entry + offsetof(RegionEntry, state), std::string(8, 'x')},
      {"heap.pool", entry + offsetof(RegionEntry, check), std::string(8, 'x')},
      {"heap.pool", root + offsetof(RootEntry, object), std::string(8, 'x')},
      {"heap.pool", 0, std::string(512, 'x')},
  };
  for (const auto& [file, at, bytes] : damages) {
    damage(file, at, bytes);
    const ToolRun made = run({"salvage", space_, copy_, "--json"});
    EXPECT_EQ(made.code, 0) << file << " " << at << ": " << made.out << made.err;
    if (made.code == 0) {
      EXPECT_FALSE(Json::parse(made.out)["what_was_put_right"].empty()) << made.out;
      expect_whole(copy_);
    }
    std::filesystem::remove_all(copy_);
    damage(file, at, whole.at(file).substr(at, bytes.size()));
  }
  // Where a region was, only its entry tells.
  damage("heap.pool", entry + offsetof(RegionEntry, begin), std::string(8, 'x'));
  const Json made = json_of({"salvage", space_, copy_, "--json"}, 1);
  EXPECT_EQ(made["regions"], 3);
  EXPECT_NE(made["what_was_left_out"].dump().find("where its region was cannot be told"),
            std::string::npos);
}

/// Single bits, words and sectors of every file: what was not hit is there, byte for byte, and nothing
/// that was an object can be given out again.
TEST_F(SpaceSalvageTest, OfAnyDamageWhatIsNotHitComesBackAtItsPlace) {
  const auto whole = testing::contents_of_directory(space_);
  const Objects objects = objects_in(space_);
  const Superblock super = Region::read_superblock(space_ + "/heap.pool").value();
  std::mt19937_64 random(22);
  std::map<int, int> codes;
  for (int turn = 0; turn < (testing::kSanitized ? 20 : 60); ++turn) {
    auto file = std::next(whole.begin(), static_cast<std::ptrdiff_t>(random() % whole.size()));
    if (turn % 2 == 0) file = whole.find("heap.pool");
    const std::string& before = file->second;
    Offset at = random() % before.size();
    if (file->first == "heap.pool") {
      // Tables, the metadata of the first segment, or all of it.
      const std::pair<Offset, std::uint64_t> parts[] = {
          {0, 2 * kPageBytes},
          {super.root_offset, super.geometry.root_entries * sizeof(RootEntry)},
          {super.segment_table_offset, 4 * kWordBytes},
          {super.heap_offset, 2304},  // class words and bitmaps of 16 blocks
          {super.heap_offset, super.geometry.segment_bytes}};
      const auto& [begin, bytes] = parts[random() % 5];
      at = begin + random() % bytes;
    }
    const std::size_t bytes = turn % 3 == 0 ? 1 : turn % 3 == 1 ? 8 : 512;
    at = round_down(at, bytes);
    std::string damaged = before.substr(at, bytes);
    const bool zero = random() % 2 == 0;
    for (char& byte : damaged)
      byte = static_cast<char>(bytes == 1 ? byte ^ (1 << random() % 8) : zero ? 0 : random());
    if (damaged == before.substr(at, bytes)) continue;
    damage(file->first, at, damaged);
    const ToolRun made = run({"salvage", space_, copy_, "--json"});
    damage(file->first, at, before.substr(at, bytes));
    const std::string what = file->first + " byte " + std::to_string(at) + ", " +
                             std::to_string(bytes) + ": " + made.out + made.err;
    ++codes[made.code];
    ASSERT_GE(made.code, 0) << what;
    if (made.code == 3) {
      EXPECT_NE(made.err.find(space_), std::string::npos) << what;
      EXPECT_FALSE(std::filesystem::exists(copy_)) << what;
      EXPECT_FALSE(std::filesystem::exists(copy_ + ".salvaging")) << what;
      continue;
    }
    const Objects found = objects_in(copy_);
    for (const auto& [offset, content] : objects) {
      auto in = found.upper_bound(offset);
      ASSERT_NE(in, found.begin()) << what;
      --in;
      ASSERT_LE(offset + content.size(), in->first + in->second.size())
          << "object " << offset << " may be given out again; " << what;
      for (std::size_t i = 0; i < content.size(); ++i) {
        if (content[i] == in->second[offset - in->first + i]) continue;
        const bool hit = file->first == "heap.pool" && inside(offset + i, 1, at, at + bytes);
        ASSERT_TRUE(hit || made.code == 1) << "object " << offset << "; " << what;
      }
    }
    for (const auto& [name, content] : testing::contents_of_directory(copy_)) {
      if (name == "heap.pool") continue;
      ASSERT_EQ(content.size(), whole.at(name).size()) << what;
      for (std::size_t i = 0; i < content.size(); ++i)
        ASSERT_TRUE(content[i] == whole.at(name)[i] ||
                    (name == file->first && i >= at && i < at + bytes) ||
                    (name == "statics.region" && i < sizeof(StaticsHeader) && name == file->first))
            << name << " byte " << i << "; " << what;
    }
    std::filesystem::remove_all(copy_);
  }
  EXPECT_GT(codes[0], codes[3]);
  RecordProperty("refused", codes[3]);
}

TEST_F(SpaceSalvageTest, WhatCannotBeSalvagedIsRefusedAndLeavesNothing) {
  const auto whole = testing::contents_of_directory(space_);
  std::filesystem::resize_file(space_ + "/1.region", 2 * kPageBytes);
  expect_refused("--zero-lost-pages");
  const Json zeroed = json_of({"salvage", space_, copy_, "--zero-lost-pages", "--json"}, 1);
  EXPECT_EQ(zeroed["left_out"], 2) << zeroed.dump();
  {
    const auto opened = open(copy_);
    auto& receivers = testing::receivers_of(*opened);
    EXPECT_EQ(testing::word_of(receivers.region(0), 1), 2u);
    EXPECT_EQ(testing::word_of(receivers.region(0), 3), 0u);
  }
  std::filesystem::remove_all(copy_);
  write(space_ + "/1.region", whole.at("2.region"));
  expect_refused("is another region's");
  std::filesystem::remove(space_ + "/1.region");
  expect_refused("cannot be read");
  write(space_ + "/1.region", whole.at("1.region"));
  {
    const auto opened = open(space_);
    expect_refused("in use by process " + std::to_string(::getpid()));
  }
  write(space_ + "/heap.pool", whole.at("heap.pool").substr(0, 5000));
  expect_refused(space_);
  write(space_ + "/heap.pool", "no heap");
  expect_refused(space_);
  std::filesystem::remove_all(space_);
  std::filesystem::create_directory(space_);
  expect_refused(space_);
}

/// Regions that are larger than memory: what is in a frame is newer than what is in the file.
TEST_F(SpaceSalvageTest, OfRegionsInFramesTheFramesCount) {
  std::filesystem::remove_all(space_);
  {
    AddressSpace::Options options = testing::small_space_options();
    options.backing_directory = path("large");
    options.frames_bytes = std::uint64_t{4} << 20;  // half of it tables
    const auto opened = AddressSpace::open_or_create(space_, options).value();
    auto& receivers = testing::receivers_of(*opened);
    opened->map(receivers.variable(0), 600 * kPageBytes, testing::kReadWrite).value();
    for (std::uint64_t page = 0; page < 600; ++page)
      testing::store_durably(*opened, testing::word_of(receivers.region(0), page), page + 1);
  }
  json_of({"salvage", space_, copy_, "--json"});
  {
    const auto opened = open(copy_);
    auto& receivers = testing::receivers_of(*opened);
    for (std::uint64_t page = 0; page < 600; ++page)
      ASSERT_EQ(testing::word_of(receivers.region(0), page), page + 1);
  }
  std::filesystem::remove_all(copy_);
  // An entry of the mapping table: which page its frame holds is lost.
  std::string frames = read(space_ + "/frames.pool");
  FrameSuperblock super{};
  std::memcpy(&super, frames.data(), sizeof(super));
  damage("frames.pool", super.entry_offset, std::string(8, 'x'));
  expect_refused("frames.pool");
}

TEST_F(SpaceSalvageTest, WithoutSpaceThereIsNoHalfOfACopy) {
  for (const int blocks : {8, 40, 200}) {
    const ToolRun full =
        run_with("/bin/sh",
                 {"-c", "trap '' XFSZ; ulimit -f " + std::to_string(blocks) + "; exec " +
                            quoted(tool_) + " salvage " + quoted(space_) + " " + quoted(copy_)},
                 "");
    EXPECT_EQ(full.code, 3) << full.err;
    EXPECT_NE(full.err.find(copy_), std::string::npos) << full.err;
    EXPECT_FALSE(std::filesystem::exists(copy_));
    EXPECT_FALSE(std::filesystem::exists(copy_ + ".salvaging"));
  }
}

}  // namespace
}  // namespace perdure
