#include "perdure/address_space.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <unordered_map>

#include "perdure/api/framed_files.h"
#include "perdure/region/file.h"
#include "perdure/region/space_layout.h"

namespace perdure {
namespace {

#if defined(__SANITIZE_THREAD__)
// The part of the address space that ThreadSanitizer leaves to the program.
constexpr std::uint64_t kDefaultBase = 0x7e8000000000;
#else
// Above every heap, executable and library that Linux places without being asked, below all it places from the top.
constexpr std::uint64_t kDefaultBase = 0x200000000000;
#endif
constexpr std::uint64_t kEndOfUserSpace = 0x7fffffff0000;
constexpr std::uint64_t kMinRange = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxRange = 4 * kMaxCapacityBytes;
constexpr std::uint64_t kTypeOfTable = 0x7065726475726531;

// How the reserved range is divided: a quarter for the heap, a 256th for static variables, the rest for regions.
constexpr std::uint64_t heap_part(std::uint64_t range) { return range / 4; }
constexpr std::uint64_t range_of_heap(std::uint64_t capacity) { return capacity * 4; }
constexpr std::uint64_t statics_part(std::uint64_t range) { return range / 256; }

std::string hex(std::uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), kDigits[value % 16]);
  while ((value /= 16) != 0);
  return "0x" + text;
}

std::string hex_of(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += hex(byte + 0x100u).substr(3);
  return text.empty() ? "unknown" : text;
}

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

Error misuse_inside() {
  return {Code::kMisuse, "regions cannot be made or destroyed inside a transaction"};
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
    const PoolOptions& pool = options.pool;
    Region::CreateOptions create{
        {heap_part(range), pool.segment_bytes, pool.ring_bytes, pool.log_slots, pool.root_entries},
        1,
        pool.mode};
    create.incompatible = kFeatureAddressSpace;
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
    // Often because this process has the same directory open, which the addresses do not tell.
    auto locked = open_locked(heap, false);
    if (!locked && locked.error().code == Code::kBusy) return locked.error();
    return reserved.error();
  }

  // Given back by whoever owns it in the end.
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
    return Pool::open_region(std::move(opened), options.pool);
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
    return Pool::inspect_region(std::move(opened), findings);
  });
  if (space) {
    std::swap(space.value()->reservation_.begin, reservation.begin);
    std::swap(space.value()->reservation_.bytes, reservation.bytes);
  }
  return space;
}

Result<std::unique_ptr<AddressSpace>> AddressSpace::adopt(
    Parts parts, const std::function<Result<Pool>(std::unique_ptr<Region>)>& open_pool) try {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<AddressSpace> space(new AddressSpace);
  space->files_ = std::move(parts.files);
  space->region_ = parts.region.get();
  space->base_ = parts.region->base();
  space->range_bytes_ = parts.range_bytes;
  space->statics_ = std::move(parts.statics);
  space->statics_begin_ = parts.statics_begin;
  space->regions_begin_ = parts.regions_begin;
  // Records of the logs may name any part: all must be there before recovery replays them.
  if (auto done = space->attach_regions(); !done) return done.error();
  if (auto done = space->attach_statics(); !done) return done.error();
  space->remap_nanoseconds_ = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start)
          .count());
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

// ---- the region table ---------------------------------------------------------------------------

struct AddressSpace::Slot {
  Offset at;
  RegionEntry entry;
};

namespace {

/// Calls `visit(offset of the page, bytes of it)` for each page of the table from `first` on; `read` copies a header.
/// Errors: kCorrupt.
template <class Read, class Visit>
Result<void> for_each_page(const Region& region, Offset first, Read read, Visit visit) {
  Offset page = first;
  std::uint64_t bytes = kRegionTableBytes;
  for (std::size_t pages = 0; page != 0; ++pages) {
    const Superblock& super = region.superblock();
    RegionTableHeader header{};
    const bool placed = pages <= kMaxOverflowPages && is_aligned(page, kWordBytes) &&
                        inside(page, bytes, super.heap_offset, region.grown_bytes());
    if (placed) read(page, header);
    // A page that was never written to is all zero.
    const RegionTableHeader fresh{};
    const bool sound = std::memcmp(&header, &fresh, sizeof(header)) == 0 ||
                       header.check == crc32c(&header, offsetof(RegionTableHeader, check));
    if (!placed || !sound)
      return Error{Code::kCorrupt, region.path() + ": the region table (byte " +
                                       std::to_string(page) +
                                       ") fails its check; restore it from a backup"};
    visit(page, bytes, header);
    page = header.overflow;
    bytes = kOverflowBytes;
  }
  return {};
}

/// Whether the entry makes sense by itself.
bool is_sound(const RegionEntry& entry, Offset regions_begin, std::uint64_t range_bytes) {
  return entry.check == check_of_region(entry) && entry.bytes != 0 &&
         is_aligned(entry.begin, kPageBytes) && is_aligned(entry.bytes, kPageBytes) &&
         is_aligned(entry.file_offset, kPageBytes) &&
         inside(entry.begin, entry.bytes, regions_begin, range_bytes) &&
         inside(entry.file_offset, entry.bytes, 0, entry.file_bytes) &&
         entry.state >= RegionState::kCreating && entry.state <= RegionState::kGoing &&
         entry.file != SpaceFiles::kStatics && entry.protection <= 7;
}

}  // namespace

