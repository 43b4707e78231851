// SPDX-License-Identifier: BSD-3-Clause
// A real slapd to try the directory with: found or fetched, configured in a directory of its own,
// run without root, and never as a service of the machine.
#pragma once

#include <string>
#include <vector>

#include "bench/ldap/load.h"
#include "tools/process.h"

namespace perdure::ldap {

using tools::Process;

/// Where slapd's parts are.
struct SlapdFiles {
  std::string program;
  std::string modules;
  std::string schema;
  std::string libraries;  // to be searched before the system's; may be empty
};
/// The slapd below `tree`, where the Debian package is unpacked if it is not there yet (apt-get
/// download and dpkg -x: nothing is installed and nothing started). With an empty `tree` the
/// installed one, or if there is none, one below build/slapd.
/// Errors: throws Exception kNotFound when it is not there and cannot be had.
SlapdFiles find_slapd(const std::string& tree);

inline constexpr const char* kSuffix = "dc=example,dc=com";
inline constexpr const char* kAdmin = "cn=admin,dc=example,dc=com";
inline constexpr const char* kAdminPassword = "secret";

/// A slapd over a Unix socket ("ldapi"), with one database. It keeps no record of who changed what
/// ("lastmod off"): slapd leaves that to its back ends, of which the socket one does not do it.
class Slapd {
 public:
  /// `directory` takes its configuration, log and socket. `database` are the lines of slapd.conf
  /// from "database" on, without suffix and rootdn; `more` are those that come after these. Returns
  /// when it takes connections. Errors: throws Exception kIo with the end of its log.
  Slapd(const SlapdFiles& files, const std::string& directory, const std::string& name,
        const std::string& module, const std::string& database, const std::string& more = "");

  const std::string& uri() const { return uri_; }
  Process& process() { return process_; }
  /// A load for it, by its administrator.
  bench::LdapLoad load() const;

 private:
  std::string uri_;
  Process process_;
};

/// Turns this process into a slapd with a database of those lines, in the foreground, listening at
/// slapd_uri(directory). Errors: throws Exception kIo.
[[noreturn]] void become_slapd(const SlapdFiles& files, const std::string& directory,
                               const std::string& database);
std::string slapd_uri(const std::string& directory);

/// The lines of slapd.conf for a server of ours at `socket`, and for slapd's own database, durable
/// with every update, with the same indexes.
std::string sock_database(const std::string& socket);
std::string mdb_database(const std::string& directory);

/// `perdure ldap serve` as a process, with the admin of above; returns when it takes connections. Errors: throws Exception
/// kIo with the end of its log.
Process start_server(const std::string& pool, const std::string& socket, const std::string& log,
                     const std::vector<std::string>& options = {});

}  // namespace perdure::ldap
