// SPDX-License-Identifier: BSD-3-Clause
// The built-in scenarios: every persistent protocol of the library, each small enough to be cut everywhere. The engines of
// the papers add theirs (papers/scenarios.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/crash/explorer.h"

namespace perdure::crash {

/// All of the library's. Names are unique.
std::vector<Subject> registry();

/// Those on a pool, for other engines to run on as well.
std::vector<Scenario> pool_scenarios();
/// The one of that name. Requires: there is one.
Scenario pool_scenario(std::string_view name);

/// The root that a scenario's set-up made. A cut that loses it is a violation like any other.
template <class T>
T& root_of(Pool& pool, std::string_view name) {
  T* root = pool.find_root<T>(name);
  if (root == nullptr)
    throw Exception(Code::kNotFound, "the root " + std::string(name) + " is gone");
  return *root;
}

/// What a field holds that was committed, wherever the engine has it.
template <class T>
T committed(Pool& pool, const T& field) {
  T value;
  pool.read_only([&](Tx& tx) { tx.read(&value, &field, sizeof(value)); });
  return value;
}

/// The same scenario with private pages, on memory; those are few, and given back by whoever finds them many.
Scenario in_private_pages(Scenario scenario);

std::vector<Scenario>
transaction_scenarios();                   // commit, abort, log laps, truncation, spilled records
std::vector<Scenario> heap_scenarios();    // allocate, free, reuse, roots, growth
std::vector<Scenario> thread_scenarios();  // logs of several threads, merged by timestamp
std::vector<Scenario> wrap_scenarios();    // atomic regions whose isolation is the caller's
std::vector<Scenario> container_scenarios();  // hash_map, btree_map, rb_map, vector, string
std::vector<Scenario>
object_scenarios();  // heaps of objects: references, their counts, the end of objects, handles
std::vector<Scenario> limit_scenarios();       // capacity, log slots and roots that are raised
std::vector<Scenario> page_sum_scenarios();    // checksums of pages at rest
std::vector<Scenario> append_log_scenarios();  // perdure::Log
std::vector<Subject> log_scenarios();          // the bare logs
std::vector<Subject> space_scenarios();        // regions and static variables of an address space
std::vector<Subject> frame_scenarios();  // the frame pool's table: swapping, files, reconstruction

}  // namespace perdure::crash