namespace {

/// Words of the region as recovery will leave them, before it has begun: those at home, under what the logs hold.
class RecoveredView {
 public:
  /// Errors: kCorrupt.
  static Result<RecoveredView> of(Region& region) {
    RecoveredView view(region);
    LogArea logs(region);
    std::uint64_t last_stamp = 0;
    if (auto opened = logs.open(); !opened) return opened.error();
    auto records = logs.collect(last_stamp, false);
    if (!records) return records.error();
    for (const LogArea::Record& record : records.value()) {
      LogArea::for_each_write(record, [&](const MaskedWrite& write) {
        MaskedWrite& pending = view.pending_.try_emplace(write.offset).first->second;
        pending.value = (pending.value & ~write.mask) | (write.value & write.mask);
        pending.mask |= write.mask;
      });
    }
    return view;
  }
  /// Requires: offset and size are whole words inside the region's own file.
  template <class T>
  T read(Offset offset) const {
    std::array<Word, sizeof(T) / kWordBytes> words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      const Offset at = offset + i * kWordBytes;
      words[i] = load_word(region_->word(at));
      if (const auto found = pending_.find(at); found != pending_.end())
        words[i] = (words[i] & ~found->second.mask) | (found->second.value & found->second.mask);
    }
    return std::bit_cast<T>(words);
  }
  /// The pages of [begin, end) that the logs write to.
  std::set<Offset> pages_written(Offset begin, Offset end) const {
    std::set<Offset> pages;
    for (const auto& [offset, write] : pending_) {
      if (inside(offset, kWordBytes, begin, end)) pages.insert(round_down(offset, kPageBytes));
    }
    return pages;
  }

 private:
  explicit RecoveredView(const Region& region) : region_(&region) {}
  const Region* region_;
  std::unordered_map<Offset, MaskedWrite> pending_;
};

}  // namespace

/// Before recovery, whose records may name any region: what the table will say after it.
Result<void> AddressSpace::attach_regions() {
  auto view = RecoveredView::of(*region_);
  if (!view) return view.error();
  const Superblock& super = region_->superblock();
  Offset table = 0;
  for (std::uint32_t i = 0; i < super.geometry.root_entries; ++i) {
    const auto entry = view->read<RootEntry>(super.root_offset + i * sizeof(RootEntry));
    if (std::strncmp(entry.name.data(), kRegionTableRoot, entry.name.size()) == 0 &&
        entry.bytes == kRegionTableBytes &&
        entry.check == crc32c(&entry, offsetof(RootEntry, check)))
      table = entry.object;
  }
  std::vector<RegionEntry> found;
  const auto sound = for_each_page(
      *region_, table,
      [&](Offset page, RegionTableHeader& header) { header = view->read<RegionTableHeader>(page); },
      [&](Offset page, std::uint64_t bytes, const RegionTableHeader&) {
        for (Offset at = page + sizeof(RegionEntry); at < page + bytes; at += sizeof(RegionEntry)) {
          const auto entry = view->read<RegionEntry>(at);
          if (entry.bytes != 0) found.push_back(entry);
        }
      });
  if (!sound) return sound;
  std::sort(found.begin(), found.end(),
            [](const RegionEntry& a, const RegionEntry& b) { return a.begin < b.begin; });
  Offset end = 0;
  for (const RegionEntry& entry : found) {
    if (!is_sound(entry, regions_begin_, range_bytes_) || entry.begin < end)
      return Error{Code::kCorrupt, region_->path() + ": the region table's entry for file " +
                                       std::to_string(entry.file) +
                                       " fails its check; restore it from a backup"};
    end = entry.begin + entry.bytes;
    if (entry.state == RegionState::kLive) {
      if (auto shown = show_entry(entry); !shown) return shown;
    } else {
      // It goes. Records from before may still name it, and its file may be gone.
      if (auto mapped = files_->map_nowhere(entry.begin, entry.bytes); !mapped) return mapped;
      region_->attach({entry.begin, end});
    }
  }
  // A program that stores to a region while another of its threads destroys it ends at that store, with a record in the
  // log that names no region any more. What it wrote is nobody's, and must not be in the way of the rest.
  for (const Offset page : view->pages_written(regions_begin_, range_bytes_)) {
    const bool known = std::any_of(found.begin(), found.end(), [&](const RegionEntry& entry) {
      return inside(page, kPageBytes, entry.begin, entry.begin + entry.bytes);
    });
    if (known) continue;
    if (auto mapped = files_->map_nowhere(page, kPageBytes); !mapped) return mapped;
    region_->attach({page, page + kPageBytes});
    stray_pages_.push_back(page);
  }
  return {};
}

