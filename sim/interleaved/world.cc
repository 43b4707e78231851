// SPDX-License-Identifier: BSD-3-Clause
#include "sim/interleaved/world.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>

#include "perdure/domain/dram.h"
#include "perdure/engine/redo.h"
#include "perdure/region/region.h"

namespace perdure::interleaved {
namespace {

constexpr Geometry kGeometry = {std::uint64_t{256} << 10, std::uint64_t{128} << 10, kPageBytes,
                                World::kThreads, 1};
constexpr std::uint64_t kUsedBlocks = 5;
constexpr unsigned kLockBits = 10;
/// After so many begins a thread looks around.
constexpr int kPatience = 512;

World* running = nullptr;

}  // namespace

/// Storage that always has room.
struct World::Memory final : Backing {
  Memory()
      : bytes(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kGeometry.capacity_bytes))) {
    if (bytes == nullptr) throw std::bad_alloc();
    std::memset(bytes, 0, kGeometry.capacity_bytes);
    Region::format_memory(bytes, kGeometry.capacity_bytes, {kGeometry, 1}).value();
  }
  ~Memory() override { std::free(bytes); }
  Result<void> extend(std::uint64_t, std::uint64_t) override { return {}; }
  Result<void> allocate(Offset, std::uint64_t) override { return {}; }
  bool tell(Offset, Word) override { return true; }
  std::byte* bytes;
};

/// What is durable of what was posted.
struct World::Device {
  void advance(std::uint64_t mark) {
    std::uint64_t before = durable.load(std::memory_order_relaxed);
    while (before < mark &&
           !durable.compare_exchange_weak(before, mark, std::memory_order_release)) {
    }
  }
  Shared<std::uint64_t> durable{0};
  std::uint64_t posted = 0;
};

/// It promises no more than a PostingDomain has to: what nobody has waited for is not durable.
struct World::File : CachedStores {
  explicit File(Device& all) : device(&all) {}
  static void write_through(Word* home, const Word* words, std::size_t count, Site) {
    for (std::size_t i = 0; i < count; ++i) store(home + i, words[i]);
  }
  static void flush(const void*, std::size_t, Site) {}
  bool fence(Site) const {
    device->advance(device->posted);
    return true;
  }
  bool post(Site, std::uint64_t mark) const {
    interleave::step();
    if (mark != 0 && mark <= device->posted) interleave::fail("marks do not grow");
    device->posted = std::max(device->posted, mark);
    return true;
  }
  bool wait_for(std::uint64_t mark, Site) const {
    interleave::step();
    device->advance(std::min(mark, device->posted));
    return true;
  }
  const Shared<std::uint64_t>& durable_mark() const { return device->durable; }
  Device* device;
};

World::World(Medium medium)
    : medium_(medium),
      memory_(std::make_unique<Memory>()),
      device_(std::make_unique<Device>()),
      region_(Region::open_memory(
                  memory_->bytes, kGeometry.capacity_bytes, kGeometry.capacity_bytes,
                  medium == Medium::kFile ? DomainKind::kSync : DomainKind::kDram, *memory_)
                  .value()),
      logs_(std::make_unique<LogArea>(*region_)) {
  logs_->open().value();
  heap_.emplace(*region_);
  const EngineParts parts{&*region_, &clock_, &*heap_, logs_.get(), EngineTuning{}};
  if (medium == Medium::kFile) {
    engine_ = std::make_unique<Redo<File>>(parts, File(*device_));
  } else {
    engine_ = std::make_unique<Redo<Dram>>(parts, Dram{});
  }
  engine_->recover().value();
  at_first_.assign(used_heap().begin(), used_heap().end());
  reset(Bias::kNone);
  for (std::size_t thread = 0; thread < kThreads; ++thread) {  // each log is ready from then on
    update(thread, [&](Tx& tx) {
      if (cells_ != nullptr) return tx.store(cells_[0], thread);
      cells_ = static_cast<Word*>(tx.allocate(kCells * kLineBytes));
      for (std::size_t i = 0; i < kCells * kLineBytes / kWordBytes; ++i) tx.store(cells_[i], 0);
    });
  }
  cell(0) = 0;
  running = this;
  at_first_.assign(used_heap().begin(), used_heap().end());
  share(used_heap().data(), used_heap().size());
}
World::~World() {
  share(nullptr, 0);
  running = nullptr;
}

