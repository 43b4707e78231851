// SPDX-License-Identifier: BSD-3-Clause
// What tests of arena files share.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "perdure/checkpoint/arena_heap.h"
#include "perdure/checkpoint/epoch_store.h"
#include "perdure/checkpoint/page_difference.h"
#include "perdure/region/file.h"
#include "tests/small_pool.h"

namespace perdure::checkpoint {

inline constexpr std::uint64_t kCapacity = 4 * ArenaHeap::kLeastCapacity;
inline constexpr std::uint64_t kAddress = 0x300000000000;

/// An arena whose epochs a test writes by itself: each changes the image, and commits what changed.
class ArenaFileTest : public ::testing::Test {
 protected:
  ArenaFileTest() {
    auto super = EpochStore::plan(file, kCapacity, 0, kAddress).value();
    create_whole_file(file, 0600, [&](int fd) -> Result<void> {
      if (::ftruncate(fd, static_cast<off_t>(file_bytes(super))) != 0) return io_error(file);
      FileStorage storage(Descriptor(::dup(fd)), file_bytes(super));
      EXPECT_TRUE(EpochStore::format(storage, super));
      return {};
    }).value();
  }
  ~ArenaFileTest() override { std::filesystem::remove_all(directory); }

  /// Runs `epochs` of them; by default a segment holds a few.
  void run(int epochs, std::uint64_t log_bytes = 8 << 10) {
    auto locked = open_locked(file, false).value();
    FileStorage log(Descriptor(::dup(locked.fd.get())), locked.bytes);
    FileStorage home(Descriptor(::dup(locked.fd.get())), locked.bytes);
    EpochStore::Options options;
    options.power = false;
    options.log_bytes = log_bytes;
    auto store = EpochStore::open(log, home, file, std::move(options)).value();
    if (store->epoch() == 0) ArenaHeap::open(image.get(), kCapacity, true).value();
    auto& heap = *reinterpret_cast<ArenaHeap*>(image.get());
    const PageDifference differing = best_page_difference();
    std::string before(kCapacity, '\0');
    for (int i = 0; i < epochs; ++i) {
      auto* object = static_cast<char*>(heap.allocate(100 + random() % 500));
      std::strcpy(object, "something");
      std::vector<Change> changes;
      for (std::uint32_t page = 0; page < kCapacity / kPageBytes; ++page) {
        const std::byte* now = image.get() + page * kPageBytes;
        const auto* then = reinterpret_cast<const std::byte*>(before.data()) + page * kPageBytes;
        const std::uint64_t mask = differing(now, then);
        if (mask == 0) continue;
        // Many blocks are recorded as a page, of which some have not changed.
        changes.push_back({page, 0, std::popcount(mask) > 4 ? ~std::uint64_t{0} : mask});
      }
      before.assign(reinterpret_cast<const char*>(image.get()), kCapacity);
      store->commit(changes, image.get()).value();
      images.push_back(before);
      if (i % 4 == 3) store->bring_home().value();
    }
  }
  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return std::move(text).str();
  }
  void overwrite(Offset at, const std::string& bytes) const {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    stream.seekp(static_cast<std::streamoff>(at));
    stream << bytes;
  }
  static std::filesystem::path fresh_directory() {
    std::string name = (std::filesystem::temp_directory_path() / "inspection-XXXXXX").string();
    return ::mkdtemp(name.data());
  }
  struct Unmap {
    void operator()(std::byte* memory) const { ::munmap(memory, kCapacity); }
  };

  std::filesystem::path directory = fresh_directory();
  std::string file = directory / "test.arena";
  std::mt19937_64 random{11};
  std::vector<std::string> images;  // of the epochs, from 1 on
  std::unique_ptr<std::byte, Unmap> image{[] {
    void* const memory = ::mmap(reinterpret_cast<void*>(kAddress), kCapacity,
                                PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(memory, reinterpret_cast<void*>(kAddress)) << "its address must be free";
    return static_cast<std::byte*>(memory);
  }()};
};

}  // namespace perdure::checkpoint
