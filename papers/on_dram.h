// SPDX-License-Identifier: BSD-3-Clause
// Engines by name on memory that is lost with the power, for tests.
#pragma once

#include "papers/engine_kind.h"
#include "perdure/domain/counted.h"
#include "perdure/engine/engine.h"

namespace perdure::papers {

/// `counters`, when given, must outlive the pool.
EngineSource on_dram(EngineKind kind, DomainCounters* counters = nullptr);

}  // namespace perdure::papers
