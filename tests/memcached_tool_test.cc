// SPDX-License-Identifier: BSD-3-Clause
// `perdure serve` from the outside: ordinary clients, bad ones, limits, and its end.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/memcached_fixture.h"

namespace perdure {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using MemcachedToolTest = ServeTest;

std::string block(const std::string& key, const std::string& value) {
  return "set " + key + " 0 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\n";
}

TEST_F(MemcachedToolTest, TheToolsOfLibmemcachedAreServed) {
  if (shell("command -v memccapable").code != 0) GTEST_SKIP() << "no libmemcached-tools";
  start({"--port", "21711"});
  const std::string servers = " --servers=localhost:21711 ";
  EXPECT_EQ(shell("memcping" + servers).code, 0);
  EXPECT_EQ(shell("memccapable -h localhost -p 21711 -a").code, 0)
      << read(path(".out")) << read(path(".err"));
  write(path("poem.txt"), "the quick brown fox\n");
  EXPECT_EQ(shell("memccp" + servers + quoted(path("poem.txt"))).code, 0) << read(path(".err"));
  EXPECT_THAT(shell("memccat" + servers + "poem.txt").out, HasSubstr("the quick brown fox"));
  EXPECT_EQ(shell("memcexist" + servers + "poem.txt").code, 0);
  EXPECT_EQ(shell("memctouch" + servers + "--expire=100 poem.txt").code, 0);
  EXPECT_THAT(shell("memcstat" + servers).out, HasSubstr("curr_items: "));
  EXPECT_EQ(shell("memcrm" + servers + "poem.txt").code, 0);
  EXPECT_NE(shell("memcexist" + servers + "poem.txt").code, 0);
  EXPECT_EQ(shell("memccp" + servers + quoted(path("poem.txt"))).code, 0);
  EXPECT_EQ(shell("memcflush" + servers).code, 0);
  EXPECT_NE(shell("memcexist" + servers + "poem.txt").code, 0);
  EXPECT_EQ(stop(), 0) << read(path("log"));
}

TEST_F(MemcachedToolTest, PymemcacheIsServed) {
  if (shell("/usr/bin/python3 -c 'import pymemcache'").code != 0)
    GTEST_SKIP() << "no python3-pymemcache";
  start();
  write(path("client.py"), R"(
import sys
from pymemcache.client.base import Client
c = Client(sys.argv[1], default_noreply=False)
assert c.set('a', b'1') and c.add('b', 'two') and not c.add('a', 'x')
assert c.get('a') == b'1' and c.get('none') is None
assert c.get_many(['a', 'b', 'c']) == {'a': b'1', 'b': b'two'}
assert c.incr('a', 41) == 42 and c.decr('a', 2) == 40
value, unique = c.gets('b')
assert c.cas('b', 'three', unique) is True and c.cas('b', 'four', unique) is False
assert c.append('b', '!') and c.prepend('b', '>') and c.get('b') == b'>three!'
assert c.replace('b', 'r') and not c.replace('z', 'r')
assert c.touch('a', 100) and not c.touch('z', 100)
assert c.delete('a') and not c.delete('a')
big = bytes(i % 251 for i in range(1000000))
assert c.set('big', big) and c.get('big') == big
assert c.set_many({str(i): str(i) for i in range(1000)}) == []
assert len(c.get_many([str(i) for i in range(1000)])) == 1000
c.set('quiet', 'q', noreply=True)
assert c.get('quiet') == b'q'
assert c.stats()[b'curr_items'] == 1003 and c.version().startswith(b'1.6')
assert c.flush_all() and c.get('b') is None
print('served')
)");
  const ToolRun ran =
      shell("/usr/bin/python3 " + quoted(path("client.py")) + " " + quoted("unix:" + path("sock")));
  EXPECT_EQ(ran.out, "served\n") << ran.err;
}

TEST_F(MemcachedToolTest, IncrementsOfSixteenClientsAreOneOrder) {
  start({"--threads", "4"});
  constexpr int kClients = 16;
  constexpr int kEach = 200;
  ASSERT_EQ(talk().ask(block("n", "0")), "STORED\r\n");
  std::vector<std::vector<int>> told(kClients);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      Talk connection = talk();
      for (int k = 0; k < kEach; ++k)
        told[static_cast<std::size_t>(i)].push_back(std::stoi(connection.ask("incr n 1\r\n")));
    });
  }
  for (std::thread& client : clients) client.join();
  std::set<int> all;
  for (const std::vector<int>& mine : told) {
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(all.size(), std::size_t{kClients * kEach}) << "each was told once";
  EXPECT_EQ(*all.rbegin(), kClients * kEach);
}

