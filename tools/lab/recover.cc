// SPDX-License-Identifier: BSD-3-Clause
// recover: pools that a paper's engine left with records only it can read.
#include <memory>

#include "papers/pool.h"
#include "tools/command.h"
#include "tools/lab/commands.h"

namespace perdure::tools {

void add_recover_command(Command app) {
  struct Options {
    std::string file;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command command = app.add_subcommand(
      "recover", "Bring home what any engine left in a pool's logs, so that the library opens it");
  command.add_option("FILE", options->file, "The pool").required();
  add_json_flag(command, options->json);
  command.callback([options] {
    Report report{{"file", options->file}};
    report.update(describe(papers::recover(options->file).value()));
    report["state"] = "clean: the next open has nothing to replay";
    print(report, options->json);
  });
  command.footer("Pools of the library's own engine need `perdure recover` at most.");
}

}  // namespace perdure::tools
