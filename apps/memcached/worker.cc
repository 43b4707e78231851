// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/worker.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace perdure::memcached {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kGatherBytes = 64 << 10;
constexpr std::size_t kGatherMost = 16;
constexpr int kTurns = 8;  // reads of one connection before the others' turn
constexpr std::size_t kSpareBuffers = 64;
constexpr auto kPatience =
    std::chrono::seconds(5);  // with clients that take no replies, at the end

/// Whether what came begins with a command that other commands need not wait for.
bool only_reads(std::string_view input) { return input[0] == 'g' || input.starts_with("mg"); }

}  // namespace

struct Worker::Connection {
  Connection(Worker& its, int descriptor, Service& service)
      : worker(&its), fd(descriptor), session(service, its.counters_) {}

  Worker* worker;
  int fd;
  std::size_t index = 0;  // in all_
  Session session;
  Buffer in;   // what was read and not answered
  Buffer out;  // replies
  std::size_t sent = 0;
  std::uint64_t sync = 0;  // that the replies wait for; 0: none
  std::uint32_t active = 0;
  bool full = false;      // the session had more to answer
  bool drained = false;   // all that had come was read
  bool writing = false;   // waits for the client to take replies
  bool paused = false;    // not read from
  bool gathered = false;  // in gathered_
  bool answered = false;  // in answered_
  bool ended = false;     // the client sends no more
  event read_event{};
  event write_event{};
};

Worker::Worker(Service& service, Syncer& syncer, std::uint32_t idle_seconds)
    : service_(&service),
      syncer_(&syncer),
      idle_seconds_(idle_seconds),
      gathers_(!syncer.relaxed()),
      base_(::event_base_new()),
      scratch_(new char[kGatherBytes + kReadBytes]) {
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (base_ == nullptr || wake_ < 0)
    throw Exception(Code::kIo, std::string("memcached: no event loop: ") + std::strerror(errno));
  const auto on_wake = [](int, short, void* self) { static_cast<Worker*>(self)->woken(); };
  const auto on_tick = [](int, short, void* self) { static_cast<Worker*>(self)->tick(); };
  ::event_assign(&wake_event_, base_.get(), wake_, EV_READ | EV_PERSIST, on_wake, this);
  ::event_assign(&tick_event_, base_.get(), -1, EV_PERSIST, on_tick, this);
  ::event_add(&wake_event_, nullptr);
  const timeval second{1, 0};
  if (idle_seconds_ > 0) ::event_add(&tick_event_, &second);
}

Worker::~Worker() {
  stop();
  ::close(wake_);
}

void Worker::start() {
  thread_ = std::thread([this] { run(); });
}

void Worker::adopt(int connection) {
  {
    const std::lock_guard lock(mutex_);
    adopted_.push_back(connection);
  }
  connections_.fetch_add(1, std::memory_order_relaxed);
  wake();
}

void Worker::wake() {
  const std::uint64_t one = 1;
  // Full means that it is awake already.
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof(one));
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  wake();
  thread_.join();
}

void Worker::run() {
  while (!stopping_.load(std::memory_order_relaxed)) {
    ::event_base_loop(base_.get(), EVLOOP_ONCE);
    end_round();
  }
  // What was read has been answered; what clients were not told yet they are told now.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const auto waits = [](const auto& connection) {
    return connection->sync != 0 || connection->writing;
  };
  const timeval soon{0, 10'000};
  while (std::any_of(all_.begin(), all_.end(), waits) && syncer_->failure().empty() &&
         std::chrono::steady_clock::now() < deadline) {
    ::event_base_loopexit(base_.get(), &soon);
    ::event_base_loop(base_.get(), EVLOOP_ONCE);
    end_round();
  }
  while (!all_.empty()) close(*all_.back());
  ::event_del(&wake_event_);
  ::event_del(&tick_event_);
}

void Worker::woken() {
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_, &ignored, sizeof(ignored));
  std::vector<int> adopted;
  {
    const std::lock_guard lock(mutex_);
    adopted.swap(adopted_);
  }
  for (const int descriptor : adopted) take_over(descriptor);
  release_held();
  if (stopping_.load(std::memory_order_relaxed)) ::event_base_loopbreak(base_.get());
}

