// SPDX-License-Identifier: BSD-3-Clause
#include "sim/crash/suite.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace perdure::crash {
namespace {

struct Job {
  const Subject* subject;
  Model model;
};

struct Canary {
  Site site;
  Model model;
  std::uint64_t first;
  std::uint64_t count;
};
constexpr std::uint64_t kAll = ~std::uint64_t{0};

/// Sites whose executions have different duties: each is left out alone, too.
constexpr Site kSitesOfTwoDuties[] = {Site::kGrow, Site::kGrowFence, Site::kRaise,
                                      Site::kRaiseFence};

std::uint64_t images_of(const Report& report) { return report.images + report.nested_images; }

const SiteInfo& info_of(Site site) { return kSites[static_cast<std::size_t>(site)]; }

class Suite {
 public:
  Suite(std::vector<Subject> subjects, const SuiteOptions& options,
        const ProgressCallback& progress)
      : options_(options), progress_(progress), subjects_(std::move(subjects)) {}

  SuiteReport run() {
    plan();
    result_.reports.resize(jobs_.size());
    planned_ = jobs_.size();
    in_parallel(jobs_.size(), [&](std::size_t i) {
      result_.reports[i] = explore(*jobs_[i].subject, jobs_[i].model, options_.explore);
      finished(result_.reports[i].scenario + "/" + result_.reports[i].model,
               images_of(result_.reports[i]));
    });
    for (const Report& report : result_.reports) result_.total.add(report);
    result_.total.scenario = "all";
    for (const SiteInfo& info : kSites) {
      if (result_.total.executions[static_cast<std::size_t>(info.site)] == 0)
        result_.unused_sites.emplace_back(info.name);
    }
    if (options_.canaries) release_canaries();
    result_.seconds = elapsed();
    return std::move(result_);
  }

 private:
  void plan() {
    for (const Subject& subject : subjects_) {
      const auto& only = options_.only;
      if (!only.empty() && std::find(only.begin(), only.end(), subject.name) == only.end())
        continue;
      if (subject.memory && options_.explore.memory) jobs_.push_back({&subject, Model::kMemory});
      if (subject.memory && options_.explore.caches) jobs_.push_back({&subject, Model::kCaches});
      if (subject.file && options_.explore.file) jobs_.push_back({&subject, Model::kFile});
    }
  }

  void release_canaries() {
    std::vector<Canary> canaries;
    for (const Model model : {Model::kMemory, Model::kFile}) {
      for (const SiteInfo& info : kSites) {
        if (scenarios_with({info.site, model, 0, kAll}).empty()) continue;
        canaries.push_back({info.site, model, 0, kAll});
        if (std::find(std::begin(kSitesOfTwoDuties), std::end(kSitesOfTwoDuties), info.site) ==
            std::end(kSitesOfTwoDuties))
          continue;
        canaries.push_back({info.site, model, 0, 1});
        canaries.push_back({info.site, model, 1, 1});
      }
    }
    result_.canaries.resize(canaries.size());
    planned_ += canaries.size();
    in_parallel(canaries.size(), [&](std::size_t i) { result_.canaries[i] = hunt(canaries[i]); });
  }

  /// The scenarios that execute a canary's site, the quickest first.
  std::vector<std::size_t> scenarios_with(const Canary& canary) const {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const auto site = static_cast<std::size_t>(canary.site);
      if (jobs_[i].model == canary.model && result_.reports[i].executions[site] > canary.first)
        found.push_back(i);
    }
    std::sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
      return images_of(result_.reports[a]) < images_of(result_.reports[b]);
    });
    return found;
  }

  CanaryResult hunt(const Canary& canary) {
    CanaryResult result;
    result.site = info_of(canary.site).name;
    result.omitted = canary.count == kAll ? "all" : canary.first == 0 ? "1st" : "2nd";
    result.model = model_name(canary.model);
    result.without = info_of(canary.site).without;
    Options options = options_.hunt.value_or(options_.explore);
    options.max_violations = 1;
    options.omission.active = true;
    options.omission.site = canary.site;
    options.omission.first = canary.first;
    options.omission.count = canary.count;
    std::uint64_t images = hunt_with(options, canary, result);
    if (!result.caught) {
      // Fewer images, but the recovery of each is cut again.
      options.full_limit = 16;
      options.samples = 4;
      options.nest_every = 1;
      images += hunt_with(options, canary, result);
    }
    finished("without " + result.site + " (" + result.omitted + ", " + result.model + ")", images);
    return result;
  }

  std::uint64_t hunt_with(const Options& options, const Canary& canary, CanaryResult& result) {
    std::uint64_t images = 0;
    for (const std::size_t i : scenarios_with(canary)) {
      const Report report = explore(*jobs_[i].subject, canary.model, options);
      images += images_of(report);
      if (report.violations.empty()) continue;
      result.caught = true;
      result.scenario = report.scenario;
      result.what = report.violations[0].what;
      result.replay = report.violations[0].replay;
      break;
    }
    return images;
  }

  void in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < std::max(1u, options_.threads); ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) work(i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  void finished(const std::string& what, std::uint64_t images) {
    const std::lock_guard lock(mutex_);
    images_ += images;
    ++finished_;
    if (progress_) progress_({what, finished_, planned_, images_, elapsed()});
  }

  double elapsed() const {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    return spent.count();
  }

  const SuiteOptions& options_;
  const ProgressCallback& progress_;
  const std::vector<Subject> subjects_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::vector<Job> jobs_;
  SuiteReport result_;
  std::mutex mutex_;
  std::size_t finished_ = 0;
  std::size_t planned_ = 0;
  std::uint64_t images_ = 0;
};

}  // namespace

std::size_t SuiteReport::canaries_caught() const {
  return static_cast<std::size_t>(
      std::count_if(canaries.begin(), canaries.end(), [](const auto& c) { return c.caught; }));
}

SuiteReport run_suite(std::vector<Subject> subjects, const SuiteOptions& options,
                      const ProgressCallback& progress) {
  return Suite(std::move(subjects), options, progress).run();
}

Result<Report> replay(const std::vector<Subject>& subjects, std::string_view text) {
  for (const Subject& subject : subjects) {
    if (subject.name == replay_name(text)) return replay(subject, text);
  }
  return Error{Code::kInvalid, "no scenario is called '" + std::string(replay_name(text)) +
                                   "'; `perdure-lab explore --list` names them"};
}

}  // namespace perdure::crash
