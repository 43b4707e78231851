// SPDX-License-Identifier: BSD-3-Clause
// salvage, of an arena: a new one that holds one epoch, the newest that can be proved.
#include <sys/stat.h>
#include <unistd.h>

#include "perdure/checkpoint/arena_inspection.h"
#include "perdure/checkpoint/arena_wreck.h"
#include "tools/perdure/salvage.h"

namespace perdure::tools {

using checkpoint::ArenaInspection;
using checkpoint::ArenaWreck;

Salvaged salvage_arena(const std::string& from, const std::string& to, bool zero_lost_pages) {
  const std::unique_ptr<ArenaWreck> wreck = ArenaWreck::open(from).value();
  struct stat status{};
  const mode_t mode = ::stat(from.c_str(), &status) == 0 ? status.st_mode & 0777 : 0600;
  create_whole_file(to, mode, [&](int fd) {
    return wreck->write(fd, to, zero_lost_pages);
  }).value();
  Report report = {{"from", from},
                   {"to", to},
                   {"kind", "arena"},
                   {"epoch", wreck->epoch()},
                   {"epochs_dropped", wreck->dropped_epochs()},
                   {"proved_by_the_log_bytes", wreck->proved_bytes()},
                   {"taken_as_it_was_bytes", wreck->unproved_bytes()}};
  try {
    // Read back as any other.
    const ArenaInspection copy = ArenaInspection::of(to).value();
    if (!copy.findings().empty() || copy.epoch() != wreck->epoch())
      throw Exception(Code::kIo, to + ": read back, the copy is damaged; it was removed, and the "
                                      "original is as it was; check the device");
    if (copy.heap() != nullptr) report["objects"] = copy.heap()->count_objects();
  } catch (...) {
    ::unlink(to.c_str());
    throw;
  }
  Report mended = Report::array();
  for (const std::string& what : wreck->mended()) mended.push_back({{"put_right", what}});
  report["what_was_put_right"] = mended;
  return {report, wreck->lost()};
}

}  // namespace perdure::tools
