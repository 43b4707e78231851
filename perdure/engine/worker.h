// SPDX-License-Identifier: BSD-3-Clause
// Worker: a background thread of the engine with one job.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace perdure {

class Worker {
 public:
  ~Worker() { stop(); }

  /// Runs `job` in a thread of its own: after each nudge, `delay` later; and every `interval`
  /// without one, if that is not zero. `job` returns whether to go on.
  /// Requires: not running. Errors: std::system_error.
  void start(std::function<bool()> job, std::chrono::nanoseconds delay,
             std::chrono::nanoseconds interval) {
    job_ = std::move(job);
    delay_ = delay;
    interval_ = interval;
    stop_ = false;
    pid_ = ::getpid();
    thread_ = std::thread([this] {
      run_where_the_program_may();
      run();
    });
  }
  /// Waits for a job under way. Threads: not two at the same time.
  void stop() {
    if (!thread_.joinable()) return;
    if (::getpid() != pid_) {
      // Forked: the thread is not there, but the condition knows it as a waiter, and its destructor
      // would wait for it.
      (void)wake_.release();
      return thread_.detach();
    }
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_->notify_one();
    thread_.join();
  }

  /// Threads: any. Cost: a load, unless the worker sleeps.
  void nudge() {
    if (nudged_.load(std::memory_order_relaxed)) return;  // the job is still to come
    nudged_.store(true, std::memory_order_seq_cst);
    // Orders: the nudge before this look, as run() says that it sleeps before it looks for a nudge:
    //         one sees the other.
    if (!asleep_.load(std::memory_order_seq_cst)) return;
    const std::lock_guard lock(mutex_);
    wake_->notify_one();
  }

 private:
  /// A new thread inherits the CPU affinity of the one that made it. If that one is pinned, both
  /// would share its CPU.
  static void run_where_the_program_may() {
    cpu_set_t allowed;
    if (::sched_getaffinity(::getpid(), sizeof(allowed), &allowed) == 0)  // of the first thread
      (void)::sched_setaffinity(0, sizeof(allowed), &allowed);
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      asleep_.store(true, std::memory_order_seq_cst);
      const auto called = [this] { return stop_ || nudged_.load(std::memory_order_seq_cst); };
      if (interval_.count() != 0) {
        wake_->wait_for(lock, interval_, called);
      } else {
        wake_->wait(lock, called);
      }
      asleep_.store(false, std::memory_order_relaxed);
      if (delay_.count() != 0) wake_->wait_for(lock, delay_, [this] { return stop_; });
      if (stop_) return;
      // Acquire: what was done before a nudge that is taken back here is seen by the job.
      nudged_.exchange(false, std::memory_order_acq_rel);
      lock.unlock();
      const bool go_on = job_();
      lock.lock();
      if (!go_on) return;
    }
  }

  std::function<bool()> job_;
  std::chrono::nanoseconds delay_{0};
  std::chrono::nanoseconds interval_{0};
  std::thread thread_;
  int pid_ = 0;
  std::mutex mutex_;
  std::unique_ptr<std::condition_variable> wake_ = std::make_unique<std::condition_variable>();
  std::atomic<bool> asleep_{false};
  std::atomic<bool> nudged_{false};
  bool stop_ = false;  // under mutex_
};

}  // namespace perdure
