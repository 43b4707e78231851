// The built-in scenarios: every persistent protocol of the house, each small enough to be cut
// everywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/crash/explorer.h"

namespace perdure::crash {

/// All of them. Names are unique.
std::vector<Subject> registry();

/// The root that a scenario's set-up made. A cut that loses it is a violation like any other.
template <class T>
T& root_of(Pool& pool, std::string_view name) {
  T* root = pool.find_root<T>(name);
  if (root == nullptr)
    throw Exception(Code::kNotFound, "the root " + std::string(name) + " is gone");
  return *root;
}

/// The same scenario on the engine that executes in the log.
Scenario blurred(Scenario scenario);
/// The same on the one that changes over between transactions: every fifth is buffered.
Scenario adaptive(Scenario scenario);
/// The same on the one that keeps words in tables, which are small and retired by whoever finds one full.
Scenario softwrap(Scenario scenario);
/// The same on the one that keeps them in private pages, on memory; those are few, and given back by whoever finds them many.
Scenario paged(Scenario scenario);
/// The same on the yardstick that logs what it overwrites.
Scenario undo(Scenario scenario);
/// The same on the engine that copies objects and changes them where they are.
Scenario undo_objects(Scenario scenario);
/// The same on the yardstick that waits twice.
Scenario base(Scenario scenario);

std::vector<Subject>
transaction_scenarios();                     // commit, abort, log laps, truncation, spilled records
std::vector<Subject> heap_scenarios();       // allocate, free, reuse, roots, growth
std::vector<Subject> thread_scenarios();     // logs of several threads, merged by stamp
std::vector<Subject> log_scenarios();        // the bare logs, and perdure::Log
std::vector<Subject> xil_scenarios();        // the bare log of execution in log
std::vector<Subject> in_log_scenarios();     // an engine that executes in such logs
std::vector<Subject> softwrap_scenarios();   // tables of words that are not home yet
std::vector<Subject> wrap_scenarios();       // atomic regions whose isolation is the caller's
std::vector<Subject> space_scenarios();      // regions and static variables of an address space
std::vector<Subject> container_scenarios();  // hash_map, btree_map, rb_map, vector, string
std::vector<Subject>
object_scenarios();  // heaps of objects: references, their counts, the end of objects, handles
std::vector<Subject> frame_scenarios();  // the frame pool's table: swapping, files, reconstruction

}  // namespace perdure::crash
