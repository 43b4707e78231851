// SPDX-License-Identifier: BSD-3-Clause
// Pools of the laboratory: any engine, counted, on emulated memory. A pool of one paper's engine is basic_pool<E>, with the
// face of perdure::Pool; by name, open() and its like.
#pragma once

#include <memory>
#include <string>

#include "papers/lab_options.h"
#include "perdure/domain/counted.h"
#include "perdure/pool.h"

namespace perdure::papers {

class LabPool : public Pool {
 public:
  LabPool(Pool pool, std::shared_ptr<const DomainCounters> counters)
      : Pool(std::move(pool)), counters_(std::move(counters)) {}
  /// Counts since the pool was opened. Requires: LabOptions::count.
  DomainCounts counts() const { return counters_ ? counters_->total() : DomainCounts{}; }
  /// What counts, for who gives the pool away and goes on counting; null without LabOptions::count.
  std::shared_ptr<const DomainCounters> counters() const { return counters_; }

 private:
  std::shared_ptr<const DomainCounters> counters_;
};

/// As those of perdure::Pool. Errors besides: kInvalid for options that the engine cannot have.
Result<LabPool> create(const std::string& path, const LabOptions& options);
Result<LabPool> open(const std::string& path, const LabOptions& options);
Result<LabPool> open_or_create(const std::string& path, const LabOptions& options);

/// As Pool::inspect, also of what a kill left behind that executed in the log.
Result<LabPool> inspect(const std::string& path);
/// Opens the file and closes it: what an engine of the laboratory left in the logs goes home, and the library can open it.
Result<RecoveryReport> recover(const std::string& path);

/// The pool of one engine of papers/engines.h.
template <class E>
class basic_pool : public LabPool {
 public:
  static Result<basic_pool> create(const std::string& path, LabOptions options = {}) {
    options.engine = E::kKind;
    return of(papers::create(path, options));
  }
  static Result<basic_pool> open(const std::string& path, LabOptions options = {}) {
    options.engine = E::kKind;
    return of(papers::open(path, options));
  }
  static Result<basic_pool> open_or_create(const std::string& path, LabOptions options = {}) {
    options.engine = E::kKind;
    return of(papers::open_or_create(path, options));
  }

 private:
  explicit basic_pool(LabPool pool) : LabPool(std::move(pool)) {}
  static Result<basic_pool> of(Result<LabPool> pool) {
    if (!pool) return pool.error();
    return basic_pool(std::move(pool).value());
  }
};

}  // namespace perdure::papers