Result<void> AddressSpace::show_entry(const RegionEntry& entry) {
  auto bytes = files_->size(entry.file);
  if (!bytes) return bytes.error();
  if (!bytes.value())
    return Error{Code::kNotFound,
                 files_->name(entry.file) +
                     ": missing, but the region table names it; restore it from a backup"};
  if (*bytes.value() != entry.file_bytes)
    return Error{Code::kTruncated,
                 files_->name(entry.file) + ": has " + std::to_string(*bytes.value()) +
                     " bytes, the region table says " + std::to_string(entry.file_bytes) +
                     "; restore it from a backup"};
  // Writable for recovery, also where the program is not allowed to write: a transaction that tried has left a record.
  auto part = files_->map(entry.file, entry.file_offset, entry.begin, entry.bytes,
                          PROT_READ | PROT_WRITE | entry.protection);
  if (!part) return part.error();
  region_->attach(part.value());
  return {};
}

void AddressSpace::hide(Offset begin, std::uint64_t bytes) {
  region_->detach(begin, begin + bytes);
  files_->unmap(begin, bytes);
}

/// After recovery: finds or makes the table, and finishes what was going.
Result<void> AddressSpace::settle_regions() {
  for (const Offset page : stray_pages_) hide(page, kPageBytes);  // no record names them any more
  pool_->atomically([&](Tx& tx) {
    const auto root =
        pool_->core().find_root(tx, kRegionTableRoot, kTypeOfTable, kRegionTableBytes, true);
    table_ = static_cast<Offset>(static_cast<std::byte*>(root->object) - base_);
  });
  // No record names what goes any more.
  const bool any_going = pool_->read_only([&](Tx& tx) {
    const std::vector<Slot> now = entries(tx);
    return std::any_of(now.begin(), now.end(),
                       [](const Slot& slot) { return slot.entry.state != RegionState::kLive; });
  });
  if (any_going) {
    pool_->checkpoint();
    if (auto finished = finish_going(); !finished) return finished;
  }
  for (const RegionEntry& entry : regions()) protect_entry(entry);
  return {};
}

/// Gives the program the access to a region that it asked for, once recovery needs no other.
void AddressSpace::protect_entry(const RegionEntry& entry) {
  files_->protect(entry.begin, entry.bytes, entry.protection);
  if ((entry.protection & PROT_WRITE) == 0) region_->detach(entry.begin, entry.begin + entry.bytes);
}

/// Destroys what is no longer live: mappings, files that no live entry needs, and then the entries.
/// Requires: no record names it.
Result<void> AddressSpace::finish_going() {
  const std::vector<Slot> now = pool_->read_only([&](Tx& tx) { return entries(tx); });
  std::vector<std::uint64_t> needed;
  for (const Slot& slot : now) {
    if (slot.entry.state == RegionState::kLive) needed.push_back(slot.entry.file);
  }
  // All of them first: several may be pieces of one file.
  for (const Slot& slot : now) {
    if (slot.entry.state != RegionState::kLive) hide(slot.entry.begin, slot.entry.bytes);
  }
  for (const Slot& slot : now) {
    if (slot.entry.state == RegionState::kLive) continue;
    if (std::find(needed.begin(), needed.end(), slot.entry.file) == needed.end()) {
      if (auto removed = files_->remove(slot.entry.file); !removed) return removed;
    } else {
      files_->punch(slot.entry.file, slot.entry.file_offset, slot.entry.bytes);
    }
    pool_->atomically([&](Tx& tx) { put_entry(tx, slot.at, RegionEntry{}); });
  }
  return {};
}

