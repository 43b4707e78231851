// SPDX-License-Identifier: BSD-3-Clause
// Commands meet a persistent address space as a directory.
#pragma once

#include <string>

#include "tools/report.h"

namespace perdure {
class AddressSpace;
}

namespace perdure::tools {

/// Whether `path` is a directory.
bool is_space(const std::string& path);
/// The file of its heap.
std::string heap_of(const std::string& directory);
/// Regions and static variables, for reports.
Report describe_regions(AddressSpace& space);
Report describe_statics(const AddressSpace& space);

}  // namespace perdure::tools
