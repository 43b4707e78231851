// SPDX-License-Identifier: BSD-3-Clause
// What a new arena's file takes of a device.
#pragma once

#include <string>

#include "perdure/checkpoint/arena_layout.h"
#include "perdure/error.h"

namespace perdure::checkpoint {

/// How much log is written before it is brought home, unless a program says otherwise.
std::uint64_t usual_log_bytes(std::uint64_t capacity_bytes);

/// Gives a new, empty file its length, and real blocks to home and to so much of each log segment: a
/// full device must not stop an epoch.   Errors: kIo, kNoSpace.
Result<void> reserve_arena(int fd, const ArenaSuperblock& super, std::uint64_t log_bytes,
                           const std::string& path);

}  // namespace perdure::checkpoint
