// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/safe_layer.h"

#include "papers/pool.h"

namespace perdure::bench::nvheaps {

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
