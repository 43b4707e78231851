// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object/handles.h"

#include <new>
#include <thread>

#include "perdure/object/core.h"

namespace perdure::detail {

HandleEntry* HandleTable::take(Offset object) {
  Shard& shard = shard_of(object);
  const std::lock_guard lock(shard.mutex);
  const auto [at, is_new] = shard.entries.try_emplace(object, nullptr);
  if (!is_new) {
    add(*at->second);
    return at->second;
  }
  try {
    at->second = new HandleEntry{this, object};
  } catch (...) {
    shard.entries.erase(at);
    throw;
  }
  users_.fetch_add(1, std::memory_order_relaxed);
  return at->second;
}

void HandleTable::drop(HandleEntry* entry) noexcept {
  std::uint32_t count = entry->count.load(std::memory_order_relaxed);
  while (count > 1) {
    // Release: what was done through this handle comes before the object's end.
    if (entry->count.compare_exchange_weak(count, count - 1, std::memory_order_release,
                                           std::memory_order_relaxed))
      return;
  }
  // Perhaps the last one: under the lock, so that nobody takes another one while the entry goes.
  HandleTable& table = *entry->table;
  Offset object = entry->object.load(std::memory_order_acquire);
  {
    Shard& shard = table.shard_of(object);
    const std::lock_guard lock(shard.mutex);
    if (entry->count.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const auto at = shard.entries.find(object);
    if (at != shard.entries.end() && at->second == entry) {
      shard.entries.erase(at);
    } else {
      object = 0;  // disowned
    }
    if (!entry->keeps_orphan) object = 0;  // other references see to its end
  }
  delete entry;
  if (object != 0) table.let_go(object);
  table.leave();
}

void HandleTable::let_go(Offset object) noexcept {
  // Of whatever heap: a transaction of its own, inside another one, could wait for ever.
  if (Session* const running = Session::current) {
    try {
      running->let_go.push_back({this, object});
      join();
    } catch (const std::bad_alloc&) {  // it stays an orphan until the next open
    }
    return;
  }
  // Sequentially consistent against close(): either that waits for this, or this finds the heap
  // closed.
  letting_go_.fetch_add(1, std::memory_order_seq_cst);
  if (ObjectCore* const core = core_.load(std::memory_order_seq_cst)) core->end_if_orphan(object);
  letting_go_.fetch_sub(1, std::memory_order_release);
}

bool HandleTable::keep_orphan(Offset object) {
  Shard& shard = shard_of(object);
  const std::lock_guard lock(shard.mutex);
  const auto at = shard.entries.find(object);
  if (at == shard.entries.end()) return false;
  at->second->keeps_orphan = true;
  return true;
}

void HandleTable::disown(Offset object) noexcept {
  Shard& shard = shard_of(object);
  const std::lock_guard lock(shard.mutex);
  const auto at = shard.entries.find(object);
  if (at == shard.entries.end()) return;
  at->second->object.store(0, std::memory_order_release);
  shard.entries.erase(at);
}

void HandleTable::close() noexcept {
  core_.store(nullptr, std::memory_order_seq_cst);
  while (letting_go_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
  leave();
}

void HandleTable::leave() noexcept {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace perdure::detail
