// SPDX-License-Identifier: BSD-3-Clause
// `perdure` with the command kv alone, for ./do run.
#include "apps/kv/kv.h"
#include "tools/command_line.h"

int main(int argc, char** argv) {
  return perdure::tools::run_command_line(
      {"perdure", "perdure with the command kv alone, as ./do run builds it for its demonstration",
       perdure::kv::add_kv_commands},
      argc, argv);
}
