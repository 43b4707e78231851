// SPDX-License-Identifier: BSD-3-Clause
// Random changes of a tree over several epochs, taken back: the tree must be what it was.
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/run/files/history.h"
#include "apps/run/files/tree_test_view.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run::files {
namespace {

struct Cut {};

struct Seen {
  std::map<std::string, std::string> tree;
  std::map<FileId, std::string> nameless;  // contents of what is open without a name
};

/// A program of one thread that does what it likes with the files below a directory.
class Program {
 public:
  /// `links`: it gives files several names.
  Program(const Scratch& scratch, std::uint64_t seed, bool power, bool links,
          FileHistory::Rules rules)
      : root_(scratch.root()),
        state_(scratch.state()),
        power_(power),
        links_(links),
        rules_(rules),
        random_(seed) {
    for (int start = 0; start < 8; ++start) {
      ::mkdir((root_ + "/d" + std::to_string(start % 3)).c_str(), 0755);
      write_text(root_ + "/d" + std::to_string(start % 3) + "/f" + std::to_string(start),
                 std::string(number(30'000), static_cast<char>('a' + start)));
    }
    start(0);
  }

  void start(std::uint64_t epoch) {
    open_.clear();
    history_ = std::make_unique<FileHistory>(state_, power_, rules_);
    epoch_ = epoch + 1;
    history_->begin_epoch(epoch_);
  }

  std::uint64_t epoch() const { return epoch_; }

  /// What is open and has only a kept link, or none.
  std::map<FileId, std::string> nameless() {
    std::map<FileId, std::string> found;
    for (const Descriptor& file : open_) {
      struct stat state{};
      ::fstat(file.get(), &state);
      const FileFact fact = fact_of(file.get());
      if (!fact.path.ends_with(" (deleted)")) continue;
      const std::string kept = FileHistory::kept_path(state_, fact.id);
      if (state_at(kept)) found[fact.id] = text_of(kept);
    }
    return found;
  }

  void end_epoch() { history_->begin_epoch(++epoch_); }
  void commit(std::uint64_t epoch, const std::map<FileId, std::string>& nameless) {
    std::vector<FileId> open;
    for (const auto& [file, contents] : nameless) open.push_back(file);
    if (power_) allowed(history_->sync_touched());
    history_->committed(epoch, open);
  }

  void change();

 private:
  std::uint64_t number(std::uint64_t below) { return random_() % below; }
  std::string directory() {
    return number(4) == 0 ? root_ : root_ + "/d" + std::to_string(number(4));
  }
  std::string name() { return directory() + "/f" + std::to_string(number(9)); }
  void allowed(const Result<void>& result) { ASSERT_TRUE(result.ok()) << result.error().message; }
  /// Writes to a descriptor somewhere, or appends.
  void write(int file);
  void open_and_write();
  void rename();

  std::string root_, state_;
  bool power_, links_;
  FileHistory::Rules rules_;
  std::mt19937_64 random_;
  std::unique_ptr<FileHistory> history_;
  std::vector<Descriptor> open_;
  std::uint64_t epoch_ = 0;
};

void Program::write(int file) {
  struct stat state{};
  ::fstat(file, &state);
  const std::string bytes(number(10) == 0 ? number(200'000) : number(6'000),
                          static_cast<char>('A' + number(26)));
  const std::uint64_t offset =
      number(3) == 0 ? static_cast<std::uint64_t>(state.st_size) : number(40'000);
  allowed(history_->before_write(file, offset, bytes.size()));
  ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
}

void Program::open_and_write() {
  const std::string path = name();
  allowed(history_->before_create(path));
  if (number(8) == 0) {  // as a temporary file
    Descriptor file(::open(directory().c_str(), O_TMPFILE | O_RDWR, 0600));
    if (file.get() < 0) return;
    write(file.get());
    if (links_ && number(2) == 0) {
      allowed(history_->before_link(file.get(), path));
      ::linkat(AT_FDCWD, ("/proc/self/fd/" + std::to_string(file.get())).c_str(), AT_FDCWD,
               path.c_str(), AT_SYMLINK_FOLLOW);
    }
    open_.push_back(std::move(file));
    return;
  }
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0644));
  if (file.get() < 0) return;
  if (number(4) == 0) {
    allowed(history_->before_resize(file.get(), 0));
    ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  }
  write(file.get());
  if (number(3) == 0) open_.push_back(std::move(file));
}

void Program::rename() {
  const bool directories = number(4) == 0;
  const std::string from = directories ? root_ + "/d" + std::to_string(number(4)) : name();
  const std::string to = directories ? directory() : name();
  const bool exchange = number(6) == 0;
  allowed(history_->before_rename(from, to, exchange));
  ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), exchange ? RENAME_EXCHANGE : 0);
}

void Program::change() {
  const std::string path = name();
  switch (number(12)) {
    case 0:
    case 1: return open_and_write();
    case 2: {
      allowed(history_->before_remove(path));
      ::unlink(path.c_str());
      return;
    }
    case 3: return rename();
    case 4: {
      const std::string made = root_ + "/d" + std::to_string(number(4));
      if (number(2) == 0) {
        allowed(history_->before_create(made));
        ::mkdir(made.c_str(), 0700);
      } else {
        allowed(history_->before_remove(made));
        ::rmdir(made.c_str());
      }
      return;
    }
    case 5: {
      allowed(history_->before_create(path));
      [[maybe_unused]] int result =
          ::symlink(("to" + std::to_string(number(99))).c_str(), path.c_str());
      return;
    }
    case 6: {
      if (!links_) return;
      const std::string from = name();
      const Descriptor file(::open(from.c_str(), O_PATH | O_NOFOLLOW));
      if (file.get() < 0) return;
      allowed(history_->before_link(file.get(), path));
      [[maybe_unused]] int result = ::link(from.c_str(), path.c_str());
      return;
    }
    default: break;
  }
  // Of a file that is there, by its name or by a descriptor that stayed open.
  Descriptor opened;
  int file = -1;
  if (!open_.empty() && number(2) == 0) {
    file = open_[number(open_.size())].get();
  } else {
    opened = Descriptor(::open(path.c_str(), O_RDWR | O_NOFOLLOW));
    file = opened.get();
  }
  if (file < 0) return;
  switch (number(6)) {
    case 0: {
      const std::uint64_t bytes = number(40'000);
      allowed(history_->before_resize(file, bytes));
      ASSERT_EQ(::ftruncate(file, static_cast<off_t>(bytes)), 0);
      return;
    }
    case 1: {
      allowed(history_->before_change(file));
      ::fchmod(file, static_cast<mode_t>(0600 + number(0100)));
      return;
    }
    case 2: {
      allowed(history_->before_change(file));
      const timespec times[2] = {{static_cast<time_t>(number(1'000'000)), 5},
                                 {static_cast<time_t>(number(1'000'000)), 7}};
      ::futimens(file, times);
      return;
    }
    case 3:
      if (!open_.empty()) open_.erase(open_.begin() + static_cast<long>(number(open_.size())));
      return;
    default: return write(file);
  }
}

struct Setting {
  bool power = false;
  bool other_file_system = false;
  FileHistory::Rules rules{};
  bool newest_first = true;
  int cuts = 0;  // roll_back() is cut after one step, two, ...; this many times at most
};

/// Whether what came back was what had been there, round after round; then nothing, else the first difference.
std::optional<std::string> difference(std::uint64_t seed, const Setting& setting) {
  const Scratch scratch;
  std::optional<Scratch> elsewhere;
  if (setting.other_file_system) elsewhere.emplace("/dev/shm");
  std::mt19937_64 random(seed * 7919);
  const bool inodes = !setting.other_file_system;
  if (elsewhere) {
    std::filesystem::remove(scratch.state());
    std::filesystem::create_symlink(elsewhere->state(), scratch.state());
  }
  Program program(scratch, seed, setting.power, !setting.other_file_system, setting.rules);
  std::map<std::uint64_t, Seen> ends;
  for (int round = 0; round < 3; ++round) {
    std::uint64_t committed = program.epoch() - 1;
    const int epochs = 2 + static_cast<int>(random() % 3);
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (std::uint64_t change = 0; change < 5 + random() % 30; ++change) program.change();
      const std::uint64_t ended = program.epoch();
      ends[ended] = {tree(scratch.root(), inodes), program.nameless()};
      program.end_epoch();
      for (std::uint64_t change = 0; change < random() % 10; ++change) program.change();
      if (epoch + 1 == epochs && random() % 3 == 0) break;  // The last one did not commit in time.
      program.commit(ended, ends[ended].nameless);
      committed = ended;
    }
    const bool older = ends.contains(committed - 1) && random() % 2 == 0;
    const std::uint64_t target = older ? committed - 1 : committed;
    if (!ends.contains(target)) continue;
    FileHistory::RollBack options;
    options.newest_first = setting.newest_first;
    for (int cut = 1; cut <= setting.cuts; ++cut) {
      int steps = cut;
      options.before_step = [&] {
        if (--steps == 0) throw Cut{};
      };
      try {
        FileHistory::roll_back(scratch.state(), target, options);
      } catch (const Cut&) {
      }
    }
    options.before_step = {};
    try {
      FileHistory::roll_back(scratch.state(), target, options);
    } catch (const Exception& failure) {
      return failure.what();
    }
    Seen now{tree(scratch.root(), inodes), {}};
    for (const auto& [file, contents] : ends[target].nameless)
      now.nameless[file] = text_of(FileHistory::kept_path(scratch.state(), file));
    for (const auto& [path, line] : ends[target].tree)
      if (now.tree[path] != line) return path + ": " + now.tree[path] + ", and was " + line;
    if (now.tree != ends[target].tree) return "there is more than there was";
    if (now.nameless != ends[target].nameless) return "a file without a name is different";
    ends.erase(ends.upper_bound(target), ends.end());
    program.start(target);
  }
  return std::nullopt;
}

void expect_no_difference(std::uint64_t seeds, const Setting& setting) {
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const auto found = difference(seed, setting);
    ASSERT_FALSE(found) << "seed " << seed << ": " << *found;
  }
}

