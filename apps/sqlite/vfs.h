// SPDX-License-Identifier: BSD-3-Clause
// The VFSs `perdure` and `perdure-plain`, as SQLite's C interface wants them.
#pragma once

namespace perdure::sqlite {

inline constexpr const char* kVfsName = "perdure";
inline constexpr const char* kPlainVfsName = "perdure-plain";

/// Registers both, once, and if asked `perdure` as the default. Returns an SQLite result code.
/// Threads: any.
int register_vfs(bool make_default);

}  // namespace perdure::sqlite
