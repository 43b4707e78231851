// SPDX-License-Identifier: BSD-3-Clause
// Judges a whole heap of objects from outside: every count is what it counts, and nothing has leaked.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "perdure/api/pool_core.h"
#include "perdure/object.h"
#include "perdure/object/layout.h"

namespace perdure::testing {

/// Complaints about the heap of `Root` in `pool`, as lines; empty: it is whole. `objects`: how many there are of the class at
/// each place in detail::TypesFrom<Root>.
/// Requires: the heap was made by this program (classes have the numbers of its list), no transaction, and no handle.
template <class Root>
std::string complaints_about(Pool& pool, std::map<std::size_t, std::uint64_t>* objects = nullptr) {
  namespace layout = object_layout;
  const std::vector<TypeInfo> types = detail::describe(detail::TypesFrom<Root>{});
  const std::byte* const base = core_of(pool).world().base;
  const auto* const control = pool.find_root<layout::Control>(layout::kControlRoot);
  std::string complaints;
  const auto complain = [&](Offset at, const std::string& what) {
    complaints += "byte " + std::to_string(at) + ": " + what + "\n";
  };
  std::set<Offset> expected;  // of the allocator
  std::map<Offset, std::uint64_t> references;
  std::map<Offset, std::uint64_t> weak_references;
  pool.read_only([&](Tx& tx) {
    complaints.clear();
    expected.clear();
    references.clear();
    weak_references.clear();
    if (objects != nullptr) objects->clear();
    const auto word = [&](Offset at) { return tx.load(*reinterpret_cast<const Word*>(base + at)); };
    const auto offset_of = [&](const void* at) {
      return static_cast<Offset>(static_cast<const std::byte*>(at) - base);
    };
    expected.insert(offset_of(control));
    for (Offset at = tx.load(control->types); at != 0; at = word(at)) expected.insert(at);
    for (Offset at = tx.load(control->orphans); at != 0; at = word(at)) {
      expected.insert(at);
      for (std::size_t i = 1; i <= layout::OrphanTable::kSlots; ++i) {
        if (word(at + i * 8) != 0) complain(word(at + i * 8), "an orphan is left");
      }
    }
    for (const auto& stripe : control->stripes) {
      if (tx.load(stripe.dead) != 0) complain(tx.load(stripe.dead), "a list of the dead is left");
    }
    std::vector<Offset> todo{tx.load(control->root)};
    references[todo[0]] = 1;
    while (!todo.empty()) {
      const Offset object = todo.back();
      todo.pop_back();
      expected.insert(object - layout::kHeaderBytes);
      const std::size_t number = layout::type_of(word(object - 16));
      if (number == 0 || number > types.size()) {
        complain(object, "of no class");
        continue;
      }
      if (objects != nullptr) ++(*objects)[number - 1];
      for (const Member& member : types[number - 1].members) {
        if (member.kind == MemberKind::kValue) continue;
        const std::uint64_t count = types[number - 1].is_array ? word(object) : member.count;
        for (std::uint64_t i = 0; i < count; ++i) {
          const Offset to = word(object + member.offset + i * 8);
          if (to == 0) continue;
          if (member.kind == MemberKind::kWeakRef) {
            ++weak_references[to];
          } else if (++references[to] == 1) {
            todo.push_back(to);
          }
        }
      }
    }
    for (const auto& [object, count] : references) {
      const Word state = word(object - 16);
      if ((state & (layout::kOrphan | layout::kDead)) != 0) complain(object, "an orphan, or dead");
      if (layout::count_of(state) != count)
        complain(object, "counts " + std::to_string(layout::count_of(state)) + " references of " +
                             std::to_string(count));
      if (const Offset proxy = word(object - 8); proxy != 0) {
        if (word(proxy) != object) complain(object, "its proxy leads elsewhere");
        weak_references.try_emplace(proxy, 0);
      }
    }
    for (const auto& [proxy, count] : weak_references) {
      expected.insert(proxy);
      if (word(proxy + 8) != count) complain(proxy, "a proxy's count");
      if (const Offset target = word(proxy); target != 0 && !references.contains(target))
        complain(proxy, "a proxy leads to what cannot be reached");
    }
  });
  std::set<Offset> allocated;
  core_of(pool).heap().for_each_object(
      [&](Offset object, std::uint64_t) { allocated.insert(object); });
  for (const Offset object : allocated) {
    if (!expected.contains(object)) complain(object, "leaked");
  }
  for (const Offset object : expected) {
    if (!allocated.contains(object)) complain(object, "used and free");
  }
  return complaints;
}

}  // namespace perdure::testing
