// SPDX-License-Identifier: BSD-3-Clause
// Region: a pool file mapped into memory: created atomically, validated before it is mapped,
//         locked, grown in place.
//
// Not a place for transactions: nothing here knows logs or heaps. A region hands out bytes; the
// code that writes them decides, through a domain, when they are durable.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "perdure/base/words.h"
#include "perdure/domain/domain.h"
#include "perdure/domain/file_device.h"
#include "perdure/error.h"
#include "perdure/region/file.h"
#include "perdure/region/layout.h"
#include "perdure/region/mapped_file.h"
#include "perdure/region/page_sums.h"
#include "perdure/region/superblock.h"

namespace perdure {

class LiveImage;
class Onlookers;

/// The storage under a region, as far as it is needed to grow.
class Backing {
 public:
  virtual ~Backing() = default;
  /// Makes the storage at least `bytes` long, with real blocks in [from, bytes), durably. No effect
  /// on failure.
  virtual Result<void> extend(std::uint64_t from, std::uint64_t bytes) = 0;
  /// Gives [offset, offset+bytes) real blocks, so that a later store cannot meet a full device.
  virtual Result<void> allocate(Offset offset, std::uint64_t bytes) = 0;
  /// Gives back the blocks of [offset, offset+bytes), which read as zeros or as what was there. What
  /// fails stays allocated.
  virtual void release(Offset /*offset*/, std::uint64_t /*bytes*/) {}
  /// Writes one word, and waits for nothing: the next process sees it when this one has been
  /// killed, and a power cut may take it back. False: the storage failed.
  [[nodiscard]] virtual bool tell(Offset offset, Word value) = 0;

  // ---- for the sums of its pages ----------------------------------------------------------------
  /// Whether it does what follows.
  virtual bool keeps_sums() const { return false; }
  /// Whole pages, as the storage has them. The calls answer false if the storage failed.
  [[nodiscard]] virtual bool read(Offset /*offset*/, void* /*to*/, std::uint64_t /*bytes*/) {
    return false;
  }
  /// Whole pages; waits for nothing.
  [[nodiscard]] virtual bool write(Offset /*offset*/, const void* /*data*/,
                                   std::uint64_t /*bytes*/) {
    return false;
  }
  /// Waits until all that anybody wrote is durable.
  [[nodiscard]] virtual bool sync(Site /*site*/) { return false; }
};

class Region {
 public:
  struct CreateOptions {
    Geometry geometry;  // ring_bytes 0, in create_file(): as suits `domain`
    std::uint64_t initial_segments = 1;
    unsigned mode = 0600;              // permission bits, before the umask
    std::uint64_t incompatible = 0;    // feature bits of the superblock
    std::uint64_t preferred_base = 0;  // of an address space: where it must be mapped
    DomainKind domain = DomainKind::kAuto;
  };
  struct OpenOptions {
    std::byte* base = nullptr;   // where to map it, over the caller's reservation; null: anywhere
    std::uint64_t features = 0;  // incompatible feature bits that the file must have, and no others
    /// Addresses from base on that are persistent: see TxWorld.
    std::uint64_t range_bytes = ~std::uint64_t{0};
    /// At least so many bytes of addresses are mapped, for limits that are being raised.
    std::uint64_t room_bytes = 0;
    /// On memory: base() is a private mapping from the heap on, and home() the shared one
    /// (domain/in_private_pages.h). On files the mapping is private anyway.
    bool private_heap = false;
    /// For inspection: also a file that another process has open and goes on with.
    bool look_on = true;
    /// On memory: others may look at it meanwhile, as they may on files anyway.
    bool let_look_on = false;
  };
  /// Bytes of another file, mapped into the region's range beyond its capacity, that records may
  /// name.
  struct Part {
    Offset begin;
    Offset end;
    FileDevice device{-1, -1};  // for Sync domains
    Offset device_begin = 0;    // where `begin` is in that file
  };
  enum class Access : std::uint8_t {
    kReadWrite,
    kInspect,  // a private copy: nothing done through it reaches the file. Of a file that another
               // process has open it is what was committed and durable at the moment of the call
  };

