// SPDX-License-Identifier: BSD-3-Clause
#include "papers/thynvm/memory/device.h"

#include <algorithm>
#include <cstring>

namespace perdure::memory {

std::uint64_t Device::bank_of(std::uint64_t line) const {
  const std::uint64_t rows = line * kLineBytes / kRowBytes;
  switch (timing_.mapping) {
    case BankMapping::kLinesInTurn: return line % kBanks;
    case BankMapping::kHashed: return (rows ^ rows / kBanks) % kBanks;
    default: return rows % kBanks;
  }
}

Time Device::earliest(std::uint64_t line, Time since) const {
  const Time bank_free = timing_.waits_for_bank ? banks_[bank_of(line)].free : 0;
  return std::max({since, bank_free, channel_free_});
}

Time Device::service(std::uint64_t line, bool write, Time since) {
  Bank& bank = banks_[bank_of(line)];
  const Time start = earliest(line, since);
  // What waits for its bank does not keep the channel from others.
  channel_free_ = std::max(since, channel_free_) + timing_.issue;
  Time latency = timing_.row_hit;
  if (bank.row != row_of(line)) {
    const bool dirty = timing_.miss_by_row_state ? bank.dirty : write;
    latency = dirty ? timing_.dirty_miss : timing_.clean_miss;
    bank.row = row_of(line);
    bank.dirty = false;
  }
  bank.dirty |= write;
  bank.free = std::max(bank.free, start + latency);
  return start + latency;
}

Time Device::read(std::uint64_t line, Time now) {
  advance(now);
  ++reads_;
  // Answers leave in the order of the questions.
  return last_answer_ = std::max(last_answer_, service(line, false, now));
}

void Device::remember(std::uint64_t line, Time now, const Line* data) {
  if (until_hook_ != 0) {
    --until_hook_;
    if (until_hook_ == 0) hook_(now);
  }
  ++writes_;
  if (with_contents_) contents_.write(line, *data);
}

Time Device::write(std::uint64_t line, Time now, const Line* data) {
  advance(now);
  remember(line, now, data);
  const Waiting waiting{line, now, with_contents_ ? *data : Line{}};
  if (timing_.queue == 0) {
    take(waiting);
    return now;
  }
  for (Waiting& other :
       queue_) {  // two writes to one line do not overtake each other: they become one
    if (other.line != line) continue;
    other.data = waiting.data;
    return now;
  }
  // A write keeps its place until its bank takes it, also when that has been decided ahead of time.
  while (!begins_.empty() && begins_.front() <= now) begins_.pop_front();
  Time accepted = now;
  while (queue_.size() + begins_.size() >= timing_.queue) {
    Time start = 0;
    if (begins_.empty()) serve_queue(next_in_queue(&start));
    accepted = std::max(accepted, begins_.front());
    begins_.pop_front();
  }
  queue_.push_back(waiting);
  queue_.back().since = accepted;
  if (queue_.size() >= timing_.high)
    while (queue_.size() > timing_.low) {
      Time start = 0;
      serve_queue(next_in_queue(&start));
    }
  return accepted;
}

void Device::write_in_background(std::uint64_t line, Time now, const Line* data, Device* source,
                                 std::uint64_t source_line) {
  remember(line, now, data);
  background_.push_back({line, now, with_contents_ ? *data : Line{}, source, source_line});
}

std::size_t Device::next_in_queue(Time* start) const {
  std::size_t best = 0;
  *start = kNever;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const Time at = earliest(queue_[i].line, queue_[i].since);
    if (at < *start) {
      *start = at;
      best = i;
    }
  }
  return best;
}

Time Device::take(const Waiting& waiting) {
  const Time begun = earliest(waiting.line, waiting.since);
  const Time done = service(waiting.line, true, waiting.since);
  if (with_contents_) flying_.push_back({waiting.line, begun, done, waiting.data});
  return done;
}

Time Device::serve_queue(std::size_t place) {
  const Waiting waiting = queue_[place];
  queue_.erase(queue_.begin() + std::ptrdiff_t(place));
  idle_since_ = earliest(waiting.line, waiting.since);
  begins_.insert(std::upper_bound(begins_.begin(), begins_.end(), idle_since_), idle_since_);
  return take(waiting);
}

Time Device::take_apart(const Waiting& waiting) {
  Bank& bank = banks_[bank_of(waiting.line)];
  const Time begun = background_start(waiting);
  bank.background_free = begun + timing_.background_apart;
  if (with_contents_) flying_.push_back({waiting.line, begun, bank.background_free, waiting.data});
  return bank.background_free;
}

Time Device::background_start(const Waiting& waiting) const {
  if (timing_.background_apart != 0)
    return std::max(waiting.since, banks_[bank_of(waiting.line)].background_free);
  return earliest(waiting.line, std::max(waiting.since, idle_since_));
}

Time Device::serve_background() {
  Waiting waiting = background_.front();
  background_.pop_front();
  Time done = 0;
  if (timing_.background_apart != 0) {
    done = take_apart(waiting);
  } else {
    if (waiting.source != nullptr)
      waiting.since = waiting.source->service(waiting.source_line, false, waiting.since);
    waiting.since = std::max(waiting.since, idle_since_);
    done = take(waiting);
  }
  background_done_ = std::max(background_done_, done);
  return done;
}

void Device::advance(Time now) {
  while (!queue_.empty()) {
    Time start = 0;
    const std::size_t place = next_in_queue(&start);
    if (start >= now) break;
    serve_queue(place);
  }
  while (queue_.empty() && !background_.empty() && background_start(background_.front()) < now)
    serve_background();
  if (with_contents_) land(now);
}

// In the order in which banks took them, so that of two writes to a line the later one stays.
void Device::land(Time now) {
  while (!flying_.empty() && flying_.front().done <= now) {
    durable_.write(flying_.front().line, flying_.front().data);
    flying_.pop_front();
  }
}

void Device::put(std::uint64_t line, Time now, const Line* data) {
  remember(line, now, data);
  // Behind what is under way, some of it perhaps to the same line.
  if (with_contents_) flying_.push_back({line, now, now, *data});
}

Time Device::finish_background(Time now) {
  advance(now);
  while (!background_.empty()) serve_background();
  return std::max(now, background_done_);
}

Time Device::drain(Time now) {
  advance(now);
  Time done = now;
  while (!queue_.empty()) {
    Time start = 0;
    done = std::max(done, serve_queue(next_in_queue(&start)));
  }
  while (!background_.empty()) done = std::max(done, serve_background());
  for (const Bank& bank : banks_) done = std::max(done, bank.free);
  return done;
}

Contents Device::after_power_cut(Time now, std::mt19937_64& random) const {
  Contents left = durable_;
  const auto maybe = [&](std::uint64_t line, const Line& data) {
    const std::uint64_t fate = random() % 4;
    if (fate == 0) return;
    Line& there = left.at(line);
    // Words are taken whole; a line may be taken in part.
    for (std::size_t word = 0; word < kLineBytes; word += 8)
      if (fate != 1 || random() % 2 == 0) std::memcpy(&there[word], &data[word], 8);
  };
  for (const Flying& flying : flying_) {
    if (flying.done <= now) {
      left.write(flying.line, flying.data);
    } else if (flying.begun <= now) {
      maybe(flying.line, flying.data);
    }
  }
  for (const Waiting& waiting : queue_) maybe(waiting.line, waiting.data);
  return left;
}

}  // namespace perdure::memory
