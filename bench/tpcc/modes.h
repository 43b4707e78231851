// SPDX-License-Identifier: BSD-3-Clause
// In which ways SQLite is measured: a VFS, a journal mode and a synchronous setting each; and the
// VFSes that do not come with SQLite.
#pragma once

#include <string>
#include <vector>

#include "bench/tpcc/sqlite.h"

namespace perdure::bench::tpcc {

struct Mode {
  std::string vfs;
  std::string journal;          // as PRAGMA journal_mode answers
  std::string synchronous;      // as PRAGMA synchronous takes
  std::string parameters = {};  // of the database's URI, as "engine=softwrap&domain=adr"

  /// "unix/wal/full", "perdure?early_reads=1/delete/full".
  std::string name() const {
    return vfs + (parameters.empty() ? "" : "?" + parameters) + "/" + journal + "/" + synchronous;
  }
};

/// The one that others are held against.
inline constexpr const char* kBaseline = "unix/wal/full";

/// "unix/wal/full"; a VFS alone is in mode delete/full. Behind a VFS may stand "?" and parameters of
/// the URI.
/// Errors: throws Exception kInvalid, also for a VFS that is not registered.
Mode mode_of(const std::string& name);
/// What is measured where nothing else is asked for; with the VFS "perdure" where it is registered.
std::vector<Mode> default_modes();
/// What a power cut leaves on a disk, as SQLite's documentation has it, or docs/SQLITE.md.
std::string promise_of(const Mode& mode);

/// Whether a connection that waits for another's lock is woken, and gets it in its turn. SQLite's own
/// way to wait is to sleep for milliseconds.
bool wakes_waiters(const Mode& mode);

/// Sets a connection to the mode; each connection needs it.
/// Errors: throws Exception kInvalid where the VFS has no such mode, as one without shared memory has
/// no WAL.
void apply(const Mode& mode, Connection& connection);

/// Of a variable at namespace scope: a VFS that is linked in. `register_vfs` makes it known to
/// SQLite, not as the default.
struct LinkedVfs {
  explicit LinkedVfs(void (*register_vfs)());
};
/// Registers what is linked in, and loads the extension if `extension` names one, for good. Before
/// any other connection is opened.
/// Errors: throws Exception kInvalid where the file cannot be loaded, with SQLite's reason.
void register_vfses(const std::string& extension);

}  // namespace perdure::bench::tpcc
