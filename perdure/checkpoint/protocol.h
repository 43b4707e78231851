// SPDX-License-Identifier: BSD-3-Clause
// ThyNVM's checkpointing protocol (MICRO 2015, sections 3 and 4): which version of each block and
// page lies where, where a store may go, and what a checkpoint has to copy, in which order. A pure
// state machine: it holds no data, knows no clock and does no I/O. Its user (the memory simulator,
// the prover) moves the bytes that it names. Arenas, whose pages have no bounded tables, share its
// thresholds (granularity.h).
//
// Three versions. The active epoch writes W; the epoch before it, `last`, is being checkpointed or
// has been; the one before that, `penultimate`, is what a crash falls back to until that checkpoint
// commits.
//
//   Area        memory  the paper's region (figure 4)
//   kHome       NVM     Home Region = Checkpoint Region B: a block's place by its own number
//   kSlot       NVM     Checkpoint Region A, for blocks
//   kPageSlot   NVM     Checkpoint Region A, for pages
//   kBuffer     DRAM    Working Data Region: blocks stored while a checkpoint runs
//   kPageCache  DRAM    Working Data Region: pages under page writeback
//
// A block is in one of seven states, which follow from where its last checkpoint (`last`) and its
// working copy (`work`) lie (`BlockState`); `visible` is what a load sees. A page of the PTT has
// its working copy in DRAM and its last checkpoint at home or in its slot; while it still is at
// home, entries of single blocks say where those that are not have theirs.
//
// The checkpoint of an epoch (figure 6b), each step after the one before:
//   1. end_epoch(): places are decided, tables frozen into an image; the next epoch runs from here
//      on.
//   2. the plan's blocks: from buffers to NVM.
//   3. the image's block table to NVM, into the backup that does not hold the penultimate epoch's.
//   4. the plan's pages: from DRAM to NVM; page_saved() after each.
//   5. the image's page table.
//   6. the write queue is drained: all that came before is on media.
//   7. one atomic write makes the backup complete; commit().
// A crash before 7 recovers the penultimate epoch, after it the last one; `Rules` says what that
// rests on.
//
// Differences from the published protocol, both because a checker finds a crash that mixes epochs
// (papers/thynvm/README.md): clean entries are replaced only between checkpoints, never exchanged
// during one; and a slot given up stays reserved until the next commit.
//
// Two additions of ours, off unless the geometry asks for them. `fill_while_running`: a page comes
// into DRAM while the epoch runs. Each of its blocks is where it was until it has arrived or has
// been stored to, which is then in the page; a page is whole before it is written back. Its blocks'
// entries may be replaced like any clean ones. `stay_until_wanted`: a page with few stores stays in
// DRAM until others want its place.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "perdure/checkpoint/image.h"

namespace perdure::checkpoint {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

enum class Area : std::uint8_t { kNowhere, kHome, kSlot, kPageSlot, kBuffer, kPageCache };

/// Where a version of a block or page lies. `index` counts blocks in kHome (pages, of a page),
/// kSlot and kBuffer, pages in kPageSlot and kPageCache.
struct Place {
  Area area = Area::kNowhere;
  std::uint32_t index = kNone;
  bool operator==(const Place&) const = default;
};

/// The seven states of the protocol, of a block that no page of the PTT covers; kLoan of one that
/// does.
enum class BlockState : std::uint8_t {
  kFree,       // last at home, no working copy: no entry
  kDirty,      // last at home, W in a slot
  kClean,      // last in a slot, no W
  kHidden,     // last in a slot, W at home
  kPreDirty,   // last at home, W in a buffer
  kPreHidden,  // last in a slot, W in a buffer
  kLoan,       // W in a buffer, because its page is being written back
};

/// What of the two schemes is used: both (the paper), or one alone (what the paper compares with).
enum class Scheme : std::uint8_t { kDual, kBlocksOnly, kPagesOnly };

struct Geometry {
  std::uint32_t block_entries = 2048;
  std::uint32_t page_entries = 4096;
  std::uint32_t block_slots = 2 * 2048;  // for each entry one, and one that waits for a commit
  std::uint32_t buffers = 2048;
  // Entries beyond the tables' sizes, for stores that may spill; the blocks' need two slots each.
  // An epoch may spill half of spill_entries: the other half may still belong to blocks of new
  // pages.
  std::uint32_t spill_entries = 0, spill_pages = 0;
  std::uint32_t blocks_per_page = 64;
  std::uint32_t memory_blocks = 1 << 26;  // 4 GiB of 64-byte blocks
  std::uint32_t to_pages = 22;   // more stores in an epoch: the page goes under page writeback
  std::uint32_t to_blocks = 16;  // fewer: back to block remapping
  Scheme scheme = Scheme::kDual;
  // Of both schemes together: see above. Pages of at most 64 blocks.
  bool fill_while_running = false;
  bool stay_until_wanted = false;

  /// The fields of figure 5, in bits: index, version, visible region, checkpoint region, store
  /// counter.
  static constexpr std::uint32_t kBlockEntryBits = 42 + 2 + 2 + 1 + 6;
  static constexpr std::uint32_t kPageEntryBits = 36 + 2 + 2 + 1 + 6;
  static constexpr std::uint32_t kMostStores = 63;  // six bits, saturating

