// SPDX-License-Identifier: BSD-3-Clause
// `perdure serve`, killed under load: what a client was told survives, each time. On a file, where what was not written to
// it dies with the process; and on memory.
#include <atomic>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/memcached_fixture.h"

namespace perdure {
namespace {

class MemcachedKillToolTest : public ServeTest {
 protected:
  /// What a client has done with its keys: how often each was set, as far as it was told, and at most.
  struct Key {
    int told = 0;
    int asked = 0;
  };
  static constexpr int kClients = 4;
  static constexpr int kKeys = 8;

  static std::string name(int client, int key) {
    return "c" + std::to_string(client) + "-" + std::to_string(key);
  }
  /// A value that tells its number, with a length that changes.
  static std::string value(int number) {
    return std::to_string(number) + ":" +
           std::string(static_cast<std::size_t>(number * 37 % 700), 'v');
  }

  void kill_again_and_again(const std::vector<std::string>& options, int kills) {
    std::vector<std::vector<Key>> all(kClients, std::vector<Key>(kKeys));
    std::mt19937 random(static_cast<unsigned>(kills));
    int acknowledged = 0;
    int counted = 0;  // increments told
    int counted_most = 0;
    start(options);
    ASSERT_EQ(talk().ask("set n 0 0 1\r\n0\r\n"), "STORED\r\n");
    for (int round = 0; round < kills; ++round) {
      std::atomic<int> told{0};
      std::atomic<int> highest{counted};
      std::atomic<int> asked{0};
      std::vector<std::thread> clients;
      for (int i = 0; i < kClients; ++i) {
        clients.emplace_back([&, i] {
          std::vector<Key>& mine = all[static_cast<std::size_t>(i)];
          Talk connection = talk();
          for (int step = 0;; ++step) {
            const int which = step % kKeys;
            Key& key = mine[static_cast<std::size_t>(which)];
            const std::string text = value(++key.asked);
            if (connection.ask("set " + name(i, which) + " 0 0 " + std::to_string(text.size()) +
                               "\r\n" + text + "\r\n") != "STORED\r\n")
              return;
            key.told = key.asked;
            ++told;
            // What a reader was told survives, too, whoever wrote it.
            asked.fetch_add(1);
            const std::string number = connection.ask("incr n 1\r\n");
            if (!number.ends_with("\r\n")) return;
            const int seen = std::stoi(number);
            int known = highest.load();
            while (known < seen && !highest.compare_exchange_weak(known, seen)) {
            }
          }
        });
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10 + random() % 60));
      kill();
      for (std::thread& client : clients) client.join();
      acknowledged += told.load();
      counted = highest.load();
      counted_most += asked.load();
      start(options);
      if (HasFatalFailure()) return;
      Talk reader = talk();
      for (int i = 0; i < kClients; ++i) {
        for (int k = 0; k < kKeys; ++k) {
          Key& key = all[static_cast<std::size_t>(i)][static_cast<std::size_t>(k)];
          if (key.told == 0) continue;
          const std::string got = reader.ask("get " + name(i, k) + "\r\n", "END\r\n");
          const std::size_t at = got.find("\r\n");
          ASSERT_NE(at, got.npos) << name(i, k) << " was told to be stored, and is gone: " << got;
          const int number = std::stoi(got.substr(at + 2));
          ASSERT_GE(number, key.told) << name(i, k) << " in round " << round;
          ASSERT_LE(number, key.asked) << name(i, k);
          const std::string text = value(number);
          ASSERT_EQ(got, "VALUE " + name(i, k) + " 0 " + std::to_string(text.size()) + "\r\n" +
                             text + "\r\nEND\r\n");
          key.told = key.asked = number;
        }
      }
      const std::string n = reader.ask("get n\r\n", "END\r\n");
      const int now = std::stoi(n.substr(n.find("\r\n") + 2));
      ASSERT_GE(now, counted) << "round " << round;
      ASSERT_LE(now, counted_most);
      counted = now;
    }
    EXPECT_GT(acknowledged, kills);
    kill();
    EXPECT_EQ(run({"check", pool()}).code, 0);
    std::printf("%d kills, %d sets acknowledged, all there\n", kills, acknowledged);
  }
};

TEST_F(MemcachedKillToolTest, OnAFileEveryAcknowledgedWriteIsThere) {
  kill_again_and_again({"--domain", "sync", "--threads", "2"}, 40);
}

TEST_F(MemcachedKillToolTest, OnMemoryEveryAcknowledgedWriteIsThere) {
  if (std::filesystem::exists("/dev/shm"))
    pool_ = "/dev/shm/perdure-kill-test-" + std::to_string(::getpid()) + ".pool";
  kill_again_and_again({"--domain", "adr", "--threads", "4"}, 40);
  std::filesystem::remove(pool());
}

TEST_F(MemcachedKillToolTest, InAHeapOfObjectsEveryAcknowledgedWriteIsThere) {
  kill_again_and_again({"--domain", "sync", "--store", "objects"}, 20);
  std::filesystem::remove(pool());
  if (std::filesystem::exists("/dev/shm"))
    pool_ = "/dev/shm/perdure-kill-test-" + std::to_string(::getpid()) + ".pool";
  kill_again_and_again({"--domain", "adr", "--store", "objects", "--threads", "4"}, 20);
  std::filesystem::remove(pool());
}

TEST_F(MemcachedKillToolTest, OnMemoryWhatOneThreadStoredTogetherIsThere) {
  if (std::filesystem::exists("/dev/shm"))
    pool_ = "/dev/shm/perdure-kill-test-" + std::to_string(::getpid()) + ".pool";
  kill_again_and_again({"--domain", "adr", "--threads", "1"}, 40);
  std::filesystem::remove(pool());
}

TEST_F(MemcachedKillToolTest, AFullCacheIsWholeAfterKills) {
  for (int round = 0; round < 10; ++round) {
    start({"--memory-limit", "1M", "--threads", "2"});
    std::vector<std::thread> clients;
    for (int i = 0; i < 2; ++i) {
      clients.emplace_back([&, i] {
        Talk connection = talk();
        const std::string text(3000, 'v');
        for (int k = 0;; ++k) {
          if (connection.ask("set f" + std::to_string(i) + "-" + std::to_string(k) +
                             " 0 0 3000\r\n" + text + "\r\n") != "STORED\r\n")
            return;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    kill();
    for (std::thread& client : clients) client.join();
    ASSERT_EQ(run({"check", pool()}).code, 0) << round << read(path(".out"));
  }
}

TEST_F(MemcachedKillToolTest, OfALargeValueOnAFileAllIsThereOrNothing) {
  const std::vector<std::string> options{"--domain", "sync", "--item-size-max", "32M"};
  std::string held = "END\r\n";
  for (int round = 0; round < 12; ++round) {
    start(options);
    const std::string text(8 << 20, static_cast<char>('a' + round));
    std::string reply;
    std::thread client([&] {
      reply = talk().ask("set big 0 0 " + std::to_string(text.size()) + "\r\n" + text + "\r\n");
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(15 * round));
    kill();
    client.join();
    start(options);
    const std::string got = talk().ask("get big\r\n", "END\r\n");
    const bool fresh = got.find(text) != got.npos;
    EXPECT_TRUE(fresh || reply != "STORED\r\n") << round;
    EXPECT_TRUE(fresh || got == held) << round;
    held = got;
    EXPECT_EQ(stop(), 0);
    const ToolRun checked = run({"check", pool()});
    ASSERT_EQ(checked.code, 0) << round << checked.out;
    ASSERT_NE(checked.out.find("leaked objects      0"), std::string::npos) << checked.out;
  }
}

}  // namespace
}  // namespace perdure
