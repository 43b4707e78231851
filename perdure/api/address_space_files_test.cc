// SPDX-License-Identifier: BSD-3-Clause
// The files of a persistent address space: lost, cut off, exchanged, foreign, damaged or in use.
// What cannot be opened is left as it is, said with a remedy, and whole again when the damage is
// undone.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perdure/address_space.h"
#include "tests/small_space.h"

namespace perdure {
namespace {

using testing::contents_of;
using testing::contents_of_directory;
using ::testing::HasSubstr;
using testing::in_child;
using testing::kReadWrite;
using testing::Receivers;
using testing::receivers_of;
using testing::small_space_options;
using testing::store_durably;
using testing::TempDir;
using testing::TestStatics;
using testing::word_of;

constexpr char kInMemory[] = "/dev/shm/";

/// A space with three regions of two pages and a static variable, closed.
struct SpaceFilesTest : ::testing::Test {
  SpaceFilesTest() {
    options = small_space_options();
    statics.word(0) = 7;
    options.statics = statics.declared({1}, {{"counter", 0, 8}});
    auto space = AddressSpace::open_or_create(path, options).value();
    Receivers& known = receivers_of(*space);
    for (std::size_t i = 0; i < 3; ++i) {
      space->map(known.variable(i), 2 * kPageBytes, kReadWrite).value();
      store_durably(*space, word_of(known.region(i), 1), 100 + i);
    }
    store_durably(*space, *space->fixed_address(&statics.word(0)), 8);
  }

  std::string file(const std::string& name) const { return path + "/" + name; }
  void flip(const std::string& name, std::uint64_t at) const {
    std::string bytes = contents_of(file(name));
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ 1);
    std::ofstream(file(name), std::ios::binary) << bytes;
  }