  /// Bytes of both tables in the memory controller.
  double table_bytes() const {
    return (double{kBlockEntryBits} * block_entries + double{kPageEntryBits} * page_entries) / 8;
  }
};

/// The rules on which crash consistency relies. The prover leaves out each of them and must find
/// the crash that then mixes epochs; nothing else ever sets one to false.
struct Rules {
  /// While a checkpoint runs, stores to blocks go to DRAM: the penultimate epoch still needs its
  /// places.
  bool buffer_while_checkpointing = true;
  /// A slot that the newest complete backup names is not given out before the next commit.
  bool keep_given_up_slots = true;
  /// Clean entries are replaced only while no checkpoint runs.
  bool replace_only_between_checkpoints = true;
  /// A page is not stored to while it is written back.
  bool freeze_pages = true;
  /// A page is written back to the one of its two places that its last checkpoint is not in.
  bool alternate_page_places = true;
  /// The entries of a page's blocks stay until the page itself has been checkpointed.
  bool keep_blocks_of_new_pages = true;
  /// A page that leaves the PTT stays until the commit of the checkpoint that brings it home.
  bool keep_leaving_pages = true;
  /// Blocks on loan return to their page before it is written back.
  bool return_loans = true;
  /// A block with its last checkpoint in a slot is stored to at home, never in that slot.
  bool alternate_block_places = true;
  /// A block that has not arrived in its new page is looked for where it was.
  bool look_where_blocks_are = true;
  /// What is on its way into a page when an epoch ends is dropped: the page may leave, and come
  /// again.
  bool drop_fills_at_epoch_end = true;
  /// A page is whole before it is written back.
  bool complete_pages_before_saving = true;
};

enum class CopyCause : std::uint8_t { kCheckpoint, kMigration, kReplacement };

/// One block, or one page, to be copied.
struct Copy {
  std::uint32_t number = 0;  // of the block, or of the page
  bool page = false;
  CopyCause cause = CopyCause::kCheckpoint;
  Place from, to;
};

enum class Verdict : std::uint8_t {
  kStore,     // to `place`
  kWait,      // nowhere to go until the running checkpoint has got further: try again then
  kEndEpoch,  // tables are full: end the epoch, then try again
};

struct StoreTo {
  Verdict verdict = Verdict::kStore;
  Place place;
};

/// What a checkpoint copies.
struct Plan {
  std::vector<Copy> merges;    // at once, within DRAM: loans to their pages
  std::vector<Copy> fills;     // at once: blocks of new pages into DRAM
  std::vector<Copy> blocks;    // step 2
  std::vector<Copy> pages;     // step 4
  std::uint32_t promoted = 0;  // pages that are under page writeback from now on
};

class Protocol {
 public:
  /// All data at home, nothing tracked, epoch 1 running: epoch 0 is what is at home.
  explicit Protocol(const Geometry& geometry, const Rules& rules = {});
  /// After a crash: runs the epoch after the image's. The caller fills kPageCache from kPageSlot,
  /// for each page of the image. Requires: an image that
  /// Image::read() accepted for this geometry.
  Protocol(const Geometry& geometry, const Image& image, const Rules& rules = {});

  const Geometry& geometry() const { return geometry_; }
  std::uint64_t epoch() const { return epoch_; }  // the one that runs
  bool checkpointing() const { return checkpointing_; }
  bool page_tracked(std::uint32_t page) const { return page_entry_of(page) != kNone; }

  /// Where a load finds the block.
  Place visible(std::uint32_t block) const;

  /// Where a store to the block goes. With `may_spill` (the flush of caches at an epoch's end,
  /// which cannot end epochs) the block table may grow beyond its size, as a table kept in DRAM
  /// may.
  StoreTo store(std::uint32_t block, bool may_spill = false);
  /// The copies that the last store() wants done, before the store, and also when there is none.
  const std::vector<Copy>& moves() const { return moves_; }

  /// Ends the epoch and begins its checkpoint: step 1. Requires: !checkpointing().
  const Plan& end_epoch();
  const Plan& plan() const { return plan_; }
  /// Tables as of the newest ended epoch.
  const Image& image() const { return image_; }
  /// The plan's page of this place has been copied: it may be stored to again.
  void page_saved(std::size_t place);
  /// The checkpoint is complete on media. Requires: checkpointing().
  void commit();

  /// With fill_while_running: the blocks that one page lacks, which are to be read now; none: no page
  /// lacks any. Requires: no fill is under way.
  const std::vector<Copy>& begin_fill();
  const std::vector<Copy>& fill_under_way() const { return filling_; }
  /// They have been read: returns those that are to be written to their page, and in which loads
  /// then find them.
  const std::vector<Copy>& end_fill();

  /// Where a block of a tracked page would be found if the page left without being written, as one
  /// may that was not stored to and has no checkpoint of its own; nowhere: it may not.
  Place after_leaving(std::uint32_t block) const;