std::vector<AddressSpace::Slot> AddressSpace::entries(Tx& tx) {
  std::vector<Slot> found;
  for_each_page(
      *region_, table_,
      [&](Offset page, RegionTableHeader& header) {
        tx.read(&header, region_->base() + page, sizeof(header));
      },
      [&](Offset page, std::uint64_t bytes, const RegionTableHeader&) {
        for (Offset at = page + sizeof(RegionEntry); at < page + bytes; at += sizeof(RegionEntry)) {
          if (tx.load(region_->at<RegionEntry>(at)->bytes) == 0) continue;
          Slot slot{at, {}};
          tx.read(&slot.entry, region_->at<RegionEntry>(at), sizeof(slot.entry));
          if (!is_sound(slot.entry, regions_begin_, range_bytes_))
            throw Exception(Code::kCorrupt, region_->path() + ": the region table (byte " +
                                                std::to_string(at) +
                                                ") fails its check; restore it from a backup");
          found.push_back(slot);
        }
      })
      .value();
  return found;
}

/// Where a new entry may go; adds a page to the table when it is full.
Offset AddressSpace::vacant_slot(Tx& tx) {
  Offset vacant = 0;
  Offset last = 0;
  RegionTableHeader last_header{};
  for_each_page(
      *region_, table_,
      [&](Offset page, RegionTableHeader& header) {
        tx.read(&header, region_->base() + page, sizeof(header));
      },
      [&](Offset page, std::uint64_t bytes, const RegionTableHeader& header) {
        last = page;
        last_header = header;
        for (Offset at = page + sizeof(RegionEntry); at < page + bytes; at += sizeof(RegionEntry)) {
          if (vacant == 0 && tx.load(region_->at<RegionEntry>(at)->bytes) == 0) vacant = at;
        }
      })
      .value();
  if (vacant != 0) return vacant;
  auto* page = static_cast<std::byte*>(tx.allocate(kOverflowBytes));
  const std::vector<std::byte> zeroes(kOverflowBytes);
  tx.write(page, zeroes.data(), kOverflowBytes);
  last_header.overflow = static_cast<Offset>(page - base_);
  last_header.check = crc32c(&last_header, offsetof(RegionTableHeader, check));
  tx.write(region_->base() + last, &last_header, sizeof(last_header));
  return last_header.overflow + sizeof(RegionEntry);
}

void AddressSpace::put_entry(Tx& tx, Offset at, RegionEntry entry) {
  if (entry.bytes != 0) entry.check = check_of_region(entry);
  tx.write(region_->at<RegionEntry>(at), &entry, sizeof(entry));
}

std::vector<RegionEntry> AddressSpace::regions() {
  const std::lock_guard lock(mutex_);
  std::vector<RegionEntry> live;
  for (const Slot& slot : pool_->read_only([&](Tx& tx) { return entries(tx); })) {
    if (slot.entry.state == RegionState::kLive) live.push_back(slot.entry);
  }
  std::sort(live.begin(), live.end(),
            [](const RegionEntry& a, const RegionEntry& b) { return a.begin < b.begin; });
  return live;
}

// ---- pmap and punmap ----------------------------------------------------------------------------

