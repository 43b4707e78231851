// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/media.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace perdure::crash {
namespace {

Word word_in(const std::byte* memory, Offset offset) {
  Word word;
  std::memcpy(&word, memory + offset, kWordBytes);
  return word;
}

void put(const Media::Write& write, std::byte* memory) {
  if (write.sector != nullptr) {
    std::memcpy(memory + write.offset, write.sector, kSectorBytes);
  } else {
    std::memcpy(memory + write.offset, &write.word, kWordBytes);
  }
}

}  // namespace

// ---- what is pending ----------------------------------------------------------------------------

Media::Choice Media::Frontier::everything() const {
  Choice choice;
  for (const Unit* unit : units) choice.push_back(static_cast<std::uint32_t>(unit->writes.size()));
  return choice;
}

void Media::Frontier::apply(const Choice& choice, std::byte* memory) const {
  if (overlapping) {
    std::vector<Write> writes;
    for (std::size_t i = 0; i < units.size(); ++i) {
      writes.insert(writes.end(), units[i]->writes.begin(), units[i]->writes.begin() + choice[i]);
    }
    std::sort(writes.begin(), writes.end(),
              [](const Write& a, const Write& b) { return a.sequence < b.sequence; });
    for (const Write& write : writes) put(write, memory);
    return;
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto& writes = units[i]->writes;
    // A newer version of a sector or word replaces the older ones; a line's stores all count.
    const std::uint32_t from =
        units[i]->kind == Unit::Kind::kLine || choice[i] == 0 ? 0 : choice[i] - 1;
    for (std::uint32_t w = from; w < choice[i]; ++w) put(writes[w], memory);
  }
}

void Media::Frontier::undo(const Choice& choice, const std::byte* image, std::byte* memory) const {
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (std::uint32_t w = 0; w < choice[i]; ++w) {
      const Write& write = units[i]->writes[w];
      const std::size_t bytes = write.sector != nullptr ? kSectorBytes : kWordBytes;
      std::memcpy(memory + write.offset, image + write.offset, bytes);
    }
  }
}

Media::Frontier Media::frontier() const {
  Frontier frontier;
  for (const Unit& unit : units_) {
    if (unit.writes.empty()) continue;
    frontier.units.push_back(&unit);
    if (unit.kind != Unit::Kind::kWord) continue;
    const auto line = index_.find(key_of(Unit::Kind::kLine, round_down(unit.at, kLineBytes)));
    if (line == index_.end()) continue;
    for (const Write& write : units_[line->second].writes) {
      frontier.overlapping = frontier.overlapping || write.offset == unit.at;
    }
  }
  return frontier;
}

Media Media::after_kill(std::byte* image, std::byte* mirror) const {
  Media next = *this;
  next.image_ = image;
  next.mirror_ = mirror;
  next.marks_.clear();
  next.killed_at_ = sequence_;
  return next;
}

// ---- the steps of a trace -----------------------------------------------------------------------

std::uint32_t Media::unit_at(Unit::Kind kind, Offset at) {
  const auto [found, fresh] =
      index_.try_emplace(key_of(kind, at), static_cast<std::uint32_t>(units_.size()));
  if (fresh) units_.push_back({kind, at, {}});
  return found->second;
}

Media::Unit* Media::find(Unit::Kind kind, Offset at) {
  const auto found = index_.find(key_of(kind, at));
  return found == index_.end() ? nullptr : &units_[found->second];
}

std::vector<Media::Mark>& Media::marks_of(std::uint8_t thread) {
  for (auto& [owner, marks] : marks_) {
    if (owner == thread) return marks;
  }
  return marks_.emplace_back(thread, std::vector<Mark>{}).second;
}

/// A store that changes nothing is left out: no image could tell. It must be the last version in
/// the same unit, or the durable one with no version pending elsewhere, since only then does it
/// promise no more than what is there.
bool Media::add_word(Unit::Kind kind, Offset offset, Word value, std::uint8_t thread) {
  const bool line = kind == Unit::Kind::kLine;
  const std::uint32_t number = unit_at(kind, line ? round_down(offset, kLineBytes) : offset);
  std::vector<Write>& writes = units_[number].writes;
  const Unit* other = line ? find(Unit::Kind::kWord, offset)
                           : find(Unit::Kind::kLine, round_down(offset, kLineBytes));
  const auto same_word = [&](const Write& write) { return write.offset == offset; };
  const bool elsewhere =
      other != nullptr && std::any_of(other->writes.begin(), other->writes.end(), same_word);
  const auto last = std::find_if(writes.rbegin(), writes.rend(), same_word);
  const bool changes =
      elsewhere || (last != writes.rend() ? last->word : word_in(image_, offset)) != value;
  if (changes) writes.push_back({sequence_, offset, value, nullptr});
  if (!line) marks_of(thread).push_back({number, sequence_});
  return changes;
}

