// SPDX-License-Identifier: BSD-3-Clause
#include "sim/checkpoint/world.h"

#include <algorithm>

namespace perdure::prover {

using checkpoint::Area;
using checkpoint::Copy;
using checkpoint::Place;

namespace {

constexpr int kNow = 0, kLast = 1, kCommitted = 2;

checkpoint::Rules rules_of(Mutant mutant) {
  checkpoint::Rules rules;
  rules.replace_only_between_checkpoints = mutant != Mutant::kExchangeWhileCheckpointing;
  rules.keep_given_up_slots = mutant != Mutant::kReuseGivenUpSlots;
  rules.buffer_while_checkpointing = mutant != Mutant::kStoreInPlaceWhileCheckpointing;
  rules.freeze_pages = mutant != Mutant::kStoreToFrozenPages;
  rules.alternate_page_places = mutant != Mutant::kWritePagesBackInPlace;
  rules.keep_blocks_of_new_pages = mutant != Mutant::kForgetBlocksOfNewPages;
  rules.keep_leaving_pages = mutant != Mutant::kForgetLeavingPages;
  rules.return_loans = mutant != Mutant::kKeepLoans;
  rules.alternate_block_places = mutant != Mutant::kStoreInLastSlot;
  rules.look_where_blocks_are = mutant != Mutant::kLookInPagesAtOnce;
  rules.drop_fills_at_epoch_end = mutant != Mutant::kKeepFillsAcrossEpochs;
  rules.complete_pages_before_saving = mutant != Mutant::kSaveIncompletePages;
  return rules;
}

}  // namespace

World::World(const Setting& setting, Mutant mutant)
    : setting_(&setting),
      mutant_(mutant),
      protocol_(setting.geometry, rules_of(mutant)),
      home_(setting.blocks),
      slots_(setting.geometry.block_slots),
      page_slots_(setting.geometry.page_entries * setting.geometry.blocks_per_page),
      buffers_(setting.geometry.buffers),
      page_cache_(setting.geometry.page_entries * setting.geometry.blocks_per_page),
      golden_(setting.blocks, {1, 1, 1}) {
  for (std::uint32_t block = 0; block < setting.blocks; ++block) home_[block].value = block * 4 + 1;
}

World::Cell& World::cell(Place place, std::uint32_t block) {
  const std::uint32_t per_page = setting_->geometry.blocks_per_page;
  switch (place.area) {
    case Area::kHome: return home_[block];
    case Area::kSlot: return slots_[place.index];
    case Area::kPageSlot: return page_slots_[place.index * per_page + block % per_page];
    case Area::kBuffer: return buffers_[place.index];
    default: return page_cache_[place.index * per_page + block % per_page];
  }
}

const World::Cell& World::cell(Place place, std::uint32_t block) const {
  return const_cast<World*>(this)->cell(place, block);
}

void World::put(Place place, std::uint32_t block, Value value) {
  const bool volatile_place = place.area == Area::kBuffer || place.area == Area::kPageCache;
  cell(place, block) = {value, volatile_place};
}

void World::copy(const Copy& copy) {
  const std::uint32_t blocks = copy.page ? setting_->geometry.blocks_per_page : 1;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    const std::uint32_t block = copy.number * blocks + i;
    put(copy.to, block, cell(copy.from, block).value);
  }
}

// ---- What can happen --------------------------------------------------------------------------------

int World::possibilities() const { return int(setting_->blocks) * (may_spill() ? 2 : 1) + 4; }

bool World::may_spill() const { return setting_->geometry.spill_entries != 0; }

std::string World::happen(int possibility) {
  std::string what;
  const int stores = possibilities() - 4;
  if (possibility < stores) {
    what =
        store(std::uint32_t(possibility) % setting_->blocks, possibility >= int(setting_->blocks));
  } else if (possibility == stores) {
    if (protocol_.checkpointing() || !todo_.empty()) return {};
    end_epoch();
    what = "end the epoch";
  } else if (possibility == stores + 1) {
    if (todo_.empty()) return {};
    static constexpr const char* kNames[] = {
        "copy a block",        "save the block table",  "let a page be stored to", "copy a page",
        "save the page table", "drain the write queue", "complete the backup",     "commit"};
    what = std::string("checkpoint: ") + kNames[int(todo_[done_].step)];
    take_step();
  } else if (possibility == stores + 2) {
    const bool reads = filling_.empty();
    if (reads && protocol_.begin_fill().empty()) return {};
    what = reads ? "read what a page lacks" : "write it into the page";
    fill();
  } else {
    if (const std::string wrong = cut_and_recover(); !wrong.empty()) return {};
    what = "power cut, recovery";
  }
  forget_old_values();
  return what;
}

