// SPDX-License-Identifier: BSD-3-Clause
// A Scenario as a Subject: sessions are pools over the lab's memory.
#include <algorithm>
#include <cstring>

#include "perdure/api/pool_core.h"
#include "perdure/engine/redo.h"
#include "sim/crash/explorer.h"

namespace perdure::crash {
namespace {

// Enough that the lines of a small pool have an ownership record each, few enough that opening
// costs no more pages.
constexpr unsigned kLockBits = 12;

/// A lab's domain as that of memory: one that promises nothing of the order of what is not waited for.
class MemoryOnly {
 public:
  explicit MemoryOnly(Lab::LabDomain domain) : domain_(std::move(domain)) {}
  void store(Word* home, Word value) { domain_.store(home, value); }
  void merge(Word* home, Word value, Word mask) { domain_.merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    domain_.write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    domain_.flush(address, bytes, site);
  }
  bool fence(Site site) { return domain_.fence(site); }

 private:
  Lab::LabDomain domain_;
};

class PoolSession final : public Session {
 public:
  PoolSession(const Scenario& scenario, Lab& lab)
      : scenario_(&scenario),
        view_(view_for(scenario, lab)),
        pool_(opened(scenario, lab, view_.get())),
        lab_(&lab) {
    if (scenario.truncation != Truncation::kAuto) pool_.set_truncation(scenario.truncation);
    if (scenario.open) opened_ = scenario.open(pool_);
  }

  void setup() override {
    if (scenario_->setup) scenario_->setup(pool_);
  }
  void step(std::uint64_t step) override {
    if (scenario_->page_sums && step > 1) reopen();
    if (scenario_->raise_to && step > 1) raise();
    scenario_->step(pool_, step);
  }
  std::optional<std::string> check(std::uint64_t step) override {
    return scenario_->check(pool_, step);
  }

  bool durable(std::uint64_t step) override {
    return !scenario_->durable || scenario_->durable(step);
  }

  /// The heap's live objects must be exactly those that somebody owns.
  std::optional<std::string> audit() override {
    if (!scenario_->reach) return std::nullopt;
    owned_.clear();
    live_.clear();
    const std::byte* base = core_of(pool_).world().base;
    pool_.read_only([&](Tx& tx) {
      for (const RootEntry& root : core_of(pool_).roots(tx)) owned_.push_back(root.object);
    });
    scenario_->reach(pool_, [&](const void* object) {
      owned_.push_back(static_cast<Offset>(static_cast<const std::byte*>(object) - base));
    });
    core_of(pool_).heap().for_each_object(
        [&](Offset object, std::uint64_t) { live_.push_back(object); });
    std::sort(owned_.begin(), owned_.end());
    const auto twice = std::adjacent_find(owned_.begin(), owned_.end());
    if (twice != owned_.end()) return at(*twice) + " has two owners";
    std::sort(live_.begin(), live_.end());
    const auto [live, owned] =
        std::mismatch(live_.begin(), live_.end(), owned_.begin(), owned_.end());
    if (live == live_.end() && owned == owned_.end()) return std::nullopt;
    if (owned == owned_.end() || (live != live_.end() && *live < *owned))
      return at(*live) + " is leaked: allocated, but nobody owns it";
    return at(*owned) + " is dangling: owned, but not allocated";
  }

