// Every engine there is.
#pragma once

#include "perdure/domain/dram.h"
#include "perdure/engine/redo.h"
#include "perdure/engine/softwrap.h"
#include "perdure/engine/undo.h"
#include "perdure/engine/undo_objects.h"
#include "perdure/engine/unlogged.h"

namespace perdure {

/// The engine softwrap, for a private mapping.
template <Domain D>
std::unique_ptr<Engine> make_paged_engine(const EngineParts& parts, Paged<D> domain) {
  return std::make_unique<Redo<Paged<D>, RingLayout::kTornbit>>(parts, std::move(domain),
                                                                EngineKind::kSoftwrap);
}

/// Stamps the engine of `kind` for one domain.
template <Domain D>
std::unique_ptr<Engine> make_engine(EngineKind kind, const EngineParts& parts, D domain) {
  switch (kind) {
    case EngineKind::kMnemosyne:
    case EngineKind::kBase:
      return std::make_unique<Redo<D, RingLayout::kTornbit>>(parts, std::move(domain), kind);
    case EngineKind::kBlurred:
    case EngineKind::kAdaptive:
      return std::make_unique<Redo<D, RingLayout::kInLog>>(parts, std::move(domain), kind);
    case EngineKind::kSoftwrap:
      if constexpr (PagedDomain<D>) return make_paged_engine(parts, std::move(domain));
      [[fallthrough]];  // the memory is not mapped privately
    case EngineKind::kSoftwrapTables:
      return std::make_unique<Softwrap<D>>(parts, std::move(domain));
    case EngineKind::kUndoObjects:
      return std::make_unique<UndoObjects<D>>(parts, std::move(domain));
    case EngineKind::kUndo: return std::make_unique<Undo<D>>(parts, std::move(domain));
    case EngineKind::kNonatomic:
      return std::make_unique<Unlogged<D, true>>(parts, std::move(domain));
    case EngineKind::kVolatile:
      return std::make_unique<Unlogged<D, false>>(parts, std::move(domain));
  }
  return nullptr;
}

// Once, in api/pool.cc, and not in each test.
extern template std::unique_ptr<Engine> make_engine(EngineKind, const EngineParts&, Dram);
extern template std::unique_ptr<Engine> make_engine(EngineKind, const EngineParts&, Counted<Dram>);

}  // namespace perdure
