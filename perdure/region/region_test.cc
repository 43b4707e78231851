// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/region.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "perdure/base/crc32c.h"
#include "tests/small_pool.h"

namespace perdure {
namespace {

using testing::Image;
using testing::kSmallGeometry;
using testing::TempDir;

Region::CreateOptions small(std::uint64_t segments = 1) { return {kSmallGeometry, segments}; }

/// While it lives, no file of this process grows beyond `bytes`.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const struct rlimit tight{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &tight);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  struct rlimit before_{};
};

struct RegionTest : ::testing::Test {
  std::string path = dir() / "pool";
  TempDir& dir() {
    static TempDir shared;
    return shared;
  }
  void SetUp() override { std::filesystem::remove(path); }
  Result<std::unique_ptr<Region>> open(Region::Access access = Region::Access::kReadWrite) {
    return Region::open_file(path, DomainKind::kDram, access);
  }
  /// The error that opening the file gives, now that `change` was made to it.
  template <class Change>
  Error error_after(Change change) {
    std::filesystem::remove(path);
    Region::create_file(path, small()).value();
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      change(file);
    }
    auto opened = open();
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error{Code::kIo, "opened"} : opened.error();
  }
  /// Changes the superblock and makes its checksum right again: what a newer release, or an
  /// attacker, would write.
  template <class Change>
  Error error_with_superblock(Change change) {
    return error_after([&](std::fstream& file) {
      Superblock super{};
      file.read(reinterpret_cast<char*>(&super), sizeof(super));
      change(super);
      super.crc = crc32c(&super, offsetof(Superblock, crc));
      for (const Offset copy : {Offset{0}, kSecondSuperblockOffset}) {
        file.seekp(static_cast<std::streamoff>(copy));
        file.write(reinterpret_cast<char*>(&super), sizeof(super));
      }
    });
  }
};

// ---- creation -----------------------------------------------------------------------------------

TEST_F(RegionTest, CreateNeverOverwritesNeitherAFileNorALinkNorADirectory) {
  std::ofstream(path) << "precious";
  EXPECT_EQ(Region::create_file(path, small()).error().code, Code::kExists);
  std::string content;
  std::ifstream(path) >> content;
  EXPECT_EQ(content, "precious");

  std::filesystem::remove(path);
  std::filesystem::create_symlink(dir() / "nowhere", path);  // dangling
  EXPECT_EQ(Region::create_file(path, small()).error().code, Code::kExists);
  EXPECT_FALSE(std::filesystem::exists(dir() / "nowhere")) << "a link is not followed";
  std::filesystem::remove(path);

  EXPECT_EQ(Region::create_file(dir() / ".", small()).error().code, Code::kExists);
  EXPECT_EQ(Region::create_file(dir() / "no/such/directory", small()).error().code,
            Code::kNotFound);
}

TEST_F(RegionTest, OneOfManyCreatorsWinsAndEveryOneElseIsTold) {
  std::atomic<int> won{0};
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      auto created = Region::create_file(path, small());
      if (created.ok()) ++won;
      if (!created.ok() && created.error().code == Code::kExists) ++told;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
  EXPECT_EQ(told, 7);
  EXPECT_TRUE(open().ok());
}

TEST_F(RegionTest, FailedCreationsLeaveNoFile) {
  Geometry bad = kSmallGeometry;
  bad.segment_bytes = 1;
  EXPECT_EQ(Region::create_file(path, {bad, 1}).error().code, Code::kInvalid);
  EXPECT_EQ(Region::create_file(path, small(1000)).error().code, Code::kInvalid);
  {
    const FileSizeLimit limit(std::uint64_t{64}
                              << 20);  // in case that it begins to write all the same
    EXPECT_EQ(Region::create_file(path, small(~std::uint64_t{0} / kSmallGeometry.segment_bytes + 2))
                  .error()
                  .code,
              Code::kInvalid)
        << "a size that overflows";
  }
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
}

TEST_F(RegionTest, FilesArePrivateUnlessAskedOtherwise) {
  const auto mode = [&](unsigned asked, ::mode_t mask) {
    std::filesystem::remove(path);
    const ::mode_t before = ::umask(mask);
    Region::create_file(path, {kSmallGeometry, 1, asked}).value();
    ::umask(before);
    struct stat status{};
    ::stat(path.c_str(), &status);
    return status.st_mode & 07777u;
  };
  EXPECT_EQ(mode(0600, 022), 0600u);
  EXPECT_EQ(mode(0666, 022), 0644u) << "the umask is respected";
  EXPECT_EQ(Region::CreateOptions{}.mode, 0600u);
}

