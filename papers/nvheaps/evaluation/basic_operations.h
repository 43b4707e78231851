// SPDX-License-Identifier: BSD-3-Clause
// Table 1: what the basic operations take, one in a transaction or some.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "papers/nvheaps/evaluation/raw_layer.h"
#include "papers/nvheaps/evaluation/safe_layer.h"
#include "papers/nvheaps/evaluation/sizes.h"

namespace perdure::bench::nvheaps {

enum class Operation : std::uint8_t { kNewDelete, kHandle, kRef, kWeakRef, kNop, kRead, kWrite };
inline constexpr std::array<Operation, 7> kAllOperations = {
    Operation::kNewDelete, Operation::kHandle, Operation::kRef,  Operation::kWeakRef,
    Operation::kNop,       Operation::kRead,   Operation::kWrite};

template <class L>
struct Cell : L::template Object<Cell<L>> {
  typename L::template Field<std::uint64_t> value;
  typename L::template Ref<Cell> strong;
  typename L::template WeakRef<Cell> weak;
  PERDURE_FIELDS(Cell, value, strong, weak);
};
template <class L>
struct CellRoot : L::template Object<CellRoot<L>> {
  typename L::template Ref<typename L::template Array<typename L::template Ref<Cell<L>>>> cells;
  PERDURE_FIELDS(CellRoot, cells);
};

template <class L>
class BasicOperations {
 public:
  using Heap = typename L::template Heap<CellRoot<L>>;
  using Local = typename L::template Local<Cell<L>>;
  static constexpr std::uint64_t kCells = 1024;
  static constexpr std::uint64_t kMostAtOnce = 64;

  /// With HeapSetting::checkpoints there is one behind each transaction, however often they are asked for.
  explicit BasicOperations(const HeapSetting& setting) : heap_(setting) {
    heap_.run([](auto root) {
      root->cells = L::template make_array<typename L::template Ref<Cell<L>>>(kCells);
    });
    fill_up(heap_, kCells, [](auto& root, std::uint64_t i) {
      root->cells.get()[i] = L::template make<Cell<L>>();
      // What weak references go through is made once for an object.
      const Local made = root->cells.get()[i];
      made->weak = made;
      made->weak = nullptr;
    });
  }

  /// Does an operation on `at_once` objects, in one transaction; where something is assigned it takes a second one to set null.
  void run(Operation operation, std::uint64_t at_once) {
    next_ = (next_ + at_once) % (kCells - 2 * kMostAtOnce);
    switch (operation) {
      case Operation::kNewDelete:
        each(at_once,
             [](const Local& cell, const Local&) { cell->strong = L::template make<Cell<L>>(); });
        each(at_once, [](const Local& cell, const Local&) {
          const Local gone = cell->strong;
          cell->strong = nullptr;
          L::end(gone);
        });
        break;
      case Operation::kHandle:
        each(at_once, [](const Local& cell, const Local&) {
          typename L::template Handle<Cell<L>> held = cell;
          asm volatile("" : : "r"(&held) : "memory");
          held = nullptr;
        });
        break;
      case Operation::kRef:
        each(at_once, [](const Local& cell, const Local& other) { cell->strong = other; });
        each(at_once, [](const Local& cell, const Local&) { cell->strong = nullptr; });
        break;
      case Operation::kWeakRef:
        each(at_once, [](const Local& cell, const Local& other) { cell->weak = other; });
        each(at_once, [](const Local& cell, const Local&) { cell->weak = nullptr; });
        break;
      case Operation::kNop: heap_.run([](auto) {}); break;
      case Operation::kRead:
        each(at_once, [this](const Local& cell, const Local&) { sum_ += cell->value; });
        break;
      case Operation::kWrite:
        each(at_once, [this](const Local& cell, const Local&) { cell->value = next_; });
        break;
    }
  }

  DomainCounts counts() { return heap_.counts(); }

  /// What was assigned is null again.
  void check() {
    heap_.read([](auto root) {
      const auto cells = root->cells.get();
      for (std::uint64_t i = 0; i < kCells; ++i) {
        const Local cell = cells[i];
        require(!cell->strong && !cell->weak, "basic operations: a reference is not null");
      }
    });
  }

 private:
  /// Of the running group: an object, and another one.
  template <class Do>
  void each(std::uint64_t at_once, const Do& act) {
    heap_.run([&](auto root) {
      const auto cells = root->cells.get();
      for (std::uint64_t i = 0; i < at_once; ++i)
        act(cells[next_ + i], cells[next_ + kMostAtOnce + i]);
    });
    if (heap_.saved() != nullptr) heap_.save();
  }

  Heap heap_;
  std::uint64_t next_ = 0;
  std::uint64_t sum_ = 0;
};

}  // namespace perdure::bench::nvheaps
