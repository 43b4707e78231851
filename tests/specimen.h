// SPDX-License-Identifier: BSD-3-Clause
// A small pool with some of everything in it, and un-truncated records in its log; where its words
// stand; and a walk that uses whatever a damaged copy of it still offers. What the hostile-file
// tests and the fuzzers work on.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "perdure/api/pool_core.h"
#include "tests/image.h"

namespace perdure::testing {

/// The root object: equal numbers everywhere, unless a transaction was torn.
struct Even {
  std::array<std::uint64_t, 12> number;
};

/// Commits that the specimen's logs still hold; each sets all numbers of "even" one higher.
inline constexpr std::uint64_t kLoggedCommits = 6;
inline constexpr std::uint64_t kLastNumber = 100 + kLoggedCommits;

/// What a killed process left: objects of all sizes, two roots, records in a log.
inline Image make_specimen() {
  Image image = Image::formatted();
  std::optional<Pool> pool(image.pool(6).value());
  auto* even = pool->root<Even>("even");
  auto* list = pool->root<std::uint64_t>("list");
  std::vector<void*> objects;
  pool->atomically([&](Tx& tx) {
    objects.clear();
    for (const std::size_t bytes :
         {16u, 16u, 64u, 64u, 100u, 1000u, 2048u, 4096u, 20000u, 130000u}) {
      objects.push_back(tx.allocate(bytes));
      tx.store(*static_cast<std::uint64_t*>(objects.back()), tx.load(*list));
      tx.store(*list, tx.link_to(objects.back()).offset);
    }
    for (auto& number : even->number) tx.store(number, 100);
  });
  pool->atomically([&](Tx& tx) { tx.free(tx.allocate(64)); });
  pool->checkpoint();
  for (std::uint64_t i = 1; i <= kLoggedCommits; ++i) {
    pool->atomically([&](Tx& tx) {
      for (auto& number : even->number) tx.store(number, 100 + i);
      if (i % 2 == 0) tx.allocate(64);
    });
  }
  return Image(image);  // before the pool is closed, which would empty the logs
}

/// Uses all that a pool offers; throws perdure::Exception where the pool refuses. Returns the
/// number that all of "even" hold, or nothing when the root is not there or they differ.
inline std::optional<std::uint64_t> walk(Pool& pool) {
  std::uint64_t objects = 0;
  core_of(pool).heap().for_each_object([&](Offset offset, std::uint64_t bytes) {
    const auto* words = core_of(pool).region().word(offset);
    objects += load_word(words) + load_word(words + bytes / kWordBytes - 1);
  });
  (void)core_of(pool).heap().usage();
  std::optional<std::uint64_t> number;
  if (auto* even = pool.find_root<Even>("even")) {
    pool.read_only([&](Tx& tx) {
      number = tx.load(even->number[0]);
      for (const auto& other : even->number) {
        if (tx.load(other) != *number) number.reset();
        if (!number) return;
      }
    });
  }
  pool.read_only([&](Tx& tx) {
    for (const RootEntry& entry : core_of(pool).roots(tx)) {
      const std::string_view name(entry.name.data(),
                                  ::strnlen(entry.name.data(), entry.name.size()));
      if (const auto root = core_of(pool).find_root(tx, name, 0, 0, false)) {
        std::vector<std::byte> bytes(std::min<std::uint64_t>(entry.bytes, 4096));
        tx.read(bytes.data(), root->object, bytes.size());
      }
    }
  });
  for (const std::size_t bytes : {16u, 64u, 3000u, 20000u}) {
    pool.atomically([&](Tx& tx) {
      auto* object = static_cast<std::uint64_t*>(tx.allocate(bytes));
      tx.store(*object, objects);
      void* other = tx.allocate(bytes);
      tx.free(object);
      tx.store(*static_cast<std::uint64_t*>(other), objects);
    });
  }
  return number;
}

}  // namespace perdure::testing