bool World::is_committing() {
  return running != nullptr && running->logs_->slot(interleave::current()).committing();
}

std::uint64_t World::durable() const { return device_->durable.load(std::memory_order_acquire); }

std::span<std::byte> World::used_heap() const {
  return {region_->base() + region_->superblock().heap_offset, kUsedBlocks * kBlockBytes};
}

void World::reset(Bias bias) {
  forget_seen();
  engine_->truncate();
  std::copy(at_first_.begin(), at_first_.end(), used_heap().begin());
  // On a file the engine knows of the last schedule's timestamps.
  clock_.start_after(medium_ == Medium::kFile ? clock_.now() : 0);
  locks_.emplace(kLockBits);
  biased_locking_.emplace(clock_);
  heap_.emplace(*region_);
  heap_->open().value();
  world_ = {.base = region_->base(),
            .heap_begin = region_->superblock().heap_offset,
            .heap_end = &region_->grown_end(),
            .region = region_.get(),
            .locks = &*locks_,
            .clock = &clock_,
            .heap = &*heap_,
            .engine = engine_.get(),
            .biased_locking = bias == Bias::kNone ? nullptr : &*biased_locking_};
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    txs_[thread] = engine_->make_tx(world_, thread);
    if (bias != Bias::kNone) biased_locking_->add(tx(thread).place());
  }
  if (bias != Bias::kEnded && bias != Bias::kToReaders) return;
  for (const auto& tx : txs_) {
    tx->begin(true, false);
    tx->roll_back();
  }
  if (bias != Bias::kToReaders) return;
  let_favour_readers(kThreads - 1);
  tx(kThreads - 1).begin(true, false);
  tx(kThreads - 1).roll_back();
}

void World::let_become_owner(std::size_t thread) {
  for (int i = 1; i < 2 * kPatience; ++i) {
    tx(thread).begin(false, true);
    tx(thread).roll_back();
  }
}

void World::let_favour_readers(std::size_t thread) {
  for (int i = 1; i < kPatience; ++i) {
    tx(thread).begin(true, false);
    tx(thread).roll_back();
  }
}

void World::commit(Tx& tx, std::size_t slot) {
  if (tx.doomed()) throw Conflict{};
  if (tx.has_updates() && !tx.claim_commit()) throw Conflict{};
  if (tx.has_updates()) tx.collect_heap_writes();
  if (tx.nothing_to_log()) {
    tx.make_visible(tx.snapshot());
    if (tx.seen() != 0) {
      tx.let_go();
      engine_->await(tx.seen());
    }
    tx.finish();
  } else {
    engine_->commit(tx, slot, Durability::kStrict);
  }
}

void World::abandon(Tx& tx) {
  const std::uint64_t seen = tx.seen();
  tx.roll_back();
  if (seen != 0) engine_->await(seen);
}

interleave::Report explore(Bias bias, const std::function<Threads(World&)>& make,
                           const interleave::Limits& limits, Medium medium) {
  World world(medium);
  std::size_t left = 0;
  return interleave::explore(
      [&] {
        world.reset(bias);
        Threads threads = make(world);
        left = threads.bodies.size();
        std::vector<interleave::Body> bodies;
        for (interleave::Body& body : threads.bodies) {
          bodies.emplace_back([&left, body = std::move(body), after = threads.after] {
            body();
            interleave::fence();
            if (--left == 0) after();
          });
        }
        return bodies;
      },
      limits);
}

}  // namespace perdure::interleaved
