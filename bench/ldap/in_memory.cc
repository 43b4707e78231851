// SPDX-License-Identifier: BSD-3-Clause
// Adds to our server and to slapd's own database, all of it in emulated memory.
#include <array>
#include <filesystem>
#include <functional>

#include <fmt/core.h>

#include "apps/ldap/directory.h"
#include "bench/ldap/ldap_commands.h"
#include "bench/ldap/load.h"
#include "bench/ldap/slapd.h"
#include "bench/system.h"
#include "papers/pool.h"

namespace perdure::ldap {
namespace {

using bench::LdapLoad;
using bench::reproduce::EmulatedMemory;
using bench::reproduce::PcmDisk;
using bench::reproduce::RamDisk;

void add_to(Directory& directory, const std::string& dn, const Values& values, bool is_suffix) {
  if (directory.add(parse_dn(dn).value(), values, is_suffix).code != ResultCode::kSuccess)
    throw Exception(Code::kIo, dn + ": cannot be added");
}

/// What the emulated memory takes for the lines and waits of an add, counted in a directory of this
/// process. At most: what is written through together is one run there, and a latency.
double emulated_ns_of_an_add(const std::string& dir, const EmulatedMemory& memory) {
  constexpr std::uint64_t kAdds = 200;
  const bench::ScratchFile file(dir, "ldap-counted");
  papers::LabOptions options;
  options.count = true;
  papers::LabPool pool = papers::create(file.path(), options).value();
  Directory directory(pool);
  add_to(directory, kSuffix, {{"objectClass", "dcObject"}, {"dc", "example"}}, true);
  add_to(directory, std::string("ou=people,") + kSuffix,
         {{"objectClass", "organizationalUnit"}, {"ou", "people"}}, false);
  const DomainCounts before = pool.counts();
  for (std::uint64_t number = 0; number < kAdds; ++number) {
    const bench::LdapPerson person = bench::ldap_person(kSuffix, number);
    Values values;
    for (const auto& [attribute, all] : person.attributes) {
      for (const std::string& value : all) values.push_back({attribute, value});
    }
    add_to(directory, person.dn, values, false);
  }
  const DomainCounts counts = pool.counts() - before;
  const double line_ns = memory.latency_ns + kLineBytes / memory.gb_per_s;
  return (static_cast<double>(counts.flushes) * line_ns +
          static_cast<double>(counts.fences) * memory.latency_ns) /
         kAdds;
}

/// One of those that are loaded by turns.
struct Side {
  const Slapd* slapd;
  /// What has cost emulated time so far, in ns, when so many adds were acknowledged.
  std::function<double(std::uint64_t adds)> emulated_ns;
  std::vector<double>* rates;
  double* us;  // of each add
};

}  // namespace

AddRatesInMemory measure_adds_in_memory(const std::string& dir, const RamDisk& device,
                                        const EmulatedMemory& memory, std::uint64_t entries,
                                        unsigned clients) {
  constexpr std::uint64_t kTurns = 10;
  const SlapdFiles files = find_slapd("");
  const bench::ScratchDirectory scratch(dir, "ldap");
  const bench::ScratchDirectory databases(device.path(), "ldap");
  const auto at = [&](const char* name) { return scratch.path() + "/" + name; };
  const auto database = [&](const char* name) {
    const std::string path = databases.path() + "/" + name;
    std::filesystem::create_directories(path);
    return mdb_database(path);
  };
  const double add_ns = emulated_ns_of_an_add(dir, memory);
  const double block_ns = memory.latency_ns + PcmDisk::kBlockBytes / memory.gb_per_s;
  const auto of_device = [&](std::uint64_t) { return device.blocks_written() * block_ns; };

  Process server = start_server(at("pool"), at("sock"), at("serve.log"), {"--threads", "32"});
  Slapd ours(files, scratch.path(), "ours", "back_sock", sock_database(at("sock")));
  Slapd synced(files, scratch.path(), "mdb", "back_mdb", database("mdb"));
  Slapd not_synced(files, scratch.path(), "mdb-now-and-then", "back_mdb",
                   database("mdb-now-and-then"), "dbnosync\ncheckpoint 0 1\n");
  AddRatesInMemory found;
  std::array<Side, 3> sides = {
      {{&ours, [&](std::uint64_t adds) { return static_cast<double>(adds) * add_ns; }, &found.ours,
        &found.ours_us},
       {&synced, of_device, &found.back_mdb, &found.back_mdb_us},
       {&not_synced, of_device, &found.back_mdb_not_synced, &found.back_mdb_not_synced_us}}};
  for (const Side& side : sides) bench::add_ldap_frame(side.slapd->load());
  for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
    const std::uint64_t begin = entries * turn / kTurns;
    const std::uint64_t end = entries * (turn + 1) / kTurns;
    if (begin == end) continue;
    for (Side& side : sides) {
      LdapLoad load = side.slapd->load();
      load.connections = clients;
      load.first = begin;
      load.count = end - begin;
      const double before = side.emulated_ns(begin);
      const bench::LdapLoaded loaded = bench::run_ldap_load(load);
      if (!loaded.failure.empty())
        throw Exception(Code::kIo, load.uri + ": add: " + loaded.failure);
      const double emulated_s = (side.emulated_ns(end) - before) / 1e9;
      side.rates->push_back(static_cast<double>(loaded.operations) / (loaded.seconds + emulated_s));
      *side.us += emulated_s * 1e6 / static_cast<double>(entries);
    }
  }
  not_synced.process().stop();
  synced.process().stop();
  ours.process().stop();
  if (const int code = server.stop(); code != 0)
    throw Exception(Code::kIo, "the server ended with code " + std::to_string(code));
  return found;
}

}  // namespace perdure::ldap
