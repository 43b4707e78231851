// SPDX-License-Identifier: BSD-3-Clause
// Combiner: updates that arrive at the same time share one durable transaction.
//
// Why not a transaction for each, and the pool's group commit: an update of a directory touches
// words that every other one reads (the counts and tables of its maps, the upper nodes of its
// trees), and a transaction keeps what it touched until the device has its record. 16 threads
// spent their time on running into each other: 20 to 70 attempts an update were measured. One
// thread that does the work of all that wait needs no attempts, and one record.
#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "perdure/pool.h"

namespace perdure::ldap {

class Combiner {
 public:
  explicit Combiner(Pool& pool) : pool_(&pool) {}

  /// Runs `update` in a durable transaction, alone or with those of other threads, one after the
  /// other.
  ///   1. the update joins the queue    while a transaction is under way, only that
  ///   2. one waiting thread leads: it takes the queue and runs it in one transaction
  ///                                    cut before its commit ⇒ none of them happened
  ///   3. its commit returns            cut after it ⇒ all of them happened
  ///   4. only then each hears so; who came meanwhile is led by the first of them
  /// Requires: an update that decides not to happen stores nothing, and has no effect outside the
  /// pool but on variables that the next attempt sets again.
  /// Durable:  on return.
  /// Errors:   as Pool::atomically; what one update throws takes back nothing of the others, who
  ///           are then run each for itself.
  /// Threads:  any; not from within a transaction.
  void run(const std::function<void(Tx&)>& update);

 private:
  struct Waiter;

  void lead(const std::vector<Waiter*>& batch);

  Pool* pool_;
  std::mutex mutex_;
  std::vector<Waiter*> queue_;
  bool led_ = false;  // somebody leads, or has been told to
};

}  // namespace perdure::ldap
