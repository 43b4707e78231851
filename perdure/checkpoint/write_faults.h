// SPDX-License-Identifier: BSD-3-Clause
// The fallback of DirtyPages: mprotect and a handler of SIGSEGV, for kernels before 6.7.
#pragma once

#include "perdure/checkpoint/dirty_pages.h"

namespace perdure::checkpoint {

/// Errors: kNoSpace (more than 64 ranges at once), kIo.
Result<std::unique_ptr<DirtyPages>> watch_by_faults(std::byte* base, std::uint64_t pages);

}  // namespace perdure::checkpoint
