// SPDX-License-Identifier: BSD-3-Clause
// backup, restore: consistent copies of a pool, also while a program has it open and goes on.
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
  std::string since;  // empty: a whole copy
  std::string to;
  bool json = false;
};
struct RestoreOptions {
  std::string base;
  std::string increment;
  std::string to;
  bool json = false;
};

/// What shows how far a copy is.
ShowProgress shown(std::optional<Progress>& progress) {
  return [&progress](std::uint64_t done, std::uint64_t all) {
    if (!progress) progress.emplace("copying", all);
    progress->show(done);
  };
}

/// Reads the copy from end to end, and returns how many objects it has. Whoever needs it should not
/// learn then that it is damaged.
std::size_t verify(const std::string& copy_path, const std::string& from) {
  try {
    Pool copy = Pool::inspect(copy_path).value();
    const Reachability found = trace_and_compare(copy);
    if (!found.damage.empty())
      throw Exception(Code::kCorrupt, from + ": " + found.damage.front() +
                                          "; the copy has this damage, too, and was removed "
                                          "again: `perdure check` tells more");
    return core_of(copy).heap().usage().objects;
  } catch (...) {
    ::unlink(copy_path.c_str());
    throw;
  }
}

void back_up(const BackupOptions& options) {
  if (is_space(options.from))
    throw Exception(Code::kInvalid,
                    options.from + ": an address space; only pools can be backed up");
  std::optional<Progress> progress;
  Report report{{"from", options.from}, {"to", options.to}};
  if (options.since.empty()) {
    const BackupSize size = back_up_pool(options.from, options.to, shown(progress)).value();
    progress.reset();
    report["pool_bytes"] = size.pool_bytes;
    report["objects"] = verify(options.to, options.from);
  } else {
    const BackupSize size =
        back_up_changes(options.from, options.since, options.to, shown(progress)).value();
    progress.reset();
    report["since"] = options.since;
    report["pool_bytes"] = size.pool_bytes;
    report["changes_bytes"] = size.kept_bytes;
  }
  print(report, options.json);
}

void restore(const RestoreOptions& options) {
  std::optional<Progress> progress;
  const BackupSize size =
      restore_pool(options.base, options.increment, options.to, shown(progress)).value();
  progress.reset();
  print({{"from", options.base},
         {"changes", options.increment},
         {"to", options.to},
         {"pool_bytes", size.pool_bytes},
         {"objects", verify(options.to, options.increment)}},
        options.json);
}

}  // namespace

void add_backup_commands(Command app) {
  auto backup = std::make_shared<BackupOptions>();
  Command make =
      app.add_subcommand("backup", "Copy a pool, also while a program has it open and goes on");
  make.add_option("FROM", backup->from, "The pool").required();
  make.add_option("TO", backup->to, "The copy; must not exist yet").required();
  make.add_option("--since", backup->since,
                  "A copy that was made before: only what has changed since is kept");
  add_json_flag(make, backup->json);
  make.callback([backup] { back_up(*backup); });
  make.footer(
      "The copy is the pool as of the moment when the command began: all that was committed and "
      "durable by then, and\nnothing of what came later. The program is not stopped; before it "
      "changes a page for the first time it keeps a\ncopy, in a file without a name in the pool's "
      "directory. A pool on memory (tmpfs, DAX) can be copied when it is\nclosed. A copy is read "
      "back and checked, and stays only if it is whole. It is an ordinary pool: to restore it, "
      "put\nit in the place of the other one. As long as it serves --since, do not open it for "
      "writing.\n\n"
      "Example:  perdure backup words.pool sunday.pool\n"
      "          perdure backup words.pool monday.changes --since sunday.pool\n"
      "          perdure restore sunday.pool monday.changes words.pool");

  auto again = std::make_shared<RestoreOptions>();
  Command remake = app.add_subcommand("restore", "Make a pool of a backup and changes since");
  remake.add_option("BASE", again->base, "The copy that backup --since named").required();
  remake.add_option("CHANGES", again->increment, "What backup --since made").required();
  remake.add_option("TO", again->to, "The pool; must not exist yet").required();
  add_json_flag(remake, again->json);
  remake.callback([again] { restore(*again); });
  remake.footer(
      "The pool is as it was when CHANGES was made. Both files, and what comes of them, are "
      "checked "
      "against checksums;\na copy that was written to meanwhile is refused. A copy alone needs no "
      "restore: it is a pool.\n\n"
      "Example:  perdure restore sunday.pool monday.changes words.pool");
}

}  // namespace perdure::tools
