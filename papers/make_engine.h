// SPDX-License-Identifier: BSD-3-Clause
// Makes an engine of papers/engines.h for the domain of an open region. Each engine is compiled in a source of its own
// (make_*.cc), so that they are compiled side by side.
#pragma once

#include "papers/engines.h"
#include "perdure/api/pool_storage.h"
#include "perdure/domain/counted.h"
#include "perdure/engine/instantiations.h"

namespace perdure::papers {

struct EngineSetting {
  const LabOptions& options;
  const EngineParts& parts;
  PoolStorage* storage;      // null: shared memory
  DomainCounters* counters;  // null: nothing is counted
};

template <class E>
std::unique_ptr<Engine> make_on_memory(const EngineSetting& with) {
  const auto make = [&](auto domain) {
    return E::make(with.parts, std::move(domain), with.options);
  };
  const AnyMemory memory(with.parts.region->domain());
  if (with.counters != nullptr)
    return make(Counted<Latency<AnyMemory>>(*with.counters,
                                            with.options.latency.value_or(LatencyModel{}), memory));
  if (with.options.latency) return make(Latency<AnyMemory>(*with.options.latency, memory));
  if (with.parts.region->domain() == DomainKind::kAdr &&
      x86::best_write_back() == x86::WriteBack::kClwb)
    return make(Adr<x86::Clwb>{});
  return make(memory);
}

template <class E>
std::unique_ptr<Engine> make_on_files(const EngineSetting& with) {
  const auto make = [&](auto domain) {
    return E::make(with.parts, InPrivatePages(*with.storage->pages, 0, std::move(domain)),
                   with.options);
  };
  Sync<RegionDevice> file(*with.storage->group);
  if (with.counters != nullptr) return make(Counted<Sync<RegionDevice>>(*with.counters, file));
  return make(file);
}

/// Of the engine with private pages: what is counted is what goes home.
template <class E>
std::unique_ptr<Engine> make_in_private_pages(const EngineSetting& with) {
  const auto make = [&](auto domain) {
    return E::make(with.parts,
                   InPrivatePages(*with.storage->pages, with.storage->to_home, std::move(domain)),
                   with.options);
  };
  const AnyMemory memory(with.parts.region->domain());
  if (with.counters != nullptr)
    return make(Counted<Latency<AnyMemory>>(*with.counters,
                                            with.options.latency.value_or(LatencyModel{}), memory));
  if (with.options.latency) return make(Latency<AnyMemory>(*with.options.latency, memory));
  return make(memory);
}

/// Makes the engine E for where the region is.
template <class E>
std::unique_ptr<Engine> make_engine(const EngineSetting& with);

}  // namespace perdure::papers