/// First fit, on pages; large regions on 2 MiB, so that they can have large pages.
Result<Offset> AddressSpace::find_place(const std::vector<Slot>& taken, void* wanted,
                                        std::uint64_t bytes, bool exactly) const {
  std::vector<std::pair<Offset, Offset>> ranges;
  for (const Slot& slot : taken)
    ranges.emplace_back(slot.entry.begin, slot.entry.begin + slot.entry.bytes);
  std::sort(ranges.begin(), ranges.end());
  const auto is_free = [&](Offset begin) {
    return inside(begin, bytes, regions_begin_, range_bytes_) &&
           std::none_of(ranges.begin(), ranges.end(), [&](const auto& range) {
             return begin < range.second && begin + bytes > range.first;
           });
  };
  if (wanted != nullptr) {
    const auto begin = static_cast<Offset>(static_cast<std::byte*>(wanted) - base_);
    if (!is_aligned(begin, kPageBytes) || !inside(begin, bytes, regions_begin_, range_bytes_))
      return Error{Code::kInvalid,
                   "pmap: a region of " + std::to_string(bytes) + " bytes at " +
                       hex(reinterpret_cast<std::uint64_t>(wanted)) + "; must be on a page from " +
                       hex(reinterpret_cast<std::uint64_t>(base_ + regions_begin_)) + " to " +
                       hex(reinterpret_cast<std::uint64_t>(base_ + range_bytes_))};
    if (is_free(begin)) return begin;
    if (exactly)
      return Error{Code::kExists, "pmap: there is a region at " +
                                      hex(reinterpret_cast<std::uint64_t>(wanted)) +
                                      "; punmap it first, or let pmap choose (NULL)"};
  }
  const std::uint64_t unit = bytes >= (2u << 20) ? (2u << 20) : kPageBytes;
  Offset begin = round_up(regions_begin_, unit);
  for (const auto& range : ranges) {
    if (is_free(begin)) break;
    begin = round_up(std::max(begin, range.second), unit);
  }
  if (is_free(begin)) return begin;
  return Error{Code::kNoSpace,
               "pmap: no " + std::to_string(bytes) +
                   " free addresses in the reserved range; punmap something, or make an "
                   "address space with a larger one (PERDURE_RESERVED_BYTES)"};
}

bool AddressSpace::is_writable(const void* address, std::uint64_t bytes) const {
  const auto at = static_cast<Offset>(static_cast<const std::byte*>(address) - base_);
  return inside(at, bytes, region_->superblock().heap_offset, region_->grown_bytes()) ||
         region_->in_part(at, bytes);
}

Result<void*> AddressSpace::map(void** variable, std::uint64_t bytes, int protection,
                                bool exactly) try {
  if (pool_->core().context().tx.active()) return misuse_inside();
  if (bytes == 0 || bytes > range_bytes_ || (protection & ~7) != 0)
    return Error{Code::kInvalid, "pmap: a region of " + std::to_string(bytes) +
                                     " bytes with protection " + std::to_string(protection)};
  if (!is_writable(fixed_address(variable), sizeof(*variable)))
    return Error{Code::kInvalid,
                 "pmap: the variable that receives the address must be persistent itself and "
                 "writable (pstatic, or in a region or the heap); else a crash would leak the "
                 "region"};
  const std::lock_guard lock(mutex_);
  bytes = round_up(bytes, kPageBytes);
  void** const home = fixed_address(variable);
  RegionEntry entry{};
  Offset at = 0;
  const Result<void> entered = pool_->atomically([&](Tx& tx) -> Result<void> {  // 1
    void* wanted = nullptr;
    tx.read_exact(&wanted, home, sizeof(wanted));
    auto begin = find_place(entries(tx), wanted, bytes, exactly);
    if (!begin) return begin.error();
    at = vacant_slot(tx);
    RegionTableHeader header{};
    tx.read(&header, base_ + table_, sizeof(header));
    // A file that is there already belongs to nobody that this table knows: it is left alone.
    std::uint64_t file = header.next_file + 1;
    for (auto size = files_->size(file); !size || size.value(); size = files_->size(++file)) {
      if (!size && size.error().code == Code::kIo) return size.error();  // the next is no better
    }
    header.next_file = file;
    header.check = crc32c(&header, offsetof(RegionTableHeader, check));
    tx.write(base_ + table_, &header, sizeof(header));
    entry = {begin.value(),
             bytes,
             file,
             0,
             bytes,
             RegionState::kCreating,
             static_cast<std::uint32_t>(protection),
             0,
             0};
    put_entry(tx, at, entry);
    return {};
  });
  if (!entered) return entered.error();
  const auto undo = [&](const Error& error) -> Error {
    finish_going().value();  // the entry and the file
    return error;
  };
  if (auto created = files_->create(entry.file, bytes); !created)
    return undo(created.error());  // 2
  if (auto shown = show_entry(entry); !shown) return undo(shown.error());
  protect_entry(entry);
  entry.state = RegionState::kLive;
  void* const address = base_ + entry.begin;
  try {
    pool_->atomically([&](Tx& tx) {  // 3
      put_entry(tx, at, entry);
      tx.write_exact(home, &address, sizeof(address));
    });
  } catch (const Exception& failure) {
    // When the storage failed, the region may be known after all at the next open: it keeps its file.
    if (failure.code() == Code::kPoisoned) throw;
    return undo(failure.error());
  }
  return address;
} catch (const Exception& failure) {
  return failure.error();
}

