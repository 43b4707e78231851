// SPDX-License-Identifier: BSD-3-Clause
// scrub: does the device still hold what was written? Reads all that is at rest, also beside a program.
#include "perdure/api/scrub.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "tools/command.h"
#include "tools/perdure/commands.h"
#include "tools/perdure/finding.h"
#include "tools/perdure/space.h"
#include "tools/progress.h"

namespace perdure::tools {
namespace {

struct ScrubOptions {
  std::string file;
  bool complete = false;
  bool json = false;
};

void scrub(const ScrubOptions& options) {
  const std::string file = is_space(options.file) ? heap_of(options.file) : options.file;
  std::optional<Progress> progress;
  const auto look = [&] {
    auto report = scrub_pool(file, [&](std::uint64_t done, std::uint64_t all) {
                    if (!progress) progress.emplace("reading", all);
                    progress->show(done);
                  }).value();
    progress.reset();
    return report;
  };
  PageSumsReport found = look();
  const bool pages_agree = std::all_of(found.damage.begin(), found.damage.end(),
                                       [](const auto& damage) { return damage.in_sums; });
  if (options.complete && pages_agree) {
    complete_sums(file).value();
    found = look();
  }
  print({{"file", options.file},
         {"sound", found.damage.empty()},
         {"pages_compared", found.pages},
         {"areas_at_rest", found.areas_at_rest},
         {"areas_without_sums", found.areas - found.areas_at_rest},
         {"findings", describe(findings_of(found))}},
        options.json);
  if (!found.damage.empty()) leave_with(kNegative);
}

}  // namespace

void add_scrub_command(Command app) {
  auto options = std::make_shared<ScrubOptions>();
  Command command = app.add_subcommand(
      "scrub", "Compare a pool's pages, as the device has them, with their checksums");
  command
      .add_option("FILE", options->file,
                  "The pool, or the directory of an address space; a program may have it open")
      .required();
  command.add_flag(
      "--complete", options->complete,
      "Then give the pages of all other areas their checksums; nobody may have it open");
  add_json_flag(command, options->json);
  command.callback([options] { scrub(*options); });
  command.footer(
      "Pages have checksums while nobody writes to their area of 4 MiB. A program on a file gives "
      "them to areas that it\nhas not written to for some seconds, and to up to 1 GiB when it "
      "closes the pool; on memory when it closes a pool of\nup to 64 MiB.\n"
      "Exit codes: 0 all agree; 1 damage found; 3 no pool, or not readable.");
}

}  // namespace perdure::tools