 private:
  static std::unique_ptr<Region> region_of(const Scenario& scenario, Lab& lab, std::byte* base) {
    if (scenario.page_sums) lab.keep_sums();
    auto region =
        Region::open_memory(base, lab.bytes(), lab.file_bytes(), lab.domain_kind(), lab.backing())
            .value();
    if (scenario.page_sums) (void)areas_at_rest(*region);
    lab.use_sums(region->sums());
    return region;
  }
  static Pool opened(const Scenario& scenario, Lab& lab, WorkingView* view) {
    return adopt_region(region_of(scenario, lab, view != nullptr ? view->base() : lab.base()),
                        source_for(scenario, lab, view), kLockBits)
        .value();
  }
  /// Of a region in which nothing was stored yet. Throws if a page does not agree with its sum.
  static std::uint64_t areas_at_rest(const Region& region) {
    const auto read = [&](Offset offset, std::byte* to, std::uint64_t bytes) -> Result<void> {
      std::memcpy(to, region.base() + offset, bytes);
      return {};
    };
    const auto report = check_page_sums(region.superblock(), region.grown_bytes(), read).value();
    if (!report.damage.empty())
      throw Exception(Code::kCorrupt, "the page at offset " +
                                          std::to_string(report.damage.front().offset) +
                                          " does not agree with its sum");
    return report.areas_at_rest;
  }
  void reopen() {
    {
      const Pool closed = std::move(pool_);
    }
    pool_ = opened(*scenario_, *lab_, nullptr);
    if (lab_->model() == Model::kFile && areas_at_rest(core_of(pool_).region()) == 0)
      throw Exception(Code::kMisuse, "closing the pool gave its pages no sums");
  }
  /// As a process does that opens the pool with raise_limits, unless one has.
  void raise() {
    if (!scenario_->raise_to->are_above(Limits::of(core_of(pool_).region().geometry()))) return;
    {
      const Pool closed = std::move(pool_);
    }
    auto domain = lab_->domain();
    PrimitivesOf primitives(domain);
    raise_limits(*region_of(*scenario_, *lab_, lab_->base()), primitives, *scenario_->raise_to)
        .value();
    pool_ = opened(*scenario_, *lab_, nullptr);
  }
  static std::unique_ptr<WorkingView> view_for(const Scenario& scenario, const Lab& lab) {
    if (scenario.placement != Placement::kPrivatePages || lab.model() == Model::kFile)
      return nullptr;
    return std::make_unique<WorkingView>(lab.memory(), scenario.private_pages);
  }
  static EngineSource source_for(const Scenario& scenario, Lab& lab, WorkingView* view) {
    EngineSource source{[&lab, view](const EngineParts& parts) -> std::unique_ptr<Engine> {
      if (view == nullptr) return std::make_unique<Redo<Lab::LabDomain>>(parts, lab.domain());
      return std::make_unique<Redo<InPrivatePages<MemoryOnly>>>(
          parts, view->domain(MemoryOnly(lab.domain())));
    }};
    if (scenario.engine) source = scenario.engine(lab);
    source.make = [make = std::move(source.make), &scenario](EngineParts parts) {
      parts.tuning.in_place_bytes = scenario.in_place_bytes;
      parts.tuning.bulk_bytes = scenario.bulk_bytes;
      parts.tuning.tornbit_logs = scenario.tornbit_logs;
      parts.tuning.log_limit_bytes = scenario.log_limit_bytes;
      return make(parts);
    };
    return source;
  }
  static std::string at(Offset object) { return "the object at offset " + std::to_string(object); }

  const Scenario* scenario_;
  std::unique_ptr<WorkingView> view_;  // of a pool whose heap is mapped privately
  Pool pool_;
  Lab* lab_;
  std::shared_ptr<void> opened_;  // by the scenario
  std::vector<Offset> owned_;
  std::vector<Offset> live_;
};

}  // namespace

Subject subject_of(const Scenario& scenario) {
  const auto shared = std::make_shared<const Scenario>(scenario);
  Subject subject;
  subject.name = scenario.name;
  subject.claim = scenario.claim;
  subject.bytes =
      scenario.raise_to ? scenario.raise_to->capacity_bytes : scenario.geometry.capacity_bytes;
  subject.steps = scenario.steps;
  subject.resume_steps = scenario.resume_steps;
  subject.depth = scenario.depth;
  subject.memory = scenario.memory;
  subject.file = scenario.file;
  subject.format = [shared](std::byte* base) {
    const Geometry& geometry = shared->geometry;
    Region::format_memory(base, geometry.capacity_bytes, {.geometry = geometry}).value();
    Superblock super{};
    super.version = kFormatVersion;
    super.geometry = geometry;
    lay_out(super);
    return super.heap_offset + geometry.segment_bytes;
  };
  subject.open = [shared](Lab& lab) { return std::make_unique<PoolSession>(*shared, lab); };
  return subject;
}

}  // namespace perdure::crash