void Worker::take_over(int descriptor) {
  auto connection = std::make_unique<Connection>(*this, descriptor, *service_);
  const auto on_readable = [](int, short, void* which) {
    auto& its = *static_cast<Connection*>(which);
    its.worker->converse(its);
  };
  const auto on_writable = [](int, short, void* which) {
    auto& its = *static_cast<Connection*>(which);
    its.writing = false;
    if (its.worker->send(its)) its.worker->converse(its);
  };
  ::event_assign(&connection->read_event, base_.get(), descriptor, EV_READ | EV_PERSIST,
                 on_readable, connection.get());
  ::event_assign(&connection->write_event, base_.get(), descriptor, EV_WRITE, on_writable,
                 connection.get());
  ::event_add(&connection->read_event, nullptr);
  connection->active = service_->clock->now();
  connection->index = all_.size();
  all_.push_back(std::move(connection));
}

void Worker::close(Connection& connection) {
  ::event_del(&connection.read_event);
  ::event_del(&connection.write_event);
  ::close(connection.fd);
  if (connection.gathered)
    std::erase_if(gathered_, [&](const Gathered& each) { return each.connection == &connection; });
  if (connection.answered) std::erase(answered_, &connection);
  if (connection.sync != 0) std::erase(held_, &connection);
  connections_.fetch_sub(1, std::memory_order_relaxed);
  const std::size_t index = connection.index;
  std::swap(all_[index], all_.back());
  all_[index]->index = index;
  all_.pop_back();
}

void Worker::tick() {
  const std::uint32_t now = service_->clock->now();
  for (std::size_t i = all_.size(); i-- > 0;) {
    Connection& connection = *all_[i];
    if (connection.sync != 0 || now - std::min(now, connection.active) < idle_seconds_) continue;
    counters_.add(Counter::idle_kicks);
    close(connection);
  }
}

// ---- one connection -----------------------------------------------------------------------------

void Worker::pause(Connection& connection) {
  if (connection.paused) return;
  connection.paused = true;
  ::event_del(&connection.read_event);
}

void Worker::converse(Connection& connection) {
  const bool waits = connection.sync != 0 || connection.writing;
  if (waits || connection.gathered || connection.answered) return pause(connection);
  connection.drained = false;
  for (int turn = 0; turn < kTurns; ++turn) {
    if (connection.full) {
      feed(connection, connection.in.view(), true);
    } else if (connection.ended || connection.session.closing()) {
      return close(connection);
    } else if (connection.drained) {
      break;
    } else if (!read(connection)) {
      if (connection.ended) return close(connection);
      break;
    }
    if (connection.gathered) return;  // on in end_round()
    if (!connection.out.empty()) {
      if (syncer_->delays()) return note_answered(connection);  // on in end_round()
      if (!send(connection)) return;
    }
  }
  if (connection.full || connection.session.closing()) {
    // Its turn is over, and there is no event to come back to it.
    ::event_active(&connection.write_event, EV_WRITE, 0);
    connection.writing = true;
    return;
  }
  if (connection.paused) {
    connection.paused = false;
    ::event_add(&connection.read_event, nullptr);
  }
}

void Worker::go_on(Connection& connection) {
  if (connection.full || connection.paused || connection.session.closing()) converse(connection);
}

bool Worker::read(Connection& connection) {
  Buffer& in = connection.in;
  const bool kept = !in.empty();
  // As large as what is known to come, but no larger than the client has shown that it means it.
  std::size_t room = kReadBytes;
  if (kept) {
    const std::size_t wanted = connection.session.wanted();
    room = std::clamp(wanted > in.size() ? wanted - in.size() : 0, std::size_t{2048},
                      std::max(kReadBytes, in.size()));
    in.reserve_more(room);
  }
  if (gathered_bytes_ >= kGatherBytes || gathered_.size() >= kGatherMost) answer_gathered();
  char* const to = kept ? in.data() + in.size() : scratch_.get() + gathered_bytes_;
  const ssize_t got = ::recv(connection.fd, to, room, 0);
  if (got <= 0) {
    connection.ended = got == 0 || (errno != EAGAIN && errno != EINTR);
    return false;
  }
  connection.drained = static_cast<std::size_t>(got) < room;
  connection.active = service_->clock->now();
  counters_.add(Counter::bytes_read, static_cast<std::uint64_t>(got));
  if (kept) in.grow(static_cast<std::size_t>(got));
  const std::string_view input =
      kept ? in.view() : std::string_view(to, static_cast<std::size_t>(got));
  if (!kept && gathers_ && !only_reads(input)) {
    connection.gathered = true;
    gathered_.push_back({&connection, input, 0});
    gathered_bytes_ += input.size();
  } else {
    feed(connection, input, kept);
  }
  return true;
}

