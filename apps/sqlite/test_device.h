// SPDX-License-Identifier: BSD-3-Clause
// A device for tests: it can be stopped, can fail, and can lose its power, after which it holds what was synced, and of what was
// only written some. Databases on it are opened by SQL as any other.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "apps/sqlite/databases.h"
#include "perdure/domain/sync.h"
#include "tests/image.h"

namespace perdure::sqlite::testing {

/// Threads: any.
class TestDevice {
 public:
  /// The device holds `durable`. Each write that is waited for takes `latency`.
  explicit TestDevice(std::vector<std::byte> durable, std::chrono::microseconds latency = {})
      : durable_(std::move(durable)), latency_(latency) {}

  void close() { set(State::kClosed); }
  void open() { set(State::kOpen); }
  void fail() { set(State::kFails); }
  /// Returns when somebody waits at the closed device.
  void await_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }
  /// Everything fails from now on. Returns what the device holds: of what was written last, and not synced, each page with
  /// the chance of a coin.
  std::vector<std::byte> lose_power(unsigned seed) {
    const std::lock_guard lock(mutex_);
    state_ = State::kFails;
    changed_.notify_all();
    std::mt19937 random(seed);
    for (const Page& page : written_) {
      if (random() % 2 == 0) apply(page);
    }
    return durable_;
  }

  bool write(Offset at, const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kFails) return false;
    take(at, data, bytes);
    return true;
  }
  bool write_durable(Offset at, const void* data, std::size_t bytes) {
    return write(at, data, bytes) && sync();
  }
  bool sync() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    if (latency_.count() != 0)
      changed_.wait_for(lock, latency_, [&] { return state_ == State::kFails; });
    changed_.wait(lock, [&] { return state_ != State::kClosed; });
    --waiting_;
    if (state_ == State::kFails) return false;
    for (const Page& page : written_) apply(page);
    written_.clear();
    return true;
  }

 private:
  enum class State { kOpen, kClosed, kFails };
  struct Page {
    Offset at;
    std::vector<std::byte> bytes;
  };
  void set(State state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
    changed_.notify_all();
  }
  void take(Offset at, const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::byte*>(data);
    for (std::size_t done = 0; done < bytes; done += kPageBytes)
      written_.push_back({at + done, {from + done, from + std::min(bytes, done + kPageBytes)}});
  }
  void apply(const Page& page) {
    std::memcpy(durable_.data() + page.at, page.bytes.data(), page.bytes.size());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> durable_;
  std::vector<Page> written_;
  std::chrono::microseconds latency_;
  State state_ = State::kOpen;
  int waiting_ = 0;
};

/// As a domain wants its device.
struct TestDevicePort {
  TestDevice* device;
  bool write(Offset at, const void* data, std::size_t bytes) {
    return device->write(at, data, bytes);
  }
  bool write_durable(Offset at, const void* data, std::size_t bytes) {
    return device->write_durable(at, data, bytes);
  }
  bool sync() { return device->sync(); }
};

/// A machine with one such device and the pool on it.
class TestMachine {
 public:
  static constexpr Geometry kGeometry = {std::uint64_t{16} << 20, std::uint64_t{1} << 20,
                                         32 * kPageBytes, 12, 8};

  /// With an empty pool.
  TestMachine() : TestMachine(empty()) {}
  /// With a device that holds `durable`.
  explicit TestMachine(const std::vector<std::byte>& durable,
                       std::chrono::microseconds latency = {})
      : device(durable, latency), memory_(durable.size()) {
    std::memcpy(memory_.base(), durable.data(), durable.size());
  }

  Result<Pool> boot() {
    auto region = memory_.region(DomainKind::kSync);
    if (!region) return region.error();
    auto group =
        std::make_shared<SyncGroup<TestDevicePort>>(TestDevicePort{&device}, memory_.base());
    return adopt_region(std::move(region).value(), {[group](const EngineParts& parts) {
                          return std::make_unique<Redo<Sync<TestDevicePort>>>(
                              parts, Sync<TestDevicePort>(*group));
                        }},
                        10, group);
  }
  static std::vector<std::byte> empty() {
    perdure::testing::Image image = perdure::testing::Image::formatted(kGeometry);
    return {image.base(), image.base() + image.bytes()};
  }

  TestDevice device;

 private:
  perdure::testing::Image memory_;
};

/// While it lives, databases whose names are in `machines` are opened there. (One at a time.)
class OnTestMachines {
 public:
  using Machines = std::map<std::string, TestMachine*>;
  explicit OnTestMachines(Machines machines) {
    current() = std::move(machines);
    open_pools_by(
        [](const Request& request) -> Result<Pool> { return current().at(request.path)->boot(); });
  }
  ~OnTestMachines() { open_pools_by(open_with_library); }

 private:
  static Machines& current() {
    static Machines machines;
    return machines;
  }
};

}  // namespace perdure::sqlite::testing