TEST_F(MemcachedToolTest, ItsPoolMayBeLookedAtAndCopiedMeanwhile) {
  const auto succeeds = [&](const std::vector<std::string>& arguments) {
    const ToolRun done = run(arguments);
    EXPECT_EQ(done.code, 0) << done.err;
  };
  for (const std::string domain : {"adr", "sync"}) {
    SCOPED_TRACE(domain);
    pool_ = path(domain + ".pool");
    start({"--domain", domain});
    Talk client = talk();
    for (int i = 0; i < 500; ++i) {
      EXPECT_EQ(client.ask(block("k" + std::to_string(i), std::string(500, 'v'))), "STORED\r\n");
      if (i % 100 != 50) continue;
      succeeds({"check", pool()});
      const std::string copy = path(domain + std::to_string(i));
      succeeds({"backup", pool(), copy});
      succeeds({"check", copy});
    }
    EXPECT_EQ(stop(), 0);
  }
}

TEST_F(MemcachedToolTest, AFileThatIsCutWhileItIsServedIsToldToEveryClient) {
  start();
  {
    Talk filling = talk();
    for (int i = 0; i < 300; ++i)
      ASSERT_EQ(filling.ask(block("k" + std::to_string(i), std::string(1000, 'v'))), "STORED\r\n");
  }
  std::filesystem::resize_file(pool(), std::filesystem::file_size(pool()) / 8192 * 4096);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string answer = talk().ask("get k" + std::to_string(i) + "\r\n");
    if (answer.starts_with("VALUE")) continue;
    if (answer.empty() && refused > 0) break;  // it has ended
    EXPECT_THAT(answer, HasSubstr("SERVER_ERROR " + pool() + ": the page at offset ")) << i;
    ++refused;
  }
  EXPECT_GT(refused, 0);
  // Of a storage that failed nothing can be served: it ends, and says why.
  const int status = wait();
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << status;
  EXPECT_THAT(read(path("log")), HasSubstr("the page at offset "));
}