  /// Opening fails as said, whether for work or for inspection, and changes no file.
  void expect_refused(Code code, const std::string& culprit, const std::string& remedy) const {
    const auto before = contents_of_directory(path);
    const auto refused = AddressSpace::open_or_create(path, options);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(code_name(refused.error().code), code_name(code)) << refused.error().message;
    EXPECT_THAT(refused.error().message, HasSubstr(culprit));
    EXPECT_THAT(refused.error().message, HasSubstr(remedy));
    const auto inspected = AddressSpace::inspect(path);
    ASSERT_FALSE(inspected.ok());
    EXPECT_EQ(code_name(inspected.error().code), code_name(code)) << inspected.error().message;
    EXPECT_TRUE(contents_of_directory(path) == before);
  }
  void expect_whole() {
    auto space = AddressSpace::open_or_create(path, options);
    ASSERT_TRUE(space.ok()) << space.error().message;
    Receivers& known = receivers_of(*space.value());
    EXPECT_EQ(space.value()->regions().size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(word_of(known.region(i), 1), 100 + i);
    EXPECT_EQ(statics.word(0), 8u);
  }

  TempDir dir{kInMemory};
  std::string path = dir / "space";
  TestStatics statics;
  AddressSpace::Options options;
};

// ---- damage -------------------------------------------------------------------------------------

TEST_F(SpaceFilesTest, AMissingRegionFileIsNamed) {
  std::filesystem::rename(file("2.region"), dir / "aside");
  expect_refused(Code::kNotFound, file("2.region"), "restore it from a backup");
  std::filesystem::rename(dir / "aside", file("2.region"));
  expect_whole();
}

TEST_F(SpaceFilesTest, ATruncatedRegionFileIsRefusedAtAnyLength) {
  const std::string whole = contents_of(file("2.region"));
  ASSERT_EQ(whole.size(), 3 * kPageBytes);
  for (const std::uint64_t bytes : {0, 1, 4096, 8191, 8192, 12287}) {
    SCOPED_TRACE(bytes);
    std::filesystem::resize_file(file("2.region"), bytes);
    expect_refused(Code::kTruncated, file("2.region"), "restore it from a backup");
    std::ofstream(file("2.region"), std::ios::binary) << whole;
  }
  std::ofstream(file("2.region"), std::ios::binary) << whole << std::string(kPageBytes, '\0');
  expect_refused(Code::kTruncated, file("2.region"), "restore it from a backup");
  std::ofstream(file("2.region"), std::ios::binary) << whole;
  expect_whole();
}

TEST_F(SpaceFilesTest, ASmallerRegionFileOfTheSameSpaceAndNumberIsRefused) {
  // As if a backup from before had been put back: file 2 then had another size.
  auto other = small_space_options();
  std::string small;
  {
    std::filesystem::copy(path, dir / "copy");
    auto space = AddressSpace::open_or_create(dir / "copy", other).value();
    Receivers& known = receivers_of(*space);
    space->unmap(known.region(1), 2 * kPageBytes).value();
  }
  std::string bytes = contents_of(file("2.region"));
  RegionTrailer trailer{};
  std::memcpy(&trailer, bytes.data() + 2 * kPageBytes, sizeof(trailer));
  trailer.bytes = kPageBytes;
  trailer.check = crc32c(&trailer, offsetof(RegionTrailer, check));
  small.assign(2 * kPageBytes, '\0');
  std::memcpy(small.data() + kPageBytes, &trailer, sizeof(trailer));
  std::ofstream(file("2.region"), std::ios::binary) << small;
  expect_refused(Code::kTruncated, file("2.region"), "restore it from a backup");
  std::ofstream(file("2.region"), std::ios::binary) << bytes;
  expect_whole();
}

TEST_F(SpaceFilesTest, EveryBitOfATrailerIsChecked) {
  for (std::uint64_t byte = 0; byte < sizeof(RegionTrailer); ++byte) {
    SCOPED_TRACE(byte);
    flip("3.region", 2 * kPageBytes + byte);
    const bool magic = byte < kRegionMagic.size();
    expect_refused(magic ? Code::kTruncated : Code::kCorrupt, file("3.region"),
                   "restore it from a backup");
    flip("3.region", 2 * kPageBytes + byte);
  }
  expect_whole();
}

TEST_F(SpaceFilesTest, FilesOfAnotherSpaceAreForeign) {
  auto other = small_space_options();
  {
    auto space = AddressSpace::open_or_create(dir / "other", other).value();
    space->map(receivers_of(*space).variable(0), 2 * kPageBytes, kReadWrite).value();
  }
  for (const std::string name : {"1.region", "heap.pool"}) {
    SCOPED_TRACE(name);
    std::filesystem::rename(file(name), dir / "aside");
    std::filesystem::copy(dir / ("other/" + name), file(name));
    expect_refused(Code::kForeign, path, "put the right file there");
    std::filesystem::rename(dir / "aside", file(name));
  }
  expect_whole();
}

TEST_F(SpaceFilesTest, ExchangedRegionFilesAreToldApart) {
  const auto exchange = [&] {
    std::filesystem::rename(file("1.region"), dir / "aside");
    std::filesystem::rename(file("2.region"), file("1.region"));
    std::filesystem::rename(dir / "aside", file("2.region"));
  };
  exchange();
  expect_refused(Code::kForeign, "is what " + file("2.region") + " should be", "rename the files");
  exchange();
  expect_whole();
}

TEST_F(SpaceFilesTest, LinksDirectoriesAndPipesAreNoRegionFiles) {
  std::filesystem::rename(file("2.region"), dir / "aside");
  std::filesystem::create_symlink(dir / "aside", file("2.region"));
  expect_refused(Code::kForeign, file("2.region") + ": is a symbolic link", "put the region file");
  std::filesystem::remove(file("2.region"));
  std::filesystem::create_directory(file("2.region"));
  expect_refused(Code::kForeign, file("2.region") + ": not a regular file", "restore it");
  std::filesystem::remove(file("2.region"));
  ASSERT_EQ(::mkfifo(file("2.region").c_str(), 0600), 0);
  expect_refused(Code::kForeign, file("2.region") + ": not a regular file", "restore it");
  std::filesystem::remove(file("2.region"));
  std::filesystem::rename(dir / "aside", file("2.region"));
  expect_whole();
}

TEST_F(SpaceFilesTest, AHeapOfTheFutureOrWithADamagedSuperblockIsRefused) {
  const std::string whole = contents_of(file("heap.pool"));
  Superblock super{};
  std::memcpy(&super, whole.data(), sizeof(super));
  const auto write = [&](const Superblock& changed) {
    std::string bytes = whole;
    for (const Offset copy : {Offset{0}, kSecondSuperblockOffset})
      std::memcpy(bytes.data() + copy, &changed, sizeof(changed));
    std::ofstream(file("heap.pool"), std::ios::binary) << bytes;
  };
  const auto flip_both = [&](std::uint64_t byte) {
    for (const Offset copy : {Offset{0}, kSecondSuperblockOffset}) flip("heap.pool", copy + byte);
  };
  for (const std::uint64_t byte : {16u, 56u, 70u, 100u, 140u}) {
    SCOPED_TRACE(byte);
    flip_both(byte);
    expect_refused(Code::kCorrupt, file("heap.pool"), "restore it from a backup");
    flip_both(byte);
  }
  Superblock newer = super;
  ++newer.version;
  newer.crc = crc32c(&newer, offsetof(Superblock, crc));
  write(newer);
  expect_refused(Code::kVersion, file("heap.pool"), "use a newer release");
  Superblock elsewhere = super;
  elsewhere.preferred_base = 12345;
  elsewhere.crc = crc32c(&elsewhere, offsetof(Superblock, crc));
  write(elsewhere);
  const auto refused = AddressSpace::open_or_create(path, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("restore it from a backup"));
  write(super);
  expect_whole();
}

TEST_F(SpaceFilesTest, AnOrdinaryPoolIsNoAddressSpaceAndTheOtherWayRound) {
  std::filesystem::create_directory(dir / "ordinary");
  Pool::create(dir / "ordinary/heap.pool", options.pool).value();
  const auto refused = AddressSpace::open_or_create(dir / "ordinary", small_space_options());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().message, HasSubstr("use another directory"));
  const auto opened = Pool::open(file("heap.pool"), options.pool);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(opened.error().message, HasSubstr("name its directory"));
  expect_whole();
}

TEST_F(SpaceFilesTest, ADamagedEntryOfTheRegionTableIsRefused) {
  const std::string whole = contents_of(file("heap.pool"));
  // The entries, found by what they say of their files.
  std::vector<std::uint64_t> entries;
  for (std::uint64_t at = 0; at + sizeof(RegionEntry) <= whole.size(); at += kWordBytes) {
    RegionEntry entry{};
    std::memcpy(&entry, whole.data() + at, sizeof(entry));
    if (entry.bytes == 2 * kPageBytes && entry.check == check_of_region(entry))
      entries.push_back(at);
  }
  ASSERT_EQ(entries.size(), 3u);
  for (std::uint64_t byte = 0; byte < sizeof(RegionEntry); byte += 5) {
    SCOPED_TRACE(byte);
    flip("heap.pool", entries[1] + byte);
    expect_refused(Code::kCorrupt, file("heap.pool"), "restore it from a backup");
    flip("heap.pool", entries[1] + byte);
  }
  expect_whole();
}

TEST_F(SpaceFilesTest, StrayFilesAreLeftAlone) {
  std::ofstream(file("4.region")) << "somebody's";
  std::filesystem::create_symlink("nowhere", file("5.region"));
  std::filesystem::copy(file("1.region"), file("6.region"));
  std::filesystem::create_directory(file("7.region"));
  std::ofstream(file("notes.txt")) << "mine";
  expect_whole();
  {
    auto space = AddressSpace::open_or_create(path, options).value();
    Receivers& known = receivers_of(*space);
    space->map(known.variable(3), kPageBytes, kReadWrite).value();
    EXPECT_TRUE(std::filesystem::exists(file("8.region"))) << "the first number that is free";
    space->unmap(known.region(3), kPageBytes).value();
  }
  EXPECT_EQ(contents_of(file("4.region")), "somebody's");
  EXPECT_TRUE(std::filesystem::is_symlink(file("5.region")));
  EXPECT_EQ(contents_of(file("6.region")), contents_of(file("1.region")));
  EXPECT_EQ(contents_of(file("notes.txt")), "mine");
  expect_whole();
}

// ---- addresses and rights -----------------------------------------------------------------------

TEST_F(SpaceFilesTest, TheBaseOfItsCreationIsKept) {
  auto moved = options;
  moved.base = testing::kSpaceBase + (std::uint64_t{1} << 30);
  const auto refused = AddressSpace::open_or_create(path, moved);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("leave PERDURE_RESERVED_BASE unset"));
  moved.base = nullptr;
  moved.range_bytes = std::uint64_t{1} << 40;
  auto space = AddressSpace::open_or_create(path, moved).value();
  EXPECT_EQ(space->base(), testing::kSpaceBase);
  EXPECT_EQ(space->range_bytes(), options.range_bytes) << "given at creation";
}

