// SPDX-License-Identifier: BSD-3-Clause
// The crash explorer: proves that a structure survives power cuts, by trying them.
//
//   perdure::crash::Scenario s;
//   s.name = "counter";
//   s.step = [](Pool& pool, std::uint64_t step) {
//     auto* count = pool.root<std::uint64_t>("count");
//     pool.atomically([&](auto& tx) { tx.store(*count, step); });
//   };
//   s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
//     const auto* count = pool.find_root<std::uint64_t>("count");
//     if ((count == nullptr ? 0 : *count) == step) return std::nullopt;
//     return "count is not " + std::to_string(step);
//   };
//   const auto report = perdure::crash::explore(s);   // report.violations must be empty
//
// It runs the steps once and records every store, flush and fence. Then, at each moment at which
// something was on its way to the media, it builds the images that a power cut may leave there (see
// media.h), opens each as after a restart, and asks: is this the state after some step that a
// correct structure may be in: one not older than the last acknowledged and not newer than the last
// begun? Then the structure must go on working. The recoveries are recorded and cut again, and so
// is the chain "the process dies, the next one recovers, then the power fails", where what recovery
// saw was in caches only.
//
// Not for: bugs that need two threads at the same instant (sessions take turns), or a store that
// goes around the pool's transactions (found, but only reported as such).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perdure/address_space.h"
#include "perdure/api/raise_limits.h"
#include "perdure/engine/engine.h"
#include "perdure/pool.h"
#include "sim/crash/lab.h"

namespace perdure::crash {

/// A structure in a pool. Steps are numbered from 1; step 0 is the state after setup(). A step is
/// durable when it returns (but see `durable`), and must be defined beyond `steps` too: after a recovery the explorer
/// goes on where the structure stands.
struct Scenario {
  using Visit = std::function<void(const void* object)>;

  std::string name;
  std::string claim;  // what it proves, in a sentence
  std::uint64_t steps = 3;
  /// What each life of the process does first, after the pool has recovered: cut like the rest. What it returns lives as long as the
  /// pool is open. Optional.
  std::function<std::shared_ptr<void>(Pool&)> open;
  std::function<void(Pool&)> setup;  // optional
  std::function<void(Pool&, std::uint64_t step)> step;
  /// Nothing if the pool holds exactly the state after `step` steps, else what is wrong. Must not
  /// modify the pool, and must survive anything that it finds there: bound your loops.
  std::function<std::optional<std::string>(Pool&, std::uint64_t step)> check;
  /// Optional: whether a step and all before it are durable when it returns, else it may be lost until one is. None may
  /// survive without those before it.
  std::function<bool(std::uint64_t step)> durable;
  /// Optional: visits every object that the structure owns, apart from roots. With it, each
  /// recovered heap is audited: nothing leaked, nothing dangling, nothing owned twice.
  std::function<void(Pool&, const Visit&)> reach;

