// SPDX-License-Identifier: BSD-3-Clause
// The engines: the library's and those of the papers, each as a type. The explorer, torture, the benchmarks and the test over
// all engines, domains and containers (papers/every_engine_test.cc) take them from this one list.
//
// An engine type has
//   kKind                        what people call it (engine_kind.h)
//   On<D>                        the engine on a domain
//   make(parts, domain, options) one of those
// and gets a pool of the face of perdure::Pool: basic_pool<E> (papers/pool.h). A new engine is a type here, and a source
// of its own that compiles it (papers/make_engine.h).
#pragma once

#include <tuple>

#include "papers/baselines/base.h"
#include "papers/baselines/undo.h"
#include "papers/baselines/unlogged.h"
#include "papers/blurred/blurred.h"
#include "papers/engine_kind.h"
#include "papers/lab_options.h"
#include "papers/nvheaps/undo_objects.h"
#include "papers/softwrap/tables.h"
#include "perdure/engine/redo.h"

namespace perdure::papers {

/// Of an engine that is told nothing but what all are.
template <EngineKind kOfThis, template <class> class OnDomain>
struct PlainEngine {
  static constexpr EngineKind kKind = kOfThis;
  template <class D>
  using On = OnDomain<D>;
  template <Domain D>
  static std::unique_ptr<Engine> make(const EngineParts& parts, D domain, const LabOptions&) {
    return std::make_unique<On<D>>(parts, std::move(domain));
  }
};

template <class D>
using RedoOn = Redo<D>;
template <class D>
using NonatomicOn = baselines::Unlogged<D, true>;
template <class D>
using VolatileOn = baselines::Unlogged<D, false>;

/// The library's engine; with private pages over memory, where SoftWrAP's words stand, it is kSoftwrap.
using Mnemosyne = PlainEngine<EngineKind::kMnemosyne, RedoOn>;
using PrivatePlacement = PlainEngine<EngineKind::kSoftwrap, RedoOn>;
using UndoObjects = PlainEngine<EngineKind::kUndoObjects, nvheaps::UndoObjects>;
using Base = PlainEngine<EngineKind::kBase, baselines::Base>;
using BaseStream = PlainEngine<EngineKind::kBaseStream, baselines::BaseStream>;
using Undo = PlainEngine<EngineKind::kUndo, baselines::Undo>;
using Nonatomic = PlainEngine<EngineKind::kNonatomic, NonatomicOn>;
using Volatile = PlainEngine<EngineKind::kVolatile, VolatileOn>;

struct Blurred : PlainEngine<EngineKind::kBlurred, blurred::Blurred> {};
struct Adaptive {
  static constexpr EngineKind kKind = EngineKind::kAdaptive;
  template <class D>
  using On = blurred::Blurred<D>;
  template <Domain D>
  static std::unique_ptr<Engine> make(const EngineParts& parts, D domain,
                                      const LabOptions& options) {
    return std::make_unique<On<D>>(parts, std::move(domain), options.choice);
  }
};
struct Tables {
  static constexpr EngineKind kKind = EngineKind::kSoftwrapTables;
  template <class D>
  using On = softwrap::Tables<D>;
  template <Domain D>
  static std::unique_ptr<Engine> make(const EngineParts& parts, D domain,
                                      const LabOptions& options) {
    return std::make_unique<On<D>>(parts, std::move(domain), options.tables);
  }
};

using AllEngines = std::tuple<Mnemosyne, Blurred, Adaptive, PrivatePlacement, Tables, UndoObjects,
                              Base, BaseStream, Undo, Nonatomic, Volatile>;

/// Calls visit(E{}) with the engine type of `kind`, and returns what that returns.
template <class Visit>
auto with_engine(EngineKind kind, Visit visit) {
  switch (kind) {
    case EngineKind::kBlurred: return visit(Blurred{});
    case EngineKind::kAdaptive: return visit(Adaptive{});
    case EngineKind::kSoftwrap: return visit(PrivatePlacement{});
    case EngineKind::kSoftwrapTables: return visit(Tables{});
    case EngineKind::kUndoObjects: return visit(UndoObjects{});
    case EngineKind::kBase: return visit(Base{});
    case EngineKind::kBaseStream: return visit(BaseStream{});
    case EngineKind::kUndo: return visit(Undo{});
    case EngineKind::kNonatomic: return visit(Nonatomic{});
    case EngineKind::kVolatile: return visit(Volatile{});
    case EngineKind::kMnemosyne: break;
  }
  return visit(Mnemosyne{});
}

}  // namespace perdure::papers
