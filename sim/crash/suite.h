// SPDX-License-Identifier: BSD-3-Clause
// The suite: every built-in scenario, explored, and the canaries, which prove that the exploring
// would notice. A canary is the house with one flush or fence left out; some scenario must find a
// violation then.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/crash/explorer.h"

namespace perdure::crash {

struct SuiteOptions {
  Options explore;
  std::optional<Options> hunt;  // how canaries are hunted; without it, as scenarios are explored
  std::vector<std::string> only;  // scenario names; empty: all
  bool canaries = true;
  unsigned threads = 2;
};

struct CanaryResult {
  std::string site;     // as in perdure/domain/site.h
  std::string omitted;  // "all", or "1st" … of its executions in each life of a process
  std::string model;
  std::string without;  // what a power cut may then do
  bool caught = false;
  std::string scenario;  // that caught it
  std::string what;      // the violation found
  std::string replay;
};

struct SuiteReport {
  std::vector<Report> reports;  // per scenario and model
  Report total;
  std::vector<CanaryResult> canaries;
  std::vector<std::string> unused_sites;  // that no scenario executes, in any model
  double seconds = 0;

  std::size_t canaries_caught() const;
  bool ok() const { return total.violations.empty() && canaries_caught() == canaries.size(); }
};

struct Progress {
  std::string done;  // the scenario or canary just finished
  std::size_t finished = 0;
  std::size_t planned = 0;
  std::uint64_t images = 0;  // so far, nested ones included
  double seconds = 0;
};
/// Called from one thread at a time.
using ProgressCallback = std::function<void(const Progress&)>;

SuiteReport run_suite(std::vector<Subject> subjects, const SuiteOptions& options,
                      const ProgressCallback& progress = {});

/// Replays a text that names one of `subjects`. Errors: kInvalid.
Result<Report> replay(const std::vector<Subject>& subjects, std::string_view text);

}  // namespace perdure::crash
