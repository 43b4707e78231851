// SPDX-License-Identifier: BSD-3-Clause
// The layers SAFE, TX, C-TX and NoDur of NV-heaps (§5.4), all of perdure/object.h: which one is decided when the heap is opened.
#pragma once

#include <latch>
#include <memory>
#include <thread>
#include <utility>

#include "bench/system.h"
#include "papers/nvheaps/evaluation/checkpointed_memory.h"
#include "papers/nvheaps/evaluation/heap_setting.h"
#include "papers/pool.h"
#include "perdure/object.h"

namespace perdure::bench::nvheaps {

/// A thread that stays in a transaction: while it does, no other one is alone and does without isolation.
class Company {
 public:
  explicit Company(Pool& pool);
  ~Company();
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;

 private:
  std::latch there_{1};
  std::latch leave_{1};
  std::thread thread_;
};

papers::LabOptions pool_options(const HeapSetting& setting);

/// A pool in that memory, which outlives it; a new one, or the one that was read back.   Errors: those of Pool::open.
Result<Pool> pool_in(CheckpointedMemory& memory, bool create);

template <class Root>
class SafeHeap {
 public:
  explicit SafeHeap(const HeapSetting& setting)
      : file_(setting.dir, "heap"),
        protected_(setting.layer != Layer::kSafe),
        saved_(setting.checkpoints
                   ? std::make_unique<CheckpointedMemory>(setting.dir, setting.bytes)
                   : nullptr),
        heap_(saved_ ? object_heap<Root>::in_own_pool(pool_in(*saved_, true)).value()
                     : in_counted_pool(setting)) {
    if (setting.layer == Layer::kCTx || setting.layer == Layer::kNoDur)
      company_ = std::make_unique<Company>(heap_.pool());
  }

  /// SAFE, as the last checkpoint of another one has it.
  SafeHeap(std::unique_ptr<CheckpointedMemory> saved, const HeapSetting& setting)
      : file_(setting.dir, "heap"),
        protected_(false),
        saved_(std::move(saved)),
        heap_(object_heap<Root>::in_own_pool(pool_in(*saved_, false)).value()) {
    if (heap_.generation() < 2)
      throw Exception(Code::kCorrupt, "SAFE: the checkpoint has a pool, and no heap in it");
  }

  /// Runs body(root) as one transaction, where the layer has them.
  template <class Body>
  auto run(Body&& body) {
    if (!protected_) return heap_.unprotected(body);
    return heap_.atomically(body);
  }
  template <class Body>
  auto read(Body&& body) {
    if (!protected_) return heap_.unprotected(body);
    return heap_.read_only(body);
  }
  DomainCounts counts() const { return counters_ ? counters_->total() : DomainCounts{}; }
  object_heap<Root>& heap() { return heap_; }
  /// Null unless HeapSetting::checkpoints.
  CheckpointedMemory* saved() const { return saved_.get(); }
  /// Requires: HeapSetting::checkpoints. As CheckpointedMemory::take().
  void save() {
    // Logs are emptied: what opening the heap, or the end of an object, logged would be replayed over the newer words that SAFE
    // stores without a log.
    heap_.pool().checkpoint();
    saved_->take();
  }

 private:
  object_heap<Root> in_counted_pool(const HeapSetting& setting) {
    papers::LabPool pool = papers::create(file_.path(), pool_options(setting)).value();
    counters_ = pool.counters();
    return object_heap<Root>::in_own_pool(Pool(std::move(pool))).value();
  }

  ScratchFile file_;
  bool protected_;
  std::shared_ptr<const DomainCounters> counters_;
  std::unique_ptr<CheckpointedMemory> saved_;  // before the heap: gone after it
  object_heap<Root> heap_;
  std::unique_ptr<Company> company_;  // last: leaves before the heap is closed
};

struct SafeLayer {
  template <class T>
  using Object = object<T>;
  template <class T>
  using Field = field<T>;
  template <class T>
  using Ref = ref<T>;
  template <class T>
  using WeakRef = weak_ref<T>;
  template <class T>
  using Local = local<T>;
  template <class T>
  using Handle = handle<T>;
  template <class E>
  using Array = array<E>;
  template <class Root>
  using Heap = SafeHeap<Root>;

  template <class T>
  static local<T> make() {
    return perdure::make<T>();
  }
  template <class E>
  static local<array<E>> make_array(std::uint64_t size) {
    return perdure::make_array<E>(size);
  }
  template <class T>
  static void end(const local<T>&) {}  // counting sees to it
};

}  // namespace perdure::bench::nvheaps