TEST_F(RegionTest, EveryPoolHasItsOwnUuid) {
  Region::create_file(path, small()).value();
  const auto first = open().value()->superblock().uuid;
  std::filesystem::remove(path);
  Region::create_file(path, small()).value();
  EXPECT_NE(open().value()->superblock().uuid, first);
}

// ---- opening ------------------------------------------------------------------------------------

TEST_F(RegionTest, WhatIsNoPoolIsForeign) {
  EXPECT_EQ(open().error().code, Code::kNotFound);
  for (const std::string& content :
       {std::string(), std::string("PERD"), std::string(143, 'x'), std::string(5000, 'x')}) {
    std::ofstream(path, std::ios::binary) << content;
    EXPECT_EQ(open().error().code, Code::kForeign) << content.size();
  }
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(open().error().code, Code::kForeign) << "and opening a pipe does not wait";
  EXPECT_EQ(
      Region::open_file("/dev/null", DomainKind::kAuto, Region::Access::kReadWrite).error().code,
      Code::kForeign);
  EXPECT_EQ(
      Region::open_file(dir() / ".", DomainKind::kAuto, Region::Access::kInspect).error().code,
      Code::kForeign);
}

TEST_F(RegionTest, SymbolicLinksAreFollowed) {
  const TempDir links;
  Region::create_file(path, small()).value();
  const std::string direct = links / "direct";
  const std::string relative = links / "relative";
  std::filesystem::create_symlink(path, direct);
  std::filesystem::create_symlink("direct", relative);
  for (const std::string& link : {direct, relative}) {
    auto opened = Region::open_file(link, DomainKind::kDram, Region::Access::kReadWrite);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ(Region::read_superblock(link).value().uuid, opened.value()->superblock().uuid);
    // The lock is the file's, whatever name it is opened by.
    EXPECT_EQ(Region::open_file(path, DomainKind::kDram, Region::Access::kReadWrite).error().code,
              Code::kBusy);
  }
}

TEST_F(RegionTest, SymbolicLinksThatLeadNowhereAreToldWithWhereTheyLead) {
  const TempDir links;
  const std::string link = links / "link";
  std::filesystem::create_symlink("gone", link);
  auto refused = Region::open_file(link, DomainKind::kDram, Region::Access::kReadWrite);
  EXPECT_EQ(refused.error().code, Code::kNotFound);
  EXPECT_NE(refused.error().message.find("/gone"), std::string::npos) << refused.error().message;

  std::filesystem::create_symlink("link", links / "gone");
  refused = Region::open_file(link, DomainKind::kDram, Region::Access::kReadWrite);
  EXPECT_EQ(refused.error().code, Code::kIo);
  EXPECT_NE(refused.error().message.find("symbolic links"), std::string::npos)
      << refused.error().message;
}

TEST_F(RegionTest, ASymbolicLinkOfAnotherUserIsRefused) {
  if (::getuid() != 0) GTEST_SKIP() << "only root may give links to others";
  constexpr uid_t kSomebody = 65534;
  const TempDir links;
  Region::create_file(path, small()).value();
  const std::string link = links / "link";
  const auto open = [&] {
    return Region::open_file(link, DomainKind::kDram, Region::Access::kReadWrite);
  };
  std::filesystem::create_symlink(path, link);
  ASSERT_EQ(::lchown(link.c_str(), kSomebody, kSomebody), 0);
  const auto refused = open();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalid);
  for (const char* part : {"symbolic link of user 65534", path.c_str(), "of user 0"})
    EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
  EXPECT_EQ(Region::read_superblock(link).error().code, Code::kInvalid);
  // Behind a link that would be followed, too.
  std::filesystem::create_symlink(link, links / "to-link");
  EXPECT_EQ(Region::read_superblock(links / "to-link").error().code, Code::kInvalid);

  ASSERT_EQ(::chown(path.c_str(), kSomebody, kSomebody), 0);
  EXPECT_TRUE(open().ok()) << "link and file are of one user";
  ASSERT_EQ(::lchown(link.c_str(), 0, 0), 0);
  EXPECT_TRUE(open().ok()) << "root's links are followed";
}

