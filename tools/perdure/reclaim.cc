// SPDX-License-Identifier: BSD-3-Clause
// reclaim: frees the circles of a heap of objects that nothing reaches any more.
#include "perdure/object/reclaim.h"

#include "perdure/object/layout.h"
#include "tools/command.h"
#include "tools/perdure/commands.h"
#include "tools/reachability.h"

namespace perdure::tools {
namespace {

struct ReclaimOptions {
  std::string file;
  bool json = false;
};

void reclaim(const ReclaimOptions& options) {
  Pool pool = Pool::open(options.file).value();
  if (pool.find_root<object_layout::Control>(object_layout::kControlRoot) == nullptr)
    throw Exception(Code::kNotFound,
                    options.file +
                        ": not a heap of objects; `perdure compact` copies any pool "
                        "without what leaked");
  const Reachability found = trace_and_compare(pool);
  if (!found.damage.empty())
    throw Exception(Code::kCorrupt, options.file + ": " + found.damage.front() +
                                        "; nothing was freed, `perdure check` tells more");
  if (!found.opaque.empty())
    throw Exception(Code::kInvalid,
                    options.file + ": " + found.opaque.front() +
                        " is of a type that this tool does not know, and may lead anywhere; "
                        "nothing was freed");
  std::vector<Offset> leaked;
  for (const Reachability::Object& object : found.leaked) leaked.push_back(object.offset);
  const object_layout::Reclaimed done = object_layout::reclaim(pool, leaked);
  print(
      Report{{"file", options.file}, {"freed_objects", done.objects}, {"freed_bytes", done.bytes}},
      options.json);
}

}  // namespace

void add_reclaim_command(Command app) {
  auto options = std::make_shared<ReclaimOptions>();
  Command command =
      app.add_subcommand("reclaim", "Free what nothing reaches in a heap of objects: circles");
  command.add_option("FILE", options->file, "The heap").required();
  add_json_flag(command, options->json);
  command.callback([options] { reclaim(*options); });
  command.footer(
      "`perdure check --leaks` lists what would be freed. Weak references to it become null; the "
      "destructors of its\nclasses do not run. Cut off, it may be run again.");
}

}  // namespace perdure::tools
