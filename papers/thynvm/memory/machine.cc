// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/machine.h"

#include <algorithm>
#include <cstring>

#include "papers/thynvm/memory/marks.h"
#include "perdure/error.h"

namespace perdure::memory {
namespace {

// Bytes that only this store writes.
std::uint64_t bytes_of_store(std::uint64_t position) {
  std::uint64_t bits = (position + 1) * 0x9E3779B97F4A7C15;
  bits ^= bits >> 32;
  return bits * 0xD6E8FEB86659FD93;
}

bool is_mark(std::uint64_t address) {
  return address - PERDURE_MARK_BEGIN_WORD <= PERDURE_MARK_END_EPOCH_WORD - PERDURE_MARK_BEGIN_WORD;
}

}  // namespace

Machine::Machine(System system, const Model& model, bool with_contents)
    : system_(system),
      model_(model),
      with_contents_(with_contents),
      l1i_(model.l1),
      l1d_(model.l1),
      l2_(model.l2),
      l3_(model.l3),
      memory_(make_system(system, model, with_contents, kMostMemory / kLineBytes)) {
  const bool ideal = system == System::kDram || system == System::kNvm;
  if (ideal) {
    model_.epoch = 0;
    model_.flush_after_dirtied = 0;
  }
  if (model_.epoch != 0) epoch_due_ = model_.epoch;
}

void Machine::run(std::span<const Access> accesses) {
  for (const Access record : accesses) {
    ++position_;
    const AccessKind kind = record.kind();
    if (kind == AccessKind::kRun) {
      run_without_accesses(record.address());
      continue;
    }
    instructions_ += record.gap();
    now_ += record.gap() * model_.cycles_per_instruction;
    const std::uint64_t address = record.address();
    if (kind == AccessKind::kFetch) {
      access(l1i_, address / kLineBytes, false);
    } else if (is_mark(address)) [[unlikely]] {
      if (kind == AccessKind::kStore) note_mark(address);
    } else {
      const bool write = kind == AccessKind::kStore;
      ++(write ? stores_ : loads_);
      const std::uint64_t last = (address + record.bytes() - 1) / kLineBytes;
      access(l1d_, address / kLineBytes, write);
      if (last != address / kLineBytes) [[unlikely]]
        access(l1d_, last, write);
      if (with_contents_ && write) store_bytes(address, record.bytes());
    }
    if (flush_due_) [[unlikely]]
      flush_dirtied_caches();
    if (now_ >= epoch_due_) [[unlikely]]
      end_epoch();
  }
}

// Epochs end also meanwhile. Requires: none is due, as between any two records.
void Machine::run_without_accesses(std::uint64_t instructions) {
  instructions_ += instructions;
  Time left = instructions * model_.cycles_per_instruction;
  while (epoch_due_ - now_ <= left) {
    left -= epoch_due_ - now_;
    now_ = epoch_due_;
    end_epoch();
  }
  now_ += left;
}

// ---- Caches -----------------------------------------------------------------------------------------

inline void Machine::access(Cache& first, std::uint64_t virtual_line, bool write) {
  if (model_.wait_for_l1 && &first != &l1i_) now_ += first.latency;
  if (first.access(virtual_line, write)) [[likely]]
    return;
  miss(first, virtual_line, write);
}

std::uint64_t Machine::physical(std::uint64_t virtual_line) {
  const std::uint64_t frame = frames_.frame_of(virtual_line / kLinesPerPage);
  if (frame >= kMostMemory / kPageBytes) [[unlikely]]
    throw Exception(Code::kNoSpace,
                    "the program touches more than the 4 GiB that the simulated memory has");
  return frame * kLinesPerPage + virtual_line % kLinesPerPage;
}

// The first caches are looked up by virtual lines, the others by physical ones. Latencies are from the
// core to where the line is found. Victims go down first: an epoch that their writing fills ends only
// after this access.
void Machine::miss(Cache& first, std::uint64_t virtual_line, bool write) {
  ++l1_misses_;
  const std::uint64_t line = physical(virtual_line);
  if (l2_.access(line, false)) {
    now_ += l2_.latency;
  } else {
    ++l2_misses_;
    if (l3_.access(line, false)) {
      now_ += l3_.latency;
    } else {
      ++l3_misses_;
      Line data;
      now_ = memory_->read(line, now_ + l3_.latency, with_contents_ ? &data : nullptr);
      // Instructions may lie where data is cached dirty: only data is compared.
      if (with_contents_ && &first == &l1d_ && wrong_.empty() && data != program_.read(line))
        wrong_ = "line " + std::to_string(line) + " was read at record " +
                 std::to_string(position_) + " and was not what had been stored there last";
      if (const auto victim = l3_.insert(line, false); victim && victim->dirty)
        to_memory(victim->line);
    }
    if (const auto victim = l2_.insert(line, false); victim && victim->dirty) to_l3(victim->line);
  }
  if (const auto victim = first.insert(virtual_line, write); victim && victim->dirty)
    to_l2(physical(victim->line));
  if (model_.flush_after_dirtied != 0)
    flush_due_ =
        std::max({l1d_.dirtied(), l2_.dirtied(), l3_.dirtied()}) >= model_.flush_after_dirtied;
  if (model_.flush_at_epoch_end && memory_->is_full()) epoch_due_ = now_;
}

void Machine::to_l2(std::uint64_t line) {
  if (l2_.access(line, true)) return;
  if (const auto victim = l2_.insert(line, true); victim && victim->dirty) to_l3(victim->line);
}

void Machine::to_l3(std::uint64_t line) {
  if (l3_.access(line, true)) return;
  if (const auto victim = l3_.insert(line, true); victim && victim->dirty) to_memory(victim->line);
}

void Machine::to_memory(std::uint64_t line) {
  Line data;
  if (with_contents_) {
    data = program_.read(line);
    given_[line] = data;
  }
  now_ = memory_->write(line, now_, with_contents_ ? &data : nullptr, flushing_);
  // Without a flush the controller ends epochs by itself, whatever the core does.
  if (!model_.flush_at_epoch_end && memory_->is_full()) end_epoch();
}

void Machine::flush(Cache& cache) {
  cache.clean_all([&](std::uint64_t line) {
    if (&cache == &l1d_) {
      to_l2(physical(line));
    } else if (&cache == &l2_) {
      to_l3(line);
    } else {
      to_memory(line);
    }
  });
}

void Machine::flush_dirtied_caches() {
  flush_due_ = false;
  for (Cache* cache : {&l1d_, &l2_, &l3_})
    if (cache->dirtied() >= model_.flush_after_dirtied) flush(*cache);
}

// ---- Epochs -----------------------------------------------------------------------------------------

void Machine::end_epoch() {
  if (memory_->is_busy(now_)) {  // the checkpoint before takes longer than an epoch: this one grows
    epoch_due_ = now_ + cycles_of_us(1);
    return;
  }
  const Time began = now_;
  if (model_.flush_at_epoch_end) {
    flushing_ = true;
    for (Cache* cache : {&l1d_, &l2_, &l3_}) flush(*cache);
    flushing_ = false;
  }
  const Time flushed = now_;
  now_ = memory_->end_epoch(now_, position_);
  epoch_due_ = model_.epoch == 0 ? ~Time{0} : now_ + model_.epoch;
  flush_time_ += flushed - began;
  if (!with_contents_) return;
  if (model_.flush_at_epoch_end) {
    for (const std::uint64_t line : stored_)
      if (const auto given = given_.find(line);
          given == given_.end() || given->second != program_.read(line))
        wrong_ = "line " + std::to_string(line) +
                 " was stored to in an epoch and not flushed at its end";
  }
  stored_.clear();
  // Of what a set cut may still find, nothing is forgotten.
  while (!cut_is_set_ && !ended_.empty() && ended_.front().epoch <= memory_->committed())
    forget_oldest();
  ended_.push_back({memory_->ended(), position_, std::move(given_)});
  given_.clear();
}

// The end-of-epoch instruction. The paper's section 6 has the program force ThyNVM to end an epoch so that
// data is persistent; as the program has no other way to know when it is, the core stands still until the
// checkpoint is complete. Where the caches are not flushed at an epoch's end (the published code, which has
// no such instruction), they are flushed here all the same: what lies in them would not be durable, and
// tables that fill meanwhile end epochs as they always do.
void Machine::end_epoch_for_program() {
  ++ended_by_program_;
  if (system_ == System::kDram || system_ == System::kNvm) return;
  const Time began = now_;
  const auto counted = [&] {
    return memory_->epochs().stopped + memory_->epochs().waited + flush_time_;
  };
  const Time counted_before = counted();
  now_ = memory_->finish(now_);
  if (!model_.flush_at_epoch_end) {
    for (Cache* cache : {&l1d_, &l2_, &l3_}) flush(*cache);
    now_ = memory_->finish(now_);
  }
  end_epoch();
  now_ = memory_->finish(now_);
  instruction_time_ += now_ - began - (counted() - counted_before);
}

// With contents. What the program stored is durable by now, in an epoch that has been committed.
void Machine::note_promise() {
  for (const std::uint64_t line : unpromised_) {
    Line durable = safe_.read(line);
    for (const Ended& ended : ended_) {
      if (ended.epoch > memory_->committed()) break;
      if (const auto given = ended.given.find(line); given != ended.given.end())
        durable = given->second;
    }
    if (wrong_.empty() && durable != program_.read(line))
      wrong_ = "line " + std::to_string(line) +
               " is not durable after the end-of-epoch instruction at record " +
               std::to_string(position_);
  }
  unpromised_.clear();
  promised_ = position_;
  if (!memory_->has_taken_cut()) promised_at_set_cut_ = position_;
}

void Machine::finish() {
  run_time_ = now_;
  run_stood_ =
      memory_->epochs().stopped + memory_->epochs().waited + flush_time_ + instruction_time_;
  if (system_ == System::kDram || system_ == System::kNvm) return;
  while (memory_->is_busy(now_)) now_ += cycles_of_us(1);
  end_epoch();
  now_ = memory_->finish(now_);
}

// ---- The program's marks, and what it stores --------------------------------------------------------

void Machine::note_mark(std::uint64_t address) {
  if (address == PERDURE_MARK_OPERATION_WORD) {
    ++operations_;
    return;
  }
  if (address == PERDURE_MARK_END_EPOCH_WORD) {
    end_epoch_for_program();
    if (with_contents_ && system_ != System::kDram && system_ != System::kNvm) note_promise();
    return;
  }
  operations_ = 0;
  before_mark_ = {};
  before_mark_ = results();
}

void Machine::store_bytes(std::uint64_t address, unsigned bytes) {
  const std::uint64_t value = bytes_of_store(position_);
  for (unsigned done = 0; done < bytes;) {
    const std::uint64_t at = (address + done) % kLineBytes;
    const unsigned part = unsigned(std::min<std::uint64_t>(bytes - done, kLineBytes - at));
    const std::uint64_t number = physical((address + done) / kLineBytes);
    stored_.insert(number);
    unpromised_.insert(number);
    Line& line = program_.at(number);
    for (unsigned i = 0; i < part; ++i)
      line[at + i] = static_cast<unsigned char>(value >> (done + i) % 8 * 8);
    done += part;
  }
}

Results Machine::results() const {
  Results all;
  all.instructions = instructions_;
  all.loads = loads_;
  all.stores = stores_;
  all.l1_misses = l1_misses_;
  all.l2_misses = l2_misses_;
  all.l3_misses = l3_misses_;
  all.operations = operations_;
  all.time = run_time_ != 0 ? run_time_ : now_;
  all.footprint_bytes = frames_.frames() * kPageBytes;
  all.nvm_bytes = memory_->nvm().writes() * kLineBytes;
  all.traffic = memory_->traffic();
  all.epochs = memory_->epochs();
  all.ended_by_program = ended_by_program_;
  all.epochs.stopped += flush_time_;
  all.epochs.waited += instruction_time_;
  all.stood = run_time_ != 0 ? run_stood_ : all.epochs.stopped + all.epochs.waited;

  const Results& from = before_mark_;
  all.instructions -= from.instructions;
  all.loads -= from.loads;
  all.stores -= from.stores;
  all.l1_misses -= from.l1_misses;
  all.l2_misses -= from.l2_misses;
  all.l3_misses -= from.l3_misses;
  all.time -= from.time;
  all.stood -= from.stood;
  all.ended_by_program -= from.ended_by_program;
  all.nvm_bytes -= from.nvm_bytes;
  all.traffic.cpu_lines -= from.traffic.cpu_lines;
  all.traffic.cpu_to_nvm -= from.traffic.cpu_to_nvm;
  all.traffic.checkpoint_bytes -= from.traffic.checkpoint_bytes;
  all.traffic.migration_bytes -= from.traffic.migration_bytes;
  all.traffic.dram_bytes -= from.traffic.dram_bytes;
  all.epochs.epochs -= from.epochs.epochs;
  all.epochs.full -= from.epochs.full;
  all.epochs.stopped -= from.epochs.stopped;
  all.epochs.waited -= from.epochs.waited;
  all.epochs.spilled -= from.epochs.spilled;
  all.epochs.replaced -= from.epochs.replaced;
  all.epochs.pages_promoted -= from.epochs.pages_promoted;
  all.epochs.lengths.erase(all.epochs.lengths.begin(),
                           all.epochs.lengths.begin() + std::ptrdiff_t(from.epochs.lengths.size()));
  return all;
}

// ---- Power cuts -------------------------------------------------------------------------------------

std::string Machine::cut_power(std::mt19937_64& random) {
  return judge(memory_->cut(now_, random), promised_);
}

void Machine::cut_power_after_writes(std::uint64_t writes, std::uint64_t seed) {
  cut_is_set_ = true;
  promised_at_set_cut_ = promised_;
  memory_->cut_after_writes(writes, seed);
}

std::optional<std::string> Machine::cut_taken() {
  std::optional<Cut> cut = memory_->taken_cut();
  if (!cut) return {};
  cut_is_set_ = false;
  return judge(std::move(*cut), promised_at_set_cut_);
}

// The newest committed epoch must come back, or one that has ended since: of a checkpoint whose last write
// was under way, either outcome is right.
std::string Machine::judge(Cut cut, std::uint64_t promised) {
  while (!ended_.empty() && ended_.front().epoch <= cut.committed) forget_oldest();
  if (!ended_.empty()) ++cuts_of_unfinished_;
  const Recovery found = memory_->recover(std::move(cut.left));
  cuts_of_epochs_ += found.epoch != 0 ? 1 : 0;
  recovered_position_ = found.position;
  if (found.position < promised)
    return "the core would go on at record " + std::to_string(found.position) +
           ", before the end-of-epoch instruction at record " + std::to_string(promised) +
           ", which had been executed";
  std::uint64_t epoch = safe_epoch_, position = safe_position_;
  std::size_t newer = 0;  // ended epochs that came back although they had not been committed
  for (; newer < ended_.size() && ended_[newer].epoch <= found.epoch; ++newer) {
    epoch = ended_[newer].epoch;
    position = ended_[newer].position;
  }
  if (found.epoch != epoch)
    return "epoch " + std::to_string(found.epoch) + " was recovered, epoch " +
           std::to_string(epoch) + " had been committed";
  if (found.position != position)
    return "the core would go on at record " + std::to_string(found.position) + ", not at " +
           std::to_string(position);
  for (std::uint64_t line = 0; line < frames_.frames() * kLinesPerPage; ++line) {
    Line expected = safe_.read(line);
    for (std::size_t i = 0; i < newer; ++i)
      if (const auto given = ended_[i].given.find(line); given != ended_[i].given.end())
        expected = given->second;
    if (found.read(line) != expected)
      return "line " + std::to_string(line) + " is not as it was at the end of epoch " +
             std::to_string(epoch);
  }
  return {};
}

void Machine::forget_oldest() {
  for (const auto& [line, data] : ended_.front().given) safe_.write(line, data);
  safe_epoch_ = ended_.front().epoch;
  safe_position_ = ended_.front().position;
  ended_.erase(ended_.begin());
}

}  // namespace perdure::memory