TEST_F(RegionTest, ATruncatedFileIsRefusedWithBothSizes) {
  const std::uint64_t whole = [&] {
    Region::create_file(path, small()).value();
    return std::filesystem::file_size(path);
  }();
  for (std::uint64_t size = whole - 1; size > 8; size = size > 20000 ? size - 4097 : size / 2) {
    std::filesystem::remove(path);
    Region::create_file(path, small()).value();
    std::filesystem::resize_file(path, size);
    auto opened = open();
    ASSERT_FALSE(opened.ok()) << size;
    EXPECT_EQ(opened.error().code, Code::kTruncated) << size;
    EXPECT_NE(opened.error().message.find(std::to_string(size)), std::string::npos)
        << opened.error().message;
    EXPECT_NE(opened.error().message.find(path), std::string::npos);
  }
}

TEST_F(RegionTest, ALongerFileIsFine) {
  Region::create_file(path, small()).value();
  std::filesystem::resize_file(path,
                               std::filesystem::file_size(path) + 12345);  // a crash while growing
  EXPECT_TRUE(open().ok());
}

TEST_F(RegionTest, NewerReleasesAreNamedAndUnknownFeaturesRefused) {
  const Error newer = error_with_superblock([](Superblock& super) { super.version = 7; });
  EXPECT_EQ(newer.code, Code::kVersion);
  EXPECT_NE(newer.message.find("version 7"), std::string::npos) << newer.message;
  EXPECT_EQ(error_with_superblock([](Superblock& super) { super.version = 0; }).code,
            Code::kVersion);
  EXPECT_EQ(error_with_superblock([](Superblock& super) { super.superblock_bytes = 152; }).code,
            Code::kVersion);
  EXPECT_EQ(error_with_superblock([](Superblock& super) { super.incompatible = 2; }).code,
            Code::kVersion);
  EXPECT_EQ(error_with_superblock([](Superblock& super) { super.read_only_compatible = 1; }).code,
            Code::kVersion);
}

TEST_F(RegionTest, ANewerCompatibleFeatureIsIgnored) {
  Region::create_file(path, small()).value();
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    Superblock super{};
    file.read(reinterpret_cast<char*>(&super), sizeof(super));
    super.compatible = ~std::uint64_t{0};
    super.crc = crc32c(&super, offsetof(Superblock, crc));
    file.seekp(0);
    file.write(reinterpret_cast<char*>(&super), sizeof(super));
  }
  EXPECT_TRUE(open().ok());
}

TEST_F(RegionTest, GeometriesThatNoReleaseWritesAreCorrupt) {
  const auto with = [&](auto change) {
    return error_with_superblock([&](Superblock& super) {
      change(super.geometry);
      if (super.geometry.segment_bytes != 0) lay_out(super);
    });
  };
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  EXPECT_EQ(with([](Geometry& g) { g.segment_bytes = 0; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.segment_bytes = 3 * kMinSegmentBytes; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.segment_bytes = kHuge; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.capacity_bytes = 0; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.capacity_bytes = ~std::uint64_t{0}; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.ring_bytes = kHuge; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.ring_bytes = 0; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.log_slots = 0; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.log_slots = ~0u; }).code, Code::kCorrupt);
  EXPECT_EQ(with([](Geometry& g) { g.root_entries = ~0u; }).code, Code::kCorrupt);
  EXPECT_EQ(error_with_superblock([](Superblock& super) { super.heap_offset += kPageBytes; }).code,
            Code::kCorrupt);
  EXPECT_EQ(error_with_superblock([](Superblock& super) { super.root_offset = 0; }).code,
            Code::kCorrupt);
}

TEST_F(RegionTest, DamageIsNamedWithItsPlace) {
  const Error in_superblock = error_after([](std::fstream& file) {
    for (const Offset copy : {Offset{0}, kSecondSuperblockOffset}) {
      file.seekp(static_cast<std::streamoff>(copy + 60));
      file.put('\x42');
    }
  });
  EXPECT_EQ(in_superblock.code, Code::kCorrupt);
  EXPECT_NE(in_superblock.message.find("superblock"), std::string::npos);
  const Error in_state = error_after([](std::fstream& file) {
    file.seekp(kStateOffset + 1);
    file.put('\x42');
  });
  EXPECT_EQ(in_state.code, Code::kCorrupt);
  EXPECT_NE(in_state.message.find("4096"), std::string::npos) << in_state.message;
}

TEST_F(RegionTest, AnUntrustedFileChoosesNoAddress) {
  Region::create_file(path, small()).value();
  void* mine = ::mmap(nullptr, kSmallGeometry.capacity_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(mine, 0x5a, kSmallGeometry.capacity_bytes);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    Superblock super{};
    file.read(reinterpret_cast<char*>(&super), sizeof(super));
    super.preferred_base = reinterpret_cast<std::uint64_t>(mine);
    super.crc = crc32c(&super, offsetof(Superblock, crc));
    file.seekp(0);
    file.write(reinterpret_cast<char*>(&super), sizeof(super));
  }
  auto region = open();
  ASSERT_TRUE(region.ok());
  EXPECT_NE(region.value()->base(), mine);
  EXPECT_EQ(static_cast<unsigned char*>(mine)[100], 0x5a);
  ::munmap(mine, kSmallGeometry.capacity_bytes);
}

