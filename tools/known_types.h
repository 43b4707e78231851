// SPDX-License-Identifier: BSD-3-Clause
// The types of root objects that the tools can look into. A pool does not describe its types; it
// only remembers a hash of each root's, so that a program does not open it as another.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tools/checked_tx.h"
#include "tools/wreck.h"

namespace perdure::tools {

/// Is shown the offset of an object before it is read; answers its room, or throws when no live
/// object starts there.
using Visit = std::function<detail::Room(Offset)>;

struct KnownType {
  std::uint64_t type;
  std::uint64_t bytes;
  std::string_view name;
  /// Calls `visit` for every heap object that `object` owns, itself excluded; answers what is
  /// wrong, if anything.
  std::optional<std::string> (*audit)(CheckedTx& tx, void* object, const Visit& visit);
  /// Copies what can be proved of `root` to a root of the same name in `to`, if there is a `to`;
  /// answers how many entries that were. Null: not known how.
  std::uint64_t (*salvage)(Wreck& wreck, const Wreck::Root& root, Pool* to) = nullptr;
};

/// Null for a type that is not known.
const KnownType* find_known_type(std::uint64_t type);

}  // namespace perdure::tools
