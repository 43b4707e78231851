// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "perdure/api/increment_layout.h"
#include "perdure/pool.h"
#include "perdure/region/file.h"
#include "perdure/region/region.h"
#include "perdure/region/superblock.h"

namespace perdure {
namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;

Result<void> refuse_existing(const std::string& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return {};
  return Error{Code::kExists, path + ": exists already; name a file that does not"};
}

bool is_zero(const std::byte* bytes, std::size_t count) {
  return bytes[0] == std::byte{} && std::memcmp(bytes, bytes + 1, count - 1) == 0;
}

/// Writes whole pages, but leaves holes for those of zeros. False: errno says why.
bool write_sparsely(int fd, const std::vector<std::byte>& chunk, std::uint64_t bytes, Offset at) {
  for (std::uint64_t begin = 0; begin < bytes;) {
    std::uint64_t end = begin;
    while (end < bytes && !is_zero(chunk.data() + end, kPageBytes)) end += kPageBytes;
    if (end > begin && !write_at(fd, chunk.data() + begin, end - begin, at + begin)) return false;
    begin = end + kPageBytes;
  }
  return true;
}

/// Calls `take(offset, chunk, bytes)` for all of the pool.
template <class Take>
Result<void> for_each_chunk(const Region& region, const ShowProgress& show, Take take) {
  const std::uint64_t end = region.grown_bytes();
  std::vector<std::byte> chunk(kChunkBytes);
  for (Offset at = 0; at < end; at += kChunkBytes) {
    const std::uint64_t bytes = std::min(kChunkBytes, end - at);
    if (auto got = region.read_file(at, chunk.data(), bytes); !got) return got;
    if (auto taken = take(at, chunk, bytes); !taken) return taken;
    if (show) show(at + bytes, end);
  }
  return {};
}

Result<BackupSize> copy_once(const std::string& from, const std::string& to,
                             const ShowProgress& show) {
  auto opened = Region::open_file(from, DomainKind::kAuto, Region::Access::kInspect);
  if (!opened) return opened.error();
  const Region& region = *opened.value();
  const std::uint64_t end = region.grown_bytes();
  struct stat status{};
  if (::stat(from.c_str(), &status) != 0) return io_error(from);
  auto made = create_whole_file(to, status.st_mode & 0777, [&](int fd) -> Result<void> {
    if (auto reserved = reserve_pool(fd, region.superblock(), end, to); !reserved) return reserved;
    return for_each_chunk(region, show,
                          [&](Offset at, const auto& chunk, std::uint64_t bytes) -> Result<void> {
                            if (write_sparsely(fd, chunk, bytes, at)) return {};
                            return io_error(to + ": writing");
                          });
  });
  if (!made) return made.error();
  return BackupSize{end, end};
}

/// Whoever needs a backup should not learn then that it cannot be opened.
Result<BackupSize> verified(const BackupSize& size, const std::string& from,
                            const std::string& to) {
  auto opened = Pool::inspect(to);
  if (opened) return size;
  ::unlink(to.c_str());
  return Error{opened.error().code,
               opened.error().message + "; it was removed again, and so it is with " + from};
}

/// Busy is a pool that was closed meanwhile, or in use by a program that lets nobody look on.
template <class Attempt>
Result<BackupSize> attempt(Attempt once) {
  constexpr int kAttempts = 3;
  for (int i = 1;; ++i) {
    Result<BackupSize> done = once();
    if (done || done.error().code != Code::kBusy || i == kAttempts) return done;
  }
}

/// The bytes of a base, in order, and their checksum.
class Base {
 public:
  static Result<Base> open(const std::string& path) {
    auto super = Region::read_superblock(path);
    if (!super) return super.error();
    auto locked = open_locked(path, true);
    if (!locked) return locked.error();
    return Base(path, super.value(), std::move(locked).value());
  }
  const Superblock& superblock() const { return super_; }
  std::uint64_t bytes() const { return file_.bytes; }
  std::uint32_t crc() const { return crc_; }

  /// The next so many bytes; behind the end zeros.
  Result<void> read(std::byte* to, std::uint64_t bytes) {
    const std::uint64_t here = std::min(bytes, file_.bytes - std::min(file_.bytes, at_));
    if (here > 0 && !read_at(file_.fd.get(), to, here, at_)) return io_error(path_ + ": reading");
    crc_ = crc32c(to, here, crc_);
    std::fill(to + here, to + bytes, std::byte{});
    at_ += bytes;
    return {};
  }
  Result<void> read_rest() {
    std::vector<std::byte> chunk(kChunkBytes);
    while (at_ < file_.bytes) {
      if (auto got = read(chunk.data(), kChunkBytes); !got) return got;
    }
    return {};
  }

