// SPDX-License-Identifier: BSD-3-Clause
// A discrete-event simulation of a network, as 471.omnetpp: frames travel between nodes in events
// on a heap ordered by time; nodes queue them while their line is busy; each frame is an object of
// its own, made by its source and freed by its destination.
//
//   perdure_guest_events [NODES [FRAMES [EVENTS]]]
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <queue>
#include <vector>

#include "sim/crash/choices.h"
#include "papers/thynvm/guest/measured.h"

namespace {

struct Frame {
  std::uint32_t destination;
  std::uint32_t hops;
  std::uint64_t made_at;
  std::vector<std::uint8_t> payload;
};

struct Event {
  std::uint64_t at;
  std::uint64_t number;  // orders events of one moment
  std::uint32_t node;
  std::unique_ptr<Frame> frame;  // arrives; none: the node's line has become free
};
struct Later {
  bool operator()(const std::unique_ptr<Event>& a, const std::unique_ptr<Event>& b) const {
    return a->at != b->at ? a->at > b->at : a->number > b->number;
  }
};

struct Node {
  std::vector<std::uint32_t> neighbours;
  std::deque<std::unique_ptr<Frame>> waiting;
  bool busy = false;
};

class Network {
 public:
  Network(std::uint32_t nodes, std::uint32_t frames) : random_(1), nodes_(nodes) {
    for (Node& node : nodes_)
      for (int i = 0; i < 4; ++i) node.neighbours.push_back(random_node());
    for (std::uint32_t i = 0; i < frames; ++i) make_frame(random_node());
  }

  void run(std::uint64_t events) {
    for (std::uint64_t i = 0; i < events && !events_.empty(); ++i) {
      // The queue hands out constant references only; the event is removed at once.
      auto event = std::move(const_cast<std::unique_ptr<Event>&>(events_.top()));
      events_.pop();
      now_ = event->at;
      if (event->frame) {
        arrive(event->node, std::move(event->frame));
      } else {
        nodes_[event->node].busy = false;
        send(event->node);
      }
    }
  }

  std::uint64_t delivered() const { return delivered_; }
  std::uint64_t delay() const { return delay_; }

 private:
  std::uint32_t random_node() { return static_cast<std::uint32_t>(random_.below(nodes_.size())); }

  void schedule(std::uint64_t in, std::uint32_t node, std::unique_ptr<Frame> frame) {
    events_.push(std::make_unique<Event>(Event{now_ + in, ++number_, node, std::move(frame)}));
  }

  void make_frame(std::uint32_t source) {
    auto frame = std::make_unique<Frame>(Frame{random_node(), 0, now_, {}});
    frame->payload.assign(46 + random_.below(200), static_cast<std::uint8_t>(source));
    schedule(random_.below(1000), source, std::move(frame));
  }

  void arrive(std::uint32_t at, std::unique_ptr<Frame> frame) {
    if (frame->destination == at || ++frame->hops > 8) {
      ++delivered_;
      delay_ += now_ - frame->made_at;
      make_frame(at);
      return;
    }
    nodes_[at].waiting.push_back(std::move(frame));
    send(at);
  }

  void send(std::uint32_t from) {
    Node& node = nodes_[from];
    if (node.busy || node.waiting.empty()) return;
    auto frame = std::move(node.waiting.front());
    node.waiting.pop_front();
    node.busy = true;
    const std::uint64_t bytes = frame->payload.size();
    const std::uint32_t next = node.neighbours[frame->destination % node.neighbours.size()];
    schedule(bytes, from, nullptr);
    schedule(bytes + 50, next, std::move(frame));
  }

  perdure::crash::Random random_;
  std::vector<Node> nodes_;
  std::priority_queue<std::unique_ptr<Event>, std::vector<std::unique_ptr<Event>>, Later> events_;
  std::uint64_t now_ = 0;
  std::uint64_t number_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t delay_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Network network(static_cast<std::uint32_t>(number_argument(argc, argv, 1, 20'000)),
                  static_cast<std::uint32_t>(number_argument(argc, argv, 2, 100'000)));
  measured_begin();
  network.run(static_cast<std::uint64_t>(number_argument(argc, argv, 3, 10'000'000)));
  std::printf("delivered %llu, mean delay %llu\n",
              static_cast<unsigned long long>(network.delivered()),
              static_cast<unsigned long long>(
                  network.delay() / (network.delivered() == 0 ? 1 : network.delivered())));
  return 0;
}
