// SPDX-License-Identifier: BSD-3-Clause
// The kinds of stores in the comparison: what each is set to, and what its acknowledgements are
// worth there. Those of the peers whose libraries were found when the tool was built register how
// they are made.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "bench/comparison/store.h"

namespace perdure::bench::comparison {

/// What a store does for an acknowledged update in one place.
struct Terms {
  std::string_view setting;
  std::string_view survives;
  /// Less than the others give there: a comparison with it is not one of equals.
  bool weaker = false;
};

struct StoreKind {
  std::string_view name;
  std::string_view title;
  std::string_view package;  // of the peer's library; empty: ours
  bool ordered = false;
  std::optional<Terms> in_memory;  // none: not run there
  std::optional<Terms> on_disk;

  bool ours() const { return package.empty(); }
  const std::optional<Terms>& terms(Place place) const {
    return place == Place::kMemory ? in_memory : on_disk;
  }
};

/// All that there are, ours first, built in or not.
std::span<const StoreKind> store_kinds();

using MakeStore = std::unique_ptr<Store> (*)(const StoreOptions& options);
/// Null when its library was not found when the tool was built.
MakeStore maker_of(const StoreKind& kind);

/// Of a variable at namespace scope: the kind `name` is built in.
struct RegisterStore {
  RegisterStore(std::string_view name, MakeStore make);
};

}  // namespace perdure::bench::comparison
