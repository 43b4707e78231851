// SPDX-License-Identifier: BSD-3-Clause
// Media: what a power cut may leave. It follows a trace step by step and knows at each moment which
// bytes are durable for certain, and which stores are still on their way: any subset that the
// hardware allows may have arrived.
//
// Memory (kMemory): the stores to one 64-byte line arrive in order, so a line's unit is a queue of
// which any prefix may be there; lines are independent. Words written through are unordered: each
// is a unit of its own. A flush marks what its line holds now; only a fence of the *same thread*
// makes the marked part certain.
//
// Memory whose caches are power-fail safe, too (kCaches, eADR): a store is durable as soon as others can see it, so nothing is
// ever on its way, and each store is a moment of its own.
//
// Files (kFile): only what was handed to the device counts; the mapping is lost. Each 512-byte
// sector is a unit, of which any version since the last sync may be there. A durable write of a
// range vouches for that range alone.
//
// Source: Px86 (Raad et al., POPL 2020); Khyzha and Lahav (POPL 2021) show that treating "flush,
// then fence" as a completed write reaches the same states, which is how it is done here.
#pragma once

#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "perdure/domain/recorded.h"

namespace perdure::crash {

enum class Model : std::uint8_t { kMemory, kCaches, kFile };
constexpr std::string_view model_name(Model model) {
  switch (model) {
    case Model::kMemory: return "memory";
    case Model::kCaches: return "eadr";
    case Model::kFile: break;
  }
  return "file";
}

class Media {
 public:
  /// One store on its way: a word, or a sector when `sector` is set.
  struct Write {
    std::uint64_t sequence;
    Offset offset;
    Word word;
    const std::byte* sector;
  };
  /// Writes that arrive in order, and independently of all other units. Never more than a prefix
  /// arrives.
  struct Unit {
    enum class Kind : std::uint8_t { kLine, kWord, kSector };
    Kind kind;
    Offset at;
    std::vector<Write> writes;
  };
  /// How many writes of each pending unit arrived.
  using Choice = std::vector<std::uint32_t>;

  /// What is pending at one moment. Valid until the next advance().
  struct Frontier {
    std::vector<const Unit*> units;
    bool overlapping =
        false;  // a word is pending both in its line and written through: apply in order of time

    Choice nothing() const { return Choice(units.size(), 0); }
    Choice everything() const;
    /// Puts the chosen writes into `memory`.
    void apply(const Choice& choice, std::byte* memory) const;
    /// Copies what apply() touched back from `image`.
    void undo(const Choice& choice, const std::byte* image, std::byte* memory) const;
  };

  /// `image` holds the durable bytes and is kept up to date; so is `mirror`, the memory in which
  /// sessions run.
  Media(Model model, std::byte* image, std::byte* mirror)
      : model_(model), image_(image), mirror_(mirror) {}

  /// The same media after the death of the process, in other buffers: everything pending is still
  /// on its way, but whoever flushed or wrote through is gone, so only flushes to come can vouch
  /// for it.
  Media after_kill(std::byte* image, std::byte* mirror) const;

  /// Takes the next step. True if a power cut may leave another image than before.
  bool advance(const TraceEvent& event, const Trace& trace);
  /// Everything pending arrives.
  void settle_all();
  Frontier frontier() const;

 private:
  static constexpr std::uint64_t kKinds = 4;
  static std::uint64_t key_of(Unit::Kind kind, Offset at) {
    return at * kKinds + static_cast<std::uint64_t>(kind);
  }
  struct Mark {
    std::uint32_t unit;
    std::uint64_t sequence;
  };

  std::uint32_t unit_at(Unit::Kind kind, Offset at);
  Unit* find(Unit::Kind kind, Offset at);
  std::vector<Mark>& marks_of(std::uint8_t thread);
  bool add_word(Unit::Kind kind, Offset offset, Word value, std::uint8_t thread);
  bool arrive(const TraceEvent& event);
  bool add_sector(Offset offset, const std::byte* sector);
  void mark_line(Offset line, std::uint8_t thread);
  void settle(Unit& unit, std::uint64_t up_to);
  void forget_older(Unit::Kind kind, Offset at, const Write& newer);

  Model model_;
  std::byte* image_;
  std::byte* mirror_;
  std::uint64_t sequence_ = 0;
  std::uint64_t killed_at_ = 0;  // written through before this: by a thread that is gone
  std::vector<Unit> units_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
  std::vector<std::pair<std::uint8_t, std::vector<Mark>>> marks_;  // per thread
};

}  // namespace perdure::crash
