// SPDX-License-Identifier: BSD-3-Clause
// PoolStorage: the state that copies of a pool's domain share: the group of threads that wait for
// one device, and the private pages. It outlives the engine.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "perdure/domain/private_pages.h"
#include "perdure/domain/sync.h"
#include "perdure/expert.h"
#include "perdure/region/region.h"

namespace perdure {

struct PoolStorage {
  std::optional<SyncGroup<RegionDevice>> group;  // on files
  std::optional<PrivatePages> pages;             // on files, and where memory is mapped privately
  std::ptrdiff_t to_home = 0;                    // of the latter: from the private mapping

  /// Whether memory is mapped privately.
  bool private_pages_over_memory() const { return pages && !group; }

  /// What `region`, opened with `options`, needs. In a forked child it is never destroyed: its
  /// destructor would wait for threads that waited for the device at the fork.
  static std::shared_ptr<PoolStorage> of(const Region& region, const ExpertOptions& options);
};

/// Errors: kInvalid for options that no pool can have.
Result<void> check_options(const std::string& path, const ExpertOptions& options);
/// Opens the file as Pool::open() does, without an engine.
Result<std::unique_ptr<Region>> open_pool_region(const std::string& path,
                                                 const ExpertOptions& options);
/// Creates the file as Pool::create() does, and leaves it closed.
Result<void> create_pool_file(const std::string& path, const ExpertOptions& options);
/// For engines that cannot serve a persistent address space. Errors: kInvalid.
Result<void> refuse_address_space(const Region& region, const std::string& why);

/// What the engine is told of the options.
inline EngineTuning tuning_of(const ExpertOptions& options) {
  EngineTuning tuning;
  tuning.relaxed_delay = std::chrono::milliseconds(options.relaxed_delay.count);
  tuning.in_place_bytes = options.in_place_bytes;
  tuning.log_limit_bytes =
      options.log_limit_bytes != 0
          ? options.log_limit_bytes
          : static_cast<std::uint64_t>(options.recovery_target.count) * kReplayedPerMillisecond;
  tuning.tornbit_logs = options.tornbit_logs;
  return tuning;
}

}  // namespace perdure