  /// Creates the file whole or not at all: formatted without a name, synced, then linked.
  /// Errors: kExists, kInvalid (geometry), kIo, kNoSpace; then there is no new file.
  static Result<void> create_file(const std::string& path, const CreateOptions& options);

  /// Opens, locks, validates and maps. `kind` kAuto is resolved from what the file is on.
  /// Errors: kNotFound, kBusy (with the holder's pid), kForeign, kVersion, kTruncated, kCorrupt,
  ///         kIo.
  static Result<std::unique_ptr<Region>> open_file(const std::string& path, DomainKind kind,
                                                   Access access, const OpenOptions& options);
  static Result<std::unique_ptr<Region>> open_file(const std::string& path, DomainKind kind,
                                                   Access access) {
    return open_file(path, kind, access, {});
  }

  /// Reads and checks a file's superblock, without locking or mapping anything. Errors: as
  /// open_file.
  static Result<Superblock> read_superblock(const std::string& path);

  /// A region over memory that the caller keeps (the crash explorer's images). `file_bytes` is what
  /// a file of this image would measure. Same validation as open_file.
  static Result<std::unique_ptr<Region>> open_memory(std::byte* base, std::uint64_t bytes,
                                                     std::uint64_t file_bytes, DomainKind kind,
                                                     Backing& backing,
                                                     std::uint64_t range_bytes = ~std::uint64_t{0});
  /// Maps the heap in the `bytes` of `fd` privately at `base`, and the rest shared, as it is at home.
  /// Requires: `base` is mapped, whole pages.   False: errno says why.
  static bool map_private_heap(std::byte* base, int fd, const Superblock& super,
                               std::uint64_t bytes);
  /// Writes the format of an empty pool into zeroed memory.
  static Result<void> format_memory(std::byte* base, std::uint64_t bytes,
                                    const CreateOptions& options);

  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* base() const { return base_; }
  /// Where the bytes of base() are kept; the same, unless OpenOptions::private_heap.
  std::byte* home() const { return home_ != nullptr ? home_ : base_; }
  template <class T>
  T* at(Offset offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  Word* word(Offset offset) const { return at<Word>(offset); }
  const Superblock& superblock() const { return super_; }
  /// Where in the file the other copy of it is.
  Offset other_superblock_at() const { return other_superblock(superblock_at_); }
  /// What was wrong with the other copy when the file was opened; empty: nothing.
  const std::string& superblock_damage() const { return superblock_damage_; }
  const Geometry& geometry() const { return super_.geometry; }
  StatePage* state() const { return at<StatePage>(kStateOffset); }
  DomainKind domain() const { return domain_; }
  /// Whether the kernel vouches for it (MAP_SYNC); memory handed to open_memory() is believed.
  bool is_persistent_memory() const { return persistent_memory_; }
  const std::string& path() const { return path_; }
  /// Whether another process had the file open, and goes on.
  bool is_live() const { return live_ != nullptr; }
  /// Whole pages as the file has them, past the mapping.   Errors: as LiveImage::read().
  Result<void> read_file(Offset offset, std::byte* to, std::uint64_t bytes) const;
  /// The file opened anew; -1: errno says why. None: a region over memory has none.
  Descriptor open_again(int flags) const;
  /// Compares the pages that have sums with them, as the file has them. Not while this region is being
  /// written.   Errors: as read_file().
  Result<PageSumsReport> check_sums(const ShowAreas& show = nullptr) const;
  /// The same of the table of roots, if there is a file.   Errors: kCorrupt; those of read_file().
  Result<void> check_sums_of_roots() const;
  /// For all that writes the file; null: nobody may look on.
  Onlookers* onlookers() const { return onlookers_.get(); }
  /// For all that writes pages of the heap or of the table of roots; null: they have none.
  PageSums* sums() const { return sums_.get(); }
  /// Called when the pool was found sound, before the program may store to it: on memory stores are
  /// the writes of pages. (What recovery stores there comes from records, before the first of which
  /// this was called.)   Errors: kIo.
  Result<void> begin_stores();
  /// Called when all is home and nobody writes any more: pages that were written get their sums again.
  void rest();
  /// Called now and then on files: the same for pages that were not written for some seconds, of up to
  /// so many areas. Threads: one.
  void rest_quiet(std::size_t most_areas);
  /// What is known of the first page that could not be read or written: see perdure/lost_pages.h.
  std::optional<Error> loss() const;
  /// As MappedFile::raise().
  void raise_when_lost(std::atomic<bool>* flag);
  /// Bytes in use; offsets at or beyond it are not part of the pool.
  /// The address of grown_bytes(), for callers that read it often.
  const std::atomic<std::uint64_t>& grown_end() const { return grown_bytes_; }
  std::uint64_t grown_bytes() const { return grown_bytes_.load(std::memory_order_acquire); }
  std::uint64_t segments() const {
    return (grown_bytes() - super_.heap_offset) / super_.geometry.segment_bytes;
  }
  std::uint64_t max_segments() const {
    return (super_.geometry.capacity_bytes - super_.heap_offset) / super_.geometry.segment_bytes;
  }
  /// Whether tables lie in that segment.
  bool holds_tables(std::uint64_t segment) const;
  /// Whether tables that lie in segments have any of the bytes.
  bool overlaps_tables(Offset offset, std::uint64_t bytes) const;
  Word* segment_word(std::uint64_t index) const {
    return word(super_.segment_table_offset + index * kWordBytes);
  }
  Backing& backing() const { return *backing_; }
  std::uint64_t range_bytes() const { return range_bytes_; }

  // ---- parts ------------------------------------------------------------------------------------
  /// Requires: [begin, end) is mapped, whole pages, beyond the capacity, and overlaps no other
  ///           part.
  void attach(const Part& part);
  /// Forgets the parts, or pieces of parts, inside [begin, end). Requires: no record names them.
  void detach(Offset begin, Offset end);
  /// Whether transactions and records may write [offset, offset + bytes) of a part.
  bool in_part(Offset offset, std::uint64_t bytes) const {
    const std::vector<Part>& parts = *parts_.load(std::memory_order_acquire);
    for (const Part& part : parts) {
      if (offset < part.begin) break;
      if (offset < part.end) return bytes <= part.end - offset;
    }
    return false;
  }
  /// The parts, sorted; the region's own file is none of them. Valid until the region is closed.
  const std::vector<Part>& parts() const { return *parts_.load(std::memory_order_acquire); }
  /// The region's own file as a part.
  Part own_file() const { return {0, room_bytes_, {fd_, durable_fd_}, 0}; }

  /// Adds `count` segments, whose table words become `fresh`. Pointers stay valid.
  ///
  ///   1. extend the file and sync it          crash here ⇒ the file is longer than the state says
  ///   2. seal the new segments' table words   crash here ⇒ words beyond the end, written again
  ///   3. publish grown_bytes                  crash here ⇒ all of it, or step 2's state
  ///
  /// Durable:  on return.
  /// Errors:   kNoSpace, kIo, kPoisoned; the region is unchanged.
  /// Threads:  any.
  template <Domain D>
  Result<void> grow(D& domain, std::uint64_t count, Word fresh) {
    const std::lock_guard lock(grow_mutex_);
    const std::uint64_t old_segments = segments();
    if (count > max_segments() - old_segments) return no_space(count);
    const std::uint64_t old_bytes = grown_bytes();
    const std::uint64_t new_bytes = old_bytes + count * super_.geometry.segment_bytes;
    if (auto extended = backing_->extend(old_bytes, new_bytes); !extended) return extended;
    for (std::uint64_t i = 0; i < count; ++i) domain.store(segment_word(old_segments + i), fresh);
    domain.flush(segment_word(old_segments), count * kWordBytes, Site::kGrow);
    // Orders: the new table words before the size that makes recovery read them; without it a crash
    // leaves a grown pool with unsealed segments, which is refused as corrupt.
    bool durable = domain.fence(Site::kGrowFence);
    domain.store(&state()->grown_bytes.word, seal(new_bytes, kSaltGrown));
    domain.flush(&state()->grown_bytes.word, kWordBytes, Site::kGrow);
    // Orders: the new size before any record that names an offset beyond the old one.
    durable = domain.fence(Site::kGrowFence) && durable;
    if (!durable)
      return Error{Code::kPoisoned, path_ + ": a sync failed while the pool grew; reopen the pool"};
    grown_bytes_.store(new_bytes, std::memory_order_release);
    return {};
  }

  // ---- files that are as they were left ---------------------------------------------------------
  // After a kill, what a process finds in a file may be in caches only, so recovery makes it durable
  // again. It need not where nothing has been changed since all was durable. That is said by one
  // word, which holds as long as the retired timestamp is what it was and the logs are empty. It is
  // written without waiting: after a power cut all that is found is durable, whatever it says.

  /// Whether nothing can be in caches only, if the logs are empty and `retired` is the retired
  /// timestamp. On memory the question does not arise, and the answer is no.
  bool unchanged_since(std::uint64_t retired) const;
  /// Requires: all is durable, the logs are empty.
  void say_unchanged(std::uint64_t retired);
  /// Called before the first change. False: the storage failed.
  [[nodiscard]] bool say_changed();

 private:
  Region();
  static Result<std::unique_ptr<Region>> open_live(const std::string& path,
                                                   const OpenOptions& options);
  Result<void> adopt(const FoundSuperblock& found, std::uint64_t file_bytes);
  Result<void> begin_sums();
  Error no_space(std::uint64_t count) const;

  std::string path_;
  bool persistent_memory_ = true;
  std::byte* base_ = nullptr;
  std::byte* home_ = nullptr;  // a second mapping; null: there is none
  std::uint64_t range_bytes_ = ~std::uint64_t{0};
  std::uint64_t room_bytes_ = 0;    // of the addresses from base() on
  std::uint64_t mapped_bytes_ = 0;  // zero when the caller keeps the memory
  int fd_ = -1;
  int owner_pid_ = 0;  // a forked child shares the descriptor's lock, but must not give it up
  int durable_fd_ = -1;
  DomainKind domain_ = DomainKind::kAuto;
  Superblock super_{};
  Offset superblock_at_ = 0;
  std::string superblock_damage_;
  std::unique_ptr<Onlookers> onlookers_;
  std::optional<MappedFile> mapped_;
  std::optional<MappedFile> mapped_home_;
  std::unique_ptr<LiveImage> live_;  // has the mapping, if there is one
  std::atomic<std::uint64_t> grown_bytes_{0};
  std::mutex grow_mutex_;
  std::unique_ptr<Backing> owned_backing_;
  Backing* backing_ = nullptr;
  std::unique_ptr<PageSums> sums_;
  std::chrono::steady_clock::time_point looked_for_quiet_at_;

  void publish_parts(std::vector<Part> parts);
  // Read on every store outside the heap, changed a few times in a process's life: readers take the
  // newest list, and the older ones stay as long as the region.
  std::mutex parts_mutex_;
  std::vector<std::unique_ptr<const std::vector<Part>>> all_parts_;
  std::atomic<const std::vector<Part>*> parts_{nullptr};
};

/// The files of a region as one device for the Sync domain.
class RegionDevice {
 public:
  explicit RegionDevice(const Region& region) : region_(&region) {}
  /// Called before several pieces are written, each with its begin and end.   False: the storage failed.
  template <class Pieces>
  bool expect(const Pieces& pieces) {
    if (region_->sums() == nullptr) return true;
    std::vector<PageSums::Range> ranges;
    for (const auto& piece : pieces) ranges.push_back({piece.begin, piece.end});
    return region_->sums()->open(ranges);
  }
  bool write(Offset offset, const void* data, std::size_t bytes);
  bool write_durable(Offset offset, const void* data, std::size_t bytes);
  bool sync();

 private:
  /// Calls `put(device, offset in it, data, bytes)` for each piece that lies in one file. What lies
  /// in none was unmapped since it was noted: nobody waits for it any more.
  template <class Put>
  bool for_each_piece(Offset offset, const void* data, std::size_t bytes, Put put);

  const Region* region_;
  std::vector<FileDevice> written_;  // since the last sync
};

}  // namespace perdure
