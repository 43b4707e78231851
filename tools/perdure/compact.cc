// SPDX-License-Identifier: BSD-3-Clause
// compact: a fresh copy of a pool or of an address space, with what can still be found and nothing else.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "perdure/api/directory_files.h"
#include "perdure/api/pool_core.h"
#include "perdure/region/file.h"
#include "tools/command.h"
#include "tools/perdure/commands.h"
#include "tools/perdure/heap_image.h"
#include "tools/perdure/mentions.h"
#include "tools/perdure/new_directory.h"
#include "tools/perdure/space.h"
#include "tools/progress.h"

namespace perdure::tools {
namespace {

struct CompactOptions {
  std::string from;
  std::string to;
  bool json = false;
};

using Object = Reachability::Object;

/// Frees what cannot be found, in the private copy.
void free_all(Pool& pool, const std::vector<Object>& objects) {
  constexpr std::size_t kBatch = 512;
  for (std::size_t done = 0; done < objects.size(); done += kBatch) {
    pool.atomically([&](Tx& tx) {
      for (std::size_t i = done; i < std::min(objects.size(), done + kBatch); ++i)
        tx.free(core_of(pool).region().at<void>(objects[i].offset));
    });
  }
  pool.checkpoint();
}

bool same_bytes(const std::byte* a, const std::byte* b, std::uint64_t bytes) {
  return bytes == 0 || std::memcmp(a, b, bytes) == 0;
}

/// The copy, read back, must hold the same objects, and every one of them the same bytes.
bool same(Pool& ours, Pool& copy) {
  const std::vector<Object> expected = live_objects(ours);
  const std::vector<Object> found = live_objects(copy);
  bool all = expected.size() == found.size();
  for (std::size_t i = 0; all && i < expected.size(); ++i) {
    all = expected[i].offset == found[i].offset && expected[i].bytes == found[i].bytes &&
          same_bytes(core_of(ours).region().base() + expected[i].offset,
                     core_of(copy).region().base() + found[i].offset, expected[i].bytes);
  }
  return all;
}

bool same(AddressSpace& ours, AddressSpace& copy) {
  const auto statics = ours.statics_file();
  bool all = same(ours.pool(), copy.pool()) && statics.size() == copy.statics_file().size() &&
             same_bytes(statics.data(), copy.statics_file().data(), statics.size()) &&
             ours.regions().size() == copy.regions().size();
  if (!all) return false;
  for (const RegionEntry& entry : ours.regions())
    all = all && same_bytes(ours.base() + entry.begin, copy.base() + entry.begin, entry.bytes);
  return all;
}

/// Throws unless the copy, read back, is the same. Whoever made it removes it then.
template <class Opened>
void compare(Opened& ours, Opened& copy, const std::string& where) {
  if (!same(ours, copy))
    throw Exception(Code::kIo, where +
                                   ": read back, the copy differs; it was removed, and the "
                                   "original is as it was; check the device");
}

std::uint64_t file_bytes(const std::string& path, mode_t* mode = nullptr) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) throw Exception(io_error(path));
  if (mode != nullptr) *mode = status.st_mode & 0777;
  return static_cast<std::uint64_t>(status.st_size);
}

Report describe(const CompactOptions& options, const Unmentioned& lost, std::size_t kept) {
  std::uint64_t bytes = 0;
  for (const Object& object : lost.objects) bytes += object.bytes;
  return {{"from", options.from},
          {"to", options.to},
          {"objects_kept", kept},
          {"objects_left_out", lost.objects.size()},
          {"left_out_bytes", bytes}};
}

/// What a damaged link no longer leads to looks like something that nobody can find: it is never
/// left out of a copy. Throws where `perdure check` finds damage.
void refuse_damaged(Pool& pool, const std::string& from) {
  const Reachability found = trace_and_compare(pool);
  if (found.damage.empty()) return;
  throw Exception(Code::kCorrupt, from + ": " + found.damage.front() +
                                      "; nothing was copied: `perdure check` tells more, `perdure "
                                      "salvage` copies what can be proved");
}

