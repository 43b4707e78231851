// SPDX-License-Identifier: BSD-3-Clause
// Statics: the persistent static variables of a program (pstatic), as its executable lays them out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "perdure/error.h"

namespace perdure {

struct StaticVariable {
  std::string name;
  std::uint64_t offset;  // from the start of the section
  std::uint64_t bytes;
  friend bool operator==(const StaticVariable&, const StaticVariable&) = default;
};

/// What a program declares. `begin` null: no variables at all.
struct Statics {
  std::byte* begin = nullptr;  // the section in the program's own memory: whole pages
  std::uint64_t bytes = 0;
  std::vector<std::uint8_t> build_id;
  std::string program;  // file name of the executable
  /// Their places, sorted; empty when the executable is stripped. Compared only when the build ids
  /// differ.
  std::vector<StaticVariable> variables;

  enum class OnChange : std::uint8_t {
    kRefuse,
    kMigrate,         // variables keep their values by name and size; none may vanish
    kMigrateAndDrop,  // ... and those that the program no longer has are dropped
    kReset,           // back to the values in the executable
  };
  OnChange on_change = OnChange::kRefuse;
};

/// The variables in section `persistent` of the running executable. Errors: kInvalid when the
/// section is not on pages of its own; kIo when the executable cannot be read.
Result<Statics> statics_of_this_program(std::byte* begin, std::byte* end);

/// The media form of the variables' names and places: a line each, "offset bytes name".
std::string to_text(const std::vector<StaticVariable>& variables);
/// Errors: kCorrupt.
Result<std::vector<StaticVariable>> variables_from_text(std::string_view text);
/// What differs, for people: "head moved from byte 16 to 24", a line each; at most `limit` lines.
std::string describe_change(const std::vector<StaticVariable>& before,
                            const std::vector<StaticVariable>& now, std::size_t limit = 8);

}  // namespace perdure
