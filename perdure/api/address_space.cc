// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/address_space.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "perdure/api/framed_files.h"
#include "perdure/api/pool_core.h"
#include "perdure/base/hex.h"
#include "perdure/region/file.h"
#include "perdure/region/space_layout.h"

namespace perdure {
namespace {

#if defined(__SANITIZE_THREAD__)
// The part of the address space that ThreadSanitizer leaves to the program.
constexpr std::uint64_t kDefaultBase = 0x7e8000000000;
#else
// Above every heap, executable and library that Linux places without being asked, below all it
// places from the top.
constexpr std::uint64_t kDefaultBase = 0x200000000000;
#endif
constexpr std::uint64_t kEndOfUserSpace = 0x7fffffff0000;
constexpr std::uint64_t kMinRange = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxRange = 4 * kMaxCapacityBytes;

/// What occupies [begin, end) of this process, from the kernel's own list.
std::string occupant(std::uint64_t begin, std::uint64_t end) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    char* rest = nullptr;
    const std::uint64_t from = std::strtoull(line.c_str(), &rest, 16);
    const std::uint64_t to = std::strtoull(rest + 1, nullptr, 16);
    if (from < end && to > begin) return line;
  }
  return "unknown";
}

Result<std::byte*> reserve(std::uint64_t base, std::uint64_t bytes, const std::string& directory) {
  const int fixed = base != 0 ? MAP_FIXED_NOREPLACE : 0;
  void* wanted = reinterpret_cast<void*>(base);
  void* got =
      ::mmap(wanted, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
  if (got != MAP_FAILED && (base == 0 || got == wanted)) return static_cast<std::byte*>(got);
  const std::string what = directory + ": the addresses " + hex(base) + " to " + hex(base + bytes) +
                           ", at which its data must be, ";
  if (got != MAP_FAILED) ::munmap(got, bytes);
  if (got == MAP_FAILED && errno != EEXIST)
    return Error{Code::kInvalid, what + "cannot be reserved (" + std::strerror(errno) +
                                     "); raise the limit of address space (ulimit -v)"};
  return Error{Code::kInvalid,
               what + "are taken by: " + occupant(base, base + bytes) +
                   "; make a new address space elsewhere with PERDURE_RESERVED_BASE"};
}

/// The files of an address space, whichever way it was made.
Result<std::unique_ptr<SpaceFiles>> files_in(const std::string& directory, std::byte* base,
                                             const Region& region, bool inspect) {
  if (!FramedFiles::backing_of(directory).empty())
    return FramedFiles::open(directory, base, region, inspect);
  return std::unique_ptr<SpaceFiles>(
      std::make_unique<DirectoryFiles>(directory, base, region, inspect));
}

}  // namespace

AddressSpace::Reservation::Reservation() : owner_pid(::getpid()) {}
AddressSpace::Reservation::~Reservation() {
  if (begin != nullptr && owner_pid == ::getpid()) ::munmap(begin, bytes);
}

// ---- opening ------------------------------------------------------------------------------------

