// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/safe_layer.h"

#include "papers/on_dram.h"
#include "papers/pool.h"
#include "perdure/api/pool_core.h"

namespace perdure::bench::nvheaps {
namespace {

/// What is mapped is all there is.
class GivenMemory final : public Backing {
 public:
  Result<void> extend(std::uint64_t, std::uint64_t) override { return {}; }
  Result<void> allocate(Offset, std::uint64_t) override { return {}; }
  bool tell(Offset, Word) override { return true; }  // the region has stored it
};

}  // namespace

Company::Company(Pool& pool)
    : thread_([this, &pool] {
        bool told = false;
        pool.read_only([&](Tx&) {
          if (!std::exchange(told, true)) there_.count_down();
          leave_.wait();
        });
      }) {
  there_.wait();
}

Company::~Company() {
  leave_.count_down();
  thread_.join();
}

Result<Pool> pool_in(CheckpointedMemory& memory, bool create) {
  if (create) {
    Region::CreateOptions options;
    options.geometry = {memory.bytes(), std::uint64_t{1} << 20, std::uint64_t{64} << 10, 4, 16};
    if (auto made = Region::format_memory(memory.begin(), memory.bytes(), options); !made)
      return made.error();
  }
  const auto backing = std::make_shared<GivenMemory>();
  auto region = Region::open_memory(memory.begin(), memory.bytes(), memory.bytes(),
                                    DomainKind::kDram, *backing);
  if (!region) return region.error();
  return adopt_region(std::move(region).value(), papers::on_dram(papers::EngineKind::kMnemosyne),
                      ExpertOptions{}.lock_bits, backing);
}

papers::LabOptions pool_options(const HeapSetting& setting) {
  papers::LabOptions options;
  options.domain = DomainKind::kAdr;
  options.engine = setting.layer == Layer::kNoDur ? papers::EngineKind::kVolatile : setting.engine;
  options.count = setting.count;
  if (setting.memory.write_ns > 0) {
    LatencyModel model;
    model.bandwidth_gb_per_s = static_cast<double>(kLineBytes) / setting.memory.write_ns;
    options.latency = model;
  }
  return options;
}

}  // namespace perdure::bench::nvheaps
