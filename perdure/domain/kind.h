// SPDX-License-Identifier: BSD-3-Clause
// The kinds of storage that a pool can be on, as people choose and meet them.
#pragma once

#include <cstdint>
#include <string_view>

namespace perdure {

/// What a pool can be opened on. `kAuto` looks at the file: DAX (MAP_SYNC) → kAdr, tmpfs → kDram,
/// else kSync.
enum class DomainKind : std::uint8_t { kAuto, kAdr, kEadr, kSync, kDram };

constexpr std::string_view domain_name(DomainKind kind) {
  switch (kind) {
    case DomainKind::kAuto: return "auto";
    case DomainKind::kAdr: return "adr";
    case DomainKind::kEadr: return "eadr";
    case DomainKind::kSync: return "sync";
    case DomainKind::kDram: return "dram";
  }
  return "unknown";
}

/// What an acknowledged transaction survives, in a sentence for people.
constexpr std::string_view domain_guarantee(DomainKind kind) {
  switch (kind) {
    case DomainKind::kAuto: return "as the file's storage allows";
    case DomainKind::kAdr:
      return "power loss (lines are written back to the memory controller and waited for)";
    case DomainKind::kEadr:
      return "power loss, on a machine whose caches are flushed by stored energy";
    case DomainKind::kSync: return "power loss (every commit waits for the storage device)";
    case DomainKind::kDram: return "process death only (the memory is gone with the power)";
  }
  return "unknown";
}

}  // namespace perdure
