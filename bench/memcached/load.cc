// SPDX-License-Identifier: BSD-3-Clause
#include "bench/memcached/load.h"

#include <libmemcached/memcached.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "perdure/error.h"

namespace perdure::bench::memcached {
namespace {

using Clock = std::chrono::steady_clock;

/// One connection.
class Client {
 public:
  explicit Client(const LoadOptions& options)
      : client_(::memcached_create(nullptr)), value_(options.value_bytes, 'v') {
    const Address& address = options.address;
    check(address.socket.empty()
              ? ::memcached_server_add(client_.get(), "127.0.0.1", address.port)
              : ::memcached_server_add_unix_socket(client_.get(), address.socket.c_str()),
          "the address");
    ::memcached_behavior_set(client_.get(), MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
  }

  void set(const std::string& key) {
    check(
        ::memcached_set(client_.get(), key.data(), key.size(), value_.data(), value_.size(), 0, 0),
        "set");
  }
  void get(const std::string& key) {
    std::size_t bytes = 0;
    std::uint32_t flags = 0;
    memcached_return_t status = MEMCACHED_SUCCESS;
    char* const got =
        ::memcached_get(client_.get(), key.data(), key.size(), &bytes, &flags, &status);
    std::free(got);
    check(status, "get");
    if (bytes != value_.size()) throw Exception(Code::kIo, key + ": has another value");
  }
  void remove(const std::string& key) {
    check(::memcached_delete(client_.get(), key.data(), key.size(), 0), "delete");
  }

 private:
  struct Free {
    void operator()(memcached_st* client) const { ::memcached_free(client); }
  };
  void check(memcached_return_t status, const char* what) const {
    if (status == MEMCACHED_SUCCESS) return;
    throw Exception(Code::kIo, std::string("libmemcached: ") + what + ": " +
                                   ::memcached_last_error_message(client_.get()));
  }
  std::unique_ptr<memcached_st, Free> client_;
  std::string value_;
};

/// `prefix`, and a number that fills the key up.
std::string key_of(const LoadOptions& options, char prefix, std::uint64_t number) {
  std::string key(options.key_bytes, '0');
  key[0] = prefix;
  for (std::size_t at = key.size(); number > 0 && at > 1; number /= 10)
    key[--at] = static_cast<char>('0' + number % 10);
  return key;
}

double at_part(std::vector<float>& sorted, double part) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<std::size_t>(part * static_cast<double>(sorted.size() - 1))];
}

}  // namespace

std::string_view mix_name(Mix mix) {
  switch (mix) {
    case Mix::kSet: return "set";
    case Mix::kGet: return "get";
    case Mix::kInsertDelete: return "insert/delete";
  }
  return "unknown";
}

void fill(const LoadOptions& options) {
  Client client(options);
  for (std::uint64_t i = 0; i < options.keys; ++i) client.set(key_of(options, 'k', i));
}

Loaded run_load(const LoadOptions& options, Mix mix, double seconds) {
  std::barrier start(static_cast<std::ptrdiff_t>(options.connections) + 1);
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<float> latencies;
  const auto work = [&](unsigned number) {
    std::vector<float> mine;
    mine.reserve(1 << 20);
    try {
      Client client(options);
      client.get(key_of(options, 'k', number % options.keys));  // connected
      std::mt19937_64 random(options.seed * 1000 + number);
      std::uint64_t drawn = 0;
      start.arrive_and_wait();
      while (!stop.load(std::memory_order_relaxed)) {
        const auto timed = [&](const auto& operation) {
          const auto begin = Clock::now();
          operation();
          mine.push_back(std::chrono::duration<float, std::micro>(Clock::now() - begin).count());
        };
        if (mix == Mix::kInsertDelete) {
          const std::string key = key_of(options, static_cast<char>('A' + number), drawn++);
          timed([&] { client.set(key); });
          timed([&] { client.remove(key); });
          continue;
        }
        const std::string key = key_of(options, 'k', random() % options.keys);
        timed([&] { mix == Mix::kSet ? client.set(key) : client.get(key); });
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      if (mine.empty()) start.arrive_and_drop();
    }
    const std::lock_guard lock(mutex);
    latencies.insert(latencies.end(), mine.begin(), mine.end());
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options.connections; ++i) threads.emplace_back(work, i);
  start.arrive_and_wait();
  const auto begin = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  const double took = std::chrono::duration<double>(Clock::now() - begin).count();
  if (failure) std::rethrow_exception(failure);
  std::sort(latencies.begin(), latencies.end());
  return {static_cast<double>(latencies.size()) / took, at_part(latencies, 0.5),
          at_part(latencies, 0.99), latencies.size()};
}

}  // namespace perdure::bench::memcached