  bool memory = true;  // explore it on persistent memory, without and with power-fail safe caches
  bool file = true;    // explore it on a file
  /// Small, so that rings wrap and segments run out soon.
  Geometry geometry = {.capacity_bytes = 512 << 10,
                       .segment_bytes = kMinSegmentBytes,
                       .ring_bytes = 4 << 10,
                       .log_slots = 2,
                       .root_entries = 4};
  unsigned resume_steps = 2;                   // steps made after a recovery that is cut again
  unsigned depth = 2;                          // as Options::depth, when that is less
  Truncation truncation = Truncation::kAuto;   // not kBackground: that thread cannot take turns
  std::size_t in_place_bytes = kInPlaceBytes;  // objects of that size are initialised in place
  std::size_t bulk_bytes = 0;                  // as EngineTuning has it
  bool tornbit_logs = false;                   // on memory, too
  std::uint64_t log_limit_bytes = 0;  // as EngineTuning has it: on files the log grows as far
  /// With private pages (explored on memory), so many of them may be taken before some are given back.
  Placement placement = Placement::kShared;
  std::uint64_t private_pages = 4;
  /// Optional: from the second step on the pool has these limits, to which it is raised when it has not. Not with private
  /// pages, a truncation, or `open`, which are as the pool was opened first.
  std::optional<Limits> raise_to;
  /// On files: its pages have sums. It is closed, and opened again, between steps; each image that is opened has to agree
  /// with its sums. Not with private pages or `open`.
  bool page_sums = false;
  /// Optional: another engine than the library's, for each life of the process. It may look at what the lab's memory holds,
  /// and stores through lab.domain().
  std::function<EngineSource(Lab&)> engine;
};

/// The same for a persistent address space: heap, static variables and regions. Its files are modelled with it: the names
/// that a directory holds, and what is in them.
struct SpaceScenario {
  std::string name;
  std::string claim;
  std::uint64_t steps = 3;
  /// Initial values of the static variables, at most a page; none: no such variables.
  std::vector<std::uint64_t> statics;
  std::uint64_t region_pages = 8;  // of the reserved range
  /// What the program does each time that it starts, before it relies on what it finds. Optional.
  std::function<void(AddressSpace&)> start;
  /// A step is one change that is atomic. Pointers into the address space hold during one exploration.
  std::function<void(AddressSpace&, std::uint64_t step)> step;
  std::function<std::optional<std::string>(AddressSpace&, std::uint64_t step)> check;
  bool memory = true;
  bool file = true;
  unsigned resume_steps = 2;
};

// ---- what lies beneath a Scenario: anything that can be opened on a crash image -----------------
// ------------------

/// One life of what is explored. Throwing perdure::Exception anywhere in it is a violation.
class Session {
 public:
  virtual ~Session() = default;  // closes
  virtual void setup() {}
  virtual void step(std::uint64_t step) = 0;
  virtual std::optional<std::string> check(std::uint64_t step) = 0;
  virtual bool durable(std::uint64_t) { return true; }
  /// Invariants that hold after every step.
  virtual std::optional<std::string> audit() { return std::nullopt; }
};

struct Subject {
  std::string name;
  std::string claim;
  std::uint64_t bytes;  // of the media
  std::uint64_t steps;
  unsigned resume_steps;
  unsigned depth = 2;
  bool memory;
  bool file;
  /// Writes the empty format into zeroed memory and returns what a file of it would measure.
  std::function<std::uint64_t(std::byte* base)> format;
  /// Recovers what is in the lab's memory, all of whose stores go through lab.domain().
  std::function<std::unique_ptr<Session>(Lab&)> open;
};

Subject subject_of(const Scenario& scenario);
Subject subject_of(const SpaceScenario& scenario);

// ---- exploring ----------------------------------------------------------------------------------

struct Options {
  std::uint64_t seed = 1;
  bool memory = true;  // whose caches are lost
  bool caches = true;  // memory whose caches are not (eADR)
  bool file = true;
  /// Images of one moment are enumerated in full up to this many; beyond, `samples` of each kind:
  /// single units there, single units missing, pairs, random subsets.
  std::uint64_t full_limit = 4096;
  std::uint64_t samples = 96;
  /// Moments of the run that are cut: about so many, at random, where there are more.
  std::uint64_t most_points = ~std::uint64_t{0};
  /// The same for recoveries that are cut again.
  std::uint64_t nested_full_limit = 64;
  std::uint64_t nested_samples = 8;
  std::uint64_t nested_most_points = ~std::uint64_t{0};
  /// One image in so many has its recovery cut again, but two of each moment at least; 1: all.
  std::uint64_t nest_every = 512;
  /// 1: recoveries are not cut; 2: they are; 3: and the recoveries from that, and so on.
  unsigned depth = 2;
  /// Kills are tried at every moment of a cut, and at one in so many stores between; 1: at all. With caches that are not lost
  /// a kill is no more than a power cut, and so many of these have their recovery cut again.
  std::uint64_t kill_every = 32;
  std::uint64_t max_violations = 1;
  /// A flush or fence to leave out, as a test of the test.
  Omission omission{};

  /// Everything in full, as far as 2^16 images a moment go.
  static Options exhaustive();
};

struct Violation {
  std::string scenario;
  std::string model;
  std::string what;
  std::string replay;  // for replay(), or `perdure-lab explore --replay`
};

struct Report {
  std::string scenario;
  std::string model;  // of one model, or "all"
  std::uint64_t events = 0;
  std::uint64_t crash_points = 0;
  std::uint64_t exhaustive_points = 0;  // of these, enumerated in full
  std::uint64_t images = 0;             // crash images of the first run, recovered and checked
  std::uint64_t nested_points = 0;
  std::uint64_t nested_images = 0;  // images left by cuts of a recovery and what followed it
  std::uint64_t kills = 0;          // chains: killed, recovered, cut
  double seconds = 0;
  std::array<std::uint64_t, kSiteCount> executions{};
  std::vector<Violation> violations;

  void add(const Report& other);
};

/// Errors: none are thrown; what goes wrong is a violation.
Report explore(const Subject& subject, Model model, const Options& options);
Report explore(const Subject& subject, const Options& options = {});
Report explore(const Scenario& scenario, const Options& options = {});
Report explore(const SpaceScenario& scenario, const Options& options = {});

/// Explores the one image that `text` names. Requires: the subject's name is the text's.
/// Errors: kInvalid when the text cannot be read.
Result<Report> replay(const Subject& subject, std::string_view text);
/// The scenario's name in a replay text.
std::string_view replay_name(std::string_view text);

}  // namespace perdure::crash