  BlockState state(std::uint32_t block) const;
  std::uint32_t blocks_tracked() const { return blocks_tracked_; }
  std::uint32_t pages_tracked() const { return pages_tracked_; }
  std::uint64_t spilled() const { return spilled_; }

  /// The first broken invariant in words; empty when all hold. For tests: looks at everything.
  std::string broken_invariant() const;
  /// The state that decides what this machine does next, except the number of the epoch: equal
  /// states have equal futures.
  void append_state(std::vector<std::uint32_t>& to) const;

 private:
  // A set of free indices that gives out the lowest.
  class Pool {
   public:
    explicit Pool(std::uint32_t size);
    std::uint32_t take();  // kNone when empty
    void take_this(std::uint32_t index);
    void give(std::uint32_t index);
    bool has(std::uint32_t index) const;
    std::uint32_t free() const { return free_; }

   private:
    std::vector<std::uint64_t> words_;  // a set bit: free
    std::uint32_t first_ = 0;           // no free one in words before this
    std::uint32_t free_;
  };
  // From block or page numbers to entries; grows with the highest number seen.
  class Index {
   public:
    std::uint32_t of(std::uint32_t number) const {
      return number < entries_.size() ? entries_[number] : kNone;
    }
    void set(std::uint32_t number, std::uint32_t entry);

   private:
    std::vector<std::uint32_t> entries_;
  };
  struct BlockEntry {
    std::uint32_t block = kNone;     // kNone: unused
    std::uint32_t last = kNone;      // slot of the last checkpoint; kNone: at home
    Place work;                      // of the active epoch
    std::uint32_t draining = kNone;  // buffer whose block the running checkpoint copies
    std::uint32_t stores = 0;
  };
  struct PageEntry {
    std::uint32_t page = kNone;
    bool in_slot = false;  // where its last checkpoint lies; else at home, or in its blocks' slots
    bool dirty = false;
    bool frozen = false;
    bool leaving = false;
    std::uint32_t stores = 0;
    std::uint64_t missing = 0;  // a bit for each of its blocks that is not there yet
  };

  std::uint32_t block_entry_of(std::uint32_t block) const { return block_index_.of(block); }
  std::uint32_t page_entry_of(std::uint32_t page) const { return page_index_.of(page); }
  std::uint32_t page_of(std::uint32_t block) const { return block / geometry_.blocks_per_page; }

  StoreTo store_to_page(std::uint32_t block, std::uint32_t page_entry);
  StoreTo store_to_buffer(std::uint32_t block, std::uint32_t entry);
  StoreTo store_in_place(std::uint32_t block, std::uint32_t entry, bool may_spill);
  StoreTo wait_or_end() const;
  void replace_clean_entries();
  std::uint32_t add_block(std::uint32_t block, bool may_spill);
  void drop_block(std::uint32_t entry);
  std::uint32_t add_page(std::uint32_t page, bool may_spill);
  void drop_page(std::uint32_t entry);
  void give_up_slot(std::uint32_t slot);
  void leave_buffer(BlockEntry& entry);
  // Slots that buffers will need at the epoch's end: not for others.
  bool slot_to_spare() const { return slots_.free() > promised_slots_; }

  void return_loans();
  void end_of_block(std::uint32_t entry);
  void end_of_page(std::uint32_t entry);
  void count_stores_of_pages();
  void promote(std::uint32_t page);
  void choose_leaving_pages();
  void complete(std::uint32_t entry);
  bool is_missing(std::uint32_t page_entry, std::uint32_t block) const {
    return (pages_[page_entry].missing >> block % geometry_.blocks_per_page & 1) != 0;
  }
  void arrived(std::uint32_t page_entry, std::uint32_t block);
  Place place_of_last(std::uint32_t block) const;
  void freeze_image();
  bool is_clean(const BlockEntry& entry) const;
  void find_clean();

  Geometry geometry_;
  Rules rules_;
  std::uint64_t epoch_ = 1;
  bool checkpointing_ = false;

  std::vector<BlockEntry> blocks_;
  std::vector<PageEntry> pages_;
  Index block_index_, page_index_;
  Pool block_pool_, page_pool_, slots_, buffers_;
  std::vector<std::uint32_t> given_up_slots_;  // free after the next commit
  std::uint32_t blocks_tracked_ = 0, pages_tracked_ = 0;
  std::uint32_t promised_slots_ = 0;
  std::uint32_t entries_kept_ = 0;  // of blocks of pages that the last end of an epoch promoted
  std::vector<std::uint32_t>
      clean_;  // entries that were clean when the last checkpoint ended, or began
  std::uint64_t spilled_ = 0;
  std::uint32_t pages_lacking_ = 0;  // with missing blocks
  std::uint32_t leaves_next_ = 0;    // page entry that is asked first whether it leaves
  std::vector<Copy> filling_;        // on their way into a page
  std::vector<Copy> filled_;         // by the last end_fill()

  std::vector<Copy> moves_;
  Plan plan_;
  Image image_;
  // Scratch: pages and their stores; pages with more stores than to_pages.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> stores_of_pages_;
  std::vector<std::uint32_t> dense_;
  std::vector<bool> leaves_;  // by page entry: at this epoch's end
};

}  // namespace perdure::checkpoint