 private:
  Base(const std::string& path, const Superblock& super, LockedFile file)
      : path_(path), super_(super), file_(std::move(file)) {}
  std::string path_;
  Superblock super_;
  LockedFile file_;
  Offset at_ = 0;
  std::uint32_t crc_ = 0;
};

Result<BackupSize> changes_once(const std::string& from, const std::string& base_path,
                                const std::string& to, const ShowProgress& show) {
  auto opened_base = Base::open(base_path);
  if (!opened_base) return opened_base.error();
  Base& base = opened_base.value();
  auto opened = Region::open_file(from, DomainKind::kAuto, Region::Access::kInspect);
  if (!opened) return opened.error();
  const Region& region = *opened.value();
  if (base.superblock().uuid != region.superblock().uuid)
    return Error{Code::kInvalid, base_path + ": is a copy of another pool than " + from +
                                     "; name one of this pool, or make one without --since"};
  IncrementHeader header{};
  header.magic = kIncrementMagic;
  header.version = kIncrementVersion;
  header.header_bytes = sizeof(header);
  header.uuid = region.superblock().uuid;
  header.base_bytes = base.bytes();
  header.image_bytes = region.grown_bytes();
  struct stat status{};
  if (::stat(from.c_str(), &status) != 0) return io_error(from);
  auto made = create_whole_file(to, status.st_mode & 0777, [&](int fd) -> Result<void> {
    std::vector<std::byte> before(kChunkBytes);
    std::vector<IncrementPage> changed;
    auto compared = for_each_chunk(
        region, show, [&](Offset at, const auto& chunk, std::uint64_t bytes) -> Result<void> {
          if (auto got = base.read(before.data(), bytes); !got) return got;
          header.image_crc = crc32c(chunk.data(), bytes, header.image_crc);
          changed.clear();
          for (std::uint64_t page = 0; page < bytes; page += kPageBytes) {
            if (std::memcmp(chunk.data() + page, before.data() + page, kPageBytes) == 0) continue;
            IncrementPage& next = changed.emplace_back();
            next.number = (at + page) / kPageBytes;
            std::memcpy(next.bytes.data(), chunk.data() + page, kPageBytes);
            next.crc = next.expected_crc();
          }
          if (!write_at(fd, changed.data(), changed.size() * sizeof(IncrementPage),
                        increment_page_at(header.pages)))
            return io_error(to + ": writing");
          header.pages += changed.size();
          return {};
        });
    if (!compared) return compared;
    if (auto rest = base.read_rest(); !rest) return rest;
    header.base_crc = base.crc();
    header.crc = header.expected_crc();
    if (::ftruncate(fd, static_cast<off_t>(increment_page_at(header.pages))) != 0 ||
        !write_at(fd, &header, sizeof(header), 0))
      return io_error(to + ": writing");
    return {};
  });
  if (!made) return made.error();
  return BackupSize{header.image_bytes, increment_page_at(header.pages)};
}

/// The pages of an increment, in order.
class Increment {
 public:
  static Result<Increment> open(const std::string& path) {
    auto locked = open_locked(path, true);
    if (!locked) return locked.error();
    const std::uint64_t bytes = locked->bytes;
    IncrementHeader header{};
    if (bytes < kPageBytes || !read_at(locked->fd.get(), &header, sizeof(header), 0) ||
        header.magic != kIncrementMagic)
      return Error{Code::kForeign, path + ": not an increment of a backup"};
    if (header.version > kIncrementVersion)
      return Error{Code::kVersion, path + ": written by a newer release (version " +
                                       std::to_string(header.version) + "); use that one"};
    if (header.crc != header.expected_crc() || header.header_bytes != sizeof(header) ||
        header.image_bytes % kPageBytes != 0 || header.image_bytes > kMaxCapacityBytes ||
        header.pages > header.image_bytes / kPageBytes)
      return Error{Code::kCorrupt, path + ": its header fails its check; use another backup"};
    if (bytes < increment_page_at(header.pages))
      return Error{Code::kTruncated, path + ": " + std::to_string(bytes) +
                                         " bytes, but its pages take " +
                                         std::to_string(increment_page_at(header.pages))};
    Increment increment(path, header, std::move(locked).value());
    if (auto first = increment.advance(); !first) return first.error();
    return increment;
  }
  const IncrementHeader& header() const { return header_; }

  /// Puts its pages into [at, at + bytes) of the base. Requires: called in order.
  Result<void> apply(Offset at, std::byte* chunk, std::uint64_t bytes) {
    while (next_ && next_->number < (at + bytes) / kPageBytes) {
      std::memcpy(chunk + (next_->number * kPageBytes - at), next_->bytes.data(), kPageBytes);
      if (auto more = advance(); !more) return more;
    }
    return {};
  }

