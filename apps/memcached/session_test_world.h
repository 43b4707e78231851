// SPDX-License-Identifier: BSD-3-Clause
// A cache without sockets: a pool in memory, a store, and sessions that are talked to.
#pragma once

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "apps/memcached/object_store.h"
#include "apps/memcached/pool_store.h"
#include "apps/memcached/session.h"
#include "papers/pool.h"
#include "tests/small_pool.h"

namespace perdure::memcached {

class World {
 public:
  static constexpr std::uint32_t kStart = 1'700'000'000;
  enum class Kept : std::uint8_t { kInPool, kInObjects };

  explicit World(StoreOptions options = {}, std::uint64_t item_size_max = 1 << 20,
                 DomainKind domain = DomainKind::kDram, Kept kept = Kept::kInPool)
      : clock(kStart), options_(options), kept_(kept) {
    pool_options_.capacity_bytes = std::uint64_t{1} << 30;
    pool_options_.domain = domain;
    pool_options_.count = true;
    service.item_size_max = item_size_max;
    service.clock = &clock;
    open();
  }
  /// As after an orderly end, or a crash.
  void reopen() {
    session.reset();
    store.reset();
    syncer.reset();
    pool.reset();
    open();
  }
  /// What is answered to `input`, in as many pieces as it takes.
  std::string say(std::string_view input) { return say(*session, input); }
  static std::string say(Session& to, std::string_view input) {
    std::string replies;
    for (;;) {
      Buffer out;
      const std::size_t used = to.feed(input, out);
      input.remove_prefix(used);
      replies += out.view();
      if (used == 0 || input.empty()) return replies;
    }
  }
  /// What the check says of the cache; "" if nothing.   Requires: it is kept in the pool.
  std::string audit() {
    auto* const cache = pool->find_root<Cache>(kRoot);
    return pool->read_only([&](Tx& tx) {
      return cache->audit(tx, [](std::uint64_t) { return ~std::uint64_t{0}; }).value_or("");
    });
  }
  /// Calls `body(session, i)` in so many threads, each with a session of its own.
  template <class Body>
  void in_threads(int count, Body&& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        Counters its;
        Session mine(service, its);
        body(mine, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::uint64_t items() const { return store->counts().items; }

  Clock clock;
  Service service;
  Counters counters;
  std::optional<papers::LabPool> pool;
  std::optional<Syncer> syncer;
  std::unique_ptr<ItemStore> store;
  std::optional<Session> session;

 private:
  void open() {
    pool.emplace(papers::open_or_create(directory_ / "cache.pool", pool_options_).value());
    syncer.emplace(*pool, true);
    if (kept_ == Kept::kInPool) {
      store = std::make_unique<PoolStore>(*pool, *syncer, clock, options_);
    } else {
      store = std::make_unique<ObjectStore>(*pool, *syncer, clock, options_);
    }
    service.store = store.get();
    session.emplace(service, counters);
  }
  perdure::testing::TempDir directory_;
  StoreOptions options_;
  Kept kept_;
  papers::LabOptions pool_options_;
};

}  // namespace perdure::memcached
