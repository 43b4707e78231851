// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/protocol.h"

#include <algorithm>
#include <bit>

namespace perdure::checkpoint {

// ---- Sets of free places, and the way from numbers to entries -----------------------------------

Protocol::Pool::Pool(std::uint32_t size)
    : words_((size + 63) / 64, ~std::uint64_t{0}), free_(size) {
  if (size % 64 != 0) words_.back() = (std::uint64_t{1} << size % 64) - 1;
}

std::uint32_t Protocol::Pool::take() {
  if (free_ == 0) return kNone;
  while (words_[first_] == 0) ++first_;
  const auto index = first_ * 64 + std::uint32_t(std::countr_zero(words_[first_]));
  take_this(index);
  return index;
}

void Protocol::Pool::take_this(std::uint32_t index) {
  words_[index / 64] &= ~(std::uint64_t{1} << index % 64);
  --free_;
}

void Protocol::Pool::give(std::uint32_t index) {
  words_[index / 64] |= std::uint64_t{1} << index % 64;
  first_ = std::min(first_, index / 64);
  ++free_;
}

bool Protocol::Pool::has(std::uint32_t index) const {
  return (words_[index / 64] >> index % 64 & 1) != 0;
}

void Protocol::Index::set(std::uint32_t number, std::uint32_t entry) {
  if (number >= entries_.size()) {
    if (entry == kNone) return;
    entries_.resize(std::bit_ceil(std::size_t{number} + 1), kNone);
  }
  entries_[number] = entry;
}

// ---- Beginning ----------------------------------------------------------------------------------

Protocol::Protocol(const Geometry& geometry, const Rules& rules)
    : geometry_(geometry),
      rules_(rules),
      blocks_(geometry.block_entries + geometry.spill_entries),
      pages_(geometry.page_entries + geometry.spill_pages),
      block_pool_(geometry.block_entries + geometry.spill_entries),
      page_pool_(geometry.page_entries + geometry.spill_pages),
      slots_(geometry.block_slots),
      buffers_(geometry.buffers) {}

Protocol::Protocol(const Geometry& geometry, const Image& image, const Rules& rules)
    : Protocol(geometry, rules) {
  epoch_ = image.epoch + 1;
  image_ = image;
  for (const BlockAt& at : image.blocks) {
    const std::uint32_t entry = add_block(at.block, true);
    blocks_[entry].last = at.slot;
    slots_.take_this(at.slot);
  }
  for (const PageAt& at : image.pages) {
    page_pool_.take_this(at.slot);
    ++pages_tracked_;
    pages_[at.slot].page = at.page;
    pages_[at.slot].in_slot = true;
    page_index_.set(at.page, at.slot);
  }
  find_clean();
}

// ---- Loads --------------------------------------------------------------------------------------

Place Protocol::visible(std::uint32_t block) const {
  const std::uint32_t page = page_entry_of(page_of(block));
  const std::uint32_t at = block_entry_of(block);
  if (page != kNone) {
    if (at != kNone && blocks_[at].work.area == Area::kBuffer) return blocks_[at].work;
    if (is_missing(page, block) && rules_.look_where_blocks_are) return place_of_last(block);
    return {Area::kPageCache, page};
  }
  if (at != kNone && blocks_[at].work.area != Area::kNowhere) return blocks_[at].work;
  return place_of_last(block);
}

Place Protocol::place_of_last(std::uint32_t block) const {
  const std::uint32_t at = block_entry_of(block);
  if (at == kNone) return {Area::kHome, block};
  const BlockEntry& entry = blocks_[at];
  if (entry.draining != kNone) return {Area::kBuffer, entry.draining};
  if (entry.last != kNone) return {Area::kSlot, entry.last};
  return {Area::kHome, block};
}

BlockState Protocol::state(std::uint32_t block) const {
  const std::uint32_t at = block_entry_of(block);
  if (at == kNone) return BlockState::kFree;
  const BlockEntry& entry = blocks_[at];
  const bool in_slot = entry.last != kNone;
  switch (entry.work.area) {
    case Area::kSlot: return BlockState::kDirty;
    case Area::kHome: return BlockState::kHidden;
    case Area::kBuffer:
      if (page_tracked(page_of(block))) return BlockState::kLoan;
      return in_slot ? BlockState::kPreHidden : BlockState::kPreDirty;
    default: return in_slot ? BlockState::kClean : BlockState::kFree;
  }
}

// ---- Stores -------------------------------------------------------------------------------------

StoreTo Protocol::store(std::uint32_t block, bool may_spill) {
  moves_.clear();
  const std::uint32_t page = page_of(block);
  std::uint32_t page_entry = page_entry_of(page);
  if (page_entry == kNone && geometry_.scheme == Scheme::kPagesOnly) {
    // No blocks are tracked in this scheme: the whole page is at home.
    page_entry = add_page(page, may_spill);
    if (page_entry == kNone) return wait_or_end();
    moves_.push_back(
        {page, true, CopyCause::kMigration, {Area::kHome, page}, {Area::kPageCache, page_entry}});
  }
  if (page_entry != kNone) return store_to_page(block, page_entry);
  const std::uint32_t entry = block_entry_of(block);
  if (checkpointing_ && rules_.buffer_while_checkpointing) return store_to_buffer(block, entry);
  return store_in_place(block, entry, may_spill);
}

StoreTo Protocol::store_to_page(std::uint32_t block, std::uint32_t page_entry) {
  PageEntry& page = pages_[page_entry];
  const std::uint32_t at = block_entry_of(block);
  if (page.frozen && rules_.freeze_pages) {
    if (geometry_.scheme == Scheme::kPagesOnly) return {Verdict::kWait, {}};
    const StoreTo to = store_to_buffer(block, at);
    if (to.verdict == Verdict::kStore)
      page.stores = std::min(page.stores + 1, Geometry::kMostStores);
    return to;
  }
  if (at != kNone && blocks_[at].work.area == Area::kBuffer) {  // a loan comes back
    leave_buffer(blocks_[at]);
    if (blocks_[at].last == kNone && blocks_[at].draining == kNone) drop_block(at);
  }
  arrived(page_entry, block);
  page.dirty = true;
  page.stores = std::min(page.stores + 1, Geometry::kMostStores);
  return {Verdict::kStore, {Area::kPageCache, page_entry}};
}

StoreTo Protocol::store_to_buffer(std::uint32_t block, std::uint32_t at) {
  if (at == kNone || blocks_[at].work.area != Area::kBuffer) {
    if (buffers_.free() == 0) return wait_or_end();
    if (at == kNone) at = add_block(block, false);
    if (at == kNone && !rules_.replace_only_between_checkpoints) {
      replace_clean_entries();
      at = add_block(block, false);
    }
    if (at == kNone) return wait_or_end();
    blocks_[at].work = {Area::kBuffer, buffers_.take()};
    if (blocks_[at].last == kNone) ++promised_slots_;
  }
  BlockEntry& entry = blocks_[at];
  entry.stores = std::min(entry.stores + 1, Geometry::kMostStores);
  return {Verdict::kStore, entry.work};
}

StoreTo Protocol::store_in_place(std::uint32_t block, std::uint32_t at, bool may_spill) {
  if (at == kNone) {
    if (!slot_to_spare()) return wait_or_end();
    at = add_block(block, may_spill);
    if (at == kNone) {
      replace_clean_entries();  // perhaps fewer than it takes to get back to the table's size
      at = add_block(block, may_spill);
    }
    if (at == kNone) return wait_or_end();
  }
  BlockEntry& entry = blocks_[at];
  // No checkpoint forbids NVM any more; the slot that was promised to the buffer is there.
  if (entry.work.area == Area::kBuffer) leave_buffer(entry);
  if (entry.work.area == Area::kNowhere) {
    if (entry.last == kNone) {
      if (!slot_to_spare()) return wait_or_end();
      entry.work = {Area::kSlot, slots_.take()};
    } else if (rules_.alternate_block_places) {
      entry.work = {Area::kHome, block};
    } else {
      entry.work = {Area::kSlot, entry.last};
    }
  }
  entry.stores = std::min(entry.stores + 1, Geometry::kMostStores);
  return {Verdict::kStore, entry.work};
}

StoreTo Protocol::wait_or_end() const {
  return {checkpointing_ ? Verdict::kWait : Verdict::kEndEpoch, {}};
}

// A clean block goes home, its entry goes to another: more than one after a spill. Its slot is what
// a crash still reads until the next commit, so that one block may have been copied in part.
void Protocol::replace_clean_entries() {
  while (blocks_tracked_ >= geometry_.block_entries) {
    std::uint32_t at = 0;
    do {
      if (clean_.empty()) return;
      at = clean_.back();
      clean_.pop_back();
    } while (!is_clean(blocks_[at]));
    const BlockEntry& entry = blocks_[at];
    moves_.push_back({entry.block,
                      false,
                      CopyCause::kReplacement,
                      {Area::kSlot, entry.last},
                      {Area::kHome, entry.block}});
    give_up_slot(entry.last);
    drop_block(at);
  }
}

bool Protocol::is_clean(const BlockEntry& entry) const {
  return entry.block != kNone && entry.last != kNone && entry.work.area == Area::kNowhere &&
         entry.draining == kNone &&
         (geometry_.fill_while_running || !page_tracked(page_of(entry.block)));
}

// No entry becomes clean between two of these, so that none is overlooked.
void Protocol::find_clean() {
  clean_.clear();
  for (auto at = std::uint32_t(blocks_.size()); at-- > 0;)
    if (is_clean(blocks_[at])) clean_.push_back(at);
}

// ---- Entries ------------------------------------------------------------------------------------

std::uint32_t Protocol::add_block(std::uint32_t block, bool may_spill) {
  const bool spills = blocks_tracked_ >= geometry_.block_entries;
  if (spills && !may_spill) return kNone;
  const std::uint32_t at = block_pool_.take();
  if (at == kNone) return kNone;
  spilled_ += spills ? 1 : 0;
  ++blocks_tracked_;
  blocks_[at] = {};
  blocks_[at].block = block;
  block_index_.set(block, at);
  return at;
}

void Protocol::drop_block(std::uint32_t at) {
  block_index_.set(blocks_[at].block, kNone);
  blocks_[at] = {};
  block_pool_.give(at);
  --blocks_tracked_;
}

std::uint32_t Protocol::add_page(std::uint32_t page, bool may_spill) {
  const bool spills = pages_tracked_ >= geometry_.page_entries;
  if (spills && !may_spill) return kNone;
  const std::uint32_t at = page_pool_.take();
  if (at == kNone) return kNone;
  spilled_ += spills ? 1 : 0;
  ++pages_tracked_;
  pages_[at] = {};
  pages_[at].page = page;
  page_index_.set(page, at);
  return at;
}

void Protocol::drop_page(std::uint32_t at) {
  pages_lacking_ -= pages_[at].missing != 0 ? 1 : 0;
  page_index_.set(pages_[at].page, kNone);
  pages_[at] = {};
  page_pool_.give(at);
  --pages_tracked_;
}

void Protocol::give_up_slot(std::uint32_t slot) {
  if (rules_.keep_given_up_slots) {
    given_up_slots_.push_back(slot);
  } else {
    slots_.give(slot);
  }
}

void Protocol::leave_buffer(BlockEntry& entry) {
  buffers_.give(entry.work.index);
  entry.work = {};
  if (entry.last == kNone) --promised_slots_;
}

// ---- The end of an epoch ------------------------------------------------------------------------

const Plan& Protocol::end_epoch() {
  plan_.merges.clear();
  plan_.fills.clear();
  plan_.blocks.clear();
  plan_.pages.clear();
  plan_.promoted = 0;
  if (rules_.drop_fills_at_epoch_end) filling_.clear();
  if (rules_.return_loans) return_loans();
  count_stores_of_pages();
  for (std::uint32_t at = 0; at < blocks_.size(); ++at)
    if (blocks_[at].block != kNone) end_of_block(at);
  choose_leaving_pages();
  for (std::uint32_t at = 0; at < pages_.size(); ++at)
    if (pages_[at].page != kNone) end_of_page(at);
  entries_kept_ = 0;
  for (const std::uint32_t page : dense_) promote(page);
  freeze_image();
  find_clean();
  ++epoch_;
  checkpointing_ = true;
  return plan_;
}

void Protocol::return_loans() {
  for (std::uint32_t at = 0; at < blocks_.size(); ++at) {
    BlockEntry& entry = blocks_[at];
    if (entry.block == kNone || entry.work.area != Area::kBuffer) continue;
    const std::uint32_t page = page_entry_of(page_of(entry.block));
    if (page == kNone) continue;
    plan_.merges.push_back(
        {entry.block, false, CopyCause::kCheckpoint, entry.work, {Area::kPageCache, page}});
    pages_[page].dirty = true;
    leave_buffer(entry);
    if (entry.last == kNone) drop_block(at);
  }
}

// Fills dense_ with the pages under block remapping that had more than `to_pages` stores.
void Protocol::count_stores_of_pages() {
  dense_.clear();
  if (geometry_.scheme != Scheme::kDual) return;
  stores_of_pages_.clear();
  for (const BlockEntry& entry : blocks_)
    if (entry.block != kNone && entry.stores != 0 && !page_tracked(page_of(entry.block)))
      stores_of_pages_.emplace_back(page_of(entry.block), entry.stores);
  std::ranges::sort(stores_of_pages_);
  for (std::size_t i = 0; i < stores_of_pages_.size();) {
    const std::uint32_t page = stores_of_pages_[i].first;
    std::uint32_t stores = 0;
    for (; i < stores_of_pages_.size() && stores_of_pages_[i].first == page; ++i)
      stores += stores_of_pages_[i].second;
    if (stores > geometry_.to_pages) dense_.push_back(page);
  }
}

void Protocol::end_of_block(std::uint32_t at) {
  BlockEntry& entry = blocks_[at];
  entry.stores = 0;
  const Place work = entry.work;
  switch (work.area) {
    case Area::kSlot:  // already where it will be found: only the table is to be saved
      entry.last = work.index;
      entry.work = {};
      break;
    case Area::kHome:
      give_up_slot(entry.last);
      drop_block(at);
      break;
    case Area::kBuffer: {
      Place to = {Area::kHome, entry.block};
      if (entry.last == kNone) {
        --promised_slots_;
        to = {Area::kSlot, slots_.take()};
        entry.last = to.index;
      } else {
        give_up_slot(entry.last);
        entry.last = kNone;
      }
      plan_.blocks.push_back({entry.block, false, CopyCause::kCheckpoint, work, to});
      entry.draining = work.index;
      entry.work = {};
      break;
    }
    default: break;
  }
}

void Protocol::freeze_image() {
  image_.epoch = epoch_;
  image_.blocks.clear();
  image_.pages.clear();
  for (const BlockEntry& entry : blocks_)
    if (entry.block != kNone && entry.last != kNone)
      image_.blocks.push_back({entry.block, entry.last});
  for (std::uint32_t at = 0; at < pages_.size(); ++at)
    if (pages_[at].page != kNone && pages_[at].in_slot)
      image_.pages.push_back({pages_[at].page, at});
}

void Protocol::page_saved(std::size_t place) {
  const std::uint32_t at = page_entry_of(plan_.pages[place].number);
  if (at != kNone && !pages_[at].leaving) pages_[at].frozen = false;
}

void Protocol::commit() {
  checkpointing_ = false;
  for (const std::uint32_t slot : given_up_slots_) slots_.give(slot);
  given_up_slots_.clear();
  for (std::uint32_t at = 0; at < blocks_.size(); ++at) {
    BlockEntry& entry = blocks_[at];
    if (entry.block == kNone || entry.draining == kNone) continue;
    buffers_.give(entry.draining);
    entry.draining = kNone;
    if (entry.last == kNone && entry.work.area == Area::kNowhere) drop_block(at);
  }
  for (std::uint32_t at = 0; at < pages_.size(); ++at) {
    if (pages_[at].page == kNone) continue;
    pages_[at].frozen = false;
    if (pages_[at].leaving) drop_page(at);
  }
  find_clean();
}

// ---- For tests ----------------------------------------------------------------------------------

std::string Protocol::broken_invariant() const {
  std::uint32_t blocks = 0, pages = 0, promised = 0, lacking = 0;
  std::vector<int> slot_users(geometry_.block_slots, 0), buffer_users(geometry_.buffers, 0);
  for (const BlockEntry& entry : blocks_) {
    if (entry.block == kNone) continue;
    ++blocks;
    const bool covered = page_tracked(page_of(entry.block));
    if (block_index_.of(entry.block) >= blocks_.size() ||
        &blocks_[block_index_.of(entry.block)] != &entry)
      return "an entry is not found by its block";
    if (entry.last == kNone && entry.work.area == Area::kNowhere && entry.draining == kNone)
      return "an entry holds nothing";
    if (entry.last != kNone) ++slot_users[entry.last];
    if (entry.work.area == Area::kSlot && entry.work.index != entry.last)
      ++slot_users[entry.work.index];
    if (entry.work.area == Area::kBuffer) {
      ++buffer_users[entry.work.index];
      promised += entry.last == kNone ? 1 : 0;
    }
    if (entry.draining != kNone) {
      ++buffer_users[entry.draining];
      if (!checkpointing_) return "a block is copied while no checkpoint runs";
    }
    if (checkpointing_ && (entry.work.area == Area::kSlot || entry.work.area == Area::kHome))
      return "a block is dirty or hidden while a checkpoint runs";
    if (covered && (entry.work.area == Area::kSlot || entry.work.area == Area::kHome))
      return "a block of a tracked page has its working copy in NVM";
    if (entry.work.area == Area::kSlot && entry.last != kNone)
      return "a block is stored to beside its last checkpoint";
  }
  for (const std::uint32_t slot : given_up_slots_) ++slot_users[slot];
  for (std::uint32_t slot = 0; slot < geometry_.block_slots; ++slot)
    if (slot_users[slot] + (slots_.has(slot) ? 1 : 0) != 1) return "a slot has no owner, or two";
  for (std::uint32_t buffer = 0; buffer < geometry_.buffers; ++buffer)
    if (buffer_users[buffer] + (buffers_.has(buffer) ? 1 : 0) != 1)
      return "a buffer has no owner, or two";
  for (const PageEntry& page : pages_) {
    if (page.page == kNone) continue;
    ++pages;
    if (page.frozen && !checkpointing_) return "a page is frozen while no checkpoint runs";
    if (page.leaving && !page.frozen) return "a leaving page can be stored to";
    if (page.missing != 0 && (page.frozen || page.in_slot))
      return "a page was written back before it was whole";
    lacking += page.missing != 0 ? 1 : 0;
  }
  if (lacking != pages_lacking_) return "pages that lack blocks were counted wrongly";
  if (blocks != blocks_tracked_ || pages != pages_tracked_) return "entries were counted wrongly";
  if (blocks > geometry_.block_entries + geometry_.spill_entries)
    return "more entries than the table has";
  if (promised != promised_slots_) return "promised slots were counted wrongly";
  if (!checkpointing_ && slots_.free() < promised_slots_)
    return "slots were promised that are not there";
  return {};
}

void Protocol::append_state(std::vector<std::uint32_t>& to) const {
  // Beyond the thresholds all counts decide alike.
  const std::uint32_t most = std::max(geometry_.to_pages + 1, geometry_.to_blocks);
  to.push_back(checkpointing_ ? 1 : 0);
  for (const BlockEntry& entry : blocks_) {
    to.insert(to.end(), {entry.block, entry.last, std::uint32_t(entry.work.area), entry.work.index,
                         entry.draining, std::min(entry.stores, most)});
  }
  for (const PageEntry& page : pages_) {
    to.insert(to.end(), {page.page,
                         std::uint32_t(page.in_slot) | std::uint32_t(page.dirty) << 1 |
                             std::uint32_t(page.frozen) << 2 | std::uint32_t(page.leaving) << 3,
                         std::min(page.stores, most)});
    if (!geometry_.fill_while_running) continue;
    to.insert(to.end(), {std::uint32_t(page.missing), std::uint32_t(page.missing >> 32)});
  }
  to.push_back(leaves_next_);
  for (const Copy& copy : filling_)
    to.insert(to.end(),
              {copy.number, std::uint32_t(copy.from.area), copy.from.index, copy.to.index});
  to.push_back(kNone);
  std::vector<std::uint32_t> given_up = given_up_slots_;
  std::ranges::sort(given_up);
  to.insert(to.end(), given_up.begin(), given_up.end());
  to.push_back(kNone);
  if (!checkpointing_) return;
  for (const std::vector<Copy>* copies : {&plan_.blocks, &plan_.pages}) {
    for (const Copy& copy : *copies)
      to.insert(to.end(), {copy.number, std::uint32_t(copy.to.area), copy.to.index});
    to.push_back(kNone);
  }
}

}  // namespace perdure::checkpoint
