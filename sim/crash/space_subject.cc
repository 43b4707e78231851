// SPDX-License-Identifier: BSD-3-Clause
// A SpaceScenario as a Subject. The lab's memory holds, one behind the other: the heap, the static variables, the regions,
// and the directory, a word per file that says how large it is. Every file stands where it is mapped, so that mapping it
// takes nothing; that a name appears or disappears is a durable write of its word, as it is on a file system after fsync.
#include <algorithm>
#include <cstring>
#include <set>

#include "perdure/api/pool_core.h"
#include "perdure/engine/redo.h"
#include "sim/crash/explorer.h"

namespace perdure::crash {
namespace {

constexpr unsigned kLockBits = 12;
constexpr Geometry kHeap = {.capacity_bytes = 512 << 10,
                            .segment_bytes = kMinSegmentBytes,
                            .ring_bytes = 4 << 10,
                            .log_slots = 2,
                            .root_entries = 4};
constexpr Offset kStaticsBegin = 512 << 10;
constexpr std::uint64_t kStaticsBytes = 4 * kPageBytes;
constexpr Offset kRegionsBegin = kStaticsBegin + kStaticsBytes;
constexpr std::uint64_t kMostFiles = kPageBytes / kWordBytes;
constexpr std::uint16_t kSaltName = 0x4e41;

std::uint64_t range_of(const SpaceScenario& scenario) {
  return kRegionsBegin + scenario.region_pages * kPageBytes;
}

class LabFiles final : public SpaceFiles {
 public:
  LabFiles(Lab& lab, Offset directory) : lab_(&lab), directory_(directory) {}

  /// A new file reads as zeros from the moment that it has a name. Where a region's will stand is known only when it is
  /// mapped; until then nobody believes what is in it.
  Result<void> create(std::uint64_t file, std::uint64_t bytes) override {
    if (file == kStatics) {
      write_zeros(kStaticsBegin, bytes);
    } else {
      fresh_.insert(file);
    }
    write_name(file, seal(bytes, kSaltName));
    return {};
  }
  Result<void> remove(std::uint64_t file) override {
    write_name(
        file,
        0);  // also when it is gone already: a killed process may have removed it in caches only
    return {};
  }
  Result<std::optional<std::uint64_t>> size(std::uint64_t file) override {
    const Word word = load_word(name_of(file));
    if (word == 0) return std::optional<std::uint64_t>();
    const auto bytes = unseal(word, kSaltName);
    if (!bytes) return Error{Code::kCorrupt, name(file) + ": its name is damaged"};
    return std::optional(*bytes);
  }
  Result<Region::Part> map(std::uint64_t file, std::uint64_t, Offset begin, std::uint64_t bytes,
                           std::uint32_t) override {
    if (fresh_.erase(file) > 0) write_zeros(begin, bytes);
    return Region::Part{begin, begin + bytes};
  }
  void protect(Offset, std::uint64_t, std::uint32_t) override {}
  Result<void> map_nowhere(Offset, std::uint64_t) override { return {}; }
  Result<void> alias(Offset, std::uint64_t, void*) override { return {}; }
  void unmap(Offset, std::uint64_t) override {}
  void punch(std::uint64_t, std::uint64_t, std::uint64_t) override {}
  Result<void> replace(std::uint64_t file, const std::vector<std::byte>&) override {
    return Error{Code::kMisuse, name(file) + ": the explorer replaces no files"};
  }
  std::string name(std::uint64_t file) const override { return "file " + std::to_string(file); }

 private:
  Word* name_of(std::uint64_t file) const {
    if (file >= kMostFiles) throw Exception(Code::kNoSpace, "the lab's directory is full");
    return reinterpret_cast<Word*>(lab_->base() + directory_) + file;
  }
  void write_name(std::uint64_t file, Word word) {
    auto domain = lab_->domain();
    domain.write_through(name_of(file), &word, 1, Site::kUserFlush);
    (void)domain.fence(Site::kUserFence);
  }
  void write_zeros(Offset begin, std::uint64_t bytes) {
    const std::vector<Word> zeros(bytes / kWordBytes);
    auto domain = lab_->domain();
    domain.write_through(reinterpret_cast<Word*>(lab_->base() + begin), zeros.data(), zeros.size(),
                         Site::kUserFlush);
    (void)domain.fence(Site::kUserFence);
  }

