// SPDX-License-Identifier: BSD-3-Clause
#include "papers/on_dram.h"

#include "papers/engines.h"
#include "perdure/engine/instantiations.h"

namespace perdure::papers {

EngineSource on_dram(EngineKind kind, DomainCounters* counters) {
  return {[kind, counters](const EngineParts& parts) {
            return with_engine(kind, [&]<class E>(E) -> std::unique_ptr<Engine> {
              if (counters == nullptr) return E::make(parts, Dram{}, LabOptions{});
              return E::make(parts, Counted<Dram>(*counters), LabOptions{});
            });
          },
          &blurred::kXilFormat};
}

}  // namespace perdure::papers
