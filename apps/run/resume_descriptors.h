// SPDX-License-Identifier: BSD-3-Clause
// Makes what the kernel kept in memory alone, in the process that is to be the program.
#pragma once

#include <map>

#include "apps/run/image.h"

namespace perdure::run {

/// The program's objects, by the lowest of their descriptors: open at numbers from `least` on. Epolls
/// have no members yet. Errors: Exception with what cannot be made, and why.
std::map<int, int> make_objects(const Image& image, int least);

/// When all descriptors are at their numbers: adds the members of epolls, takes the locks on files.
/// Errors: Exception: kBusy: somebody else has a lock.
void connect_objects(const Image& image);

}  // namespace perdure::run
