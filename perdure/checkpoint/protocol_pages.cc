// SPDX-License-Identifier: BSD-3-Clause
// What the protocol does with whole pages: at an epoch's end, and while they come into DRAM.
#include <algorithm>

#include "perdure/checkpoint/protocol.h"

namespace perdure::checkpoint {

// ---- The end of an epoch ------------------------------------------------------------------------

// A page leaves when an epoch stored little to it; with stay_until_wanted only as many as others
// want the places of, and of those that can leave by this checkpoint: its last one is in its slot,
// from where it goes home, or it was not stored to.
void Protocol::choose_leaving_pages() {
  leaves_.assign(pages_.size(), false);
  if (!geometry_.stay_until_wanted) {
    for (std::uint32_t at = 0; at < pages_.size(); ++at)
      leaves_[at] = pages_[at].stores < geometry_.to_blocks;
    return;
  }
  // Places are free after the commit only: some are kept so for what the next epoch brings.
  const std::size_t wanted = dense_.size() + geometry_.page_entries / 16;
  std::size_t free = geometry_.page_entries - std::min(pages_tracked_, geometry_.page_entries);
  for (std::uint32_t asked = 0; asked < pages_.size() && free < wanted; ++asked) {
    const std::uint32_t at = leaves_next_;
    const PageEntry& page = pages_[at];
    leaves_next_ = std::uint32_t((leaves_next_ + 1) % pages_.size());
    if (page.page == kNone || page.stores >= geometry_.to_blocks) continue;
    if (page.dirty && !page.in_slot) continue;
    leaves_[at] = true;
    ++free;
  }
}

void Protocol::end_of_page(std::uint32_t at) {
  PageEntry& page = pages_[at];
  const bool leaves = leaves_[at];
  page.stores = 0;
  if (!page.dirty && !(leaves && page.in_slot)) {
    if (leaves) drop_page(at);  // its last checkpoint is at home, or in its blocks' slots
    return;
  }
  complete(at);
  const bool to_home = page.in_slot == rules_.alternate_page_places;
  const Place to = to_home ? Place{Area::kHome, page.page} : Place{Area::kPageSlot, at};
  plan_.pages.push_back({page.page,
                         true,
                         page.dirty ? CopyCause::kCheckpoint : CopyCause::kMigration,
                         {Area::kPageCache, at},
                         to});
  page.in_slot = !to_home;
  page.dirty = false;
  page.frozen = true;
  page.leaving = leaves && to_home;
  if (page.in_slot) {  // the page's own checkpoint takes the place of its blocks'
    const std::uint32_t begin = page.page * geometry_.blocks_per_page;
    for (std::uint32_t block = begin; block < begin + geometry_.blocks_per_page; ++block) {
      const std::uint32_t entry = block_entry_of(block);
      if (entry == kNone || blocks_[entry].last == kNone) continue;
      give_up_slot(blocks_[entry].last);
      blocks_[entry].last = kNone;
      if (blocks_[entry].work.area == Area::kNowhere && blocks_[entry].draining == kNone)
        drop_block(entry);
    }
  }
  if (page.leaving && !rules_.keep_leaving_pages) drop_page(at);
}

// Under page writeback from now on. Its last checkpoint is where its blocks are, until its own
// first one.
void Protocol::promote(std::uint32_t page) {
  if (pages_tracked_ >= geometry_.page_entries) return;
  const std::uint32_t begin = page * geometry_.blocks_per_page;
  // Its blocks keep their entries meanwhile, and nothing can replace those: they must leave half of
  // the spill to the next epoch's end.
  std::uint32_t entries = 0;
  for (std::uint32_t block = begin; block < begin + geometry_.blocks_per_page; ++block)
    entries += block_entry_of(block) != kNone ? 1 : 0;
  if (entries_kept_ + entries > geometry_.block_entries + geometry_.spill_entries / 2) return;
  entries_kept_ += entries;
  const std::uint32_t at = add_page(page, false);
  ++plan_.promoted;
  ++pages_lacking_;
  pages_[at].missing = ~std::uint64_t{0} >> (64 - geometry_.blocks_per_page);
  if (!geometry_.fill_while_running) complete(at);
  if (rules_.keep_blocks_of_new_pages) return;
  for (std::uint32_t block = begin; block < begin + geometry_.blocks_per_page; ++block) {
    const std::uint32_t entry = block_entry_of(block);
    if (entry == kNone || blocks_[entry].draining != kNone) continue;
    give_up_slot(blocks_[entry].last);
    drop_block(entry);
  }
}

Place Protocol::after_leaving(std::uint32_t block) const {
  const std::uint32_t at = page_entry_of(page_of(block));
  if (at == kNone || pages_[at].dirty || pages_[at].in_slot) return {};
  return place_of_last(block);
}

// ---- Pages that come into DRAM ------------------------------------------------------------------

void Protocol::arrived(std::uint32_t page_entry, std::uint32_t block) {
  if (!is_missing(page_entry, block)) return;
  std::uint64_t& missing = pages_[page_entry].missing;
  missing &= ~(std::uint64_t{1} << block % geometry_.blocks_per_page);
  if (missing == 0) --pages_lacking_;
}

// What the page lacks comes at once.
void Protocol::complete(std::uint32_t at) {
  PageEntry& page = pages_[at];
  if (page.missing == 0) return;
  const bool copies = !geometry_.fill_while_running || rules_.complete_pages_before_saving;
  const std::uint32_t begin = page.page * geometry_.blocks_per_page;
  for (std::uint32_t block = begin; block < begin + geometry_.blocks_per_page; ++block)
    if (is_missing(at, block) && copies)
      plan_.fills.push_back(
          {block, false, CopyCause::kMigration, place_of_last(block), {Area::kPageCache, at}});
  page.missing = 0;
  --pages_lacking_;
}

const std::vector<Copy>& Protocol::begin_fill() {
  if (pages_lacking_ == 0) return filling_;
  std::uint32_t at = 0;
  while (pages_[at].missing == 0) ++at;
  const std::uint32_t begin = pages_[at].page * geometry_.blocks_per_page;
  for (std::uint32_t block = begin; block < begin + geometry_.blocks_per_page; ++block)
    if (is_missing(at, block))
      filling_.push_back(
          {block, false, CopyCause::kMigration, place_of_last(block), {Area::kPageCache, at}});
  return filling_;
}

const std::vector<Copy>& Protocol::end_fill() {
  filled_.clear();
  for (const Copy& copy : filling_) {
    const std::uint32_t page = page_entry_of(page_of(copy.number));
    if (page != copy.to.index || !is_missing(page, copy.number)) continue;
    filled_.push_back(copy);
    arrived(page, copy.number);
  }
  filling_.clear();
  return filled_;
}

}  // namespace perdure::checkpoint
