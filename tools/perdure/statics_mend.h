// SPDX-License-Identifier: BSD-3-Clause
// The file of an address space's static variables, of which the first page is damaged.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace perdure::tools {

/// The first page says how long the names are, and of which program; the rest follows from the file. Puts
/// it right in `all`, the whole file, and tells what it did. False: the file was never finished.
/// Errors: throws Exception kCorrupt.
bool mend_statics(std::vector<std::byte>& all, const std::string& path,
                  std::vector<std::string>& mended, std::vector<std::string>& lost);

}  // namespace perdure::tools
