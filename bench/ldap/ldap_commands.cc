// SPDX-License-Identifier: BSD-3-Clause
#include "bench/ldap/ldap_commands.h"

namespace perdure::ldap {

void add_ldap_lab_commands(tools::Command app) {
  tools::Command ldap =
      app.add_subcommand("ldap", "The LDAP directory (`perdure ldap`) behind a real slapd");
  ldap.require_subcommand();
  add_demo_command(ldap);
  add_bench_command(ldap);
}

}  // namespace perdure::ldap
