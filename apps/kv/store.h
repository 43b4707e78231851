// SPDX-License-Identifier: BSD-3-Clause
// What a pool of `perdure kv` holds: one persistent hash map of byte strings, at the root "kv".
#pragma once

#include <array>
#include <cstdint>

#include "perdure/container/hash_map.h"
#include "perdure/pool.h"

namespace perdure::kv {

using Map = hash_map<bytes, bytes>;

inline constexpr const char* kRoot = "kv";

/// Says that `perdure kv demo` made a pool, and may therefore begin it anew.
struct DemoMarker {
  std::uint64_t made_by_demo;
};
inline constexpr const char* kDemoRoot = "kv.demo";

}  // namespace perdure::kv
