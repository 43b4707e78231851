// SPDX-License-Identifier: BSD-3-Clause
// AddressSpace: a directory whose files are memory that survives, at the same addresses in every
// run.
//
// For data full of raw pointers: a heap (perdure::Pool, pmalloc), the static variables that a
// program marks `pstatic`, and regions made by pmap, all in one reserved range of addresses. C
// programs meet it through perdure/mnemosyne.h. Where links instead of pointers will do, a Pool
// alone is simpler: it is one file, at any address.
//
// Source:     Mnemosyne (ASPLOS 2011) §4.2.
// Deviations: the region table is an object of the heap, not the start of the static region:
//             removing statics.region starts the static variables over and nothing else. A variable
//             has two addresses: the one that the linker gave it, and a fixed one in the reserved
//             range (fixed_address); they show the same memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perdure/api/space_files.h"
#include "perdure/api/statics.h"
#include "perdure/expert.h"
#include "perdure/pool.h"
#include "perdure/region/space_layout.h"

namespace perdure {

/// Threads: any, for every call but the destructor, which comes last.
class AddressSpace {
 public:
  struct Options {
    ExpertOptions pool;
    /// Where the reserved range begins; null: where the directory had it, or the default.
    std::byte* base = nullptr;
    /// A power of two from 1 GiB to 4 TiB; the paper's is 1 TiB. Kept by the directory: given at
    /// creation.
    std::uint64_t range_bytes = std::uint64_t{1} << 40;
    Statics statics;
    /// Given: the files of regions are here, on storage that is larger than memory, and their pages
    /// come into frames of `frames_bytes` in all when they are touched
    /// (perdure/region/frame_pool.h). Not on Sync. Kept by the directory: given at creation.
    std::string backing_directory;
    std::uint64_t frames_bytes = std::uint64_t{64} << 20;
  };
  /// Opens the address space in `directory`, or makes one there: recovers, maps every region at its
  /// address, shows the static variables where the program has them, and destroys regions that were
  /// never finished.
  /// Errors: as Pool::open; kTypeMismatch when the layout of the static variables has changed;
  ///         kInvalid when the reserved addresses are taken.
  static Result<std::unique_ptr<AddressSpace>> open_or_create(const std::string& directory,
                                                              const Options& options);
  /// Opens a private copy at any address: nothing reaches the files. `findings` collects damage of
  /// heap and root table instead of refusing the address space.
  /// Errors: as open_or_create(); kNotFound when there is none.
  static Result<std::unique_ptr<AddressSpace>> inspect(
      const std::string& directory, std::vector<std::string>* findings = nullptr);

  /// The parts of an address space, for the crash explorer, which provides them itself.
  struct Parts {
    std::unique_ptr<Region> region;  // the heap, at the start of the range
    std::unique_ptr<SpaceFiles> files;
    std::uint64_t range_bytes;
    Statics statics;
    Offset statics_begin;
    Offset regions_begin;
  };
  /// The second half of open_or_create(), which describes it. `open_pool` recovers the heap.
  static Result<std::unique_ptr<AddressSpace>> adopt(
      Parts parts, const std::function<Result<Pool>(std::unique_ptr<Region>)>& open_pool);

  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// The heap, whose transactions may write every part of the address space.
  Pool& pool() { return *pool_; }

  /// Makes a region of `bytes` (rounded up to pages), zeroed, and stores its address in
  /// `*variable`, which must be persistent and writable: a region is either known to the program or
  /// does not exist.
  ///
  ///   1. enter it in the region table as being made     crash here ⇒ destroyed at the next start
  ///   2. make its file                                  crash here ⇒ the same
  ///   3. one transaction: the entry is live, the variable has the address
  ///
  /// `*variable` null: anywhere; else where it says if that is free, and with `exactly` only there.
  /// Durable:  on return.
  /// Errors:   kInvalid (length, address, variable), kExists (`exactly`, but taken), kNoSpace, kIo;
  ///           nothing has changed.
  /// Threads:  any; not inside a transaction (kMisuse).
  Result<void*> map(void** variable, std::uint64_t bytes, int protection, bool exactly = false);
  /// Destroys the regions, or parts of regions, in [address, address + bytes), whole pages.
  /// Durable:  on return.   Errors: kInvalid when no region is there; kIo.   Threads: as map().
  Result<void> unmap(void* address, std::uint64_t bytes);

