// SPDX-License-Identifier: BSD-3-Clause
// backup: a consistent copy of a pool, also while a program has it open and goes on.
#include "perdure/api/backup.h"

#include <unistd.h>

#include <memory>
#include <optional>

#include "perdure/api/pool_core.h"
#include "tools/command.h"
#include "tools/perdure/commands.h"
#include "tools/perdure/space.h"
#include "tools/progress.h"
#include "tools/reachability.h"

namespace perdure::tools {
namespace {

struct BackupOptions {
  std::string from;
  std::string to;
  bool json = false;
};

/// Reads the copy from end to end. Whoever needs it should not learn then that it is damaged.
std::size_t verify(const BackupOptions& options) {
  Pool copy = Pool::inspect(options.to).value();
  const Reachability found = trace(copy);
  if (!found.damage.empty())
    throw Exception(Code::kCorrupt, options.from + ": " + found.damage.front() +
                                        "; the copy has this damage, too, and was removed again: "
                                        "`perdure check` tells more");
  return core_of(copy).heap().usage().objects;
}

void back_up(const BackupOptions& options) {
  if (is_space(options.from))
    throw Exception(Code::kInvalid,
                    options.from + ": an address space; only pools can be backed up");
  std::optional<Progress> progress;
  const std::uint64_t bytes =
      back_up_pool(options.from, options.to, [&](std::uint64_t done, std::uint64_t all) {
        if (!progress) progress.emplace("copying", all);
        progress->show(done);
      }).value();
  progress.reset();
  std::size_t objects = 0;
  try {
    objects = verify(options);
  } catch (...) {
    ::unlink(options.to.c_str());
    throw;
  }
  print({{"from", options.from}, {"to", options.to}, {"bytes", bytes}, {"objects", objects}},
        options.json);
}

}  // namespace

void add_backup_command(Command app) {
  auto options = std::make_shared<BackupOptions>();
  Command command =
      app.add_subcommand("backup", "Copy a pool, also while a program has it open and goes on");
  command.add_option("FROM", options->from, "The pool").required();
  command.add_option("TO", options->to, "The copy; must not exist yet").required();
  add_json_flag(command, options->json);
  command.callback([options] { back_up(*options); });
  command.footer(
      "The copy is the pool as of the moment when the command began: all that was committed and "
      "durable "
      "by then, and\nnothing of what came later. The program is not stopped; before it changes a "
      "page for "
      "the first time it keeps a\ncopy, in a file without a name in the pool's directory. A pool "
      "on memory "
      "(tmpfs, DAX) can be copied when it is\nclosed. The copy is read back and checked, and stays "
      "only "
      "if it is whole; it is an ordinary pool: to restore\nit, put it in the place of the other "
      "one.\n\n"
      "Example:  perdure backup words.pool monday.pool");
}

}  // namespace perdure::tools
