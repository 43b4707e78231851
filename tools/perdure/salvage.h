// SPDX-License-Identifier: BSD-3-Clause
// `perdure salvage`: what is made of each kind of file.
#pragma once

#include <string>
#include <vector>

#include "tools/report.h"

namespace perdure::tools {

struct Salvaged {
  Report report;                  // what was made, of what
  std::vector<std::string> lost;  // what was left out, and why
};

/// Makes the arena `to` of the newest epoch that can be proved of `from`.
/// Errors: throws as ArenaWreck; nothing is left of `to`.
Salvaged salvage_arena(const std::string& from, const std::string& to, bool zero_lost_pages);

/// Makes the address space `to` of what can be proved of `from`, everything at its address.
/// Errors: throws Exception; nothing is left of `to`.
Salvaged salvage_space(const std::string& from, const std::string& to, bool zero_lost_pages);

}  // namespace perdure::tools