  Lab* lab_;
  Offset directory_;
  std::set<std::uint64_t> fresh_;  // made, but not zeroed yet
};

class SpaceSession final : public Session {
 public:
  SpaceSession(const SpaceScenario& scenario, Lab& lab) : scenario_(&scenario) {
    auto files = std::make_unique<LabFiles>(lab, range_of(scenario));
    files_ = files.get();
    AddressSpace::Parts parts;
    parts.region = Region::open_memory(lab.base(), kHeap.capacity_bytes, lab.file_bytes(),
                                       lab.domain_kind(), lab.backing(), range_of(scenario))
                       .value();
    parts.files = std::move(files);
    parts.range_bytes = range_of(scenario);
    parts.statics_begin = kStaticsBegin;
    parts.regions_begin = kRegionsBegin;
    if (!scenario.statics.empty()) {
      initial_.resize(kPageBytes / kWordBytes);
      std::copy(scenario.statics.begin(), scenario.statics.end(), initial_.begin());
      parts.statics.begin = reinterpret_cast<std::byte*>(initial_.data());
      parts.statics.bytes = kPageBytes;
      parts.statics.build_id = {1};
      parts.statics.program = "scenario";
    }
    space_ =
        AddressSpace::adopt(std::move(parts), [&](std::unique_ptr<Region> region) -> Result<Pool> {
          return adopt_region(std::move(region), {[&](const EngineParts& engine) {
                                return std::make_unique<Redo<Lab::LabDomain>>(engine, lab.domain());
                              }},
                              kLockBits);
        }).value();
    if (scenario.start) scenario.start(*space_);
  }

  /// The session before the first that is explored: so that this one makes the static variables.
  void setup() override { files_->remove(SpaceFiles::kStatics).value(); }
  void step(std::uint64_t step) override { scenario_->step(*space_, step); }
  std::optional<std::string> check(std::uint64_t step) override {
    return scenario_->check(*space_, step);
  }
  /// Files and table must agree: nothing leaked, nothing missing.
  std::optional<std::string> audit() override {
    std::set<std::uint64_t> known;
    for (const RegionEntry& entry : space_->regions()) known.insert(entry.file);
    for (std::uint64_t file = 1; file < 64; ++file) {
      const bool there = files_->size(file).value().has_value();
      if (there && !known.contains(file)) return files_->name(file) + " is leaked";
      if (!there && known.contains(file)) return files_->name(file) + " is missing";
    }
    return std::nullopt;
  }

 private:
  const SpaceScenario* scenario_;
  std::vector<std::uint64_t> initial_;
  LabFiles* files_;
  std::unique_ptr<AddressSpace> space_;
};

}  // namespace

Subject subject_of(const SpaceScenario& scenario) {
  const auto shared = std::make_shared<const SpaceScenario>(scenario);
  Subject subject;
  subject.name = scenario.name;
  subject.claim = scenario.claim;
  subject.bytes = range_of(scenario) + kPageBytes;
  subject.steps = scenario.steps;
  subject.resume_steps = scenario.resume_steps;
  subject.memory = scenario.memory;
  subject.file = scenario.file;
  subject.format = [](std::byte* base) {
    Region::CreateOptions options{.geometry = kHeap};
    options.incompatible = kFeatureAddressSpace;
    Region::format_memory(base, kHeap.capacity_bytes, options).value();
    Superblock super{};
    super.version = kFormatVersion;
    super.geometry = kHeap;
    lay_out(super);
    return super.heap_offset + kHeap.segment_bytes;
  };
  subject.open = [shared](Lab& lab) { return std::make_unique<SpaceSession>(*shared, lab); };
  return subject;
}

Report explore(const SpaceScenario& scenario, const Options& options) {
  return explore(subject_of(scenario), options);
}

}  // namespace perdure::crash
