// The VFS `perdure`, as SQLite's C interface wants it.
#pragma once

namespace perdure::sqlite {

inline constexpr const char* kVfsName = "perdure";

/// Registers the VFS, once, and if asked as the default. Returns an SQLite result code.
/// Threads: any.
int register_vfs(bool make_default);

}  // namespace perdure::sqlite
