// SPDX-License-Identifier: BSD-3-Clause
// Watched programs whose epochs end at moments that they do not choose: files go back to what they were at either of the
// last two ends.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "apps/run/files/history.h"
#include "apps/run/files/tree_test_view.h"
#include "apps/run/files/watched_test_program.h"

namespace perdure::run::files {
namespace {

using std::chrono::microseconds;

/// In the child: what should be is.
void require(bool condition) {
  if (!condition) ::_exit(99);
}

/// What an epoch left.
struct End {
  std::map<std::string, std::string> tree;
  std::map<FileId, std::string> nameless;
};

void expect_back_at(const Scratch& scratch, std::uint64_t epoch, const End& end) {
  FileHistory::roll_back(scratch.state(), epoch);
  EXPECT_EQ(tree(scratch.root()), end.tree) << "epoch " << epoch;
  for (const auto& [file, contents] : end.nameless)
    EXPECT_EQ(text_of(FileHistory::kept_path(scratch.state(), file)), contents);
}

// ---- Threads that are parked by a signal -----------------------------------------------------------------------------

/// In memory that the program and the test share.
struct Parking {
  std::atomic<int> threads{0};  // that run
  std::atomic<int> parked{0};
  std::atomic<int> release{0};  // how often all were
};
Parking* parking = nullptr;

void park(int) {
  const int release = parking->release;
  ++parking->parked;
  while (parking->release == release) ::usleep(50);
}

/// What one thread of the program does, in its directory and in its part of a file.
void change_files(const std::string& directory, int shared, int thread) {
  std::mt19937 random(static_cast<unsigned>(thread));
  const auto path = [&] { return directory + "/f" + std::to_string(random() % 6); };
  ++parking->threads;
  for (unsigned round = 0;; ++round) {
    const std::string bytes(3000, static_cast<char>('a' + round % 26));
    switch (random() % 7) {
      case 0: ::unlink(path().c_str()); break;
      case 1: ::rename(path().c_str(), path().c_str()); break;
      case 2: (void)!::truncate(path().c_str(), static_cast<off_t>(random() % 20'000)); break;
      case 3: {
        const int at = static_cast<int>(random() % 8);
        require(::pwrite(shared, bytes.data(), 1000, thread * 10'000 + at * 1000) == 1000);
        break;
      }
      case 4: ::chmod(path().c_str(), static_cast<mode_t>(0600 + random() % 64)); break;
      default: {
        const int append = random() % 2 == 0 ? O_APPEND : 0;
        const int file = ::open(path().c_str(), O_RDWR | O_CREAT | append, 0644);
        require(file >= 0);
        if (append == 0) require(::lseek(file, static_cast<off_t>(random() % 9000), SEEK_SET) >= 0);
        require(::write(file, bytes.data(), bytes.size()) == 3000);
        ::close(file);
      }
    }
  }
}

/// In the child: one thread for each directory d0, d1, ...
void run_threads(const std::string& root, int count) {
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    struct sigaction action{};
    action.sa_handler = signal == SIGUSR1 ? [](int) {} : &park;
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
  const int shared = ::open((root + "/shared").c_str(), O_RDWR);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < count; ++thread)
    threads.emplace_back(change_files, root + "/d" + std::to_string(thread), shared, thread);
  for (std::thread& each : threads) each.join();
}

void signal_threads(pid_t process, int signal) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task"))
    ::syscall(SYS_tgkill, process, std::stoi(entry.path().filename()), signal);
}

/// False: it takes too long.
bool comes_to(const std::function<bool()>& reached) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (!reached() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(microseconds(50));
  return reached();
}

// Epochs end when all threads are parked, wherever that is; other signals make calls void all the time.
TEST(WatchedEpochs, OfThreadsThatAreParkedInAStormOfSignalsAreTakenBack) {
  constexpr int kThreads = 4;
  constexpr std::uint64_t kEpochs = 40;
  const Scratch scratch;
  FileHistory history(scratch.state(), false);
  write_text(scratch.root() + "/shared", std::string(kThreads * 10'000, '.'));
  for (int thread = 0; thread < kThreads; ++thread)
    std::filesystem::create_directory(scratch.root() + "/d" + std::to_string(thread));
  parking = new (::mmap(nullptr, sizeof(Parking), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Parking;
  history.begin_epoch(1);
  Watched watched(history, [&] { run_threads(scratch.root(), kThreads); });
  ASSERT_TRUE(comes_to([&] { return parking->threads == kThreads; }));
  std::mt19937 random(1);
  std::map<std::uint64_t, End> ends;
  for (std::uint64_t epoch = 1; epoch <= kEpochs; ++epoch) {
    for (std::uint64_t bursts = random() % 4; bursts > 0; --bursts) {
      // A burst makes a call of each thread void: more must be answered than that, or nothing would ever be done.
      const std::uint64_t enough = watched.watch().answered() + random() % 100;
      ASSERT_TRUE(comes_to([&] { return watched.watch().answered() >= enough; }));
      signal_threads(watched.child(), SIGUSR1);
    }
    parking->parked = 0;
    signal_threads(watched.child(), SIGUSR2);
    ASSERT_TRUE(comes_to([&] { return parking->parked == kThreads + 1; }));
    ends[epoch] = {tree(scratch.root()), {}};
    history.begin_epoch(epoch + 1);
    ++parking->release;
    if (epoch > 1) history.committed(epoch - 1, {});
  }
  const std::uint64_t some_more = watched.watch().answered() + 50;
  ASSERT_TRUE(comes_to([&] { return watched.watch().answered() > some_more; }));
  watched.kill();
  ASSERT_FALSE(history.broken()) << *history.broken();
  EXPECT_NE(ends[kEpochs].tree, ends[kEpochs - 1].tree);
  // The last that ended, which could have committed; the last that did; the one before.
  for (const std::uint64_t epoch : {kEpochs, kEpochs - 1, kEpochs - 2})
    expect_back_at(scratch, epoch, ends[epoch]);
  ::munmap(parking, sizeof(Parking));
}

// ---- sqlite3 ---------------------------------------------------------------------------------------------------------

/// A program of one thread stands still while its call waits for the gate: then an epoch may end.
/// False: it has ended.
bool stop(Watched& watched, std::unique_lock<std::mutex>& gate) {
  for (int tries = 0; tries < 20'000; ++tries) {
    gate.lock();
    for (int moment = 0; moment < 20; ++moment) {
      if (watched.watch().received() == watched.watch().answered() + 1) return true;
      std::this_thread::sleep_for(microseconds(50));
    }
    gate.unlock();
    siginfo_t state{};
    if (::waitid(P_PID, static_cast<id_t>(watched.child()), &state, WEXITED | WNOHANG | WNOWAIT) ==
            0 &&
        state.si_pid != 0)
      return false;
  }
  return false;
}

/// What a process has open that has no name, and what it holds.
std::map<FileId, std::string> nameless_of(pid_t process) {
  std::map<FileId, std::string> nameless;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/fd")) {
    struct stat state{};
    if (::stat(entry.path().c_str(), &state) == 0 && S_ISREG(state.st_mode) &&
        std::filesystem::read_symlink(entry).string().ends_with(" (deleted)"))
      nameless[{state.st_dev, state.st_ino}] = text_of(entry.path());
  }
  return nameless;
}

void expect_sqlite_is_taken_back(const std::string& pragmas, unsigned seed) {
  if (std::system("command -v sqlite3 > /dev/null") != 0) GTEST_SKIP() << "no sqlite3";
  const Scratch scratch;
  const std::string database = scratch.root() + "/test.db", script = scratch.state() + "/script";
  std::string text = pragmas + "create table t(k integer primary key, v blob);";
  for (int transaction = 0; transaction < 300; ++transaction) {
    text +=
        "begin; insert into t select null, randomblob(900) from generate_series(1, 3);"
        "update t set v = randomblob(700) where k % 7 = abs(random()) % 7; commit;";
  }
  write_text(script, text);
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  Watched watched(history, [&] {
    const int input = ::open(script.c_str(), O_RDONLY);
    require(::dup2(input, 0) == 0);
    execute({"sqlite3", database});
  });
  std::mt19937 random(seed);
  std::map<std::uint64_t, End> ends;
  std::uint64_t epoch = 1;
  const std::uint64_t most = 6 + random() % 10;
  for (; epoch <= most; ++epoch) {
    std::this_thread::sleep_for(microseconds(random() % 20'000));
    std::unique_lock gate(history.gate(), std::defer_lock);
    if (!stop(watched, gate)) break;
    ends[epoch] = {tree(scratch.root()), nameless_of(watched.child())};
    history.begin_epoch(epoch + 1, gate);
    gate.unlock();
    if (epoch == 1) continue;
    std::vector<FileId> open;
    for (const auto& [file, contents] : ends[epoch - 1].nameless) open.push_back(file);
    history.committed(epoch - 1, open);
  }
  std::this_thread::sleep_for(microseconds(random() % 20'000));
  watched.kill();
  ASSERT_FALSE(history.broken()) << *history.broken();
  ASSERT_GT(epoch, 3U);
  SCOPED_TRACE("seed " + std::to_string(seed));
  expect_back_at(scratch, epoch - 1, ends[epoch - 1]);
  expect_back_at(scratch, epoch - 2, ends[epoch - 2]);
  expect_back_at(scratch, epoch - 2, ends[epoch - 2]);
}

TEST(WatchedEpochs, OfSqliteWithARollbackJournalAreTakenBack) {
  for (unsigned seed = 1; seed <= 3; ++seed) expect_sqlite_is_taken_back("", seed);
}

TEST(WatchedEpochs, OfSqliteWithAWriteAheadLogAreTakenBack) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    expect_sqlite_is_taken_back(
        "pragma locking_mode = exclusive; pragma journal_mode = wal;"
        "pragma wal_autocheckpoint = 50;",
        seed);
  }
}

// The log's index is a shared mapping: no epoch ends as long as it is there, and all goes back to before it was.
TEST(WatchedEpochs, OfSqliteWithASharedMappingGoesBackToBefore) {
  if (std::system("command -v sqlite3 > /dev/null") != 0) GTEST_SKIP() << "no sqlite3";
  const Scratch scratch;
  const std::string database = scratch.root() + "/test.db";
  ASSERT_EQ(std::system(("sqlite3 " + database +
                         " 'pragma journal_mode = wal; create table t(a); insert into t values(1)'"
                         " > /dev/null")
                            .c_str()),
            0);
  const auto before = tree(scratch.root());
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  Watched watched(history, [&] {
    execute({"sqlite3", database,
             "insert into t values(2); update t set a = a + 1; delete from t; vacuum"});
  });
  EXPECT_EQ(watched.wait(), 0);
  EXPECT_NE(tree(scratch.root()), before);
  FileHistory::roll_back(scratch.state(), 0);
  EXPECT_EQ(tree(scratch.root()), before);
}

}  // namespace
}  // namespace perdure::run::files
