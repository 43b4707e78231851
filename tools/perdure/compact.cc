// SPDX-License-Identifier: BSD-3-Clause
// compact: a fresh copy of a pool or of an address space, with what can still be found and nothing else.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "perdure/api/backup.h"
#include "perdure/api/directory_files.h"
#include "perdure/api/pool_core.h"
#include "perdure/heap/layout.h"
#include "perdure/region/file.h"
#include "tools/command.h"
#include "tools/perdure/commands.h"
#include "tools/perdure/mentions.h"
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

/// What the copy of a heap consists of, in pages.
class HeapImage {
 public:
  /// `pool` is a private copy, recovered, checkpointed, without the objects that are to be left out.
  explicit HeapImage(Pool& pool) : region_(&core_of(pool).region()) {
    const Superblock& super = region_->superblock();
    const std::uint64_t segment_bytes = super.geometry.segment_bytes;
    const std::vector<Object> live = live_objects(pool);
    // Segments behind the last object are left out: growing makes them again.
    Offset end = super.heap_offset + segment_bytes;
    for (const Object& object : live) end = std::max(end, object.offset + object.bytes);
    for (const Section& table : tables_of(super)) end = std::max(end, table.end());
    const std::uint64_t segments = (end - super.heap_offset + segment_bytes - 1) / segment_bytes;
    bytes_ = std::min(super.heap_offset + segments * segment_bytes, region_->grown_bytes());
    needed_.resize(bytes_ / kPageBytes);
    need(0, 2 * kPageBytes);
    for (const Section& table : tables_of(super)) {
      // What was never written reads as zeros: no record, no sum.
      if (table != rings_of(super) && table != page_sums_of(super)) need(table.begin, table.bytes);
    }
    for (std::uint64_t i = 0; i < segments; ++i) {
      const auto word = unseal(*region_->word(table_entry(i)), kSaltSegment);
      if (word && heap_layout::kind_of(*word) ==
                      static_cast<std::uint8_t>(heap_layout::SegmentKind::kBlocks))
        need(super.heap_offset + i * segment_bytes,
             heap_layout::meta_blocks(super.geometry) * kBlockBytes);
    }
    for (const Object& object : live) need(object.offset, object.bytes);
  }

  std::uint64_t bytes() const { return bytes_; }

  /// Writes it to a new, empty file. Errors: kIo, kNoSpace.
  Result<void> write(int fd, const std::string& path) const {
    if (auto reserved = reserve_pool(fd, region_->superblock(), bytes_, path); !reserved)
      return reserved;
    Progress progress("copying the heap", needed_.size());
    std::vector<std::byte> page(kPageBytes);
    for (std::uint64_t i = 0; i < needed_.size(); ++i) {
      if (!needed_[i]) continue;
      progress.show(i);
      const Offset at = i * kPageBytes;
      std::memcpy(page.data(), region_->base() + at, kPageBytes);
      make_fresh(at, page);
      if (!write_at(fd, page.data(), kPageBytes, at)) return io_error(path + ": writing");
    }
    return {};
  }

 private:
  Offset table_entry(std::uint64_t segment) const {
    return region_->superblock().segment_table_offset + segment * kWordBytes;
  }
  void need(Offset begin, std::uint64_t bytes) {
    for (Offset at = begin / kPageBytes; at * kPageBytes < std::min(begin + bytes, bytes_); ++at)
      needed_[at] = true;
  }

  /// The logs were never used; segments left out were never grown.
  void make_fresh(Offset at, std::vector<std::byte>& page) const {
    const Superblock& super = region_->superblock();
    const auto put = [&](Offset offset, Word word) {
      if (offset >= at && offset < at + kPageBytes)
        std::memcpy(page.data() + (offset - at), &word, sizeof(word));
    };
    put(kStateOffset + offsetof(StatePage, grown_bytes), seal(bytes_, kSaltGrown));
    const Section heads = heads_of(super);
    const Section segment_table = segment_table_of(super);
    if (at >= heads.begin && at < heads.end()) {
      for (std::uint64_t slot = 0; slot < super.geometry.log_slots; ++slot)
        put(super.head_offset + slot * kLineBytes, seal(0, kSaltHead));
    }
    if (at >= segment_table.begin && at < segment_table.end()) {
      const std::uint64_t kept = (bytes_ - super.heap_offset) / super.geometry.segment_bytes;
      const Offset end = at + kPageBytes;
      for (Offset word = std::max(at, table_entry(kept)); word < end; word += kWordBytes)
        put(word, 0);
    }
  }

  const Region* region_;
  std::uint64_t bytes_ = 0;
  std::vector<bool> needed_;
};

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

/// A directory that appears under its name once everything in it is durable.
class NewDirectory {
 public:
  explicit NewDirectory(const std::string& path) : path_(path), building_(path + ".compacting") {
    if (::mkdir(building_.c_str(), 0700) != 0)
      throw Exception(
          errno == EEXIST
              ? Error{Code::kExists, building_ + ": is left from a run that was stopped; remove it"}
              : io_error(building_));
  }
  ~NewDirectory() {
    std::error_code ignored;
    if (!building_.empty()) std::filesystem::remove_all(building_, ignored);
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const std::string& building() const { return building_; }
  void name_it() {
    if (const auto lost = MappedFile::first_loss()) throw Exception(*lost);
    if (::rename(building_.c_str(), path_.c_str()) != 0) throw Exception(io_error(path_));
    building_.clear();
    const Descriptor parent(
        ::open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (parent.get() < 0 || ::fsync(parent.get()) != 0)
      throw Exception(io_error(path_ + ": sync of the new name"));
  }

 private:
  std::string path_;
  std::string building_;
};

/// Regions as they are, piece by piece; static variables as they are.
void copy_files(AddressSpace& space, DirectoryFiles& files) {
  const Region& region = core_of(space.pool()).region();
  std::map<std::uint64_t, std::vector<RegionEntry>> pieces;
  for (const RegionEntry& entry : space.regions()) pieces[entry.file].push_back(entry);
  Progress progress("copying regions", pieces.size());
  std::uint64_t done = 0;
  for (auto& [file, of_file] : pieces) {
    progress.show(++done);
    files.create(file, of_file.front().file_bytes).value();
    const std::string path = files.name(file);
    const Descriptor out(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (out.get() < 0) throw Exception(io_error(path));
    std::sort(of_file.begin(), of_file.end(),
              [](const auto& a, const auto& b) { return a.file_offset < b.file_offset; });
    Offset gap = 0;  // what was unmapped gives its blocks back
    for (const RegionEntry& entry : of_file) {
      if (entry.file_offset > gap) files.punch(file, gap, entry.file_offset - gap);
      gap = entry.file_offset + entry.bytes;
      if (!write_at(out.get(), region.base() + entry.begin, entry.bytes, entry.file_offset))
        throw Exception(io_error(path + ": writing"));
    }
    if (gap < of_file.front().file_bytes) files.punch(file, gap, of_file.front().file_bytes - gap);
    if (::fsync(out.get()) != 0) throw Exception(io_error(path + ": sync"));
  }
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
  NewDirectory directory(options.to);
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
