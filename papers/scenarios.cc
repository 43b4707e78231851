// SPDX-License-Identifier: BSD-3-Clause
#include "papers/scenarios.h"

#include <iterator>

namespace perdure::papers {
namespace {

using crash::Scenario;
using crash::Subject;

/// Without a clock, which no two runs would agree on: neither mode is ever the quicker one. Of the five transactions from one
/// warm-up to the next one is buffered.
constexpr blurred::ChoiceRules kByTurns = {
    .round = 1, .warm_up = 2, .settled = 3, .now = []() -> std::uint64_t {
      static thread_local std::uint64_t looks = 0;
      return looks += 1000;
    }};

template <class E>
Scenario named(Scenario s, const std::string& prefix, const std::string& how,
               const LabOptions& options = {}) {
  s.name = prefix + s.name;
  s.claim += " (" + how + ")";
  s.engine = explored<E>(options);
  return s;
}

}  // namespace

LabOptions eventful() {
  LabOptions options;
  options.tables.limits = {64, 16, 64};
  options.choice = kByTurns;
  return options;
}

template <>
Scenario on<Mnemosyne>(Scenario s) {
  return s;
}
template <>
Scenario on<PrivatePlacement>(Scenario s) {
  return crash::in_private_pages(std::move(s));
}
template <>
Scenario on<Nonatomic>(Scenario s) {
  return named<Nonatomic>(std::move(s), "nonatomic-", "without a log");
}
template <>
Scenario on<Volatile>(Scenario s) {
  return named<Volatile>(std::move(s), "volatile-", "without a log, and nothing is forced");
}
template <>
Scenario on<Blurred>(Scenario s) {
  return named<Blurred>(std::move(s), "in-log-", "execution in log");
}
template <>
Scenario on<Adaptive>(Scenario s) {
  return named<Adaptive>(std::move(s), "adaptive-", "now in the log, now buffered", eventful());
}
template <>
Scenario on<Tables>(Scenario s) {
  s.truncation = Truncation::kWhenFull;
  return named<Tables>(std::move(s), "softwrap-", "words go home from a table", eventful());
}
template <>
Scenario on<Undo>(Scenario s) {
  return named<Undo>(std::move(s), "undo-", "old values logged one by one");
}
template <>
Scenario on<UndoObjects>(Scenario s) {
  ++s.geometry.log_slots;  // the heap's
  return named<UndoObjects>(std::move(s), "undo-objects-",
                            "objects copied, and changed where they are");
}
template <>
Scenario on<Base>(Scenario s) {
  return named<Base>(std::move(s), "base-", "a commit word after a wait");
}
template <>
Scenario on<BaseStream>(Scenario s) {
  return named<BaseStream>(std::move(s), "base-stream-",
                           "a commit word after a wait, past the cache");
}

namespace {

/// The library's scenarios of these names, on the engine E.
template <class E>
void add(std::vector<Subject>& all, std::initializer_list<const char*> names) {
  for (const char* name : names)
    all.push_back(crash::subject_of(on<E>(crash::pool_scenario(name))));
}

/// Each object is waited for: many moments, so fewer steps.
void add_in_place_objects(std::vector<Subject>& all) {
  for (const char* name : {"objects", "objects-end", "objects-orphans"}) {
    Scenario s = on<UndoObjects>(crash::pool_scenario(name));
    s.steps /= 2;
    s.resume_steps = 1;
    all.push_back(crash::subject_of(s));
  }
}

}  // namespace

std::vector<Subject> scenarios() {
  std::vector<Subject> all = crash::registry();
  for (auto room : {xil_scenarios, execution_in_log_scenarios, table_scenarios}) {
    std::vector<Subject> subjects = room();
    std::move(subjects.begin(), subjects.end(), std::back_inserter(all));
  }
  add<Blurred>(all, {"bytes", "aborts", "laps", "each-commit", "when-full", "spilled-record",
                     "spilled-object", "turns", "foreign-checkpoint", "idle-log", "consumed",
                     "turns-each-commit", "wraps", "hash-map", "btree-map"});
  add<Adaptive>(all, {"aborts", "laps", "in-place", "when-full", "turns", "rb-map"});
  add<Tables>(all, {"huge", "reuse", "reclaim", "wraps", "hash-map", "btree-map"});
  add<UndoObjects>(all, {"aborts", "spilled-record", "reuse", "growth", "hash-map", "rb-map"});
  add_in_place_objects(all);
  add<Undo>(all, {"bytes", "spilled-record", "reuse", "hash-map"});
  add<Base>(all, {"aborts", "laps", "hash-map", "vector"});
  add<BaseStream>(all, {"aborts", "laps"});
  return all;
}

}  // namespace perdure::papers
