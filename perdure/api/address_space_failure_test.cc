// SPDX-License-Identifier: BSD-3-Clause
// What map() and unmap() leave when a step of theirs fails, or the process dies in it.
#include <sys/resource.h>

#include <csignal>
#include <functional>

#include <gtest/gtest.h>

#include "perdure/address_space.h"
#include "perdure/api/directory_files.h"
#include "tests/small_space.h"

namespace perdure {
namespace {

using testing::in_child;
using testing::kReadWrite;
using testing::kSpaceBase;
using testing::Receivers;
using testing::receivers_of;
using testing::small_space_options;
using testing::store_durably;
using testing::TempDir;
using testing::word_of;

/// Is asked before and after each step, "create" and "created" and so on; an Error is the step's
/// result.
using Plan = std::function<std::optional<Error>(std::string_view)>;

/// A directory's files, whose steps fail as planned.
class SpoiltFiles final : public SpaceFiles {
 public:
  SpoiltFiles(std::unique_ptr<SpaceFiles> real, const Plan& plan)
      : real_(std::move(real)), plan_(&plan) {}
  Result<void> create(std::uint64_t file, std::uint64_t bytes) override {
    return step("create", "created", [&] { return real_->create(file, bytes); });
  }
  Result<void> remove(std::uint64_t file) override {
    return step("remove", "removed", [&] { return real_->remove(file); });
  }
  Result<std::optional<std::uint64_t>> size(std::uint64_t file) override {
    return real_->size(file);
  }
  Result<Region::Part> map(std::uint64_t file, std::uint64_t file_offset, Offset begin,
                           std::uint64_t bytes, std::uint32_t protection) override {
    if (auto failed = (*plan_)("map")) return *failed;
    return real_->map(file, file_offset, begin, bytes, protection);
  }
  void protect(Offset begin, std::uint64_t bytes, std::uint32_t protection) override {
    real_->protect(begin, bytes, protection);
  }
  Result<void> map_nowhere(Offset begin, std::uint64_t bytes) override {
    return real_->map_nowhere(begin, bytes);
  }
  Result<void> alias(Offset begin, std::uint64_t bytes, void* address) override {
    return real_->alias(begin, bytes, address);
  }
  void unmap(Offset begin, std::uint64_t bytes) override {
    (void)(*plan_)("unmap");
    real_->unmap(begin, bytes);
  }
  void punch(std::uint64_t file, std::uint64_t file_offset, std::uint64_t bytes) override {
    (void)(*plan_)("punch");
    real_->punch(file, file_offset, bytes);
  }
  Result<void> replace(std::uint64_t file, const std::vector<std::byte>& content) override {
    return real_->replace(file, content);
  }
  std::string name(std::uint64_t file) const override { return real_->name(file); }

 private:
  template <class Step>
  Result<void> step(std::string_view before, std::string_view after, Step real_step) {
    if (auto failed = (*plan_)(before)) return *failed;
    auto done = real_step();
    if (auto failed = (*plan_)(after)) return *failed;
    return done;
  }
  std::unique_ptr<SpaceFiles> real_;
  const Plan* plan_;
};

/// A space with one region, of two pages, that must outlive all.
struct SpaceFailures : ::testing::Test {
  SpaceFailures() {
    auto space = AddressSpace::open_or_create(path, small_space_options()).value();
    Receivers& known = receivers_of(*space);
    space->map(known.variable(0), 2 * kPageBytes, kReadWrite).value();
    store_durably(*space, word_of(known.region(0), 1), 7);
  }
  ~SpaceFailures() override { ::munmap(kSpaceBase, range); }

  /// Opens the space on files that fail as `plan` says. The reservation stays until the test ends.
  Result<std::unique_ptr<AddressSpace>> open() {
    ::mmap(kSpaceBase, range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
           -1, 0);
    auto region =
        Region::open_file(path + "/heap.pool", DomainKind::kDram, Region::Access::kReadWrite,
                          {kSpaceBase, kFeatureAddressSpace, range});
    if (!region) return region.error();
    AddressSpace::Parts parts;
    parts.region = std::move(region).value();
    parts.files = std::make_unique<SpoiltFiles>(
        std::make_unique<DirectoryFiles>(path, kSpaceBase, *parts.region, false), plan);
    parts.range_bytes = range;
    parts.statics_begin = range / 4;
    parts.regions_begin = range / 4 + range / 256;
    return AddressSpace::adopt(std::move(parts), [](std::unique_ptr<Region> opened) {
      return open_region(std::move(opened), small_space_options().pool);
    });
  }
  void fail_at(std::string_view step, Code code) {
    plan = [step, code](std::string_view now) -> std::optional<Error> {
      if (now != step) return std::nullopt;
      return Error{code, "planned"};
    };
  }
  void fail_nowhere() {
    plan = [](std::string_view) { return std::nullopt; };
  }
  std::size_t region_files() const {
    std::size_t count = 0;
    for (const auto& [name, bytes] : testing::contents_of_directory(path))
      count += name.ends_with(".region") ? 1 : 0;
    return count;
  }
  /// Only the first region is there, and a new one can be made where `address` is.
  void expect_clean(AddressSpace& space, std::uint64_t address) {
    Receivers& known = receivers_of(space);
    ASSERT_EQ(space.regions().size(), 1u);
    EXPECT_EQ(word_of(known.region(0), 1), 7u);
    EXPECT_EQ(region_files(), 1u);
    store_durably(space, known.address[5], address);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(
                  space.map(known.variable(5), kPageBytes, kReadWrite, true).value()),
              address);
    EXPECT_EQ(word_of(known.region(5)), 0u);
    space.unmap(known.region(5), kPageBytes).value();
    EXPECT_EQ(region_files(), 1u);
  }