TEST_F(RegionTest, TwoRegionsAreMappedAtTheSameTime) {
  Region::create_file(path, small()).value();
  const std::string other = dir() / "other";
  Region::create_file(other, small()).value();
  auto first = open();
  auto second = Region::open_file(other, DomainKind::kDram, Region::Access::kReadWrite);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first.value()->base(), second.value()->base());
  std::filesystem::remove(other);
}

// ---- locks --------------------------------------------------------------------------------------

void expect_busy_with_pid(const std::string& path, ::pid_t holder) {
  auto second = Region::open_file(path, DomainKind::kDram, Region::Access::kReadWrite);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kBusy);
  EXPECT_NE(second.error().message.find("process " + std::to_string(holder)), std::string::npos)
      << second.error().message;
}

TEST_F(RegionTest, ASecondOpenerIsRefusedWithTheHoldersPid) {
  Region::create_file(path, small()).value();
  {
    auto held = open();
    ASSERT_TRUE(held.ok());
    expect_busy_with_pid(path, ::getpid());
    EXPECT_EQ(open(Region::Access::kInspect).error().code, Code::kBusy);
    const pid_t child = ::fork();
    if (child == 0) {
      expect_busy_with_pid(path, ::getppid());
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "another process, a child of the holder";
    expect_busy_with_pid(path, ::getpid());
  }
  EXPECT_TRUE(open().ok()) << "closing unlocks";
}

TEST_F(RegionTest, AnotherProcessesPoolIsRefusedWithItsPid) {
  Region::create_file(path, small()).value();
  int ready[2];
  int done[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(done), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto held = open();
    char byte = held.ok() ? 'y' : 'n';
    (void)!::write(ready[1], &byte, 1);
    (void)!::read(done[0], &byte, 1);
    ::_exit(0);  // the lock goes with the process
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  expect_busy_with_pid(path, child);
  (void)!::write(done[1], &byte, 1);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(open().ok());
  for (const int fd : {ready[0], ready[1], done[0], done[1]}) ::close(fd);
}

TEST_F(RegionTest, NothingStaysOpenAfterClosingOrAfterAFailedOpen) {
  const auto open_files = [] {
    int count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
      ++count;
    return count;
  };
  Region::create_file(path, small()).value();
  (void)open();
  const int before = open_files();
  for (const DomainKind kind : {DomainKind::kDram, DomainKind::kSync, DomainKind::kAdr}) {
    for (int i = 0; i < 5; ++i) {
      auto region = Region::open_file(path, kind, Region::Access::kReadWrite);
      EXPECT_TRUE(region.ok());
      EXPECT_EQ(open().error().code, Code::kBusy);
    }
  }
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(Region::create_file(path, small()).error().code, Code::kExists);
  EXPECT_EQ(open_files(), before);
}

TEST_F(RegionTest, AForkedChildHasNoMapping) {
  Region::create_file(path, small()).value();
  auto region = open();
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char resident = 0;
    ::_exit(::mincore(region.value()->base(), kPageBytes, &resident) == -1 && errno == ENOMEM ? 0
                                                                                              : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

// ---- growing ------------------------------------------------------------------------------------

TEST_F(RegionTest, GrowingKeepsPointersAndExtendsTheFileDurably) {
  Region::create_file(path, small()).value();
  Dram domain;
  std::uint64_t grown = 0;
  {
    auto region = open().value();
    Word* first = region->word(region->superblock().heap_offset);
    *first = 42;
    const std::byte* base = region->base();
    EXPECT_EQ(region->segments(), 1u);
    ASSERT_TRUE(region->grow(domain, 2, seal(7, kSaltSegment)).ok());
    EXPECT_EQ(region->segments(), 3u);
    EXPECT_EQ(region->base(), base);
    EXPECT_EQ(*first, 42u);
    grown = region->grown_bytes();
    EXPECT_GE(std::filesystem::file_size(path), grown);
    *region->word(grown - 8) = 43;  // the last word is there
    EXPECT_EQ(*region->segment_word(1), seal(7, kSaltSegment));
    EXPECT_EQ(*region->segment_word(2), seal(7, kSaltSegment));
    EXPECT_EQ(region->grow(domain, region->max_segments(), 0).error().code, Code::kNoSpace);
    EXPECT_EQ(region->grow(domain, ~std::uint64_t{0}, 0).error().code, Code::kNoSpace);
    EXPECT_EQ(region->grown_bytes(), grown) << "unchanged by the failure";
  }
  auto region = open().value();
  EXPECT_EQ(region->grown_bytes(), grown);
  EXPECT_EQ(*region->word(grown - 8), 43u);
}

TEST_F(RegionTest, AFileThatCannotGrowLeavesTheRegionAsItIs) {
  Region::create_file(path, small()).value();
  auto region = open().value();
  const std::uint64_t grown = region->grown_bytes();
  Dram domain;
  {
    const FileSizeLimit limit(grown);
    const auto failed = region->grow(domain, 1, 0);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Code::kNoSpace);
  }
  EXPECT_EQ(region->grown_bytes(), grown);
  EXPECT_TRUE(region->grow(domain, 1, 0).ok()) << "and may try again";
}

TEST_F(RegionTest, AnInspectedPoolCannotGrowAndIsNotChanged) {
  Region::create_file(path, small()).value();
  const auto written = std::filesystem::last_write_time(path);
  auto region = open(Region::Access::kInspect).value();
  Dram domain;
  EXPECT_EQ(region->grow(domain, 1, 0).error().code, Code::kNoSpace);
  *region->word(region->superblock().heap_offset) = 1;
  region.reset();
  auto reopened = open().value();
  EXPECT_EQ(*reopened->word(reopened->superblock().heap_offset), 0u);
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
}

TEST(RegionInMemory, AFailedSyncPoisonsTheGrowth) {
  struct Broken : Dram {
    bool fence(Site) { return false; }
  } broken;
  Image image = Image::formatted();
  auto region = image.region().value();
  const std::uint64_t grown = region->grown_bytes();
  EXPECT_EQ(region->grow(broken, 1, 0).error().code, Code::kPoisoned);
  EXPECT_EQ(region->grown_bytes(), grown);
}

TEST(RegionInMemory, EveryFlippedBitOfOneSuperblockIsSeenAndTheOtherUsed) {
  Image image = Image::formatted();
  const Superblock super = image.super();
  for (const Offset copy : {Offset{0}, kSecondSuperblockOffset}) {
    for (Offset byte = copy; byte < copy + sizeof(Superblock); ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        image.base()[byte] ^= static_cast<std::byte>(1 << bit);
        auto region = image.region();
        ASSERT_TRUE(region.ok()) << byte << region.error().message;
        EXPECT_EQ(std::memcmp(&region.value()->superblock(), &super, sizeof(super)), 0) << byte;
        EXPECT_NE(region.value()->superblock_damage(), "") << byte;
        image.base()[byte] ^= static_cast<std::byte>(1 << bit);
      }
    }
  }
  EXPECT_EQ(image.region().value()->superblock_damage(), "");
}

TEST(RegionInMemory, EveryFlippedBitOfBothSuperblocksAndOfTheSizeIsRefused) {
  Image image = Image::formatted();
  for (Offset byte = 0; byte < sizeof(Superblock); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      const auto flip = [&] {
        for (const Offset copy : {Offset{0}, kSecondSuperblockOffset})
          image.base()[copy + byte] ^= static_cast<std::byte>(1 << bit);
      };
      flip();
      EXPECT_FALSE(image.region().ok()) << byte;
      flip();
    }
  }
  for (int bit = 0; bit < 64; ++bit) {
    image.word(kStateOffset) ^= Word{1} << bit;
    EXPECT_EQ(image.region().error().code, Code::kCorrupt) << bit;
    image.word(kStateOffset) ^= Word{1} << bit;
  }
  EXPECT_TRUE(image.region().ok());
}

TEST(RegionInMemory, SizesThatEndInNoSegmentAreRefused) {
  Image image = Image::formatted();
  const Superblock super = image.super();
  const std::uint64_t segment = super.geometry.segment_bytes;
  for (const std::uint64_t grown :
       {std::uint64_t{0}, super.heap_offset - segment, super.heap_offset + 1,
        super.heap_offset + segment - 8, super.geometry.capacity_bytes + segment, kMax48}) {
    image.word(kStateOffset) = seal(grown, kSaltGrown);
    EXPECT_EQ(image.region().error().code, Code::kCorrupt) << grown;
  }
  image.word(kStateOffset) = seal(super.heap_offset, kSaltGrown);
  EXPECT_TRUE(image.region().ok()) << "a pool may have no segment yet";
}

}  // namespace
}  // namespace perdure
