// SPDX-License-Identifier: BSD-3-Clause
#include "tools/command.h"
#include "tools/lab/commands.h"

namespace perdure::tools {

void add_engine_option(Command command, papers::EngineKind& engine) {
  std::vector<std::pair<std::string, papers::EngineKind>> choices;
  for (const papers::EngineKind kind : papers::kEngineKinds)
    choices.emplace_back(papers::engine_name(kind), kind);
  add_choice<papers::EngineKind>(
      command, "--engine", engine, choices,
      "mnemosyne, blurred, adaptive, softwrap, softwrap-tables, undo-objects, or a baseline: base, "
      "base-stream, undo; without atomicity: nonatomic, volatile");
}

}  // namespace perdure::tools