TEST(RandomFileChanges, AreTakenBackToEitherOfTheLastTwoEpochs) { expect_no_difference(50, {}); }

TEST(RandomFileChanges, AreTakenBackWhereverTakingBackIsCut) {
  Setting setting;
  setting.cuts = 60;
  expect_no_difference(30, setting);
}

TEST(RandomFileChanges, AreTakenBackWithPower) {
  Setting setting;
  setting.power = true;
  setting.cuts = 4;
  expect_no_difference(2, setting);
}

TEST(RandomFileChanges, AreTakenBackWhenTheStateDirectoryIsOnAnotherFileSystem) {
  struct stat here{}, there{};
  ::stat("/tmp", &here);
  if (::stat("/dev/shm", &there) != 0 || here.st_dev == there.st_dev)
    GTEST_SKIP() << "no other file system";
  Setting setting;
  setting.other_file_system = true;
  expect_no_difference(30, setting);
  setting.cuts = 30;
  expect_no_difference(10, setting);
}

/// A rule that is left out is noticed by most seeds.
void expect_differences(const Setting& setting) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) found += difference(seed, setting) ? 1 : 0;
  EXPECT_GE(found, 5);
}

TEST(RandomFileChanges, WithoutContentsAreNotTakenBack) {
  Setting setting;
  setting.rules.contents = false;
  expect_differences(setting);
}

TEST(RandomFileChanges, WithoutKeptFilesAreNotTakenBack) {
  Setting setting;
  setting.rules.keep = false;
  expect_differences(setting);
}

TEST(RandomFileChanges, OldestFirstAreNotTakenBack) {
  Setting setting;
  setting.newest_first = false;
  expect_differences(setting);
}

}  // namespace
}  // namespace perdure::run::files
