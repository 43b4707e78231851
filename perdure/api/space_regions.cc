// SPDX-License-Identifier: BSD-3-Clause
// The regions of an address space: their table, pmap and punmap, and what a start finds of them.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <unordered_map>

#include "perdure/address_space.h"
#include "perdure/api/pool_core.h"
#include "perdure/base/hex.h"
#include "perdure/region/space_layout.h"

namespace perdure {

struct AddressSpace::Slot {
  Offset at;
  RegionEntry entry;
};

namespace {

Error misuse_inside() {
  return {Code::kMisuse, "regions cannot be made or destroyed inside a transaction"};
}

/// Calls `visit(offset of the page, bytes of it)` for each page of the table from `first` on;
/// `read` copies a header.
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

/// Words of the region as recovery will leave them, before it has begun: those at home, under what
/// the logs hold.
class RecoveredView {
 public:
  /// Errors: kCorrupt.
  static Result<RecoveredView> of(Region& region) {
    RecoveredView view(region);
    LogArea logs(region);
    std::uint64_t last_timestamp = 0;
    if (auto opened = logs.open(); !opened) return opened.error();
    auto records = logs.collect(last_timestamp, false);
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
      // The region is being destroyed. Older records may still name it, and its file may be gone.
      if (auto mapped = files_->map_nowhere(entry.begin, entry.bytes); !mapped) return mapped;
      region_->attach({entry.begin, end});
    }
  }
  // A program that stores to a region while another of its threads destroys it dies at that store,
  // and leaves a record in the log that names no region. What it wrote belongs to nobody, and must
  // not keep the address space from opening.
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
  // Recovery needs write access even where the program has none: a transaction that tried to write
  // there has left a record.
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
    const auto root = core_of(*pool_).find_root(tx, kRegionTableRoot, kTypeOfRegionTable,
                                                kRegionTableBytes, true);
    table_ = static_cast<Offset>(static_cast<std::byte*>(root->object) - base_);
  });
  // No record names what is being destroyed any more.
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

/// Gives the program the access to a region that it asked for, when recovery is over.
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
  if (core_of(*pool_).context().tx.active()) return misuse_inside();
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
    // A file that is there already belongs to no region of this table, so it stays untouched.
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
    // When the storage failed, the region may be known after all at the next open: it keeps its
    // file.
    if (failure.code() == Code::kPoisoned) throw;
    return undo(failure.error());
  }
  return address;
} catch (const Exception& failure) {
  return failure.error();
}

Result<void> AddressSpace::unmap(void* address, std::uint64_t bytes) try {
  if (core_of(*pool_).context().tx.active()) return misuse_inside();
  const std::lock_guard lock(mutex_);
  const auto begin = static_cast<Offset>(static_cast<std::byte*>(address) - base_);
  if (!is_aligned(begin, kPageBytes) || bytes == 0 ||
      !inside(begin, bytes, regions_begin_, range_bytes_))
    return Error{Code::kInvalid, "punmap: " + std::to_string(bytes) + " bytes at " +
                                     hex(reinterpret_cast<std::uint64_t>(address)) +
                                     " are no whole pages of regions"};
  const Offset end = round_up(begin + bytes, kPageBytes);
  //   1. one transaction: entries shrink, split, or are going   crash here ⇒ all of it or nothing
  //   2. force it home        crash here ⇒ as 1; no record names those bytes now
  //   3. unmap, remove files  crash here ⇒ the files are removed at the next start
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

}  // namespace perdure
