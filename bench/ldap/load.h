// SPDX-License-Identifier: BSD-3-Clause
// A concurrent LDAP client: many connections served by one thread, so that the client costs the two
// contestants as little as it can. One operation under way per connection and in-flight place.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace perdure::bench {

struct LdapLoad {
  enum class Kind { kAdd, kSearch };
  std::string uri;
  std::string suffix;
  std::string admin;
  std::string password;
  unsigned connections = 16;
  unsigned in_flight = 1;  // per connection
  Kind kind = Kind::kAdd;
  std::uint64_t first = 0;  // number of the first person
  std::uint64_t count = 0;
  /// Called with each person's number when the server has acknowledged it; false ends the load.
  std::function<bool(std::uint64_t)> acknowledged;
};

struct LdapLoaded {
  std::uint64_t operations = 0;  // acknowledged
  double seconds = 0;
  std::vector<double> latencies_ns;
  std::string failure;  // why it ended early, if it did
  /// Persons that were asked for and never answered.
  std::vector<std::uint64_t> in_doubt;
};

/// A person as a load adds them.
struct LdapPerson {
  std::string dn;
  std::vector<std::pair<std::string, std::vector<std::string>>> attributes;
};
LdapPerson ldap_person(const std::string& suffix, std::uint64_t number);

/// Adds persons (inetOrgPerson entries below ou=people), or looks each up by its uid.
/// Errors: throws Exception kIo when the server cannot be reached or refuses the admin; what ends a
/// load later is in `failure`. A refused add, or a search that does not find exactly the person, is
/// a failure.
LdapLoaded run_ldap_load(const LdapLoad& load);

/// Adds the suffix entry and ou=people. Errors: throws Exception kIo.
void add_ldap_frame(const LdapLoad& load);

/// Numbers of all persons that are there, from one search over the whole tree. Errors: throws
/// Exception kIo, also for a person who is not as run_ldap_load() adds them.
std::vector<std::uint64_t> ldap_persons(const LdapLoad& load);

}  // namespace perdure::bench
