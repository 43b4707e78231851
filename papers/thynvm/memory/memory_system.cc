// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/memory_system.h"

#include "perdure/error.h"
#include "papers/thynvm/memory/journal.h"
#include "papers/thynvm/memory/shadow.h"
#include "papers/thynvm/memory/thynvm.h"

namespace perdure::memory {
namespace {

// One kind of memory, which is crash consistent at no cost.
class Ideal final : public MemorySystem {
 public:
  Ideal(bool of_nvm, const Model& model, bool with_contents)
      : MemorySystem(model, with_contents), memory_(of_nvm ? nvm_ : dram_), of_nvm_(of_nvm) {}

  Time read(std::uint64_t line, Time now, Line* data) override {
    if (data != nullptr) *data = memory_.contents().read(line);
    return memory_.read(line, now);
  }
  Time write(std::uint64_t line, Time now, const Line* data, bool) override {
    ++traffic_.cpu_lines;
    (of_nvm_ ? traffic_.cpu_to_nvm : traffic_.dram_bytes) += kLineBytes;
    return memory_.write(line, now, data);
  }
  Time end_epoch(Time now, std::uint64_t) override { return now; }
  Recovery recover(Contents) const override {
    throw Exception(Code::kMisuse,
                    "an ideal memory has no power cuts: it is crash consistent by definition");
  }

 private:
  Device& memory_;
  bool of_nvm_;
};

}  // namespace

void MemorySystem::cut_after_writes(std::uint64_t writes, std::uint64_t seed) {
  nvm_.call_after_writes(writes, [this, seed](Time now) {
    std::mt19937_64 random(seed);
    taken_ = cut(now, random);
  });
}

Time MemorySystem::save(std::uint64_t line, Time now, const Line& data) {
  if (!stops_by_bytes()) {
    traffic_.checkpoint_bytes += kLineBytes;
    return nvm_.write(line, now, &data);
  }
  nvm_.put(line, now, &data);
  return now;
}

void MemorySystem::count_epoch(Time now, bool full) {
  ++epochs_.epochs;
  epochs_.full += full ? 1 : 0;
  epochs_.lengths.push_back(now - epoch_began_);
  epoch_began_ = now;
}

std::unique_ptr<MemorySystem> make_system(System system, const Model& model, bool with_contents,
                                          std::uint64_t most_lines) {
  switch (system) {
    case System::kDram:
    case System::kNvm: return std::make_unique<Ideal>(system == System::kNvm, model, with_contents);
    case System::kJournal: return std::make_unique<Journal>(model, with_contents, most_lines);
    case System::kShadow: return std::make_unique<Shadow>(model, with_contents, most_lines);
    default: return std::make_unique<ThyNvm>(system, model, with_contents, most_lines);
  }
}

}  // namespace perdure::memory
