// SPDX-License-Identifier: BSD-3-Clause
// What the containers share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace perdure::detail {

/// Calls `f`; false when it returned a bool that says stop.
template <class F, class... Args>
bool keep_going(F& f, Args&&... args) {
  if constexpr (std::is_same_v<std::invoke_result_t<F&, Args...>, bool>) {
    return f(std::forward<Args>(args)...);
  } else {
    f(std::forward<Args>(args)...);
    return true;
  }
}

/// Calls `visit(offset)`; the bytes that it says stand there, or no limit when it says nothing.
template <class F, class Link>
std::uint64_t room_at(F& visit, Link at) {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, std::uint64_t>>) {
    visit(at.offset);
    return ~std::uint64_t{0};
  } else {
    return visit(at.offset);
  }
}

/// What an ordered map's clear_some() does: erases up to `max_entries` entries, from the end; true when the map is empty, and
/// then all of it is freed.
template <class Map, class Tx>
bool clear_from_the_end(Map& map, Tx& tx, std::size_t max_entries) {
  for (std::size_t i = 0; i < max_entries; ++i) {
    const auto entry = map.last(tx);
    if (!entry) break;
    map.erase(tx, entry->first);
  }
  if (map.last(tx)) return false;
  map.clear(tx);
  return true;
}

}  // namespace perdure::detail