TEST_F(SpaceFilesTest, BadRangesAreRefusedBeforeAnythingIsMade) {
  const auto refused = [&](auto change) {
    auto bad = small_space_options();
    change(bad);
    const auto opened = AddressSpace::open_or_create(dir / "new", bad);
    return !opened.ok() && opened.error().code == Code::kInvalid &&
           !std::filesystem::exists(dir / "new");
  };
  using Options = AddressSpace::Options;
  EXPECT_TRUE(refused([](Options& o) { o.range_bytes = 0; }));
  EXPECT_TRUE(refused([](Options& o) { o.range_bytes = (std::uint64_t{1} << 30) + 4096; }));
  EXPECT_TRUE(refused([](Options& o) { o.range_bytes = std::uint64_t{1} << 29; }));
  EXPECT_TRUE(refused([](Options& o) { o.range_bytes = std::uint64_t{1} << 43; }));
  EXPECT_TRUE(refused([](Options& o) { o.base += kPageBytes; }));
  EXPECT_TRUE(refused([](Options& o) { o.base = reinterpret_cast<std::byte*>(1 << 21); }));
  EXPECT_TRUE(
      refused([](Options& o) { o.base = reinterpret_cast<std::byte*>(~((1ull << 21) - 1)); }));
}

TEST_F(SpaceFilesTest, TakenAddressesAreNamedWithWhoHasThem) {
  void* const taken = ::mmap(testing::kSpaceBase + kPageBytes, kPageBytes, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ASSERT_NE(taken, MAP_FAILED);
  const auto refused = AddressSpace::open_or_create(path, options);
  ::munmap(taken, kPageBytes);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("7ea000001000-7ea000002000"));
  EXPECT_THAT(refused.error().message, HasSubstr("PERDURE_RESERVED_BASE"));
  expect_whole();
}

