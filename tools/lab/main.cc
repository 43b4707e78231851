// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab`: what measures Perdure and its peers, and what proves that crashes lose nothing.
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_command.h"
#include "bench/ldap/ldap_commands.h"
#include "tools/command_line.h"
#include "tools/lab/commands.h"

namespace {

constexpr const char* kAbout =
    R"(perdure-lab: the laboratory of Perdure. (`perdure` is the command for your data.)

  perdure-lab explore --list                              what is cut, and what must hold
  perdure-lab explore hash-map                            cut the power everywhere and look
  perdure-lab torture /dev/shm/t.pool --kills 500         the same with real processes and SIGKILL
  perdure-lab bench                                       transactions beside the hardware's floor and peers
  perdure-lab bench peers --html peers.html               other stores beside ours
  perdure-lab reproduce mnemosyne --html report.html      a paper's evaluation, its values beside ours
  perdure-lab sim gcc                                     an unmodified program on simulated memories
  perdure-lab sim prove                                   the checkpointing protocol in its every state)";

/// The words after -- of `sim`, whatever they look like; CLI11 would look for its own options among them.
std::vector<std::string> program_of_sim;

/// Takes them from the command line.
void take_program(int& argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "sim") return;
  for (int i = 2; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    program_of_sim.assign(argv + i + 1, argv + argc);
    argc = i;
  }
}

void add_commands(perdure::tools::Command app) {
  perdure::tools::add_explore_command(app);
  perdure::tools::add_torture_command(app);
  perdure::tools::add_mutants_command(app);
  perdure::tools::add_recover_command(app);
  perdure::bench::add_bench_command(app);
  perdure::bench::reproduce::add_reproduce_command(app);
  perdure::tools::add_sim_command(app, program_of_sim);
  perdure::ldap::add_ldap_lab_commands(app);
}

}  // namespace

int main(int argc, char** argv) {
  take_program(argc, argv);
  return perdure::tools::run_command_line({"perdure-lab", kAbout, add_commands}, argc, argv);
}
