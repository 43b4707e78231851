// The directory for people and scripts: `perdure ldap …`.
#pragma once

#include <CLI/CLI.hpp>

namespace perdure::ldap {

void add_ldap_commands(CLI::App& app);

/// `ldap demo`: a real slapd and a server of ours, killed while being filled.
void add_demo_command(CLI::App& ldap);
/// `ldap bench`: the same beside slapd's own database.
void add_bench_command(CLI::App& ldap);

}  // namespace perdure::ldap
