// SPDX-License-Identifier: BSD-3-Clause
// The servers that `perdure-lab bench memcached` and Figure 8 of NV-heaps measure, each a process of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/memcached/load.h"
#include "bench/workload.h"
#include "tools/process.h"

namespace perdure::bench::memcached {

/// A server that can be measured. What it keeps lies in a directory of its own.
struct ServerKind {
  std::string name;
  std::string survives;  // what its acknowledgements do
  bool on_disk = false;  // where its files are, else in memory
  /// The command for a server with so many threads and this directory.
  std::function<std::vector<std::string>(const std::string& directory, unsigned threads,
                                         unsigned connections, const Address& address)>
      command;
};

/// Those that can be had here: memcached is fetched and unpacked if it is not installed, unless `offline`; Berkeley DB when
/// it was built in.
std::vector<ServerKind> server_kinds(const std::string& memcached_tree, bool offline);

/// Our front end on a heap of objects, as in NV-heaps, on the paper's memories and without durability.
std::vector<ServerKind> object_server_kinds();

/// A server that runs, filled; it ends with this.
class RunningServer {
 public:
  /// Listens on a Unix socket, or on `port` if that is not 0.
  RunningServer(const ServerKind& kind, const std::string& directory, unsigned threads,
                std::uint16_t port, LoadOptions load);
  RunningServer(RunningServer&&) = default;
  ~RunningServer();

  ServerKind kind;
  LoadOptions load;
  std::uint64_t empty_bytes = 0;
  std::uint64_t filled_bytes = 0;
  pid_t id() const { return process_->id(); }

 private:
  std::unique_ptr<ScratchDirectory> directory_;
  std::unique_ptr<tools::Process> process_;
};

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

/// `perdure-lab bench serve-objects DIRECTORY`: a heap of objects behind our front end, until SIGTERM.
struct ObjectServerOptions {
  std::string directory;
  Address address;
  unsigned threads = 2;
  std::string memory = "DRAM";  // of nvheaps::kMemories
  bool durable = true;
};
void serve_objects(const ObjectServerOptions& options);

}  // namespace perdure::bench::memcached
