// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/thynvm.h"

#include <algorithm>
#include <cstring>

#include "perdure/base/crc32c.h"
#include "perdure/error.h"

namespace perdure::memory {

using checkpoint::Area;
using checkpoint::Copy;
using checkpoint::CopyCause;
using checkpoint::Image;
using checkpoint::Place;
using checkpoint::Verdict;

namespace {

// The core's state: what stands for its registers is where in the trace it was.
struct CoreState {
  std::uint64_t epoch;
  std::uint64_t position;
  std::uint64_t check;
};

std::uint64_t check_of(const CoreState& state) {
  return crc32c(&state, offsetof(CoreState, check));
}

// Of our own system. One page lies in one bank: a few would leave the others idle, and wait for each other.
constexpr std::size_t kPagesAtOnce = 256;

std::uint64_t lines_of(std::uint64_t bytes) { return (bytes + kLineBytes - 1) / kLineBytes; }

}  // namespace

checkpoint::Geometry geometry_of(System system, const Model& model) {
  checkpoint::Geometry geometry;
  geometry.block_entries = model.block_entries;
  geometry.page_entries = model.page_entries;
  geometry.buffers = model.block_entries;
  geometry.to_pages = model.to_pages;
  geometry.to_blocks = model.to_blocks;
  // The access that finds a table full writes a few lines more; then an epoch's end flushes at most all
  // lines of all caches. What the epoch before flushed may still have its entries, under pages that are
  // new in DRAM, or that have not left it yet.
  std::uint32_t lines = 16;
  if (model.flush_at_epoch_end)
    for (const CacheShape& cache : {model.l1, model.l2, model.l3}) lines += cache.sets * cache.ways;
  geometry.spill_entries = 2 * lines;
  geometry.fill_while_running = geometry.stay_until_wanted = system == System::kThyNvmOverlap;
  if (system == System::kThyNvmBlocks) geometry.scheme = checkpoint::Scheme::kBlocksOnly;
  if (system == System::kThyNvmPages) {
    geometry.scheme = checkpoint::Scheme::kPagesOnly;
    geometry.to_blocks = 1;  // a page leaves when an epoch did not store to it
    geometry.spill_entries = 0;
    geometry.spill_pages = 2 * (lines + geometry.page_entries);
  }
  geometry.block_slots = 2 * (geometry.block_entries + geometry.spill_entries);
  return geometry;
}

ThyNvm::ThyNvm(System system, const Model& model, bool with_contents, std::uint64_t most_lines)
    : MemorySystem(model, with_contents),
      overlaps_(system == System::kThyNvmOverlap),
      protocol_(geometry_of(system, model)) {
  const checkpoint::Geometry& geometry = protocol_.geometry();
  const std::uint64_t page_lines =
      (std::uint64_t{geometry.page_entries} + geometry.spill_pages) * kLinesPerPage;
  slots_ = most_lines;
  page_slots_ = slots_ + geometry.block_slots;
  backups_ = page_slots_ + page_lines;
  backup_lines_ = lines_of(Image::most_bytes(geometry)) + 1;  // the last: the core's state
  buffers_ = page_lines;
}

std::uint64_t ThyNvm::nvm_line(Place place, std::uint64_t line) const {
  switch (place.area) {
    case Area::kSlot: return slots_ + place.index;
    case Area::kPageSlot: return page_slots_ + place.index * kLinesPerPage + line % kLinesPerPage;
    default: return line;
  }
}

ThyNvm::Spot ThyNvm::spot(Place place, std::uint64_t line) {
  switch (place.area) {
    case Area::kBuffer: return {&dram_, buffers_ + place.index};
    case Area::kPageCache: return {&dram_, place.index * kLinesPerPage + line % kLinesPerPage};
    default: return {&nvm_, nvm_line(place, line)};
  }
}

// ---- Accesses ---------------------------------------------------------------------------------------

Time ThyNvm::read(std::uint64_t line, Time now, Line* data) {
  now += model_.lookup;
  progress(now);
  const Spot from = spot(protocol_.visible(std::uint32_t(line)), line);
  if (data != nullptr) *data = from.device->contents().read(from.line);
  return from.device->read(from.line, now);
}

Time ThyNvm::write(std::uint64_t line, Time now, const Line* data, bool flushing) {
  ++traffic_.cpu_lines;
  now += model_.lookup;
  progress(now);
  const Time came = now;
  const auto try_store = [&](bool may_spill) {
    const checkpoint::StoreTo to = protocol_.store(std::uint32_t(line), may_spill);
    for (const Copy& move : protocol_.moves()) {
      epochs_.replaced += move.cause == CopyCause::kReplacement ? 1 : 0;
      if (move.page) {
        now = bring_in(move, now);
      } else {
        transfer(move, now, false);
      }
    }
    return to;
  };
  checkpoint::StoreTo to = try_store(flushing);
  while (to.verdict == Verdict::kWait) {
    now = wait_for_progress(now);
    to = try_store(flushing);
  }
  if (!flushing) epochs_.waited += now - came;  // else it is part of the stop
  if (to.verdict == Verdict::kEndEpoch) {
    // This line still belongs to the epoch that has to end: the tables hold a little more than their size.
    full_ = true;
    to = try_store(true);
  }
  if (to.verdict != Verdict::kStore)
    throw Exception(Code::kMisuse, "the tables cannot hold what one flush of the caches writes");
  const Spot at = spot(to.place, line);
  (at.device == &nvm_ ? traffic_.cpu_to_nvm : traffic_.dram_bytes) += kLineBytes;
  return at.device->write(at.line, now, data);
}

// ---- Copies -----------------------------------------------------------------------------------------

void ThyNvm::transfer(const Copy& copy, Time now, bool in_stop) {
  const std::uint64_t lines = copy.page ? kLinesPerPage : 1;
  for (std::uint64_t i = 0; i < lines; ++i) {
    const std::uint64_t line = copy.number * lines + i;
    const Spot to = spot(copy.to, line);
    std::uint64_t& bytes = to.device == &dram_                   ? traffic_.dram_bytes
                           : copy.cause == CopyCause::kMigration ? traffic_.migration_bytes
                                                                 : traffic_.checkpoint_bytes;
    bytes += kLineBytes;
    transfer_line(spot(copy.from, line), to, now, in_stop);
  }
}

// What pages lack that this checkpoint writes back: the core waits until it has been read.
Time ThyNvm::complete_pages(Time now) {
  const std::vector<Copy>& fills = protocol_.plan().fills;
  Time read = now;
  for (const Copy& fill : fills) {
    const Spot from = spot(fill.from, fill.number);
    if (!stops_by_bytes()) read = from.device->read(from.line, now);
    transfer(fill, read, true);
  }
  return stops_by_bytes() ? now + time_of_bytes(double(fills.size() * kLineBytes)) : read;
}

// A page after the other, each when the one before has come.
void ThyNvm::fill_pages(Time now) {
  for (;;) {
    if (!protocol_.fill_under_way().empty()) {
      if (dram_.in_background() != 0 || dram_.background_done() > now) return;
      protocol_.end_fill();
      fill_began_ = std::max(fill_began_, dram_.background_done());
    }
    for (const Copy& fill : protocol_.begin_fill()) transfer(fill, fill_began_, false);
    if (protocol_.fill_under_way().empty()) return;
    dram_.advance(now);
  }
}

// A page that a store waits for: pages alone have nowhere else to put it.
Time ThyNvm::bring_in(const Copy& page, Time now) {
  if (stops_by_bytes()) {
    now += time_of_bytes(kPageBytes);
    transfer(page, now, true);
    return now;
  }
  Time read = now;
  for (std::uint64_t i = 0; i < kLinesPerPage; ++i)
    read = nvm_.read(nvm_line(page.from, page.number * kLinesPerPage + i), now);
  transfer(page, read, true);
  return read;
}

void ThyNvm::transfer_line(Spot from, Spot to, Time now, bool at_once) {
  Line data;
  if (with_contents_) data = from.device->contents().read(from.line);
  const Line* bytes = with_contents_ ? &data : nullptr;
  if (at_once) {
    to.device->put(to.line, now, bytes);
  } else {
    to.device->write_in_background(to.line, now, bytes, from.device, from.line);
  }
}

void ThyNvm::save_line(std::uint64_t line, std::span<const unsigned char> bytes, Time now) {
  Line data{};
  std::memcpy(data.data(), bytes.data(), std::min<std::size_t>(kLineBytes, bytes.size()));
  if (stops_for_tables()) {
    nvm_.put(line, now, &data);
  } else {
    nvm_.write_in_background(line, now, &data);
    traffic_.checkpoint_bytes += kLineBytes;
  }
}

// The lines of the saved tables from one byte to another; the page table follows the block table without
// a gap.
void ThyNvm::save_tables(std::size_t from, std::size_t to, Time now) {
  const std::vector<unsigned char> tables = protocol_.image().tables();
  for (std::size_t at = from / kLineBytes * kLineBytes; at < to; at += kLineBytes)
    save_line(backup_line(backup_) + 1 + at / kLineBytes, std::span(tables).subspan(at), now);
}

void ThyNvm::save_core(Time now) {
  CoreState state{ended(), position_, 0};
  state.check = check_of(state);
  save_line(backup_line(backup_) + backup_lines_ - 1,
            {reinterpret_cast<const unsigned char*>(&state), sizeof state}, now);
}

// ---- Epochs -----------------------------------------------------------------------------------------

bool ThyNvm::is_busy(Time now) {
  progress(now);
  return protocol_.checkpointing();
}

Time ThyNvm::end_epoch(Time now, std::uint64_t position) {
  count_epoch(now, full_);
  full_ = false;
  position_ = position;

  const checkpoint::Plan& plan = protocol_.end_epoch();
  const Time began = now;
  epochs_.spilled = protocol_.spilled();
  epochs_.pages_promoted += plan.promoted;
  if (stops_for_tables()) {
    const std::uint64_t table_bytes =
        (std::uint64_t{model_.block_entries} + model_.page_entries) * Image::kEntryBytes;
    traffic_.checkpoint_bytes += table_bytes;
    // Of a block that moves the core waits for the look-up alone, in the published code.
    now += time_of_bytes(double(table_bytes)) +
           (plan.fills.size() + plan.merges.size()) * model_.lookup;
  }
  for (const Copy& merge : plan.merges) transfer(merge, now, stops_for_tables());
  if (overlaps_) {
    now = complete_pages(now);
    fill_began_ = now;
  } else {
    for (const Copy& fill : plan.fills) transfer(fill, now, stops_for_tables());
  }
  for (const Copy& block : plan.blocks) transfer(block, now, false);
  step_ = Step::kBlocks;
  step_began_ = now;
  pages_done_ = pages_begun_ = 0;
  save_core(now);
  save_tables(0, protocol_.image().blocks.size() * Image::kEntryBytes, now);
  progress(now);
  epochs_.stopped += now - began;
  return now;
}

// Lets the devices run until now, and the checkpoint with them.
void ThyNvm::progress(Time now) {
  nvm_.advance(now);
  dram_.advance(now);
  while (protocol_.checkpointing()) {
    if (step_ == Step::kComplete) {
      step_began_ = complete_at_;
    } else {
      if (nvm_.in_background() != 0) break;
      step_began_ = std::max(step_began_, nvm_.background_done());
    }
    if (step_began_ > now) break;
    next_step(step_began_);
    nvm_.advance(now);
  }
  if (overlaps_) fill_pages(now);
}

void ThyNvm::next_step(Time now) {
  const checkpoint::Plan& plan = protocol_.plan();
  switch (step_) {
    case Step::kBlocks:
    case Step::kPages:
      // Pages one by one, or a few at once: each may be stored to again as soon as it is copied.
      while (pages_done_ < pages_begun_) protocol_.page_saved(pages_done_++);
      step_ = Step::kPages;
      while (pages_begun_ < plan.pages.size() &&
             pages_begun_ - pages_done_ < (overlaps_ ? kPagesAtOnce : 1))
        transfer(plan.pages[pages_begun_++], now, false);
      if (pages_begun_ > pages_done_) return;
      step_ = Step::kPageTable;
      return;
    case Step::kPageTable: {
      // Steps 5 to 7: the queue is drained, then the header makes the backup complete.
      save_tables(protocol_.image().blocks.size() * Image::kEntryBytes,
                  protocol_.image().table_bytes(), now);
      const Time drained = nvm_.drain(now);
      const std::vector<unsigned char> header = protocol_.image().header();
      Line line;
      std::memcpy(line.data(), header.data(), kLineBytes);
      nvm_.write(backup_line(backup_), drained, &line);
      traffic_.checkpoint_bytes += kLineBytes;
      complete_at_ = nvm_.drain(drained);
      step_ = Step::kComplete;
      return;
    }
    case Step::kComplete:
      committed_ = protocol_.image().epoch;
      backup_ = 1 - backup_;
      protocol_.commit();
      return;
  }
}

Time ThyNvm::wait_for_progress(Time now) {
  if (step_ == Step::kComplete) {
    now = std::max(now, complete_at_);
  } else {
    now = nvm_.finish_background(now);
  }
  progress(now);
  return now;
}

Time ThyNvm::finish(Time now) {
  while (is_busy(now)) now = wait_for_progress(now);
  return now;
}

// ---- Power cuts -------------------------------------------------------------------------------------

Recovery ThyNvm::recover(Contents contents) const {
  auto left = std::make_shared<const Contents>(std::move(contents));
  std::vector<unsigned char> backups[2];
  for (int i = 0; i < 2; ++i) {
    backups[i].resize(backup_lines_ * kLineBytes);
    for (std::uint64_t line = 0; line < backup_lines_; ++line) {
      const Line data = left->read(backup_line(i) + line);
      std::memcpy(&backups[i][line * kLineBytes], data.data(), kLineBytes);
    }
  }
  const checkpoint::Recovered found =
      checkpoint::recover(backups[0], backups[1], protocol_.geometry());
  Recovery recovery;
  recovery.epoch = found.image.epoch;
  if (found.backup >= 0) {
    CoreState state;
    std::memcpy(&state, &backups[found.backup][(backup_lines_ - 1) * kLineBytes], sizeof state);
    if (state.epoch == found.image.epoch && state.check == check_of(state))
      recovery.position = state.position;
  }
  // What the program then sees is what the protocol says, of a memory whose pages were brought back.
  auto protocol = std::make_shared<checkpoint::Protocol>(protocol_.geometry(), found.image);
  recovery.read = [this, left, protocol](std::uint64_t line) {
    Place place = protocol->visible(std::uint32_t(line));
    if (place.area == Area::kPageCache) place.area = Area::kPageSlot;
    return left->read(nvm_line(place, line));
  };
  return recovery;
}

}  // namespace perdure::memory
