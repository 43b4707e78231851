// SPDX-License-Identifier: BSD-3-Clause
// The servers that `perdure-lab bench memcached` measures, each a process of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/memcached/load.h"
#include "tools/process.h"

namespace perdure::bench::memcached {

/// A server that can be measured. What it keeps lies in a directory of its own.
struct ServerKind {
  std::string name;
  std::string survives;  // what its acknowledgements do
  bool on_disk = false;  // where its files are, else in memory
  /// The command for a server with so many threads and this directory.
  std::vector<std::string> (*command)(const std::string& directory, unsigned threads,
                                      unsigned connections, const Address& address);
};

/// Those that can be had here: memcached is fetched and unpacked if it is not installed, unless `offline`; Berkeley DB when
/// it was built in.
std::vector<ServerKind> server_kinds(const std::string& memcached_tree, bool offline);

/// CPU time that a process has used, of all its threads. Errors: throws Exception kIo.
double cpu_seconds(pid_t process);

/// What a process keeps in memory. Nothing when it cannot be told.
std::optional<std::uint64_t> resident_bytes(pid_t process);

/// `perdure-lab bench serve-berkeley DIRECTORY`: Berkeley DB behind our front end, until SIGTERM.
struct BerkeleyOptions {
  std::string directory;
  Address address;
  unsigned threads = 2;
  bool safe = false;
};
void serve_berkeley(const BerkeleyOptions& options);

}  // namespace perdure::bench::memcached
