// SPDX-License-Identifier: BSD-3-Clause
// salvage: a new pool, arena or address space with what can be proved of a damaged one.
#include "tools/perdure/salvage.h"

#include <sys/stat.h>
#include <unistd.h>

#include "perdure/checkpoint/arena_wreck.h"
#include "perdure/expert.h"
#include "perdure/region/layout.h"
#include "tools/command.h"
#include "tools/known_types.h"
#include "tools/perdure/commands.h"
#include "tools/perdure/space.h"
#include "tools/progress.h"
#include "tools/wreck.h"

namespace perdure::tools {
namespace {

struct SalvageOptions {
  std::string from;
  std::string to;
  std::uint64_t limit = 20;
  bool zero_lost_pages = false;
  bool json = false;
};

/// As the damaged one was made.
ExpertOptions options_for(Pool& wrecked, const std::string& from) {
  const Geometry& geometry = core_of(wrecked).region().geometry();
  ExpertOptions options;
  options.capacity_bytes = geometry.capacity_bytes;
  options.ring_bytes = geometry.ring_bytes;
  options.segment_bytes = geometry.segment_bytes;
  options.log_slots = geometry.log_slots;
  options.root_entries = geometry.root_entries;
  struct stat status{};
  if (::stat(from.c_str(), &status) == 0) options.mode = status.st_mode & 0777;
  return options;
}

Report list_of(const std::vector<std::string>& lost, std::uint64_t limit) {
  Report list = Report::array();
  for (const std::string& what : lost) {
    if (list.size() == limit) break;
    list.push_back({{"left_out", what}});
  }
  return list;
}

/// Fills the new pool. Returns what to say of each root.
Report fill(Pool& copy, Wreck& wreck) {
  Report roots = Report::array();
  Progress progress("salvaging", wreck.roots().size());
  for (const Wreck::Root& root : wreck.roots()) {
    progress.show(roots.size());
    const KnownType* known = find_known_type(root.type);
    const std::size_t before = wreck.lost().size();
    std::uint64_t saved = 0;
    if (known != nullptr && known->bytes == root.bytes && known->salvage != nullptr) {
      saved = known->salvage(wreck, root, &copy);
    } else {
      wreck.lose("root '" + root.name + "': of a type of which this tool cannot prove anything");
    }
    roots.push_back(
        {{"root", root.name}, {"entries", saved}, {"left_out", wreck.lost().size() - before}});
  }
  if (wreck.strays() > 0)
    wreck.lose(std::to_string(wreck.strays()) + " objects of the heap that no known link leads to");
  copy.checkpoint();
  return roots;
}

Salvaged salvage_pool(const std::string& from, const std::string& to) {
  Wreck wreck(from);
  const PageSumsReport pages = core_of(wreck.pool()).region().check_sums().value();
  for (const auto& damage : pages.damage)
    wreck.lose(damage.what() + (damage.in_sums ? "; of what is there nothing more is known"
                                               : "; what was copied from there may be wrong"));
  Report roots;
  {
    Pool copy = Pool::create(to, options_for(wreck.pool(), from)).value();
    try {
      roots = fill(copy, wreck);
    } catch (...) {
      ::unlink(to.c_str());
      throw;
    }
  }
  std::uint64_t entries = 0;
  for (const Report& root : roots) entries += root["entries"].get<std::uint64_t>();
  return {{{"from", from}, {"to", to}, {"entries", entries}, {"roots", roots}}, wreck.lost()};
}

void salvage(const SalvageOptions& options) {
  struct stat status{};
  if (::lstat(options.to.c_str(), &status) == 0)
    throw Exception(Code::kExists, options.to + ": exists already; name a file that does not");
  const bool arena = checkpoint::ArenaWreck::seems_one(options.from);
  Salvaged made = is_space(options.from)
                      ? salvage_space(options.from, options.to, options.zero_lost_pages)
                  : arena ? salvage_arena(options.from, options.to, options.zero_lost_pages)
                          : salvage_pool(options.from, options.to);
  made.report["left_out"] = made.lost.size();
  made.report["what_was_left_out"] = list_of(made.lost, options.limit);
  print(made.report, options.json);
  if (!made.lost.empty()) leave_with(kNegative);
}

}  // namespace

void add_salvage_command(Command app) {
  auto options = std::make_shared<SalvageOptions>();
  Command command = app.add_subcommand(
      "salvage",
      "Copy what can be proved of a damaged pool, arena or address space into a new one");
  command
      .add_option("FROM", options->from,
                  "The damaged pool, arena, or directory of an address space")
      .required();
  command.add_option("TO", options->to, "The new one; must not exist yet").required();
  add_count(command, "--limit", options->limit, "How much of what was left out to list")
      .show_default();
  command.add_flag(
      "--zero-lost-pages", options->zero_lost_pages,
      "Of an arena or an address space: pages that cannot be read are zeros in the copy");
  add_json_flag(command, options->json);
  command.callback([options] { salvage(*options); });
  command.footer(
      "Of a pool: taken are the entries of maps, vectors, strings, caches and directories, heaps "
      "of "
      "objects, and the pages of\nSQLite databases: what the links still lead to and agrees with "
      "what "
      "is around it, and what a broken link no longer\nleads to, as long as no other object could "
      "be "
      "meant. What is lost of a vector or a database is zero in the copy\n(SQLite's .recover goes "
      "on from there); entries of a directory whose superior is lost come below cn=salvaged-ID.\n"
      "Roots of other types are left out.\n"
      "Of an arena: the newest epoch that can be proved, as a whole; never parts of two. Of an "
      "address "
      "space: all of it,\nat its addresses. Where it cannot be told what is free, it is kept. "
      "Pages "
      "that cannot be read are refused, or zeros\nwith --zero-lost-pages.\n"
      "The damaged one is never changed; values that changed are copied as they are; where pages "
      "have "
      "checksums, those that\ndiffer are named.\n"
      "Exit codes: 0 nothing had to be left out; 1 something was; 3 there is nothing to salvage "
      "from.\n\nExample:  perdure check words.pool || perdure salvage words.pool fresh.pool");
}

}  // namespace perdure::tools
