// SPDX-License-Identifier: BSD-3-Clause
// Commands meet a persistent address space as a directory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/report.h"

namespace perdure {
class AddressSpace;
class DirectoryFiles;
struct RegionEntry;
}  // namespace perdure

namespace perdure::tools {

/// Whether `path` is a directory.
bool is_space(const std::string& path);
/// The file of its heap.
std::string heap_of(const std::string& directory);
/// Makes the files of these regions: `copy(fd, piece)` writes a piece at its place. What no piece has gives
/// its blocks back. Errors: throws Exception.
void copy_region_files(const std::vector<RegionEntry>& pieces, DirectoryFiles& files,
                       const std::function<void(int, const RegionEntry&)>& copy);
/// Regions and static variables, for reports.
Report describe_regions(AddressSpace& space);
Report describe_statics(const AddressSpace& space);

}  // namespace perdure::tools
