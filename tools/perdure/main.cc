// SPDX-License-Identifier: BSD-3-Clause
// `perdure`: pools from the outside, an embedded store for scripts, servers, and programs carried through crashes.
#include "apps/kv/kv.h"
#include "apps/ldap/commands/ldap.h"
#ifdef PERDURE_WITH_MEMCACHED
#include "apps/memcached/commands/serve.h"
#else
#include "perdure/error.h"
#endif
#include "apps/run/commands.h"
#include "tools/command_line.h"
#include "tools/perdure/commands.h"

namespace {

constexpr const char* kAbout =
    R"(perdure: data structures that survive crashes, in one file.

  perdure kv put words.pool moon "a natural satellite"    store a record, durably
  perdure kv get words.pool moon                          and get it back, after any crash
  perdure kv load words.pool words.tsv                    load many; every batch is all or nothing
  perdure info words.pool                                 what is in this file?
  perdure check words.pool                                is it whole? (never changes the file)
  perdure backup words.pool monday.pool                   a copy, also while a program uses it
  perdure backup words.pool tuesday --since monday.pool   what has changed since
  perdure scrub words.pool                                does the device still hold what was written?
  perdure compact words.pool fresh.pool                   a copy without what nobody can find
  perdure salvage words.pool fresh.pool                   of a damaged one, what can be proved
  perdure serve cache.pool                                a memcached whose items survive
  perdure run --state job.state -- python3 job.py         any program, whose memory survives kill -9

perdure-lab measures and proves: benchmarks, papers, power cuts, kills, simulated memories.)";

void add_commands(perdure::tools::Command app) {
  perdure::tools::add_pool_commands(app);
  perdure::tools::add_check_command(app);
  perdure::tools::add_reclaim_command(app);
  perdure::tools::add_compact_command(app);
  perdure::tools::add_salvage_command(app);
  perdure::tools::add_backup_commands(app);
  perdure::tools::add_scrub_command(app);
  perdure::tools::add_dump_command(app);
  perdure::kv::add_kv_commands(app);
  perdure::ldap::add_ldap_commands(app);
#ifdef PERDURE_WITH_MEMCACHED
  perdure::memcached::add_serve_command(app);
#else
  const perdure::tools::Command serve =
      app.add_subcommand("serve", "(not in this build: libevent was not there)");
  serve.allow_extras();
  serve.callback([] {
    throw perdure::Exception(perdure::Code::kMisuse,
                             "serve: built without libevent; install libevent-dev and build again");
  });
#endif
  perdure::run::add_run_commands(app);
}

}  // namespace

int main(int argc, char** argv) {
  return perdure::tools::run_command_line({"perdure", kAbout, add_commands}, argc, argv);
}