/// The store of a cache that is durable itself.
bool Media::arrive(const TraceEvent& event) {
  const bool changes = word_in(image_, event.offset) != event.value;
  const Write write{sequence_, event.offset, event.value, nullptr};
  put(write, image_);
  put(write, mirror_);
  return changes;
}

bool Media::add_sector(Offset offset, const std::byte* sector) {
  std::vector<Write>& writes = units_[unit_at(Unit::Kind::kSector, offset)].writes;
  const std::byte* before = writes.empty() ? image_ + offset : writes.back().sector;
  if (std::memcmp(before, sector, kSectorBytes) == 0) return false;
  writes.push_back({sequence_, offset, 0, sector});
  return true;
}

void Media::mark_line(Offset line, std::uint8_t thread) {
  std::vector<Mark>& marks = marks_of(thread);
  const auto mark = [&](Unit::Kind kind, Offset at, std::uint64_t up_to) {
    const auto found = index_.find(key_of(kind, at));
    if (found != index_.end() && !units_[found->second].writes.empty())
      marks.push_back({found->second, up_to});
  };
  mark(Unit::Kind::kLine, line, sequence_);
  // A living thread's words may still be in its write-combining buffers, which no other thread's
  // flush reaches.
  for (Offset word = line; killed_at_ > 0 && word < line + kLineBytes; word += kWordBytes) {
    mark(Unit::Kind::kWord, word, killed_at_);
  }
}

/// A word that arrived makes older stores to it, pending in the other kind of unit, void.
void Media::forget_older(Unit::Kind kind, Offset at, const Write& newer) {
  Unit* other = find(kind, at);
  if (other == nullptr) return;
  std::erase_if(other->writes, [&](const Write& write) {
    return write.offset == newer.offset && write.sequence < newer.sequence;
  });
}

void Media::settle(Unit& unit, std::uint64_t up_to) {
  std::size_t done = 0;
  for (; done < unit.writes.size() && unit.writes[done].sequence <= up_to; ++done) {
    const Write& write = unit.writes[done];
    put(write, image_);
    put(write, mirror_);
    if (unit.kind == Unit::Kind::kLine) forget_older(Unit::Kind::kWord, write.offset, write);
    if (unit.kind == Unit::Kind::kWord)
      forget_older(Unit::Kind::kLine, round_down(write.offset, kLineBytes), write);
  }
  unit.writes.erase(unit.writes.begin(), unit.writes.begin() + static_cast<std::ptrdiff_t>(done));
}

void Media::settle_all() {
  // In order of time across units, for words that are pending in two.
  const Frontier now = frontier();
  now.apply(now.everything(), image_);
  now.apply(now.everything(), mirror_);
  units_.clear();
  index_.clear();
  marks_.clear();
}

bool Media::advance(const TraceEvent& event, const Trace& trace) {
  ++sequence_;
  const bool memory = model_ == Model::kMemory;
  if (model_ == Model::kCaches) return event.kind == TraceEvent::Kind::kStore && arrive(event);
  switch (event.kind) {
    case TraceEvent::Kind::kStore:
      return memory && add_word(Unit::Kind::kLine, event.offset, event.value, event.thread);
    case TraceEvent::Kind::kWriteThrough:
      return memory && add_word(Unit::Kind::kWord, event.offset, event.value, event.thread);
    case TraceEvent::Kind::kFlush:
      if (memory) mark_line(event.offset, event.thread);
      return false;
    case TraceEvent::Kind::kFence:
      if (memory) {
        std::vector<Mark>& marks = marks_of(event.thread);
        for (const Mark& mark : marks) settle(units_[mark.unit], mark.sequence);
        marks.clear();
      }
      return false;
    case TraceEvent::Kind::kSector:
      return add_sector(event.offset, trace.sector(event.value).data());
    case TraceEvent::Kind::kSync: {
      // A whole sync carries no length; a durable write vouches for [offset, offset + value).
      const std::uint64_t end =
          event.value == 0 ? std::numeric_limits<Offset>::max() : event.offset + event.value;
      for (Unit& unit : units_) {
        if (unit.at >= event.offset && unit.at < end) settle(unit, sequence_);
      }
      return false;
    }
    case TraceEvent::Kind::kMark: return false;
  }
  return false;
}

}  // namespace perdure::crash