Report compact_pool(const CompactOptions& options) {
  Pool pool = inspect_closed(options.from).value();
  refuse_damaged(pool, options.from);
  const Unmentioned lost = find_unmentioned(pool);
  free_all(pool, lost.objects);
  const HeapImage image(pool);
  mode_t mode = 0600;
  const std::uint64_t before = file_bytes(options.from, &mode);
  create_whole_file(options.to, mode, [&](int fd) { return image.write(fd, options.to); }).value();
  try {
    Pool copy = Pool::inspect(options.to).value();
    compare(pool, copy, options.to);
  } catch (...) {
    ::unlink(options.to.c_str());
    throw;
  }
  Report report = describe(options, lost, live_objects(pool).size());
  report["file_before_bytes"] = before;
  report["file_after_bytes"] = image.bytes();
  return report;
}

void refuse_existing(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) == 0)
    throw Exception(Code::kExists, path + ": exists already; name a copy that does not");
}

/// Regions as they are, piece by piece; static variables as they are.
void copy_files(AddressSpace& space, DirectoryFiles& files) {
  const Region& region = core_of(space.pool()).region();
  copy_region_files(space.regions(), files, [&](int fd, const RegionEntry& piece) {
    if (!write_at(fd, region.base() + piece.begin, piece.bytes, piece.file_offset))
      throw Exception(io_error(files.name(piece.file) + ": writing"));
  });
  const auto statics = space.statics_file();
  if (!statics.empty())
    files.replace(SpaceFiles::kStatics, {statics.begin(), statics.end()}).value();
}

Report compact_space(const CompactOptions& options) {
  auto space = AddressSpace::inspect(options.from).value();
  Pool& pool = space->pool();
  refuse_damaged(pool, options.from);
  const Unmentioned lost = find_unmentioned(*space);
  free_all(pool, lost.objects);
  const HeapImage image(pool);
  NewDirectory directory(options.to, ".compacting");
  const std::string from = heap_of(options.from);
  mode_t mode = 0600;
  const std::uint64_t before = file_bytes(from, &mode);
  DirectoryFiles files(directory.building(), space->base(), core_of(pool).region(), false);
  copy_files(*space, files);
  const std::string heap = heap_of(directory.building());
  create_whole_file(heap, mode, [&](int fd) { return image.write(fd, heap); }).value();
  {
    auto copy = AddressSpace::inspect(directory.building()).value();
    compare(*space, *copy, options.to);
  }
  directory.name_it();
  Report report = describe(options, lost, live_objects(pool).size());
  report["heap_before_bytes"] = before;
  report["heap_after_bytes"] = image.bytes();
  report["regions"] = space->regions().size();
  return report;
}

}  // namespace

void add_compact_command(Command app) {
  auto options = std::make_shared<CompactOptions>();
  Command command = app.add_subcommand(
      "compact", "Copy a pool or an address space without what nobody can find any more");
  command.add_option("FROM", options->from, "The pool, or the directory of an address space")
      .required();
  command.add_option("TO", options->to, "The copy; must not exist yet").required();
  add_json_flag(command, options->json);
  command.callback([options] {
    refuse_existing(options->to);
    print(is_space(options->from) ? compact_space(*options) : compact_pool(*options),
          options->json);
  });
  command.footer(
      "Left out are objects of the heap that no root, static variable, region or found object "
      "refers to\nby an aligned word: an address, or a link. What is kept stays at its place, "
      "because programs hold\naddresses; its logs are empty, and space behind the last object is "
      "given back. A damaged pool is\nrefused. The original is never changed; the copy is read "
      "back and compared before it "
      "gets its name.\n\nExample:  perdure compact words.pool fresh.pool && mv fresh.pool "
      "words.pool");
}

}  // namespace perdure::tools
