// SPDX-License-Identifier: BSD-3-Clause
// What `perdure check` answers with: one thing that is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "perdure/region/page_sums.h"
#include "tools/report.h"

namespace perdure::tools {

/// What, where (a byte offset of the file, or -1 for all of it), and the remedy.
struct Finding {
  std::string part;
  std::int64_t at_byte;
  std::string what;
  std::string remedy;
};

/// The library's messages read "file: what … byte N …; remedy".
Finding from_message(const std::string& part, const std::string& file, std::string message);

/// One for each piece of damage, with its remedy.
std::vector<Finding> findings_of(const PageSumsReport& report);

Report describe(const std::vector<Finding>& findings);

}  // namespace perdure::tools
