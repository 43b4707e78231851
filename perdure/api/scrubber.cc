// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/scrubber.h"

#include <algorithm>
#include <thread>

#include "perdure/api/device_reader.h"

namespace perdure {

Result<std::unique_ptr<Scrubber>> Scrubber::start(const Region& region,
                                                  std::chrono::milliseconds interval) {
  auto device = DeviceReader::open_again(region);
  if (!device) return device.error();
  std::unique_ptr<Scrubber> scrubber(new Scrubber(region, std::move(device).value(), interval));
  scrubber->worker_.start(
      [me = scrubber.get()] {
        me->look();
        return !me->stop_.load(std::memory_order_relaxed);
      },
      std::chrono::nanoseconds(0), interval);
  return scrubber;
}

Scrubber::Scrubber(const Region& region, DeviceReader device, std::chrono::milliseconds interval)
    : region_(&region),
      device_(std::make_unique<DeviceReader>(std::move(device))),
      interval_(interval) {}

Scrubber::~Scrubber() { stop_.store(true, std::memory_order_relaxed); }

std::string Scrubber::damage() const {
  const std::lock_guard lock(mutex_);
  return damage_;
}

void Scrubber::look() {
  const Error stopped{Code::kMisuse, "stopped"};
  const auto read = [&](Offset at, std::byte* to, std::uint64_t bytes) -> Result<void> {
    if (stop_.load(std::memory_order_relaxed)) return stopped;
    return device_->read(at, to, bytes);
  };
  const auto show = [&](std::uint64_t done, std::uint64_t all) {
    if (done < all) wait(interval_ / (2 * all));
  };
  auto found = check_page_sums(region_->superblock(), region_->grown_bytes(), read, show);
  if (stop_.load(std::memory_order_relaxed)) return;
  std::string message;
  if (!found) {
    message = found.error().message;
  } else if (!found->damage.empty()) {
    message = region_->path() + ": " + found->damage.front().what();
    if (const std::size_t more = found->damage.size() - 1; more > 0)
      message += ", and " + std::to_string(more) + " more";
    message += "; `perdure scrub` lists them, restore the pool from a backup";
  }
  if (!message.empty()) {
    const std::lock_guard lock(mutex_);
    damage_ = message;
  }
  looks_.fetch_add(1, std::memory_order_release);
}

/// In pieces: a condition to wait for could not be destroyed in a forked child.
void Scrubber::wait(std::chrono::nanoseconds time) const {
  constexpr std::chrono::nanoseconds kPiece = std::chrono::milliseconds(20);
  const auto end = std::chrono::steady_clock::now() + time;
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::chrono::nanoseconds left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return;
    std::this_thread::sleep_for(std::min(left, kPiece));
  }
}

}  // namespace perdure
