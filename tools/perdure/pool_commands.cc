// SPDX-License-Identifier: BSD-3-Clause
// create, info, grow, recover: a pool's life from the outside.
#include <sys/stat.h>

#include <algorithm>

#include <fmt/core.h>

#include "perdure/address_space.h"
#include "perdure/api/pool_core.h"
#include "perdure/api/raise_limits.h"
#include "perdure/checkpoint/arena_inspection.h"
#include "perdure/expert.h"
#include "tools/command.h"
#include "tools/perdure/arena.h"
#include "tools/perdure/commands.h"
#include "tools/perdure/space.h"

namespace perdure::tools {
namespace {

struct PoolCommandOptions {
  std::string file;
  ExpertOptions pool;
  bool json = false;
};

Report describe_roots(Pool& pool) {
  Report roots = Report::array();
  for (const RootEntry& root : pool.read_only([&](Tx& tx) { return core_of(pool).roots(tx); })) {
    const std::string name(root.name.data(), ::strnlen(root.name.data(), root.name.size()));
    roots.push_back({{"root", name}, {"size_bytes", root.bytes}, {"at_byte", root.object}});
  }
  return roots;
}

void create(const PoolCommandOptions& options) {
  const Pool pool = Pool::create(options.file, options.pool).value();
  print(describe(pool, options.file), options.json);
}

void report_info(const PoolCommandOptions& options, Pool& pool, const std::string& file,
                 bool damaged, const Report& more) {
  struct stat status{};
  ::stat(file.c_str(), &status);
  const Geometry& geometry = core_of(pool).region().geometry();
  const Heap::Usage usage = core_of(pool).heap().usage();
  Report report = describe(pool, options.file);
  report["capacity_bytes"] = geometry.capacity_bytes;
  report["used_up_to_bytes"] = core_of(pool).region().grown_bytes();
  report["on_disk_bytes"] = static_cast<std::uint64_t>(status.st_blocks) * 512;
  report["objects"] = usage.objects;
  report["taken_by_objects_bytes"] = usage.object_bytes;
  report["free_blocks_bytes"] = usage.free_blocks * kBlockBytes;
  report["log_slots"] = geometry.log_slots;
  report["records_to_recover"] = pool.recovery().records_replayed;
  report["damage_found"] = damaged;
  report["in_use"] = core_of(pool).region().is_live();
  report["roots"] = describe_roots(pool);
  report.update(more);
  print(report, options.json);
}

void info(const PoolCommandOptions& options) {
  if (checkpoint::is_arena(options.file)) return print(describe_arena(options.file), options.json);
  std::vector<std::string> findings;
  if (!is_space(options.file)) {
    Pool pool = inspect_pool(options.file, &findings).value();
    report_info(options, pool, options.file, !findings.empty(), Report::object());
    return;
  }
  const auto space = AddressSpace::inspect(options.file, &findings).value();
  const std::uint64_t base = core_of(space->pool()).region().superblock().preferred_base;
  report_info(
      options, space->pool(), heap_of(options.file), !findings.empty(),
      {{"reserved_addresses", fmt::format("{:#x} to {:#x}", base, base + space->range_bytes())},
       {"regions", describe_regions(*space)},
       {"static_variables", describe_statics(*space)}});
}

void recover(const PoolCommandOptions& options) {
  Report report;
  {
    Pool pool = Pool::open(options.file, options.pool).value();
    report = describe(pool, options.file);
    report.update(describe(pool.recovery()));
    report["heap_rebuild_ns"] = core_of(pool).heap_rebuild_nanoseconds();
    pool.checkpoint();
  }
  report["state"] = "clean: the next open has nothing to replay";
  print(report, options.json);
}

struct GrowOptions {
  std::string file;
  ExpertOptions pool;  // 0: that limit stays as it is
  bool json = false;
};

/// What a limit becomes that is asked to be `asked`, and is `now`.
template <class T>
T raised(const char* option, T asked, T now) {
  if (asked != 0 && asked < now)
    refuse(option,
           fmt::format("{} is less than the {} that it is; limits can only be raised", asked, now));
  return std::max(asked, now);
}

void grow(GrowOptions options) {
  if (is_space(options.file))
    throw Exception(Code::kInvalid, options.file +
                                        ": is an address space, whose limits are those that it was "
                                        "created with; nothing was changed");
  const Geometry before = Region::read_superblock(options.file).value().geometry;
  ExpertOptions& pool = options.pool;
  pool.capacity_bytes = raised("--capacity", pool.capacity_bytes, before.capacity_bytes);
  pool.log_slots = raised("--slots", pool.log_slots, before.log_slots);
  pool.root_entries = raised("--roots", pool.root_entries, before.root_entries);
  raise_limits(options.file, pool).value();
  const Pool opened = Pool::inspect(options.file).value();
  const Region& region = core_of(opened).region();
  const Geometry& now = region.geometry();
  print({{"file", options.file},
         {"capacity_bytes", now.capacity_bytes},
         {"capacity_before_bytes", before.capacity_bytes},
         {"log_slots", now.log_slots},
         {"log_slots_before", before.log_slots},
         {"root_entries", now.root_entries},
         {"root_entries_before", before.root_entries},
         {"used_up_to_bytes", region.grown_bytes()}},
        options.json);
}

void add_grow_command(Command app) {
  auto options = std::make_shared<GrowOptions>();
  ExpertOptions& pool = options->pool;
  pool.capacity_bytes = pool.log_slots = pool.root_entries = 0;
  Command command = app.add_subcommand(
      "grow", "Raise what a pool can hold: bytes, threads that update it, named roots");
  command.add_option("FILE", options->file, "The pool; nobody may have it open").required();
  add_size(command, "--capacity", pool.capacity_bytes, "The most that the file may grow to");
  add_count(command, "--slots", pool.log_slots,
            "Threads that can update the pool at the same time");
  add_count(command, "--roots", pool.root_entries, "Named roots that the pool can hold");
  add_json_flag(command, options->json);
  command.callback([options] { grow(*options); });
  command.footer(
      "Objects stay where they are; tables that become too small move to the end of the file. What "
      "is\n"
      "not named stays as it is, and nothing can be lowered. A crash leaves the old limits or the "
      "new\n"
      "ones. The pool gets the newest format version, if there is room for it.\n\n"
      "Example:  perdure grow words.pool --capacity 256G --slots 256");
}

}  // namespace

void add_pool_commands(Command app) {
  auto add = [&](const char* name, const char* about, void (*run)(const PoolCommandOptions&)) {
    auto options = std::make_shared<PoolCommandOptions>();
    Command command = app.add_subcommand(name, about);
    command.add_option("FILE", options->file, "The pool").required();
    add_json_flag(command, options->json);
    command.callback([options, run] { run(*options); });
    return std::pair(command, options);
  };
  const auto [creating, create_options] =
      add("create", "Create an empty pool; an existing file is never touched", create);
  add_create_options(creating, create_options->pool);
  add_open_options(creating, create_options->pool);
  creating.footer("Example:  perdure create words.pool --capacity 4G --ring 256K --slots 8");
  add("info",
      "Tell what a pool, an arena, or the directory of an address space holds; changes nothing",
      info)
      .first.footer("Example:  perdure info words.pool --json | jq .objects");
  const auto [recovering, recover_options] =
      add("recover", "Replay what a crash left in the logs, and close", recover);
  add_open_options(recovering, recover_options->pool);
  add_grow_command(app);
  recovering.footer(
      "Every open does this by itself; the command is for scripts that want it done, and told.");
}

}  // namespace perdure::tools