TEST_F(MemcachedToolTest, BadInputHarmsNobodyElse) {
  start();
  Talk good = talk();
  ASSERT_EQ(good.ask(block("a", "x")), "STORED\r\n");
  const std::pair<std::string, std::string> cases[] = {
      {std::string("\x80\x0b\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24),
       "CLIENT_ERROR the binary protocol"},
      {std::string(100'000, 'x'), "CLIENT_ERROR line too long"},
      {"set " + std::string(1000, 'k') + " 0 0 1\r\nx\r\n", "CLIENT_ERROR bad command line format"},
      {"set a 0 0 -5\r\n", "CLIENT_ERROR bad command line format"},
      {"set a 0 0 99999999999999999999\r\n", "CLIENT_ERROR bad command line format"},
      {"set a 0 0 3\r\nabcdefgh\r\n", "CLIENT_ERROR bad data chunk"},
      {"get " + std::string(5'000'000, 'k') + "\r\n", "CLIENT_ERROR bad command line format"},
      {std::string("\0\0\0\0\r\n", 6), "ERROR\r\n"},
      {"set half 0 0 100\r\nonly so much", ""},
      {"incomplete", ""},
  };
  for (const auto& [said, answer] : cases) {
    Talk bad = talk();
    bad.send(said);
    bad.end_sending();
    EXPECT_THAT(bad.until(""), StartsWith(answer)) << said.substr(0, 50);
    ASSERT_EQ(good.ask("get a half\r\n", "END\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
  }
  // Gone without a word, in the middle of a large reply.
  ASSERT_EQ(good.ask(block("big", std::string(1'000'000, 'b'))), "STORED\r\n");
  for (int i = 0; i < 20; ++i) talk().send("get big big big big big big\r\nget big\r\n");
  EXPECT_EQ(good.ask("mn\r\n"), "MN\r\n");
}

TEST_F(MemcachedToolTest, WhoStopsSendingIsAnswered) {
  start();
  Talk half = talk();
  half.send(block("a", "x") + "get a\r\n");
  half.end_sending();
  EXPECT_EQ(half.until(""), "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
}

TEST_F(MemcachedToolTest, ARequestMayComeInPieces) {
  start();
  Talk slow = talk();
  for (const char c : std::string("set a 0 0 5\r\nhello\r\nget a\r\n")) {
    slow.send({&c, 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(slow.until("END\r\n"), "STORED\r\nVALUE a 0 5\r\nhello\r\nEND\r\n");
}

TEST_F(MemcachedToolTest, ManyRequestsAtOnceAreAnsweredInOrder) {
  start({"--threads", "1"});
  Talk client = talk();
  std::string said;
  std::string expected;
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "k" + std::to_string(i % 100);
    const std::string value = std::to_string(i);
    said += block(key, value) + "get " + key + "\r\n";
    expected += "STORED\r\nVALUE " + key + " 0 " + std::to_string(value.size()) + "\r\n" + value +
                "\r\nEND\r\n";
  }
  said += "mn\r\n";
  std::thread sender([&] { client.send(said); });
  EXPECT_EQ(client.until("MN\r\n") == expected + "MN\r\n", true);
  sender.join();
}

// The server is stopped while they send, so that one round of its loop finds them all.
TEST_F(MemcachedToolTest, WhatComesTogetherIsAnsweredToEach) {
  std::string counted;
  for (const bool apart : {false, true}) {
    pool_ = path(apart ? "apart.pool" : "together.pool");
    start({"--threads", "1", "--domain", "adr"});
    const std::string value(600, 'v');
    std::vector<std::pair<std::string, std::string>> talks{
        {block("a", "x") + "get a\r\ndelete a\r\nget a\r\n",
         "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nDELETED\r\nEND\r\n"},
        {"ms b 3\r\nxyz\r\nmg", "HD\r\n"},
        {"set half 0 0 600\r\nv", ""},
        {block("large", std::string(100'000, 'l')), "STORED\r\n"},
        {"nonsense\r\nset c 0 0 1\r\nlong\r\n",
         "ERROR\r\nCLIENT_ERROR bad data chunk\r\nERROR\r\n"},
        {"mn\r\n", "MN\r\n"},
        {block("d", "x") + "quit\r\n", "STORED\r\n"},
    };
    if (apart) talks.emplace_back("verbosity 1\r\nflush_all 1000\r\n", "OK\r\nOK\r\n");
    for (int i = 0; i < 20; ++i)
      talks.emplace_back(block("k" + std::to_string(i), value), "STORED\r\n");
    std::vector<Talk> clients;
    for (std::size_t i = 0; i < talks.size(); ++i) {
      clients.push_back(talk());
      ASSERT_EQ(clients.back().ask("mn\r\n"), "MN\r\n");
    }
    ::kill(server_, SIGSTOP);
    for (std::size_t i = 0; i < talks.size(); ++i) ASSERT_TRUE(clients[i].send(talks[i].first));
    ::kill(server_, SIGCONT);
    for (std::size_t i = 0; i < talks.size(); ++i) {
      if (talks[i].second.empty()) continue;
      EXPECT_EQ(clients[i].until(talks[i].second), talks[i].second) << i;
    }
    EXPECT_EQ(clients[1].ask(" b v\r\n"), "VA 3\r\nxyz\r\n");
    EXPECT_EQ(clients[2].ask(std::string(599, 'v') + "\r\n"), "STORED\r\n");
    EXPECT_EQ(clients[6].until(""), "") << "it is closed";
    Talk reader = talk();
    EXPECT_EQ(reader.ask("get k19 half\r\n", "END\r\n"),
              "VALUE k19 0 600\r\n" + value + "\r\nVALUE half 0 600\r\n" + value + "\r\nEND\r\n");
    const std::string stats = reader.ask("stats\r\n", "END\r\n");
    const std::string sets = stats.substr(stats.find("STAT cmd_set"), 16);
    if (!apart) counted = sets;
    EXPECT_EQ(sets, counted) << "what was done again is counted once";
    EXPECT_THAT(stats, HasSubstr("STAT curr_items 24\r\n"));
    EXPECT_EQ(stop(), 0);
    EXPECT_EQ(run({"check", pool()}).code, 0);
  }
}

TEST_F(MemcachedToolTest, LargeValuesGoInAndOut) {
  for (const std::string domain : {"sync", "dram"}) {
    pool_ = path(domain + ".pool");
    const std::vector<std::string> options{"--domain", domain,           "--item-size-max",
                                           "128M",     "--memory-limit", "1G"};
    start(options);
    std::optional<Talk> client(talk());
    const auto stored = [&](const std::string& value) {
      return "VALUE big 0 " + std::to_string(value.size()) + "\r\n" + value + "\r\nEND\r\n";
    };
    std::string value;
    for (const std::size_t bytes : {std::size_t{600} << 10, std::size_t{20} << 20}) {
      value.resize(bytes);
      for (std::size_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(i * 31 >> 7);
      ASSERT_EQ(client->ask(block("big", value)), "STORED\r\n");
      ASSERT_EQ(client->ask("get big\r\n", "\r\nEND\r\n") == stored(value), true);
    }
    ASSERT_EQ(client->ask("append big 0 0 3\r\n+++\r\nprepend big 0 0 2\r\n--\r\n",
                          "STORED\r\nSTORED\r\n"),
              "STORED\r\nSTORED\r\n");
    value = "--" + value + "+++";
    ASSERT_EQ(client->ask("add big 0 0 2000000\r\n" + std::string(2'000'000, 'x') + "\r\n"),
              "NOT_STORED\r\n");
    kill();
    start(options);
    client.emplace(talk());
    ASSERT_EQ(client->ask("get big\r\n", "\r\nEND\r\n") == stored(value), true);
    ASSERT_EQ(client->ask(block("most", std::string(std::size_t{128} << 20, 'm'))), "STORED\r\n");
    EXPECT_EQ(client->ask("mg most s\r\n"), "HD s134217728\r\n");
    EXPECT_EQ(client->ask("set more 0 0 134217729\r\n"),
              "SERVER_ERROR object too large for cache\r\n");
    EXPECT_EQ(stop(), 0);
    EXPECT_EQ(run({"check", pool()}).code, 0) << read(path(".out"));
  }
}

TEST_F(MemcachedToolTest, TheMemoryLimitHolds) {
  start({"--memory-limit", "2M"});
  Talk client = talk();
  const std::string value(10'000, 'v');
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(client.ask(block("k" + std::to_string(i), value)), "STORED\r\n");
  const std::string stats = client.ask("stats\r\n", "END\r\n");
  const auto number = [&](const std::string& name) {
    return std::stoull(stats.substr(stats.find("STAT " + name + " ") + 6 + name.size()));
  };
  EXPECT_LE(number("bytes"), 2u << 20);
  EXPECT_GT(number("curr_items"), 100u);
  EXPECT_GT(number("evictions"), 700u);
  EXPECT_EQ(client.ask("get k999\r\n", "END\r\n").size(), 10'000 + 27u);
  EXPECT_EQ(stop(), 0);
  EXPECT_EQ(run({"check", pool()}).code, 0);
}

TEST_F(MemcachedToolTest, ConnectionsAreLimited) {
  start({"--connections", "8"});
  std::vector<Talk> clients;
  // The one that start() probed with may still be counted.
  while (clients.size() < 8) {
    Talk client = talk();
    if (client.ask("mn\r\n") == "MN\r\n") clients.push_back(std::move(client));
  }
  EXPECT_EQ(talk().until(""), "ERROR Too many open connections\r\n");
  EXPECT_EQ(clients[0].ask("mn\r\n"), "MN\r\n");
  clients.pop_back();
  bool again = false;
  for (int i = 0; i < 200 && !again; ++i) again = talk().ask("mn\r\n") == "MN\r\n";
  EXPECT_TRUE(again);
}

TEST_F(MemcachedToolTest, AThousandConnectionsAreServed) {
  start({"--connections", "2000"});
  std::vector<Talk> clients;
  for (int i = 0; i < 900; ++i) clients.push_back(talk());
  for (std::size_t i = 0; i < clients.size(); ++i)
    clients[i].send(block("k" + std::to_string(i), std::to_string(i)));
  for (Talk& client : clients) ASSERT_EQ(client.until("\r\n"), "STORED\r\n");
  EXPECT_THAT(clients[0].ask("stats\r\n", "END\r\n"), HasSubstr("STAT curr_items 900\r\n"));
}

TEST_F(MemcachedToolTest, SilentConnectionsAreClosed) {
  start({"--idle-timeout", "1"});
  Talk silent = talk();
  EXPECT_EQ(silent.ask("mn\r\n"), "MN\r\n");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(silent.until(""), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_THAT(talk().ask("stats\r\n", "END\r\n"), HasSubstr("STAT idle_kicks 1\r\n"));
}

TEST_F(MemcachedToolTest, ItEndsInGoodOrder) {
  start();
  Talk client = talk();
  ASSERT_EQ(client.ask(block("a", "x")), "STORED\r\n");
  EXPECT_EQ(stop(), 0) << read(path("log"));
  EXPECT_EQ(client.until(""), "");
  EXPECT_FALSE(std::filesystem::exists(path("sock")));
  EXPECT_EQ(run({"check", pool()}).code, 0);
  const std::string told = run({"info", pool()}).out;
  EXPECT_THAT(told, HasSubstr("memcached.cache"));
  start({"--enable-shutdown"});
  EXPECT_EQ(talk().ask("get a\r\n", "END\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
  talk().send("shutdown\r\n");
  EXPECT_EQ(wait(), 0);
}

TEST_F(MemcachedToolTest, RelaxedDurabilityAnswersAtOnceAndKeepsWhatIsClosed) {
  start({"--durability", "relaxed"});
  Talk client = talk();
  for (int i = 0; i < 2000; ++i)
    ASSERT_EQ(client.ask(block("k" + std::to_string(i), "x")), "STORED\r\n");
  EXPECT_EQ(stop(), 0);
  start();
  EXPECT_THAT(talk().ask("stats\r\n", "END\r\n"), HasSubstr("STAT curr_items 2000\r\n"));
}

TEST_F(MemcachedToolTest, MetricsAreToldOverHttp) {
  start({"--metrics", "127.0.0.1:21713"});
  ASSERT_EQ(talk().ask(block("a", "x")), "STORED\r\n");
  const ToolRun told = shell(
      "python3 -c 'import urllib.request as u; "
      "print(u.urlopen(\"http://127.0.0.1:21713/metrics\").read().decode())'");
  EXPECT_THAT(told.out, HasSubstr("perdure_memcached_curr_items 1\n")) << told.err;
  EXPECT_THAT(told.out, HasSubstr("perdure_memcached_cmd_set_total 1\n"));
}

TEST_F(MemcachedToolTest, ACacheInAHeapOfObjectsStaysOne) {
  start({"--store", "objects", "--memory-limit", "1M"});
  EXPECT_EQ(talk().ask(block("a", "in an object")), "STORED\r\n");
  const std::string large(200'000, 'v');
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(talk().ask(block("k" + std::to_string(i), large)), "STORED\r\n");
  EXPECT_EQ(talk().ask("get k19\r\n", "END\r\n"), "VALUE k19 0 200000\r\n" + large + "\r\nEND\r\n");
  EXPECT_EQ(talk().ask("set a 0 0 5\r\nagain\r\n"), "STORED\r\n");
  kill();
  start();  // as it is
  EXPECT_EQ(talk().ask("get a\r\n", "END\r\n"), "VALUE a 0 5\r\nagain\r\nEND\r\n");
  EXPECT_EQ(stop(), 0) << read(path("log"));
  const ToolRun other = run({"serve", pool(), "--socket", path("other.sock"), "--store", "pool"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("--store objects"));
  EXPECT_EQ(run({"check", pool(), "--leaks"}).code, 0);
  EXPECT_EQ(run({"salvage", pool(), path("copy.pool")}).code, 0);
  pool_ = path("copy.pool");
  start();
  EXPECT_EQ(talk().ask("get a\r\n", "END\r\n"), "VALUE a 0 5\r\nagain\r\nEND\r\n");
  EXPECT_EQ(stop(), 0);
  pool_ = path("plain.pool");
  start();
  EXPECT_EQ(stop(), 0);
  EXPECT_THAT(run({"serve", pool_, "--socket", path("other.sock"), "--store", "objects"}).err,
              HasSubstr("--store pool"));
}

TEST_F(MemcachedToolTest, AFullHeapOfObjectsGivesWhatIsNotUsed) {
  start({"--store", "objects", "--capacity", "48M", "--memory-limit", "1G"});
  const std::string value(20'000, 'v');
  Talk connection = talk();
  for (int i = 0; i < 1500; ++i)
    ASSERT_EQ(connection.ask(block("k" + std::to_string(i), value)), "STORED\r\n") << i;
  EXPECT_EQ(connection.ask("get k1499\r\n", "END\r\n"),
            "VALUE k1499 0 20000\r\n" + value + "\r\nEND\r\n");
  EXPECT_EQ(stop(), 0);
  EXPECT_EQ(run({"check", pool(), "--leaks"}).code, 0);
}

TEST_F(MemcachedToolTest, WrongFilesAreRefused) {
  const auto serve = [&](const std::string& file) {
    return run({"serve", file, "--socket", path("other.sock")});
  };
  EXPECT_EQ(run({"serve", pool()}).code, 2) << "nowhere to listen";
  EXPECT_THAT(run({"serve", pool()}).err, HasSubstr("--socket or --port"));
  write(path("text"), std::string(100'000, 'x'));
  EXPECT_EQ(serve(path("text")).code, 3);
  start();
  const ToolRun busy = serve(pool());
  EXPECT_EQ(busy.code, 3);
  EXPECT_THAT(busy.err, HasSubstr("cache.pool"));
  const ToolRun taken = run({"serve", path("second.pool"), "--socket", path("sock")});
  EXPECT_EQ(taken.code, 3);
  EXPECT_THAT(taken.err, HasSubstr("listens there"));
  EXPECT_EQ(run({"serve", path("third.pool"), "--socket", path("text")}).code, 3);
  EXPECT_EQ(run({"serve", pool(), "--port", "1", "--threads", "0"}).code, 2);
  EXPECT_EQ(run({"serve", pool(), "--port", "1", "--item-size-max", "1G"}).code, 2);
  EXPECT_EQ(talk().ask("mn\r\n"), "MN\r\n");
}

}  // namespace
}  // namespace perdure
