// SPDX-License-Identifier: BSD-3-Clause
// Backups of pools, also of pools that a program has open: whole copies, increments to them, and what is
// made of both. What Pool::back_up() does, for tools that show how far it is.
//
// An increment has the pages of a pool, as of one moment, that are not those of one whole copy, its base.
// Each is of its own: a later one needs none before it. Nothing is believed of the base but what is read:
// it may have been opened meanwhile, and then it is no longer the base.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "perdure/error.h"
#include "perdure/region/layout.h"

namespace perdure {

/// Called now and then, in bytes.
using ShowProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

struct BackupSize {
  std::uint64_t pool_bytes;  // of the pool as it was
  std::uint64_t kept_bytes;  // of these in the new file
};

/// Copies the pool `from`. Errors: as Pool::back_up().
Result<BackupSize> back_up_pool(const std::string& from, const std::string& to,
                                const ShowProgress& show = {});

/// Writes what has changed since the copy `base`.
/// Errors: as back_up_pool(); kInvalid: `base` is a copy of another pool; kBusy: it is in use.
Result<BackupSize> back_up_changes(const std::string& from, const std::string& base,
                                   const std::string& to, const ShowProgress& show = {});

/// Makes a pool of a whole copy and an increment to it.
/// Errors: kForeign, kVersion, kTruncated, kCorrupt for what is no whole increment; kInvalid: `base` is
///         not, or no longer, what the increment was made to; kBusy, kExists, kIo, kNoSpace. Then there is
///         no new file.
Result<BackupSize> restore_pool(const std::string& base, const std::string& increment,
                                const std::string& to, const ShowProgress& show = {});

/// Gives the new file of a pool its length and real blocks, as every pool has: a store must not meet a
/// full device. Rings take theirs when they are used.   Errors: kNoSpace, kIo.
Result<void> reserve_pool(int fd, const Superblock& super, std::uint64_t end,
                          const std::string& path);

}  // namespace perdure
