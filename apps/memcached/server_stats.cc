// SPDX-License-Identifier: BSD-3-Clause
// What the server tells of itself: `stats`, and metrics for Prometheus.
#include <event2/event.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "apps/memcached/server.h"

namespace perdure::memcached {
namespace {

std::string seconds_text(const timeval& time) {
  std::string micro = std::to_string(time.tv_usec);
  return std::to_string(time.tv_sec) + "." + std::string(6 - micro.size(), '0') + micro;
}

}  // namespace

CounterValues Server::sums() const {
  CounterValues sums{};
  for (const auto& worker : workers_) worker->counters().add_to(sums);
  return sums;
}

std::uint64_t Server::requests() const {
  const CounterValues values = sums();
  const auto of = [&](Counter counter) { return values[static_cast<std::size_t>(counter)]; };
  return of(Counter::cmd_get) + of(Counter::cmd_set) + of(Counter::delete_hits) +
         of(Counter::delete_misses) + of(Counter::incr_hits) + of(Counter::incr_misses) +
         of(Counter::decr_hits) + of(Counter::decr_misses);
}

bool Server::stats(std::string_view group, Service::Say say) const {
  if (group.empty()) {
    general_stats(say);
  } else if (group == "settings") {
    settings(say);
  } else if (group == "conns") {
    std::size_t i = 0;
    for (const auto& worker : workers_) {
      const std::string name = "worker" + std::to_string(i++) + ":connections";
      say(name, NumberText(worker->connections()).view());
    }
  } else {
    return false;
  }
  return true;
}

void Server::general_stats(Service::Say say) const {
  const auto number = [&](std::string_view name, std::uint64_t value) {
    say(name, NumberText(value).view());
  };
  const auto uptime = std::chrono::steady_clock::now() - started_;
  number("pid", static_cast<std::uint64_t>(::getpid()));
  number("uptime", std::chrono::duration_cast<std::chrono::seconds>(uptime).count());
  number("time", clock_->now());
  say("version", kVersionText);
  say("libevent", ::event_get_version());
  number("pointer_size", 8 * sizeof(void*));
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  say("rusage_user", seconds_text(usage.ru_utime));
  say("rusage_system", seconds_text(usage.ru_stime));
  number("max_connections", options_.connections);
  std::uint64_t open = 0;
  for (const auto& worker : workers_) open += worker->connections();
  number("curr_connections", open);
  number("total_connections", accepted_.load());
  number("rejected_connections", rejected_.load());
  CounterValues values = sums();
  {
    const std::lock_guard lock(reset_mutex_);
    for (std::size_t i = 0; i < kCounters; ++i) values[i] -= std::min(values[i], reset_[i]);
  }
  for (std::size_t i = 0; i < kCounters; ++i) number(kCounterNames[i], values[i]);
  const StoreCounts counts = service_->store->counts();
  number("limit_maxbytes", counts.limit_bytes);
  number("threads", workers_.size());
  number("hash_buckets", counts.buckets);
  number("bytes", counts.bytes);
  number("curr_items", counts.items);
  number("evictions", counts.evictions);
  number("reclaimed", counts.reclaimed);
  number("syncs", syncer_->syncs());
}

void Server::settings(Service::Say say) const {
  const auto number = [&](std::string_view name, std::uint64_t value) {
    say(name, NumberText(value).view());
  };
  number("maxbytes", service_->store->counts().limit_bytes);
  number("maxconns", options_.connections);
  number("tcpport", port_);
  number("udpport", 0);
  say("inter", options_.listen.empty() ? "NULL" : options_.listen);
  say("domain_socket", options_.socket.empty() ? "NULL" : options_.socket);
  say("evictions", service_->evict ? "on" : "off");
  number("num_threads", workers_.size());
  say("cas_enabled", "yes");
  say("flush_enabled", "yes");
  say("maxconns_fast", "yes");
  say("binding_protocol", "ascii");
  number("item_size_max", service_->item_size_max);
  number("idle_timeout", options_.idle_seconds);
  say("shutdown_command", service_->allow_shutdown ? "yes" : "no");
  say("durability", syncer_->relaxed() && !syncer_->delays() ? "relaxed" : "strict");
}

std::string Server::metrics() const {
  constexpr std::string_view kGauges[] = {"curr_connections", "curr_items",  "bytes",
                                          "limit_maxbytes",   "uptime",      "threads",
                                          "max_connections",  "hash_buckets"};
  std::string text;
  general_stats([&](std::string_view name, std::string_view value) {
    const bool number = value.find_first_not_of("0123456789.") == value.npos;
    if (!number || name == "libevent" || name == "version" || name == "pid" || name == "time" ||
        name == "pointer_size")
      return;
    const bool gauge = std::find(std::begin(kGauges), std::end(kGauges), name) != std::end(kGauges);
    const std::string full = "perdure_memcached_" + std::string(name) + (gauge ? "" : "_total");
    text += "# TYPE " + full + (gauge ? " gauge\n" : " counter\n");
    text += full + " " + std::string(value) + "\n";
  });
  return text;
}

}  // namespace perdure::memcached
