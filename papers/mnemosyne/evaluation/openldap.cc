// SPDX-License-Identifier: BSD-3-Clause
// Table 4, OpenLDAP: adds to a directory kept in persistent memory, against the database that slapd brings.
#include <fmt/format.h>

#include "bench/ldap/ldap_commands.h"
#include "measure/ram_disk.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {
namespace {

/// The rates in emulated memory, as far as a device can be made of it; `section` is told why not.
void add_rates_in_memory(Section& section, const Settings& settings) {
  ldap::AddRatesInMemory rates;
  try {
    const RamDisk device(settings.dir, std::uint64_t{32} << 30);  // it takes what is written
    rates = ldap::measure_adds_in_memory(settings.dir, device, settings.memory,
                                         settings.ldap_entries, paper::kLdapThreads);
  } catch (const Exception& failure) {
    section.missing += std::string(" Not measured on PCM-disk: ") + failure.what() + ".";
    return;
  }
  const auto add = [&](const std::string& name, Origin origin, const std::vector<double>& found,
                       double us) {
    section.add(name, "adds/s", origin).values = {spread_of(found)};
    section.add_values(name + ": device", "us", Origin::kDerived, {us}).charted = false;
  };
  add(paper::kLdapInMemory, Origin::kPerdure, rates.ours, rates.ours_us);
  add(paper::kMdbOnPcmDisk, Origin::kPeer, rates.back_mdb, rates.back_mdb_us);
  add(paper::kMdbNotSynced, Origin::kPeer, rates.back_mdb_not_synced, rates.back_mdb_not_synced_us);
  section.add_ratio("perdure / back-mdb on PCM-disk", paper::kLdapInMemory, paper::kMdbOnPcmDisk);
}

}  // namespace

Section measure_ldap(const Settings& settings) {
  Section section;
  section.id = "openldap";
  section.title = "Table 4: update throughput of OpenLDAP";
  section.method = fmt::format(
      "{} clients add {} entries through Debian's slapd: to our server behind its socket back end, "
      "and to its own back-mdb, each add synced to a file in the current directory. In memory: our "
      "pool in {}, back-mdb on an ext2 on a device in memory (PCM-disk); what the emulated memory "
      "would take for the lines that an add writes, and for the blocks that reached the device, is "
      "added to the clock's time (\"device\", us of each add). The paper's slapd has a persistent "
      "cache inside it and is loaded by SLAMD. back-bdb and back-ldbm are no longer in slapd: in "
      "the "
      "place of back-bdb stands back-mdb, which has transactions, too, and in the place of "
      "back-ldbm the same with dbnosync and a checkpoint each minute, which leaves what it wrote "
      "to "
      "a later sync as that one did.",
      paper::kLdapThreads, settings.ldap_entries, settings.dir);
  section.x_name = "clients";
  section.x = {static_cast<double>(paper::kLdapThreads)};
  ldap::AddRates rates;
  try {
    tell_progress("openldap", 0, 1);
    rates = ldap::measure_adds(".", settings.ldap_entries, paper::kLdapThreads);
  } catch (const Exception& failure) {
    // Without a slapd or a disk the rest of the evaluation is none the worse.
    section.missing = std::string("Not measured: ") + failure.what();
    return section;
  }
  section.add("perdure", "adds/s", Origin::kPerdure).values = {spread_of(rates.ours)};
  section.add("back-mdb", "adds/s", Origin::kPeer).values = {spread_of(rates.back_mdb)};
  section.add_ratio("perdure / back-mdb", "perdure", "back-mdb");
  add_rates_in_memory(section, settings);
  section.add_values("paper: back-mnemosyne", "adds/s", Origin::kPaper, {paper::kLdapMnemosyne});
  section.add_values("paper: back-bdb", "adds/s", Origin::kPaper, {paper::kLdapBerkeley});
  section.add_values("paper: back-ldbm", "adds/s", Origin::kPaper, {paper::kLdapNotSynced});
  paper::judge_ldap(section);
  return section;
}

}  // namespace perdure::bench::reproduce