Result<std::unique_ptr<AddressSpace>> AddressSpace::open_or_create(const std::string& directory,
                                                                   const Options& options) {
  const std::uint64_t range = options.range_bytes;
  if (!std::has_single_bit(range) || range < kMinRange || range > kMaxRange)
    return Error{Code::kInvalid, directory + ": a reserved range of " + std::to_string(range) +
                                     " bytes; must be a power of two from 1 GiB to 4 TiB"};
  const auto asked = reinterpret_cast<std::uint64_t>(options.base);
  const auto sane = [](std::uint64_t base, std::uint64_t bytes) {
    return is_aligned(base, std::uint64_t{1} << 21) && base >= (std::uint64_t{1} << 32) &&
           base < kEndOfUserSpace && bytes <= kEndOfUserSpace - base;
  };
  if (asked != 0 && !sane(asked, range))
    return Error{Code::kInvalid, directory + ": a reserved range at " + hex(asked) +
                                     "; must be a multiple of 2 MiB from 4 GiB on, below " +
                                     hex(kEndOfUserSpace - range)};
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    return Error{Code::kNotFound, directory + ": cannot be made: " + std::strerror(errno)};
  const std::string heap = directory + "/" + DirectoryFiles::kHeap;
  auto super = Region::read_superblock(heap);
  const std::string backing = FramedFiles::backing_of(directory);
  if (const std::string& wanted = options.backing_directory; !wanted.empty() && backing.empty()) {
    if (super || super.error().code != Code::kNotFound)
      return Error{Code::kInvalid, directory +
                                       ": was made without a backing directory; make a new "
                                       "address space with PERDURE_BACKING_PATH"};
    if (auto prepared = FramedFiles::prepare(directory, wanted, options.frames_bytes); !prepared)
      return prepared.error();
  } else if (std::error_code failed;
             !wanted.empty() && !std::filesystem::equivalent(wanted, backing, failed)) {
    return Error{Code::kInvalid, directory + ": its regions are backed in " + backing +
                                     ", not in " + wanted + "; leave PERDURE_BACKING_PATH unset"};
  }
  if (!super && super.error().code == Code::kNotFound) {
    const ExpertOptions& pool = options.pool;
    Region::CreateOptions create{
        {heap_part(range), pool.segment_bytes, pool.ring_bytes, pool.log_slots, pool.root_entries},
        1,
        pool.mode};
    create.incompatible = kFeatureAddressSpace;
    create.domain = pool.domain;
    create.preferred_base = asked != 0 ? asked : kDefaultBase;
    if (auto created = Region::create_file(heap, create); !created) return created.error();
    super = Region::read_superblock(heap);
  }
  if (!super) return super.error();
  if ((super->incompatible & kFeatureAddressSpace) == 0)
    return Error{Code::kInvalid,
                 heap + ": is an ordinary pool, no address space; use another directory"};
  const std::uint64_t base = super->preferred_base;
  const std::uint64_t bytes = range_of_heap(super->geometry.capacity_bytes);
  if (!sane(base, bytes))
    return Error{Code::kCorrupt, heap + ": its reserved range at " + hex(base) +
                                     " (byte 56) is none; restore it from a backup"};
  if (asked != 0 && asked != base)
    return Error{Code::kInvalid, directory + ": its data is at " + hex(base) + ", not at " +
                                     hex(asked) + "; leave PERDURE_RESERVED_BASE unset"};
  auto reserved = reserve(base, bytes, directory);
  if (!reserved) {
    // Often this process has the same directory open, which the addresses do not show.
    auto locked = open_locked(heap, false);
    if (!locked && locked.error().code == Code::kBusy) return locked.error();
    return reserved.error();
  }

  // The address space that finally owns the range gives it back.
  Parts parts;
  Reservation reservation;
  reservation.begin = reserved.value();
  reservation.bytes = bytes;
  auto region = Region::open_file(heap, options.pool.domain, Region::Access::kReadWrite,
                                  {reserved.value(), kFeatureAddressSpace, bytes});
  if (!region) return region.error();
  parts.region = std::move(region).value();
  auto files = files_in(directory, reserved.value(), *parts.region, false);
  if (!files) return files.error();
  parts.files = std::move(files).value();
  parts.range_bytes = bytes;
  parts.statics = options.statics;
  parts.statics_begin = heap_part(bytes);
  parts.regions_begin = parts.statics_begin + statics_part(bytes);
  auto space = adopt(std::move(parts), [&](std::unique_ptr<Region> opened) {
    return open_region(std::move(opened), options.pool);
  });
  if (space) {
    std::swap(space.value()->reservation_.begin, reservation.begin);
    std::swap(space.value()->reservation_.bytes, reservation.bytes);
  }
  return space;
}

Result<std::unique_ptr<AddressSpace>> AddressSpace::inspect(const std::string& directory,
                                                            std::vector<std::string>* findings) {
  const std::string heap = directory + "/" + DirectoryFiles::kHeap;
  auto super = Region::read_superblock(heap);
  if (!super) return super.error();
  const std::uint64_t bytes = range_of_heap(super->geometry.capacity_bytes);
  auto reserved = reserve(0, bytes, directory);
  if (!reserved) return reserved.error();
  Reservation reservation;
  reservation.begin = reserved.value();
  reservation.bytes = bytes;
  auto region = Region::open_file(heap, DomainKind::kAuto, Region::Access::kInspect,
                                  {reserved.value(), kFeatureAddressSpace, bytes});
  if (!region) return region.error();
  Parts parts;
  parts.region = std::move(region).value();
  auto files = files_in(directory, reserved.value(), *parts.region, true);
  if (!files) return files.error();
  parts.files = std::move(files).value();
  parts.range_bytes = bytes;
  parts.statics_begin = heap_part(bytes);
  parts.regions_begin = parts.statics_begin + statics_part(bytes);
  auto space = adopt(std::move(parts), [&](std::unique_ptr<Region> opened) {
    return inspect_region(std::move(opened), findings);
  });
  if (space) {
    std::swap(space.value()->reservation_.begin, reservation.begin);
    std::swap(space.value()->reservation_.bytes, reservation.bytes);
  }
  return space;
}

Result<std::unique_ptr<AddressSpace>> AddressSpace::adopt(
    Parts parts, const std::function<Result<Pool>(std::unique_ptr<Region>)>& open_pool) try {
  std::unique_ptr<AddressSpace> space(new AddressSpace);
  space->files_ = std::move(parts.files);
  space->region_ = parts.region.get();
  space->base_ = parts.region->base();
  space->range_bytes_ = parts.range_bytes;
  space->statics_ = std::move(parts.statics);
  space->statics_begin_ = parts.statics_begin;
  space->regions_begin_ = parts.regions_begin;
  // Log records may name any part, so all parts must be there before recovery replays them.
  if (auto done = space->attach_regions(); !done) return done.error();
  if (auto done = space->attach_statics(); !done) return done.error();
  auto pool = open_pool(std::move(parts.region));
  if (!pool) return pool.error();
  space->pool_.emplace(std::move(pool).value());
  if (auto done = space->settle_regions(); !done) return done.error();
  if (auto done = space->settle_statics(); !done) return done.error();
  return space;
} catch (const Exception& failure) {
  return failure.error();
}

AddressSpace::~AddressSpace() = default;

}  // namespace perdure
