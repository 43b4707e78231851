// SPDX-License-Identifier: BSD-3-Clause
// Worker: a thread that serves its share of the connections from one event loop.
//
// Where replies have to wait for the device (syncer.h) the loop does not: a connection whose reply is kept back is not read
// from meanwhile, all others are. A round of the loop asks for one sync, whatever it has answered. Where none waits, what a
// round has read is gathered, but for retrievals, and answered at its end, as one transaction if that can be.
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "apps/memcached/session.h"
#include "apps/memcached/syncer.h"

namespace perdure::memcached {

class Worker {
 public:
  /// Errors: throws Exception kIo.   Requires: service and syncer outlive it.
  Worker(Service& service, Syncer& syncer, std::uint32_t idle_seconds);
  /// As stop().
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void start();
  /// Serves a connection from now on. Threads: any.
  void adopt(int connection);
  /// Something has changed that the loop does not see. Threads: any.
  void wake();
  /// Answers what has been read, then closes all connections. Threads: one.
  void stop();

  /// Whether a sync's end is of interest here. Threads: any.
  bool holds() const { return holds_.load(std::memory_order_seq_cst); }

  const Counters& counters() const { return counters_; }
  std::uint64_t connections() const { return connections_.load(std::memory_order_relaxed); }

 private:
  struct Connection;
  /// What was read of a connection, and is answered together with others'.
  struct Gathered {
    Connection* connection;
    std::string_view input;
    std::size_t used;  // bytes of it, when it is answered
  };
  struct EventBaseFree {
    void operator()(event_base* base) const { ::event_base_free(base); }
  };

  void run();
  void end_round();
  void take_over(int descriptor);
  void woken();
  void release_held();
  void tick();
  void converse(Connection& connection);
  /// After its replies were sent: converses, unless an event will say when.
  void go_on(Connection& connection);
  /// Reads what there is. False: nothing came.
  bool read(Connection& connection);
  void feed(Connection& connection, std::string_view input, bool kept);
  /// Answers what is whole of the input. Returns how many bytes of it are done with.
  std::size_t answer(Connection& connection, std::string_view input);
  void keep_rest(Connection& connection, std::string_view input, std::size_t used, bool kept);
  /// Answers what this round has read and put off.
  void answer_gathered();
  /// The same in one transaction. False: nothing was done.
  bool answer_together();
  /// Its replies are sent at the end of the round.
  void note_answered(Connection& connection);
  /// Sends the replies, now or when the client takes them. False: not all is sent, or the connection is gone.
  bool send(Connection& connection);
  void pause(Connection& connection);
  void close(Connection& connection);

  Service* service_;
  Syncer* syncer_;
  std::uint32_t idle_seconds_;
  const bool gathers_;
  Counters counters_;
  std::unique_ptr<event_base, EventBaseFree> base_;
  int wake_ = -1;
  event wake_event_{};
  event tick_event_{};
  std::unique_ptr<char[]> scratch_;  // what was gathered, then what is read
  std::size_t gathered_bytes_ = 0;
  std::vector<Gathered> gathered_;  // in this round
  std::vector<Session> sessions_;   // what theirs were before
  std::vector<std::unique_ptr<Connection>> all_;
  std::vector<Connection*> answered_;  // in this round
  std::deque<Connection*> held_;       // in the order of their syncs
  std::vector<Buffer> spare_;          // memory of replies that have been sent

  std::mutex mutex_;
  std::vector<int> adopted_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> holds_{false};
  std::atomic<std::uint64_t> connections_{0};
  std::thread thread_;
};

}  // namespace perdure::memcached