Result<void> AddressSpace::unmap(void* address, std::uint64_t bytes) try {
  if (pool_->core().context().tx.active()) return misuse_inside();
  const std::lock_guard lock(mutex_);
  const auto begin = static_cast<Offset>(static_cast<std::byte*>(address) - base_);
  if (!is_aligned(begin, kPageBytes) || bytes == 0 ||
      !inside(begin, bytes, regions_begin_, range_bytes_))
    return Error{Code::kInvalid, "punmap: " + std::to_string(bytes) + " bytes at " +
                                     hex(reinterpret_cast<std::uint64_t>(address)) +
                                     " are no whole pages of regions"};
  const Offset end = round_up(begin + bytes, kPageBytes);
  //   1. one transaction: entries shrink, split, or are going     cut here ⇒ all of it or nothing
  //   2. force it home                                             cut here ⇒ as 1; no record names those bytes now
  //   3. unmap, remove files                                       cut here ⇒ removed at the next start
  //   4. clear the entries that were going
  const bool any = pool_->atomically([&](Tx& tx) {
    bool touched = false;
    for (Slot& slot : entries(tx)) {
      RegionEntry& entry = slot.entry;
      const Offset entry_end = entry.begin + entry.bytes;
      if (entry.state != RegionState::kLive || entry.begin >= end || entry_end <= begin) continue;
      touched = true;
      const RegionEntry whole = entry;
      const auto piece = [&](Offset from, Offset to, RegionState state) {
        RegionEntry part = whole;
        part.file_offset += from - whole.begin;
        part.begin = from;
        part.bytes = to - from;
        part.state = state;
        return part;
      };
      // The slot keeps the piece that goes; what stays left and right of it gets slots of its own.
      put_entry(tx, slot.at,
                piece(std::max(begin, whole.begin), std::min(end, entry_end), RegionState::kGoing));
      if (whole.begin < begin)
        put_entry(tx, vacant_slot(tx), piece(whole.begin, begin, RegionState::kLive));
      if (entry_end > end)
        put_entry(tx, vacant_slot(tx), piece(end, entry_end, RegionState::kLive));
    }
    return touched;
  });
  if (!any)
    return Error{Code::kInvalid,
                 "punmap: no region at " + hex(reinterpret_cast<std::uint64_t>(address))};
  pool_->checkpoint();
  return finish_going();
} catch (const Exception& failure) {
  return failure.error();
}

// ---- static variables ---------------------------------------------------------------------------

namespace {

std::uint64_t check_of_header(const StaticsHeader& header) {
  return crc32c(&header, offsetof(StaticsHeader, check));
}
Offset variables_offset(const StaticsHeader& header) {
  return kPageBytes + round_up(header.names_bytes, kPageBytes);
}
/// Asked before a file is made: one that does not fit would be in the way of every later start.
Result<void> check_room(const std::string& file, std::uint64_t bytes, std::uint64_t room) {
  if (bytes <= room) return {};
  return Error{Code::kNoSpace, file + ": " + std::to_string(bytes) +
                                   " bytes of static variables do not fit into the " +
                                   std::to_string(room) +
                                   " bytes reserved for them; make a new address space with more "
                                   "(PERDURE_RESERVED_BYTES, of which they have a 256th)"};
}

}  // namespace