// Read in one step, written in another: what happens between them must not matter.
void World::fill() {
  if (filling_.empty()) {
    for (const Copy& copy : protocol_.fill_under_way())
      filling_.push_back(cell(copy.from, copy.number).value);
    return;
  }
  const std::vector<Copy> begun = protocol_.fill_under_way();
  const std::vector<Copy>& wanted = protocol_.end_fill();
  for (std::size_t i = 0; i < begun.size(); ++i)
    if (std::ranges::any_of(wanted,
                            [&](const Copy& copy) { return copy.number == begun[i].number; }) ||
        mutant_ == Mutant::kFillOverStores)
      put(begun[i].to, begun[i].number, filling_[i]);
  filling_.clear();
}

std::string World::store(std::uint32_t block, bool flushing) {
  const checkpoint::StoreTo to = protocol_.store(block, flushing);
  if (mutant_ != Mutant::kSkipReplacementCopies)
    for (const Copy& move : protocol_.moves()) copy(move);
  if (to.verdict != checkpoint::Verdict::kStore)
    return protocol_.moves().empty() ? "" : "entries replaced for block " + std::to_string(block);
  auto& golden = golden_[block];
  std::uint8_t fresh = 1;
  while (fresh == golden[kLast] || fresh == golden[kCommitted]) ++fresh;
  if (fresh == golden[kNow]) {  // nothing may compare equal to the value that is overwritten
    for (auto* cells : {&home_, &slots_, &page_slots_, &buffers_, &page_cache_})
      for (Cell& each : *cells)
        if (each.value == block * 4 + fresh) each.value = 0;
    for (Value& value : filling_)
      if (value == block * 4 + fresh) value = 0;
  }
  golden[kNow] = fresh;
  put(to.place, block, block * 4 + fresh);
  return (flushing ? "flush of block " : "store to block ") + std::to_string(block);
}

void World::end_epoch() {
  const checkpoint::Plan& plan = protocol_.end_epoch();
  if (protocol_.fill_under_way().empty()) filling_.clear();
  if (mutant_ != Mutant::kSkipMerges)
    for (const Copy& merge : plan.merges) copy(merge);
  if (mutant_ != Mutant::kSkipFills)
    for (const Copy& fill : plan.fills) copy(fill);
  for (auto& golden : golden_) golden[kLast] = golden[kNow];
  const int newest = newest_backup();
  target_ = newest < 0 ? 0 : mutant_ == Mutant::kSaveOverNewestBackup ? newest : 1 - newest;

  const auto keep = [&](Mutant without) { return mutant_ != without; };
  todo_.clear();
  done_ = 0;
  if (keep(Mutant::kSkipBlockCopies))
    for (std::uint32_t i = 0; i < plan.blocks.size(); ++i) todo_.push_back({Step::kBlock, i});
  if (keep(Mutant::kSkipBlockTable)) todo_.push_back({Step::kBlockTable});
  for (std::uint32_t i = 0; i < plan.pages.size(); ++i) {
    if (!keep(Mutant::kUnfreezeBeforeCopy)) todo_.push_back({Step::kUnfreeze, i});
    if (keep(Mutant::kSkipPageCopies)) todo_.push_back({Step::kPage, i});
    if (keep(Mutant::kUnfreezeBeforeCopy)) todo_.push_back({Step::kUnfreeze, i});
  }
  if (keep(Mutant::kSkipPageTable)) todo_.push_back({Step::kPageTable});
  if (mutant_ == Mutant::kCompleteBeforeDrain) {
    todo_.insert(todo_.end(), {{Step::kComplete}, {Step::kDrain}, {Step::kCommit}});
  } else if (mutant_ == Mutant::kCommitBeforeComplete) {
    todo_.insert(todo_.end(), {{Step::kDrain}, {Step::kCommit}, {Step::kComplete}});
  } else {
    if (keep(Mutant::kSkipDrain)) todo_.push_back({Step::kDrain});
    todo_.insert(todo_.end(), {{Step::kComplete}, {Step::kCommit}});
  }
}

