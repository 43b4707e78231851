// SPDX-License-Identifier: BSD-3-Clause
// The supervisor's side of epochs: owns the image, shares memory with the runtime, commits what it stages.
// Story: shared.h. The program may be killed at any moment; what it had staged is committed all the same.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "apps/run/image.h"
#include "apps/run/shared.h"
#include "perdure/checkpoint/epoch_store.h"
#include "perdure/error.h"

namespace perdure::run {

struct KeeperStatistics {
  std::uint64_t epochs, late, dirty_pages, whole_pages, blocks;  // since the supervisor started
  std::uint64_t log_bytes, home_bytes;
  std::uint64_t pause_p50_ns, pause_p99_ns, pause_max_ns, pause_total_ns;
  std::uint64_t stop_cpu_ns;
  std::uint64_t fault_ns;
  bool tracked;
};

class Keeper {
 public:
  struct Options {
    bool power = false;
    std::uint64_t period_ns = 0;  // 0: as the budget allows
    std::uint64_t budget_millionths = 50'000;
    Recording recording = Recording::kAuto;
    bool full_only = false;
    bool accept_older = false;  // opens also if epochs that survived a power cut are lost by damage
  };
  /// A new image. Errors: Exception: kIo.
  static std::unique_ptr<Keeper> create(const std::string& directory, const Options& options);
  /// Recovers the image. Errors: Exception, nothing is changed: kNotFound, kForeign, kVersion, kCorrupt, kTruncated, kIo.
  static std::unique_ptr<Keeper> open(const std::string& directory, const Options& options);
  /// What is there, read without changing it. Errors: as open().
  static Image inspect(const std::string& directory);
  /// The newest epoch never was, if `may`, told of the one before, does not throw. Where newer ones are lost by damage, nothing
  /// more is forgotten: `may` is told of the newest that is there. Errors: as open(), and kNotFound: it is the only one.
  static void forget_last(const std::string& directory,
                          const std::function<void(std::uint64_t before)>& may = {});
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  checkpoint::EpochStore& store() { return *store_; }
  /// Requires: before start().
  ImageReader reader() { return {*store_, *log_, directory_ + "/image"}; }
  Shared& shared() { return *shared_; }
  /// The image as the last epoch left it, for the runtime; only what is not memory is there at first.
  std::byte* shadow() { return shadow_; }
  int shared_file() const { return shared_file_.get(); }
  int shadow_file() const { return shadow_file_.get(); }

  /// Called before an epoch is committed, and after. Set before start(). Both on the committing thread, the last time
  /// on that of stop(); before_commit's error, and exceptions, end commits for good.
  std::function<Result<void>(std::uint64_t epoch)> before_commit;
  std::function<void(std::uint64_t epoch)> after_commit;
  /// The runtime could not end an epoch, or commits have ended for good. On the committing thread, while none is due.
  std::function<void()> on_refused;
  /// The program replaces itself: the next one should have a runtime soon, or it is said that it has none.
  void expect_runtime();
  /// Starts committing. Requires: the program's process was forked. Threads: one, with stop().
  void start();
  /// Commits what is staged, and ends. Requires: the program has ended. Threads: one.
  void stop();
  KeeperStatistics statistics() const;

 private:
  Keeper(const std::string& directory, const Options& options);
  void share(const Options& options);
  void commit_all();
  void commit_staged();
  void look_after_program();
  void bring_home();
  void poison(const Error& error);

  const std::string directory_;
  std::unique_ptr<checkpoint::Storage> log_, home_;
  std::unique_ptr<checkpoint::EpochStore> store_;
  Descriptor shared_file_, shadow_file_;
  Shared* shared_ = nullptr;
  std::byte* shadow_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> runtime_due_ns_{0};  // CLOCK_MONOTONIC; 0: it is there
  std::uint32_t refused_ = 0;
  std::mutex mutex_;
  std::condition_variable home_wanted_;
  bool home_due_ = false;
  std::thread commits_, home_thread_;
};

}  // namespace perdure::run
