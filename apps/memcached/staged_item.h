// SPDX-License-Identifier: BSD-3-Clause
// How a value of many kilobytes gets into a pool on a file: by several transactions.
//
//   1. an object, held by a link of Cache::staged         crash here ⇒ it is freed at the next open
//   2. the value, written there piece by piece            the same
//   3. the object into the table, out of the link         in the transaction that stores the item
//
// What the item was before is not held meanwhile: a value that is made of the old one is stored only if that still has the
// cas that it had when it was read.
#pragma once

#include <bit>
#include <cstring>
#include <string>
#include <thread>

#include "apps/memcached/pool_store.h"

namespace perdure::memcached {

/// What one alter() stages.   Threads: one.
class PoolStore::Staged {
 public:
  explicit Staged(PoolStore& store) : store_(&store) {}
  /// Gives up what was not stored.
  ~Staged() { give_up(); }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  /// In the transaction: notes what is to be staged, for write().
  void want(Tx& tx, std::size_t key_bytes, const Plan& plan, const char* old, const Item& found,
            std::uint64_t kept) {
    value_ = plan.value;
    key_bytes_ = key_bytes;
    made_of_ = 0;
    if (kept == 0) return;
    made_of_ = found.cas;
    const bool behind = plan.old == Plan::Old::kBehind;
    whole_.resize(kept + plan.value.size());
    std::memcpy(whole_.data() + (behind ? 0 : kept), plan.value.data(), plan.value.size());
    tx.read(whole_.data() + (behind ? plan.value.size() : 0), old, kept);
  }
  /// 1 and 2.
  void write() {
    give_up();
    const std::string_view value = made_of_ != 0 ? std::string_view(whole_) : value_;
    bytes_ = value.size();
    take_slot();
    pptr<Item>& held = store_->cache_->staged[slot_];
    object_ = store_->change([&](Tx& tx) {
      auto* const object = static_cast<Item*>(tx.allocate(value_offset(key_bytes_) + bytes_));
      tx.store(held, tx.link_to(object));
      return object;
    });
    char* const to = ItemTable<Tx>::bytes_of(object_) + value_offset(key_bytes_);
    for (std::size_t done = 0; done < bytes_; done += kPieceBytes) {
      const std::size_t here = std::min<std::size_t>(kPieceBytes, bytes_ - done);
      store_->change([&](Tx& tx) { tx.write(to + done, value.data() + done, here); });
    }
  }
  /// Whether it is what this plan wants, too.
  bool fits(const Plan& plan, const Item& found, std::uint64_t kept) const {
    return object_ != nullptr && plan.value.data() == value_.data() &&
           plan.value.size() == value_.size() &&
           (kept == 0 ? made_of_ == 0 : made_of_ == found.cas && bytes_ == kept + value_.size());
  }
  /// 3, in the transaction.
  Item* take(Tx& tx) {
    tx.store(store_->cache_->staged[slot_], {});
    return object_;
  }
  /// After it.
  void stored() {
    object_ = nullptr;
    give_up();
  }

 private:
  static constexpr std::size_t kPieceBytes = 256 << 10;

  void take_slot() {
    for (;;) {
      std::uint32_t taken = store_->stages_taken_.load();
      const auto free = static_cast<unsigned>(std::countr_one(taken));
      if (free >= kStaged) {  // as many others write large values; they end
        std::this_thread::yield();
      } else if (store_->stages_taken_.compare_exchange_weak(taken, taken | 1u << free)) {
        slot_ = free;
        has_slot_ = true;
        return;
      }
    }
  }
  void give_up() {
    if (object_ != nullptr) {
      try {
        store_->change([&](Tx& tx) {
          tx.store(store_->cache_->staged[slot_], {});
          tx.free(object_);
        });
      } catch (const Exception&) {
        return;  // a pool that failed: the next open does it, and the slot stays taken
      }
      object_ = nullptr;
    }
    if (has_slot_) store_->stages_taken_.fetch_and(~(1u << slot_));
    has_slot_ = false;
  }

  PoolStore* store_;
  std::string_view value_;  // as the plan has it
  std::string whole_;       // with what was there before
  std::uint64_t made_of_ = 0;
  std::size_t key_bytes_ = 0;
  std::size_t bytes_ = 0;
  unsigned slot_ = 0;
  bool has_slot_ = false;
  Item* object_ = nullptr;
};

}  // namespace perdure::memcached