void World::take_step() {
  const Todo todo = todo_[done_++];
  Backup& backup = backups_[target_];
  switch (todo.step) {
    case Step::kBlock: copy(protocol_.plan().blocks[todo.copy]); break;
    case Step::kBlockTable:
      backup.blocks = protocol_.image().blocks;
      backup.blocks_epoch = protocol_.image().epoch;
      backup.blocks_drained = false;
      break;
    case Step::kUnfreeze: protocol_.page_saved(todo.copy); break;
    case Step::kPage: copy(protocol_.plan().pages[todo.copy]); break;
    case Step::kPageTable:
      backup.pages = protocol_.image().pages;
      backup.pages_epoch = protocol_.image().epoch;
      backup.pages_drained = false;
      break;
    case Step::kDrain:
      for (auto* cells : {&home_, &slots_, &page_slots_})
        for (Cell& each : *cells) each.drained = true;
      for (Backup& each : backups_) each.blocks_drained = each.pages_drained = true;
      break;
    case Step::kComplete:
      backup.epoch = protocol_.image().epoch;
      for (auto& golden : golden_) golden[kCommitted] = golden[kLast];
      break;
    case Step::kCommit: protocol_.commit(); break;
  }
  if (done_ == todo_.size()) {
    todo_.clear();
    done_ = 0;
  }
}

// A backup is good when its header counts and its tables are those that the header checks.
int World::newest_backup() const {
  int newest = -1;
  for (int i = 0; i < 2; ++i) {
    const Backup& backup = backups_[i];
    if (backup.epoch == 0 || backup.blocks_epoch != backup.epoch ||
        backup.pages_epoch != backup.epoch)
      continue;
    if (newest < 0 ||
        (backup.epoch > backups_[newest].epoch) == (mutant_ != Mutant::kRecoverOldest))
      newest = i;
  }
  return newest;
}

std::string World::cut_and_recover() {
  for (auto* cells : {&home_, &slots_, &page_slots_})
    for (Cell& each : *cells) each = {each.drained ? each.value : 0, true};
  for (auto* cells : {&buffers_, &page_cache_}) std::ranges::fill(*cells, Cell{});
  for (Backup& backup : backups_) {
    if (!backup.blocks_drained) backup.blocks_epoch = 0;
    if (!backup.pages_drained) backup.pages_epoch = 0;
    backup.blocks_drained = backup.pages_drained = true;
  }
  const int newest = newest_backup();
  checkpoint::Image image;
  if (newest >= 0)
    image = {backups_[newest].epoch, backups_[newest].blocks, backups_[newest].pages};
  protocol_ = checkpoint::Protocol(setting_->geometry, image, rules_of(mutant_));
  if (mutant_ != Mutant::kSkipFillOnRecovery)
    for (const checkpoint::PageAt& at : image.pages)
      copy({at.page, true, {}, {Area::kPageSlot, at.slot}, {Area::kPageCache, at.slot}});
  todo_.clear();
  done_ = 0;
  filling_.clear();
  for (auto& golden : golden_)
    golden = {golden[kCommitted], golden[kCommitted], golden[kCommitted]};
  return violation();
}

// ---- What must hold ---------------------------------------------------------------------------------

std::string World::violation() const {
  // A mutant must show in what a program reads: what it breaks inside may be harmless.
  if (mutant_ == Mutant::kNone)
    if (std::string broken = protocol_.broken_invariant(); !broken.empty()) return broken;
  for (std::uint32_t block = 0; block < setting_->blocks; ++block)
    if (cell(protocol_.visible(block), block).value != block * 4 + golden_[block][kNow])
      return "block " + std::to_string(block) + " shows another value than was stored last";
  return {};
}

