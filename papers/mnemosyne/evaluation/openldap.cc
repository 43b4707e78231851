// SPDX-License-Identifier: BSD-3-Clause
// Table 4, OpenLDAP: adds to a directory kept in persistent memory, against the database that slapd brings.
#include <fmt/format.h>

#include "bench/ldap/ldap_commands.h"
#include "measure/settings.h"
#include "papers/mnemosyne/evaluation/claims.h"
#include "papers/mnemosyne/evaluation/paper_mnemosyne.h"

namespace perdure::bench::reproduce {

Section measure_ldap(const Settings& settings) {
  Section section;
  section.id = "openldap";
  section.title = "Table 4: update throughput of OpenLDAP";
  section.method = fmt::format(
      "{} clients add {} entries through Debian's slapd: to our server behind its socket back end, "
      "and to its own back-mdb, each add synced to a file in the current directory. The paper's "
      "slapd has a persistent cache inside it, stands against back-bdb on PCM-disk, and is loaded "
      "by SLAMD.",
      paper::kLdapThreads, settings.ldap_entries);
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
  section.add_values("paper: back-mnemosyne", "adds/s", Origin::kPaper, {paper::kLdapMnemosyne});
  section.add_values("paper: back-bdb", "adds/s", Origin::kPaper, {paper::kLdapBerkeley});
  paper::judge_ldap(section);
  return section;
}

}  // namespace perdure::bench::reproduce