/// Before recovery: what records may name. `recorded_` is what the file says.
Result<void> AddressSpace::attach_statics() {
  auto bytes = files_->size(SpaceFiles::kStatics);
  if (!bytes) return bytes.error();
  if (!bytes.value()) {
    // Somebody removed it, to start over. The logs may still have records for it: let them write into nowhere.
    const std::uint64_t nowhere = regions_begin_ - statics_begin_;
    if (auto mapped = files_->map_nowhere(statics_begin_, nowhere); !mapped) return mapped;
    region_->attach({statics_begin_, statics_begin_ + nowhere});
    return {};
  }
  if (auto mapped = map_statics(*bytes.value()); !mapped) return mapped;
  const auto& header = *region_->at<StaticsHeader>(statics_begin_);
  if (header.ready == 0) return {};  // never finished: nobody used it
  const std::string where = files_->name(SpaceFiles::kStatics) + ": ";
  if (header.magic != kStaticsMagic || header.check != check_of_header(header) ||
      unseal(header.ready, kSaltReady) != std::uint64_t{1} || header.names_bytes > kMaxNamesBytes ||
      header.variables_bytes > *bytes.value() ||
      variables_offset(header) + header.variables_bytes != *bytes.value() ||
      crc32c(region_->base() + statics_begin_ + kPageBytes, header.names_bytes) != header.names_crc)
    return Error{
        Code::kCorrupt,
        where +
            "its first pages fail their check; restore it from a backup, or remove it to start "
            "the static variables over"};
  recorded_ = header;
  statics_file_bytes_ = *bytes.value();
  return {};
}

Result<void> AddressSpace::map_statics(std::uint64_t bytes) {
  const auto fits =
      check_room(files_->name(SpaceFiles::kStatics), bytes, regions_begin_ - statics_begin_);
  if (!fits) return fits;
  auto part = files_->map(SpaceFiles::kStatics, 0, statics_begin_, bytes, PROT_READ | PROT_WRITE);
  if (!part) return part.error();
  region_->attach(part.value());
  return {};
}

/// After recovery: the program's variables become those of the file, or the file is made from the program's.
Result<void> AddressSpace::settle_statics() {
  if (statics_.begin == nullptr) return {};
  const std::string names = to_text(statics_.variables);
  const std::uint64_t bytes = kPageBytes + round_up(names.size(), kPageBytes) + statics_.bytes;
  const auto fits =
      check_room(files_->name(SpaceFiles::kStatics), bytes, regions_begin_ - statics_begin_);
  if (!fits) return fits;
  if (recorded_) {
    const std::string_view text(
        reinterpret_cast<const char*>(region_->base() + statics_begin_ + kPageBytes),
        recorded_->names_bytes);
    const bool same_program =
        !statics_.build_id.empty() && recorded_->build_id_bytes == statics_.build_id.size() &&
        std::equal(statics_.build_id.begin(), statics_.build_id.end(), recorded_->build_id.begin());
    const bool same_layout = !names.empty() && names == text;
    const bool same_size = recorded_->variables_bytes == statics_.bytes;
    if (!(same_size && (same_program || same_layout))) {
      auto before = variables_from_text(text);
      if (!before) return before.error();
      if (auto changed = change_statics(before.value()); !changed) return changed;
    }
    // Orders: the word that vouches for the variables before the first transaction on them. Who stored it may have been
    //         killed before its fence; it is then in caches only, and a cut would take it back, and the variables with it.
    Engine& engine = pool_->core().engine();
    engine.flush(&region_->at<StaticsHeader>(statics_begin_)->ready, kWordBytes, Site::kAdopt);
    if (!engine.fence(Site::kAdoptFence))
      throw Exception(Code::kPoisoned, files_->name(SpaceFiles::kStatics) + ": a sync failed");
  } else {
    // New, or never finished: in either case nobody relies on what is there.
    hide(statics_begin_, regions_begin_ - statics_begin_);
    if (auto removed = files_->remove(SpaceFiles::kStatics); !removed) return removed;
    if (auto created = files_->create(SpaceFiles::kStatics, bytes); !created) return created;
    if (auto mapped = map_statics(bytes); !mapped) return mapped;
    write_statics(image_of_statics());
  }
  variables_begin_ = statics_begin_ + variables_offset(*region_->at<StaticsHeader>(statics_begin_));
  return files_->alias(variables_begin_, statics_.bytes, statics_.begin);
}

/// The whole file, with the values that the program's variables have now.
std::vector<std::byte> AddressSpace::image_of_statics() const {
  const std::string names = to_text(statics_.variables);
  StaticsHeader header{};
  header.magic = kStaticsMagic;
  header.names_bytes = names.size();
  header.variables_bytes = statics_.bytes;
  header.names_crc = crc32c(names.data(), names.size());
  header.build_id_bytes = std::min(statics_.build_id.size(), header.build_id.size());
  std::copy_n(statics_.build_id.begin(), header.build_id_bytes, header.build_id.begin());
  statics_.program.copy(header.program.data(), header.program.size() - 1);
  header.check = check_of_header(header);
  header.ready = seal(1, kSaltReady);
  std::vector<std::byte> image(variables_offset(header) + statics_.bytes);
  std::memcpy(image.data(), &header, sizeof(header));
  std::memcpy(image.data() + kPageBytes, names.data(), names.size());
  std::memcpy(image.data() + variables_offset(header), statics_.begin, statics_.bytes);
  return image;
}