 private:
  Increment(const std::string& path, const IncrementHeader& header, LockedFile file)
      : path_(path), header_(header), file_(std::move(file)) {}
  Result<void> advance() {
    const std::uint64_t least = next_ ? next_->number + 1 : 0;
    next_.reset();
    if (read_ == header_.pages) return {};
    IncrementPage& page = next_.emplace();
    if (!read_at(file_.fd.get(), &page, sizeof(page), increment_page_at(read_)))
      return io_error(path_ + ": reading");
    if (page.crc != page.expected_crc() || page.number < least ||
        page.number >= header_.image_bytes / kPageBytes)
      return Error{Code::kCorrupt, path_ + ": the page at byte " +
                                       std::to_string(increment_page_at(read_)) +
                                       " fails its check; use another backup"};
    ++read_;
    return {};
  }

  std::string path_;
  IncrementHeader header_;
  LockedFile file_;
  std::uint64_t read_ = 0;  // so many of its pages
  std::optional<IncrementPage> next_;
};

}  // namespace

Result<void> reserve_pool(int fd, const Superblock& super, std::uint64_t end,
                          const std::string& path) {
  // Rings and the sums behind them lie before the heap or, once limits were raised, in it.
  const Offset sparse = rings_of(super).begin;
  const Offset behind =
      is_moved(super, rings_of(super)) ? page_sums_of(super).end() : super.heap_offset;
  if (::ftruncate(fd, static_cast<off_t>(end)) == 0 && allocate_blocks(fd, 0, sparse) &&
      (behind >= end || allocate_blocks(fd, behind, end - behind)))
    return {};
  return io_error(path + ": reserving " + std::to_string(end) + " bytes");
}

Result<BackupSize> back_up_pool(const std::string& from, const std::string& to,
                                const ShowProgress& show) {
  if (auto fresh = refuse_existing(to); !fresh) return fresh.error();
  auto done = attempt([&] { return copy_once(from, to, show); });
  return done ? verified(done.value(), from, to) : done;
}

Result<BackupSize> back_up_changes(const std::string& from, const std::string& base,
                                   const std::string& to, const ShowProgress& show) {
  if (auto fresh = refuse_existing(to); !fresh) return fresh.error();
  return attempt([&] { return changes_once(from, base, to, show); });
}

Result<BackupSize> restore_pool(const std::string& base_path, const std::string& increment_path,
                                const std::string& to, const ShowProgress& show) {
  if (auto fresh = refuse_existing(to); !fresh) return fresh.error();
  auto opened_increment = Increment::open(increment_path);
  if (!opened_increment) return opened_increment.error();
  Increment& increment = opened_increment.value();
  const IncrementHeader& header = increment.header();
  auto opened_base = Base::open(base_path);
  if (!opened_base) return opened_base.error();
  Base& base = opened_base.value();
  const Error other_base{Code::kInvalid, base_path + ": is not, or no longer, the copy to which " +
                                             increment_path +
                                             " was made; use a backup that was "
                                             "never opened for writing"};
  if (header.uuid != base.superblock().uuid || header.base_bytes != base.bytes()) return other_base;
  struct stat status{};
  if (::stat(base_path.c_str(), &status) != 0) return io_error(base_path);
  const std::uint64_t end = header.image_bytes;
  auto made = create_whole_file(to, status.st_mode & 0777, [&](int fd) -> Result<void> {
    std::vector<std::byte> chunk(kChunkBytes);
    std::uint32_t crc = 0;
    for (Offset at = 0; at < end; at += kChunkBytes) {
      const std::uint64_t bytes = std::min(kChunkBytes, end - at);
      if (auto got = base.read(chunk.data(), bytes); !got) return got;
      if (auto applied = increment.apply(at, chunk.data(), bytes); !applied) return applied;
      crc = crc32c(chunk.data(), bytes, crc);
      if (!write_sparsely(fd, chunk, bytes, at)) return io_error(to + ": writing");
      if (show) show(at + bytes, end);
    }
    if (auto rest = base.read_rest(); !rest) return rest;
    if (base.crc() != header.base_crc) return other_base;
    if (crc != header.image_crc)
      return Error{Code::kCorrupt, increment_path + ": what it makes of " + base_path +
                                       " fails its check; use another backup"};
    auto found = find_superblock(to, end, [&](Offset offset, void* data, std::size_t size) {
      return read_at(fd, data, size, offset);
    });
    if (!found) return found.error();
    return reserve_pool(fd, found->super, end, to);
  });
  if (!made) return made.error();
  return verified({end, end}, increment_path, to);
}

Result<void> Pool::back_up(const std::string& from, const std::string& to) {
  auto done = back_up_pool(from, to);
  if (!done) return done.error();
  return {};
}

}  // namespace perdure