// What no load, no copy and no recovery should read is made wrong, and with it whatever does read it.
void World::forget_unread_places() {
  std::vector<Cell> homes = std::move(home_), slots = std::move(slots_),
                    page_slots = std::move(page_slots_), buffers = std::move(buffers_),
                    page_cache = std::move(page_cache_);
  home_.assign(homes.size(), {});
  slots_.assign(slots.size(), {});
  page_slots_.assign(page_slots.size(), {});
  buffers_.assign(buffers.size(), {});
  page_cache_.assign(page_cache.size(), {});
  const std::uint32_t per_page = setting_->geometry.blocks_per_page;
  const auto keep = [&](Place place, std::uint32_t block) {
    const std::size_t in_page = place.index * per_page + block % per_page;
    switch (place.area) {
      case Area::kHome: home_[block] = homes[block]; break;
      case Area::kSlot: slots_[place.index] = slots[place.index]; break;
      case Area::kPageSlot: page_slots_[in_page] = page_slots[in_page]; break;
      case Area::kBuffer: buffers_[place.index] = buffers[place.index]; break;
      default: page_cache_[in_page] = page_cache[in_page];
    }
  };
  const auto keep_image = [&](const std::vector<checkpoint::BlockAt>& blocks,
                              const std::vector<checkpoint::PageAt>& pages) {
    for (std::uint32_t block = 0; block < setting_->blocks; ++block) {
      Place place = {Area::kHome, block};
      for (const auto& at : blocks)
        if (at.block == block) place = {Area::kSlot, at.slot};
      for (const auto& at : pages)
        if (at.page == block / per_page) place = {Area::kPageSlot, at.slot};
      keep(place, block);
    }
  };
  for (std::uint32_t block = 0; block < setting_->blocks; ++block)
    keep(protocol_.visible(block), block);
  // A page that leaves as it came is read where its blocks were: also those brought home meanwhile.
  for (std::uint32_t block = 0; block < setting_->blocks; ++block)
    if (const Place left = protocol_.after_leaving(block); left.area != Area::kNowhere)
      keep(left, block);
  const int newest = newest_backup();
  if (newest >= 0) {
    keep_image(backups_[newest].blocks, backups_[newest].pages);
  } else {
    keep_image({}, {});
  }
  if (todo_.empty()) return;
  keep_image(protocol_.image().blocks, protocol_.image().pages);
  for (const auto* copies : {&protocol_.plan().blocks, &protocol_.plan().pages})
    for (const Copy& copy : *copies)
      for (std::uint32_t i = 0; i < (copy.page ? per_page : 1); ++i)
        keep(copy.from, copy.page ? copy.number * per_page + i : copy.number);
}

// Values that are none of the three that count are wrong for ever; and the classes are named anew, in
// one order, so that equal worlds look equal.
void World::forget_old_values() {
  forget_unread_places();
  std::vector<std::array<std::uint8_t, 4>> names(setting_->blocks);
  for (std::uint32_t block = 0; block < setting_->blocks; ++block) {
    auto& golden = golden_[block];
    auto& name = names[block] = {0, 0, 0, 0};
    std::uint8_t next = 1;
    for (const int which : {kCommitted, kLast, kNow}) {
      if (name[golden[which]] == 0) name[golden[which]] = next++;
      golden[which] = name[golden[which]];
    }
  }
  const auto rename = [&](Value& value) {
    if (value == 0) return;
    const std::uint8_t name = names[value / 4][value % 4];
    value = name == 0 ? 0 : value / 4 * 4 + name;
  };
  for (auto* cells : {&home_, &slots_, &page_slots_, &buffers_, &page_cache_})
    for (Cell& each : *cells) rename(each.value);
  for (Value& value : filling_) rename(value);
}

std::vector<std::uint32_t> World::fingerprint() const {
  std::vector<std::uint32_t> state;
  state.reserve(256);
  protocol_.append_state(state);
  for (const auto* cells : {&home_, &slots_, &page_slots_, &buffers_, &page_cache_})
    for (const Cell& each : *cells) state.push_back(each.value * 2 + (each.drained ? 1 : 0));
  state.insert(state.end(), filling_.begin(), filling_.end());
  for (const auto& golden : golden_) state.push_back(golden[0] | golden[1] << 4 | golden[2] << 8);
  state.push_back(std::uint32_t(done_) << 8 | std::uint32_t(todo_.size()) << 1 |
                  std::uint32_t(target_));
  const int newest = newest_backup();
  state.push_back(std::uint32_t(newest + 1));
  for (int i = 0; i < 2; ++i) {
    const Backup& backup = backups_[i];
    // Epochs count only by their order: which tables are the header's, which the running checkpoint's.
    const auto relation = [&](std::uint64_t epoch) {
      return epoch == 0                         ? 0U
             : epoch == protocol_.image().epoch ? 1U
             : epoch == backup.epoch            ? 2U
                                                : 3U;
    };
    state.push_back(relation(backup.epoch) | relation(backup.blocks_epoch) << 2 |
                    relation(backup.pages_epoch) << 4 | std::uint32_t(backup.blocks_drained) << 6 |
                    std::uint32_t(backup.pages_drained) << 7);
    // Tables that no recovery will read again make no difference, unless recovery is at fault.
    const bool pending = !todo_.empty() && i == target_;
    if (i != newest && !pending && mutant_ == Mutant::kNone) continue;
    for (const auto& at : backup.blocks) state.insert(state.end(), {at.block, at.slot});
    state.push_back(checkpoint::kNone);
    for (const auto& at : backup.pages) state.insert(state.end(), {at.page, at.slot});
    state.push_back(checkpoint::kNone);
  }
  return state;
}

}  // namespace perdure::prover
