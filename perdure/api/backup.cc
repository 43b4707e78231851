// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "perdure/pool.h"
#include "perdure/region/file.h"
#include "perdure/region/region.h"

namespace perdure {
namespace {

constexpr std::uint64_t kChunkBytes = std::uint64_t{1} << 20;

bool is_zero(const std::byte* bytes, std::size_t count) {
  return bytes[0] == std::byte{} && std::memcmp(bytes, bytes + 1, count - 1) == 0;
}

/// Real blocks, as every pool has: a store must not meet a full device. Rings take theirs when they
/// are used.
bool allocate_all(int fd, const Region& region) {
  const Superblock& super = region.superblock();
  const Section rings = rings_of(super);
  // Rings lie before the heap or, once limits were raised, in it.
  const Offset behind = is_moved(super, rings) ? rings.end() : super.heap_offset;
  const std::uint64_t end = region.grown_bytes();
  return allocate_blocks(fd, 0, rings.begin) &&
         (behind >= end || allocate_blocks(fd, behind, end - behind));
}

Result<void> copy(const Region& region, int fd, const std::string& to,
                  const std::function<void(std::uint64_t, std::uint64_t)>& show) {
  const std::uint64_t end = region.grown_bytes();
  if (::ftruncate(fd, static_cast<off_t>(end)) != 0 || !allocate_all(fd, region))
    return io_error(to + ": reserving " + std::to_string(end) + " bytes");
  std::vector<std::byte> chunk(kChunkBytes);
  for (Offset at = 0; at < end; at += kChunkBytes) {
    const std::uint64_t bytes = std::min(kChunkBytes, end - at);
    if (auto got = region.read_file(at, chunk.data(), bytes); !got) return got;
    // Holes stay holes.
    for (std::uint64_t begin = 0; begin < bytes;) {
      std::uint64_t stop = begin;
      while (stop < bytes && !is_zero(chunk.data() + stop, kPageBytes)) stop += kPageBytes;
      if (stop > begin && !write_at(fd, chunk.data() + begin, stop - begin, at + begin))
        return io_error(to + ": writing");
      begin = stop + kPageBytes;
    }
    if (show) show(at + bytes, end);
  }
  return {};
}

Result<std::uint64_t> back_up_once(
    const std::string& from, const std::string& to,
    const std::function<void(std::uint64_t done, std::uint64_t all)>& show) {
  struct stat status{};
  if (::lstat(to.c_str(), &status) == 0)
    return Error{Code::kExists, to + ": exists already; name a copy that does not"};
  auto opened = Region::open_file(from, DomainKind::kAuto, Region::Access::kInspect);
  if (!opened) return opened.error();
  const Region& region = *opened.value();
  if (::stat(from.c_str(), &status) != 0) return io_error(from);
  auto made = create_whole_file(to, status.st_mode & 0777,
                                [&](int fd) { return copy(region, fd, to, show); });
  if (!made) return made.error();
  // Whoever needs a backup should not learn then that it cannot be opened.
  if (auto copied = Pool::inspect(to); !copied) {
    ::unlink(to.c_str());
    return Error{copied.error().code, copied.error().message + "; so is " + from +
                                          ", of which it was a copy that was removed again"};
  }
  return region.grown_bytes();
}

}  // namespace

Result<std::uint64_t> back_up_pool(
    const std::string& from, const std::string& to,
    const std::function<void(std::uint64_t done, std::uint64_t all)>& show) {
  // Busy is a pool that was closed meanwhile, or in use by a program that lets nobody look on.
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    auto done = back_up_once(from, to, show);
    if (done || done.error().code != Code::kBusy || attempt == kAttempts) return done;
  }
}

Result<void> Pool::back_up(const std::string& from, const std::string& to) {
  auto done = back_up_pool(from, to, {});
  if (!done) return done.error();
  return {};
}

}  // namespace perdure
