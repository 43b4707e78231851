// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/watch.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "apps/run/files/history.h"
#include "apps/run/files/tree_test_view.h"
#include "apps/run/files/watched_test_program.h"

namespace perdure::run::files {
namespace {

/// A directory with files; a history in its first epoch.
class WatchTest : public testing::TestWithParam<bool> {
 protected:
  WatchTest() {
    write_text(root() + "/old", std::string(50'000, 'o'));
    write_text(root() + "/text", "some text");
    std::filesystem::create_directory(root() + "/directory");
    write_text(root() + "/directory/inner", "inner");
    std::filesystem::create_symlink("nowhere", root() + "/dangling");
    history_.begin_epoch(1);
    before_ = tree(root());
  }
  std::string root() const { return scratch_.root(); }

  /// Runs `program` in the directory and takes back what it did.
  void expect_taken_back(const std::function<void()>& program, Hooks hooks = {}) {
    Watched watched(history_,
                    [&] {
                      if (::chdir(root().c_str()) != 0) ::_exit(96);
                      program();
                    },
                    std::move(hooks), {.thread_handles = GetParam()});
    EXPECT_EQ(watched.wait(), 0);
    EXPECT_NE(tree(root()), before_) << "the program did nothing";
    EXPECT_FALSE(history_.broken()) << *history_.broken();
    FileHistory::roll_back(scratch_.state(), 0);
    EXPECT_EQ(tree(root()), before_);
  }

  Scratch scratch_;
  FileHistory history_{scratch_.state(), false};
  std::map<std::string, std::string> before_;
};

/// In the child: what should be is.
void require(bool condition) {
  if (!condition) ::_exit(99);
}

TEST_P(WatchTest, StandardOutputToAFileIsTakenBack) {
  expect_taken_back([] {
    FILE* const file = std::fopen("text", "a");
    for (int line = 0; line < 1000; ++line) std::fprintf(file, "line %d\n", line);
    std::fclose(file);
  });
}

TEST_P(WatchTest, OverwritesOfEveryKindAreTakenBack) {
  expect_taken_back([] {
    const int file = ::open("old", O_RDWR);
    char bytes[] = "new bytes";
    iovec vectors[2] = {{bytes, 4}, {bytes, 5}};
    require(::pwrite(file, bytes, 9, 100) == 9);
    require(::lseek(file, 5000, SEEK_SET) == 5000 && ::write(file, bytes, 9) == 9);
    require(::pwritev(file, vectors, 2, 10'000) == 9);
    require(::lseek(file, 15'000, SEEK_SET) == 15'000 && ::writev(file, vectors, 2) == 9);
    require(::pwritev2(file, vectors, 2, 20'000, 0) == 9);
    require(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 24'576, 4096) == 0 ||
            errno == EOPNOTSUPP);
    const int text = ::open("text", O_RDONLY);
    loff_t to = 30'000;
    require(::copy_file_range(text, nullptr, file, &to, 9, 0) == 9);
    require(::lseek(text, 0, SEEK_SET) == 0 && ::lseek(file, 35'000, SEEK_SET) == 35'000);
    require(::sendfile(file, text, nullptr, 9) == 9);
    int pipe[2];
    require(::pipe(pipe) == 0 && ::write(pipe[1], bytes, 9) == 9);
    to = 40'000;
    require(::splice(pipe[0], nullptr, file, &to, 9, 0) == 9);
  });
}

TEST_P(WatchTest, TruncationIsTakenBack) {
  expect_taken_back([] {
    require(::truncate("old", 10'000) == 0);
    const int file = ::open("text", O_WRONLY | O_TRUNC);
    require(::ftruncate(file, 123) == 0);
    require(::open("directory/inner", O_RDWR | O_CREAT | O_TRUNC, 0600) >= 0);
  });
}

TEST_P(WatchTest, NamesAreTakenBack) {
  expect_taken_back([] {
    const int made = ::creat("text.new", 0640);
    require(::write(made, "edited", 6) == 6);
    require(::rename("text.new", "text") == 0);
    require(::unlink("old") == 0);
    require(::open("old", O_WRONLY | O_CREAT | O_EXCL, 0600) >= 0);
    require(::open("dangling", O_WRONLY | O_CREAT, 0600) >= 0);
    const int directory = ::open("directory", O_RDONLY | O_DIRECTORY);
    require(::mkdirat(directory, "made/", 0700) == 0);
    require(::renameat(directory, "inner", directory, "made/moved") == 0);
    require(::symlinkat("target", directory, "link") == 0);
    require(::linkat(directory, "made/moved", AT_FDCWD, "linked", 0) == 0);
    require(::renameat2(AT_FDCWD, "linked", AT_FDCWD, "text", RENAME_EXCHANGE) == 0);
    require(::mknod("pipe", S_IFIFO | 0600, 0) == 0);
    open_how how{};
    how.flags = O_WRONLY | O_CREAT;
    how.mode = 0600;
    require(::syscall(SYS_openat2, directory, "by-openat2", &how, sizeof how) >= 0);
    sockaddr_un address{AF_UNIX, "socket"};
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    require(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  });
}

TEST_P(WatchTest, WhatIsKnownOfAFileIsTakenBack) {
  expect_taken_back([] {
    require(::chmod("old", 0400) == 0);
    const int file = ::open("text", O_RDONLY);
    require(::fchmod(file, 0755) == 0);
    const timespec times[2] = {{1, 2}, {3, 4}};
    require(::futimens(file, times) == 0);
    require(::utimensat(AT_FDCWD, "dangling", times, AT_SYMLINK_NOFOLLOW) == 0);
    require(::lchown("dangling", ::getuid(), ::getgid()) == 0);
    require(::utimensat(AT_FDCWD, "directory/inner", times, 0) == 0);
  });
}

TEST_P(WatchTest, PathsThatMeanTheThreadsOwnAreTakenBack) {
  expect_taken_back([] {
    const int file = ::open("text", O_RDWR);
    require(::truncate(("/proc/self/fd/" + std::to_string(file)).c_str(), 2) == 0);
    require(::open(("/dev/fd/" + std::to_string(file)).c_str(), O_WRONLY | O_TRUNC) >= 0);
  });
}

TEST_P(WatchTest, OtherProgramsAndChildrenAreWatched) {
  std::atomic<int> executed = 0;
  Hooks hooks;
  hooks.on_exec = [&](const Call&, int) { ++executed; };
  expect_taken_back(
      [] {
        execute({"/bin/sh", "-c",
                 "echo more >> text; (echo child > made; mv made text) & wait;"
                 "cp old copy; rm old; mkdir -p a/b/c; mv directory a/b; touch a/b/directory/new;"
                 "ln -s x y; rm -r a/b/c; chmod 600 copy; sed -i s/o/u/ copy; rm dangling"});
      },
      hooks);
  EXPECT_GT(executed.load(), 5);
}

TEST_P(WatchTest, FilesWithoutANameStayAsLongAsTheyAreOpen) {
  int go[2], done[2];
  ASSERT_EQ(::pipe(go), 0);
  ASSERT_EQ(::pipe(done), 0);
  Watched watched(history_,
                  [&] {
                    const int file =
                        ::open((root() + "/temporary").c_str(), O_RDWR | O_CREAT, 0600);
                    require(::unlink((root() + "/temporary").c_str()) == 0);
                    require(::write(file, "first", 5) == 5);
                    char byte = 0;
                    require(::write(done[1], &byte, 1) == 1 && ::read(go[0], &byte, 1) == 1);
                    require(::pwrite(file, "second", 6, 0) == 6);
                    require(::write(done[1], &byte, 1) == 1 && ::read(go[0], &byte, 1) == 1);
                  },
                  {}, {.thread_handles = GetParam()});
  char byte = 0;
  ASSERT_EQ(::read(done[0], &byte, 1), 1);
  std::string kept;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.state() + "/kept"))
    kept = entry.path();
  EXPECT_EQ(text_of(kept), "first");
  struct stat state{};
  ::stat(kept.c_str(), &state);
  history_.begin_epoch(2);
  history_.committed(1, std::vector<FileId>{{state.st_dev, state.st_ino}});
  ASSERT_EQ(::write(go[1], &byte, 1), 1);
  ASSERT_EQ(::read(done[0], &byte, 1), 1);
  EXPECT_EQ(text_of(kept), "second");
  watched.kill();
  FileHistory::roll_back(scratch_.state(), 1);
  EXPECT_EQ(text_of(kept), "first");
}

TEST_P(WatchTest, ASyncWaitsForItsAnswer) {
  int done[2];
  ASSERT_EQ(::pipe(done), 0);
  std::atomic<std::uint64_t> held = 0;
  Hooks hooks;
  hooks.on_sync = [&](const Call& call) {
    held = call.id;
    return call.number == SYS_fsync;
  };
  Watched watched(
      history_,
      [&] {
        const int file = ::open((root() + "/text").c_str(), O_RDWR);
        require(::fdatasync(file) == 0);
        require(::fsync(file) == 0);
        require(::write(done[1], "", 1) == 1);
      },
      hooks);
  pollfd event{done[0], POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 100), 0);
  ASSERT_NE(held.load(), 0U);
  EXPECT_TRUE(watched.watch().answer(held));
  EXPECT_EQ(::poll(&event, 1, 10'000), 1);
  EXPECT_EQ(watched.wait(), 0);
}

TEST_P(WatchTest, DescriptorsCanBeGivenToAProgramAboutToStart) {
  const Descriptor given(::open((root() + "/text").c_str(), O_RDONLY));
  Hooks hooks;
  hooks.on_exec = [&](const Call& call, int listener) {
    seccomp_notif_addfd add{};
    add.id = call.id;
    add.flags = SECCOMP_ADDFD_FLAG_SETFD;
    add.srcfd = static_cast<std::uint32_t>(given.get());
    add.newfd = 9;
    EXPECT_EQ(::ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add), 9);
  };
  Watched watched(
      history_, [] { execute({"/bin/sh", "-c", "test \"$(cat <&9)\" = 'some text'"}); }, hooks);
  EXPECT_EQ(watched.wait(), 0);
}

TEST_P(WatchTest, ASharedMappingIsTakenBackInItsEpoch) {
  expect_taken_back([] {
    const int file = ::open("old", O_RDWR);
    void* const memory = ::mmap(nullptr, 20'000, PROT_READ | PROT_WRITE, MAP_SHARED, file, 4096);
    require(memory != MAP_FAILED);
    static_cast<char*>(memory)[0] = 'n';
    static_cast<char*>(memory)[19'999] = 'n';
  });
}

TEST_P(WatchTest, WhatCannotBeTakenBackIsTold) {
  std::string cause;
  Hooks hooks;
  hooks.on_refused = [&](const Call&, const std::string& why) { cause = why; };
  {
    // A state directory in which nothing can be written any more.
    std::filesystem::remove_all(scratch_.state());
    Watched watched(
        history_, [&] { require(::truncate((root() + "/old").c_str(), 0) == 0); }, hooks);
    EXPECT_EQ(watched.wait(), 0);
  }
  EXPECT_NE(cause.find("undo-1"), std::string::npos) << cause;
  EXPECT_TRUE(history_.broken());
}

TEST_P(WatchTest, WaysPastTheFilterAreClosed) {
  Watched watched(history_, [] {
    require(::syscall(SYS_io_uring_setup, 1, nullptr) < 0 && errno == ENOSYS);
    require(::syscall(SYS_io_setup, 1, nullptr) < 0 && errno == ENOSYS);
    require(::syscall(0x40000000 + SYS_write, 1, nullptr, 0) < 0 && errno == ENOSYS);
    require(::write(-1, "", 1) < 0 && errno == EBADF);
    require(::syscall(SYS_unlink, 8) < 0 && errno == EFAULT);
    require(::rename("/none/a", "/none/b") < 0 && errno == ENOENT);
  });
  EXPECT_EQ(watched.wait(), 0);
  EXPECT_EQ(tree(root()), before_);
}

TEST_P(WatchTest, AProgramThatIsKilledEndsTheWatch) {
  Watched watched(history_, [] {
    const int file = ::open("/dev/null", O_WRONLY);
    for (;;) require(::write(file, "", 1) == 1);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(WTERMSIG(watched.kill()), SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(WithThreadHandlesAndWithout, WatchTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Handles" : "Proc"; });

}  // namespace
}  // namespace perdure::run::files
