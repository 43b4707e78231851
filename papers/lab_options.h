// SPDX-License-Identifier: BSD-3-Clause
// What a pool of the laboratory can be told besides ExpertOptions.
#pragma once

#include <optional>

#include "papers/blurred/mode_choice.h"
#include "papers/engine_kind.h"
#include "papers/softwrap/table_sizes.h"
#include "perdure/domain/latency.h"
#include "perdure/expert.h"

namespace perdure::papers {

struct LabOptions : ExpertOptions {
  EngineKind engine = EngineKind::kMnemosyne;
  /// Count stores, flushes and fences (counts()); costs some nanoseconds each.
  bool count = false;
  /// Emulate slower memory; on kAdr only. See perdure/domain/latency.h.
  std::optional<LatencyModel> latency;
  /// Of kSoftwrapTables: its two tables in DRAM.
  softwrap::TableSizes tables{};
  /// Of kAdaptive.
  blurred::ChoiceRules choice{};

  LabOptions() = default;
  LabOptions(const ExpertOptions& options) : ExpertOptions(options) {}  // NOLINT: they are that
};

}  // namespace perdure::papers