TEST_F(SpaceFilesTest, ASecondOpenInTheSameProcessIsBusy) {
  auto space = AddressSpace::open_or_create(path, options).value();
  const auto second = AddressSpace::open_or_create(path, options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(code_name(second.error().code), "busy") << second.error().message;
  EXPECT_THAT(second.error().message, HasSubstr("process " + std::to_string(::getpid())));
  const auto inspected = AddressSpace::inspect(path);
  ASSERT_FALSE(inspected.ok());
  EXPECT_EQ(code_name(inspected.error().code), "busy") << inspected.error().message;
  EXPECT_EQ(word_of(receivers_of(*space).region(0), 1), 100u) << "the first goes on";
}

TEST_F(SpaceFilesTest, InspectingShowsEverythingAndChangesNothing) {
  const auto before = contents_of_directory(path);
  {
    auto space = AddressSpace::inspect(path).value();
    EXPECT_EQ(space->regions().size(), 3u);
    const std::uint64_t into =
        receivers_of(*space).address[1] - reinterpret_cast<std::uint64_t>(testing::kSpaceBase);
    std::uint64_t& word = word_of(space->base() + into, 1);
    EXPECT_EQ(word, 101u);
    store_durably(*space, word, 5);
    EXPECT_EQ(word, 5u);
    EXPECT_TRUE(AddressSpace::inspect(path).ok()) << "two may look at the same time";
  }
  EXPECT_TRUE(contents_of_directory(path) == before);
  expect_whole();
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow into a child that maps

TEST_F(SpaceFilesTest, ASecondOpenInAnotherProcessNamesTheHolder) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    auto space = AddressSpace::open_or_create(path, options);
    (void)!::write(pipe[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char ready = 0;
  ASSERT_EQ(::read(pipe[0], &ready, 1), 1);
  const auto refused = AddressSpace::open_or_create(path, options);
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kBusy);
  EXPECT_THAT(refused.error().message, HasSubstr("process " + std::to_string(holder)));
  expect_whole();
}

TEST_F(SpaceFilesTest, AReadOnlyDirectoryIsSaidToBeSo) {
  std::filesystem::permissions(path, std::filesystem::perms(0555));
  std::filesystem::permissions(file("heap.pool"), std::filesystem::perms(0444));
  std::filesystem::permissions(dir / "", std::filesystem::perms(0755));
  EXPECT_EQ(in_child([&] {
              if (::getuid() == 0 && ::setuid(65534) != 0) return 100;
              const auto refused = AddressSpace::open_or_create(path, options);
              if (refused.ok() || refused.error().code != Code::kIo) return 1;
              if (refused.error().message.find(path) == std::string::npos) return 2;
              const auto fresh = AddressSpace::open_or_create(path + "/new", options);
              return !fresh.ok() && fresh.error().message.find("denied") != std::string::npos ? 0
                                                                                              : 3;
            }),
            0);
  std::filesystem::permissions(path, std::filesystem::perms(0755));
  std::filesystem::permissions(file("heap.pool"), std::filesystem::perms(0600));
  expect_whole();
}

TEST_F(SpaceFilesTest, OutOfFileDescriptorsIsAnErrorAndNotAnEndlessSearch) {
  EXPECT_EQ(in_child([&] {
              auto space = AddressSpace::open_or_create(path, options).value();
              Receivers& known = receivers_of(*space);
              const rlimit few{20, 20};
              ::setrlimit(RLIMIT_NOFILE, &few);
              for (std::size_t i = 10; i < 100; ++i) {
                const auto made = space->map(known.variable(i), 1, kReadWrite);
                if (made.ok()) continue;
                if (made.error().code != Code::kIo) return 1;
                if (made.error().message.find("ulimit -n") == std::string::npos) return 2;
                return space->regions().size() == 3 + i - 10 && known.address[i] == 0 ? 0 : 3;
              }
              return 4;
            }),
            0);
}

TEST_F(SpaceFilesTest, AProgramThatStoredToARegionBeingDestroyedLosesNothingElse) {
  EXPECT_EQ(in_child([&] {
              ::signal(SIGSEGV, SIG_DFL);  // no reports of the death that is meant
              auto space = AddressSpace::open_or_create(path, options).value();
              Receivers& known = receivers_of(*space);
              space->map(known.variable(5), kPageBytes, kReadWrite).value();
              space->pool().atomically([&](Tx& tx) {
                tx.store(word_of(known.region(5)), 1);
                tx.store(known.address[7], 77);
                std::thread([&] { space->unmap(known.region(5), kPageBytes).value(); }).join();
              });
              return 0;  // not reached: the commit stores to a region that is gone
            }),
            1000 + SIGSEGV);
  expect_whole();
  auto space = AddressSpace::open_or_create(path, options).value();
  EXPECT_EQ(receivers_of(*space).address[7], 77u)
      << "the record was durable: the rest of it counts";
  EXPECT_EQ(space->map(receivers_of(*space).variable(6), kPageBytes, kReadWrite).value(),
            receivers_of(*space).region(5))
      << "the addresses are free";
  EXPECT_EQ(word_of(receivers_of(*space).region(6)), 0u);
}

TEST_F(SpaceFilesTest, AForkedChildMayForgetTheSpaceWithoutHarm) {
  auto space = AddressSpace::open_or_create(path, options).value();
  EXPECT_EQ(in_child([&] {
              // What the child maps where the heap was is its own.
              void* const mine = ::mmap(space->base(), kPageBytes, kReadWrite,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              if (mine != space->base()) return 1;
              *static_cast<int*>(mine) = 5;
              space.reset();
              return *static_cast<int*>(mine) == 5 ? 0 : 2;
            }),
            0);
  store_durably(*space, word_of(receivers_of(*space).region(0), 0), 9);
  space.reset();
  expect_whole();
}

TEST_F(SpaceFilesTest, AKilledProcessLeavesNoPieceOfARegion) {
  // Killed at a random moment of a loop of map and unmap: what is there then is what the table
  // says.
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto space = AddressSpace::open_or_create(path, options).value();
      Receivers& known = receivers_of(*space);
      for (;;) {
        store_durably(*space, known.address[9], 0);
        space->map(known.variable(9), 3 * kPageBytes, kReadWrite).value();
        space->unmap(known.region(9) + kPageBytes, kPageBytes).value();
        space->unmap(known.region(9), 3 * kPageBytes).value();
      }
    }
    ::usleep(20'000 + 3'000 * static_cast<unsigned>(round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    auto space = AddressSpace::open_or_create(path, options).value();
    Receivers& known = receivers_of(*space);
    std::set<std::string> expected = {"heap.pool", "statics.region"};
    bool known_to_program = true;
    for (const RegionEntry& entry : space->regions()) {
      expected.insert(std::to_string(entry.file) + ".region");
      std::byte* const begin = space->base() + entry.begin;
      if (entry.file > 3)
        known_to_program = begin >= known.region(9) && begin < known.region(9) + 3 * kPageBytes;
    }
    EXPECT_TRUE(known_to_program);
    std::set<std::string> found;
    for (const auto& [name, bytes] : contents_of_directory(path)) found.insert(name);
    EXPECT_EQ(found, expected);
    if (space->regions().size() > 3) space->unmap(known.region(9), 3 * kPageBytes).value();
  }
  expect_whole();
}

#endif

}  // namespace
}  // namespace perdure