  TempDir dir{"/dev/shm/"};
  std::string path = dir / "space";
  const std::uint64_t range = small_space_options().range_bytes;
  Plan plan = [](std::string_view) { return std::nullopt; };
  const std::uint64_t next_address =
      reinterpret_cast<std::uint64_t>(kSpaceBase) + range / 4 + range / 256 + 2 * kPageBytes;
};

TEST_F(SpaceFailures, AMapThatFailsChangesNothing) {
  for (const std::string_view step : {"create", "created", "map"}) {
    SCOPED_TRACE(step);
    auto space = open().value();
    Receivers& known = receivers_of(*space);
    fail_at(step, Code::kNoSpace);
    store_durably(*space, known.address[1], 0);
    const auto failed = space->map(known.variable(1), kPageBytes, kReadWrite);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Code::kNoSpace);
    EXPECT_EQ(failed.error().message, "planned");
    EXPECT_EQ(known.address[1], 0u);
    fail_nowhere();
    expect_clean(*space, next_address);
  }
}

TEST_F(SpaceFailures, AnUnmapThatCannotRemoveItsFileIsFinishedLater) {
  auto space = open().value();
  Receivers& known = receivers_of(*space);
  space->map(known.variable(1), kPageBytes, kReadWrite).value();
  fail_at("remove", Code::kIo);
  const auto failed = space->unmap(known.region(1), kPageBytes);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, Code::kIo);
  EXPECT_EQ(region_files(), 2u);
  EXPECT_EQ(space->regions().size(), 1u) << "it is gone all the same";
  space.reset();
  const auto refused = open();
  ASSERT_FALSE(refused.ok()) << "and must go before anything else happens";
  EXPECT_EQ(refused.error().code, Code::kIo);
  fail_nowhere();
  space = open().value();
  expect_clean(*space, next_address);
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow into a child that maps

TEST_F(SpaceFailures, AProcessThatDiesInAnyStepLeavesNoPiece) {
  struct Death {
    std::string_view step;
    bool in_map;  // else in unmap
  };
  for (const auto& [step, in_map] :
       {Death{"create", true}, Death{"created", true}, Death{"map", true}, Death{"unmap", false},
        Death{"remove", false}, Death{"removed", false}}) {
    SCOPED_TRACE(step);
    ASSERT_EQ(in_child([&, at = step, die_in_map = in_map] {
                auto space = open().value();
                Receivers& known = receivers_of(*space);
                store_durably(*space, known.address[1], 0);
                const auto die = [&] {
                  plan = [at](std::string_view now) -> std::optional<Error> {
                    if (now == at) ::_exit(0);
                    return std::nullopt;
                  };
                };
                if (die_in_map) die();
                space->map(known.variable(1), kPageBytes, kReadWrite).value();
                store_durably(*space, word_of(known.region(1)), 5);
                die();
                space->unmap(known.region(1), kPageBytes).value();
                return 1;  // not reached
              }),
              0);
    auto space = open().value();
    EXPECT_EQ(receivers_of(*space).address[1], in_map ? 0u : next_address);
    expect_clean(*space, next_address);
  }
}

TEST_F(SpaceFailures, AProcessThatDiesWhileAPieceGoesKeepsTheRest) {
  for (const std::string_view step : {"unmap", "punch"}) {
    SCOPED_TRACE(step);
    ASSERT_EQ(in_child([&] {
                auto space = open().value();
                Receivers& known = receivers_of(*space);
                space->map(known.variable(1), 3 * kPageBytes, kReadWrite).value();
                for (std::uint64_t page = 0; page < 3; ++page)
                  store_durably(*space, word_of(known.region(1), page), 10 + page);
                plan = [&](std::string_view now) -> std::optional<Error> {
                  if (now == step) ::_exit(0);
                  return std::nullopt;
                };
                space->unmap(known.region(1) + kPageBytes, kPageBytes).value();
                return 1;  // not reached
              }),
              0);
    auto space = open().value();
    Receivers& known = receivers_of(*space);
    EXPECT_EQ(space->regions().size(), 3u);
    EXPECT_EQ(word_of(known.region(1), 0), 10u);
    EXPECT_EQ(word_of(known.region(1), 2), 12u);
    store_durably(*space, known.address[2],
                  reinterpret_cast<std::uint64_t>(known.region(1)) + kPageBytes);
    EXPECT_TRUE(space->map(known.variable(2), kPageBytes, kReadWrite, true).ok());
    space->unmap(known.region(1), 3 * kPageBytes).value();
    store_durably(*space, known.address[1], 0);
    expect_clean(*space, next_address);
  }
}

TEST_F(SpaceFailures, ADeviceWithoutRoomIsAnError) {
  EXPECT_EQ(in_child([&] {
              auto space = open().value();
              Receivers& known = receivers_of(*space);
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit small{1 << 20, 1 << 20};
              ::setrlimit(RLIMIT_FSIZE, &small);
              const auto failed = space->map(known.variable(1), 2 << 20, kReadWrite);
              if (failed.ok() || failed.error().code != Code::kNoSpace) return 1;
              if (known.address[1] != 0 || space->regions().size() != 1) return 2;
              return region_files() == 1 && space->map(known.variable(1), 1, kReadWrite).ok() ? 0
                                                                                              : 3;
            }),
            0);
}

#endif

}  // namespace
}  // namespace perdure
