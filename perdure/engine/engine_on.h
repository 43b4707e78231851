// SPDX-License-Identifier: BSD-3-Clause
// EngineOn: what every engine of one domain has: its parts, the primitives, and what happens when
// the storage fails.
#pragma once

#include <atomic>
#include <utility>

#include "perdure/domain/in_private_pages.h"
#include "perdure/engine/engine.h"

namespace perdure {

template <Domain D>
class EngineOn : public Engine {
 public:
  EngineOn(const EngineParts& parts, D domain) : parts_(parts), domain_(std::move(domain)) {
    parts_.region->raise_when_lost(&poisoned_);
  }
  ~EngineOn() override { parts_.region->raise_when_lost(nullptr); }

  std::unique_ptr<Tx> make_tx(const TxWorld& world, std::size_t slot) override {
    return std::make_unique<Tx>(world, slot);
  }
  Result<void> grow(std::uint64_t segments, Word fresh) final {
    if (!parts_.logs->begin_changes()) fail();
    auto grown = parts_.region->grow(domain_, segments, fresh);
    if (!grown && grown.error().code == Code::kPoisoned) poison();
    return grown;
  }
  bool poisoned() const final { return poisoned_.load(std::memory_order_acquire); }

  void store(Word* home, Word value) override {
    with_direct([&](auto& to) { to.store(home, value); });
  }
  void merge(Word* home, Word value, Word mask) override {
    with_direct([&](auto& to) { to.merge(home, value, mask); });
  }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) override {
    domain_.write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) final {
    domain_.flush(address, bytes, site);
  }
  bool fence(Site site) final {
    if (domain_.fence(site)) return true;
    poison();
    return false;
  }

 protected:
  /// Recovers from whatever logs there are. Then, while all are empty, gives the rings this
  /// engine's layout. `records`: what becomes of those found.
  Result<RecoveryReport> recover_into(RingLayout layout,
                                      LogArea::Records records = LogArea::Records::kRetire) {
    PrimitivesOf<D> plain(domain_);
    // Replay has to store home at once, past private pages.
    auto report = parts_.logs->recover(kPrivatePagesOverMemory<D> ? static_cast<Primitives&>(*this)
                                                                  : static_cast<Primitives&>(plain),
                                       records);
    if (report && !parts_.logs->lay_out(plain, layout))
      return Error{Code::kIo, parts_.region->path() +
                                  ": a sync failed during recovery; nothing was lost, reopen"};
    if (report && parts_.logs->is_unchanged()) parts_.logs->begin_unchanged();
    return report;
  }
  /// Prepares a log before its first append, not when its thread arrives: a thread that only reads
  /// needs no log.
  /// Requires: no other thread prepares it. Errors: throws Exception kNoSpace, kIo, kPoisoned.
  void ready(std::size_t slot_index) {
    LogSlot& slot = parts_.logs->slot(slot_index);
    const auto at = static_cast<Offset>(reinterpret_cast<std::byte*>(slot.log->ring().words) -
                                        parts_.region->base());
    parts_.region->backing().allocate(at, parts_.region->geometry().ring_bytes).value();
    if (!parts_.logs->begin_changes() || !parts_.logs->prepare(*this, slot_index)) fail();
    slot.ready.store(true, std::memory_order_release);
  }

  void refuse_if_poisoned() {
    if (poisoned()) fail();
  }
  void poison() { poisoned_.store(true, std::memory_order_release); }
  [[noreturn]] void fail() {
    poison();
    if (auto lost = parts_.region->loss()) throw Exception(std::move(*lost));
    throw Exception(
        Code::kPoisoned,
        parts_.region->path() +
            ": a write or sync to the storage failed, so nothing more is accepted; what "
            "was acknowledged is safe, fix the device and reopen the pool");
  }

  EngineParts parts_;
  [[no_unique_address]] D domain_;

 private:
  /// Stores past private pages: for words that none of this engine's records names.
  template <class Work>
  void with_direct(Work work) {
    if constexpr (PrivatePagesDomain<D>) {
      auto direct = domain_.direct();
      work(direct);
    } else {
      work(domain_);
    }
  }
  std::atomic<bool> poisoned_{false};
};

}  // namespace perdure