  /// Whether `address` is persistent: inside the reserved range, or a static variable.
  bool contains(const void* address) const {
    const auto* byte = static_cast<const std::byte*>(address);
    return static_cast<std::uint64_t>(byte - base_) < range_bytes_ ||
           static_cast<std::uint64_t>(byte - statics_.begin) < statics_.bytes;
  }
  /// Whether transactions may store to [address, address + bytes): it is in the heap, in the static
  /// variables at their fixed address, or in a region that is mapped with PROT_WRITE.
  bool is_writable(const void* address, std::uint64_t bytes) const;
  /// The address in the reserved range that shows the same byte as `address`, in every run. Other
  /// addresses are returned as they are.
  template <class T>
  T* fixed_address(T* address) const {
    auto* byte = reinterpret_cast<std::byte*>(const_cast<std::remove_cv_t<T>*>(address));
    const auto into = static_cast<std::uint64_t>(byte - statics_.begin);
    if (into >= statics_.bytes) return address;
    return reinterpret_cast<T*>(base_ + variables_begin_ + into);
  }
  /// The program's static variables, where the linker put them.
  std::byte* statics_begin() const { return statics_.begin; }
  std::uint64_t statics_bytes() const { return statics_.bytes; }
  /// The file of static variables that was there at open, whatever program it is of: header, names,
  /// values.
  std::span<const std::byte> statics_file() const {
    return {base_ + statics_begin_, statics_file_bytes_};
  }
  std::byte* base() const { return base_; }
  std::uint64_t range_bytes() const { return range_bytes_; }
  /// The regions made by map(), sorted by address. Errors: throws Exception kCorrupt; kMisuse in a
  /// forked child.
  std::vector<RegionEntry> regions();

 private:
  AddressSpace() = default;
  struct Slot;
  Result<void> attach_regions();
  Result<void> settle_regions();
  Result<void> finish_going();
  Result<void> show_entry(const RegionEntry& entry);
  void protect_entry(const RegionEntry& entry);
  void hide(Offset begin, std::uint64_t bytes);
  std::vector<Slot> entries(Tx& tx);
  Offset vacant_slot(Tx& tx);
  void put_entry(Tx& tx, Offset at, RegionEntry entry);
  Result<Offset> find_place(const std::vector<Slot>& taken, void* wanted, std::uint64_t bytes,
                            bool exactly) const;

  Result<void> attach_statics();
  Result<void> settle_statics();
  Result<void> map_statics(std::uint64_t bytes);
  std::vector<std::byte> image_of_statics() const;
  void write_statics(std::vector<std::byte> image);
  Result<void> change_statics(const std::vector<StaticVariable>& before);

  // Torn down from the last to the first: the pool first, then the files, then the reserved range.
  struct Reservation {
    std::byte* begin = nullptr;
    std::uint64_t bytes = 0;
    int owner_pid;  // in a forked child other things may be at these addresses
    Reservation();
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
  };
  Reservation reservation_;
  std::unique_ptr<SpaceFiles> files_;
  std::byte* base_ = nullptr;
  std::uint64_t range_bytes_ = 0;
  Region* region_ = nullptr;
  Statics statics_;
  Offset statics_begin_ = 0;
  std::uint64_t statics_file_bytes_ = 0;
  Offset variables_begin_ = 0;  // behind header and names
  Offset regions_begin_ = 0;
  Offset table_ = 0;  // the region table
  std::vector<Offset>
      stray_pages_;  // of no region, but named by records that were not replayed yet
  std::optional<StaticsHeader> recorded_;  // of a finished file of static variables
  std::mutex mutex_;
  std::optional<Pool> pool_;
};

}  // namespace perdure