std::size_t Worker::answer(Connection& connection, std::string_view input) {
  if (connection.out.capacity() == 0 && !spare_.empty()) {
    connection.out = std::move(spare_.back());
    spare_.pop_back();
  }
  return connection.session.feed(input, connection.out);
}

void Worker::feed(Connection& connection, std::string_view input, bool kept) {
  keep_rest(connection, input, answer(connection, input), kept);
}

void Worker::keep_rest(Connection& connection, std::string_view input, std::size_t used,
                       bool kept) {
  connection.full = connection.out.size() >= Session::kFull && used < input.size();
  if (!kept) {
    connection.in.append(input.substr(used));
    return;
  }
  connection.in.consume(used);
  if (connection.in.empty()) connection.in = Buffer();
}

bool Worker::send(Connection& connection) {
  Buffer& out = connection.out;
  while (connection.sent < out.size()) {
    const ssize_t sent = ::send(connection.fd, out.data() + connection.sent,
                                out.size() - connection.sent, MSG_NOSIGNAL);
    if (sent >= 0) {
      connection.sent += static_cast<std::size_t>(sent);
      counters_.add(Counter::bytes_written, static_cast<std::uint64_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      close(connection);
      return false;
    }
    connection.writing = true;
    pause(connection);
    ::event_add(&connection.write_event, nullptr);
    return false;
  }
  connection.sent = 0;
  out.reset();
  if (out.capacity() > 0 && spare_.size() < kSpareBuffers) {
    spare_.push_back(std::move(out));
    out = Buffer();
  }
  return true;
}

// ---- what a round has read ----------------------------------------------------------------------

void Worker::answer_gathered() {
  if (gathered_.size() < 2 || !answer_together()) {
    for (Gathered& each : gathered_) each.used = answer(*each.connection, each.input);
  }
  for (const Gathered& each : gathered_) {
    each.connection->gathered = false;
    keep_rest(*each.connection, each.input, each.used, false);
    note_answered(*each.connection);
  }
  gathered_.clear();
  gathered_bytes_ = 0;
}

bool Worker::answer_together() {
  std::array<std::string_view, kGatherMost> keys;
  for (std::size_t i = 0; i < gathered_.size(); ++i)
    keys[i] = Session::first_key(gathered_[i].input);
  service_->store->expect({keys.data(), gathered_.size()});
  CounterValues counted{};
  counters_.add_to(counted);
  sessions_.clear();
  for (const Gathered& each : gathered_) sessions_.push_back(each.connection->session);
  const bool done = service_->store->together([this] {
    for (Gathered& each : gathered_) each.used = answer(*each.connection, each.input);
  });
  if (done) return true;
  counters_.take_back_to(counted);
  for (std::size_t i = 0; i < gathered_.size(); ++i) {
    gathered_[i].connection->session = sessions_[i];
    gathered_[i].connection->out.cut(0);
  }
  return false;
}

void Worker::note_answered(Connection& connection) {
  connection.answered = true;
  answered_.push_back(&connection);
}

// ---- replies that wait --------------------------------------------------------------------------

void Worker::end_round() {
  answer_gathered();
  if (answered_.empty()) return;
  // Before the sync is known: one that ends from here on wakes this worker.
  holds_.store(true, std::memory_order_seq_cst);
  const std::uint64_t sync = syncer_->needed();
  std::vector<Connection*> answered;
  answered.swap(answered_);
  for (Connection* connection : answered) connection->answered = false;
  if (sync == 0) {
    for (Connection* connection : answered) {
      if (send(*connection)) go_on(*connection);
    }
    // They may have gone on.
    if (!gathered_.empty() || !answered_.empty()) end_round();
    return;
  }
  for (Connection* connection : answered) {
    connection->sync = sync;
    held_.push_back(connection);
  }
  syncer_->request(sync);
}

void Worker::release_held() {
  const std::uint64_t ended = syncer_->ended();
  while (!held_.empty() && held_.front()->sync <= ended) {
    Connection& connection = *held_.front();
    held_.pop_front();
    connection.sync = 0;
    if (send(connection)) go_on(connection);
  }
  if (held_.empty()) holds_.store(false, std::memory_order_seq_cst);
  if (held_.empty() || syncer_->failure().empty()) return;
  // Nobody knows what of it is durable: no reply may say so.
  while (!held_.empty()) close(*held_.front());
}

}  // namespace perdure::memcached