/// Fills a new file.
///   1. everything but the word that says so; fence   cut here ⇒ not ready: made again from the executable
///   2. the word; fence                               from here on the variables keep their values
void AddressSpace::write_statics(std::vector<std::byte> image) {
  Engine& engine = pool_->core().engine();
  const Word ready = seal(1, kSaltReady);
  auto* const words = reinterpret_cast<Word*>(image.data());
  words[offsetof(StaticsHeader, ready) / kWordBytes] = 0;
  engine.write_through(region_->word(statics_begin_), words, image.size() / kWordBytes,
                       Site::kStatics);
  // Orders: names and values before the word that vouches for them.
  bool durable = engine.fence(Site::kStaticsFence);
  auto* const header = region_->at<StaticsHeader>(statics_begin_);
  engine.store(&header->ready, ready);
  engine.flush(&header->ready, kWordBytes, Site::kStatics);
  // Orders: the word before the first transaction on these variables.
  durable = engine.fence(Site::kStaticsFence) && durable;
  if (!durable)
    throw Exception(Code::kPoisoned, files_->name(SpaceFiles::kStatics) +
                                         ": a sync failed while it was made; run again");
}

/// The program has other variables than the file: what to do about it is the user's to say.
Result<void> AddressSpace::change_statics(const std::vector<StaticVariable>& before) {
  const std::string where = files_->name(SpaceFiles::kStatics);
  const std::string by = std::string(
      recorded_->program.data(), ::strnlen(recorded_->program.data(), recorded_->program.size()));
  const bool named = !before.empty() && !statics_.variables.empty();
  std::string change =
      named ? describe_change(before, statics_.variables)
            : "their names are not known: an executable is stripped (keep its "
              "build id, with which the same one is always accepted: -Wl,--build-id)";
  if (change.empty()) change = "the section's size";
  const std::string what = where + ": was made by '" + by + "' (build " +
                           hex_of({recorded_->build_id.data(), recorded_->build_id_bytes}) + ", " +
                           std::to_string(recorded_->variables_bytes) +
                           " bytes of pstatic variables); '" + statics_.program + "' (build " +
                           hex_of(statics_.build_id) + ", " + std::to_string(statics_.bytes) +
                           " bytes) lays them out differently: " + change;
  using OnChange = Statics::OnChange;
  if (statics_.on_change == OnChange::kRefuse)
    return Error{Code::kTypeMismatch, what +
                                          "; run the old program, or run this one once with "
                                          "PERDURE_STATICS=migrate (values are kept by "
                                          "name and size), or PERDURE_STATICS=reset (start over)"};
  std::vector<std::byte> image = image_of_statics();
  if (statics_.on_change != OnChange::kReset) {
    if (!named)
      return Error{Code::kTypeMismatch,
                   what + "; without names only PERDURE_STATICS=reset is possible"};
    const std::byte* const from = region_->base() + statics_begin_ + variables_offset(*recorded_);
    std::byte* const to = image.data() + image.size() - statics_.bytes;
    for (const StaticVariable& old : before) {
      const auto now =
          std::find_if(statics_.variables.begin(), statics_.variables.end(),
                       [&](const StaticVariable& variable) {
                         return variable.name == old.name && variable.bytes == old.bytes;
                       });
      const bool sound = inside(old.offset, old.bytes, 0, recorded_->variables_bytes);
      if (now != statics_.variables.end() && sound) {
        std::memcpy(to + now->offset, from + old.offset, old.bytes);
      } else if (statics_.on_change == OnChange::kMigrate) {
        return Error{Code::kTypeMismatch,
                     what + "; '" + old.name +
                         "' would lose its value: PERDURE_STATICS=migrate,drop accepts that"};
      }
    }
  }
  pool_->checkpoint();  // no record names the old places any more
  hide(statics_begin_, regions_begin_ - statics_begin_);
  if (auto replaced = files_->replace(SpaceFiles::kStatics, image); !replaced) return replaced;
  return map_statics(image.size());
}

}  // namespace perdure
