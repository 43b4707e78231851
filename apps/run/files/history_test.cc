// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/history.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/run/files/paths.h"
#include "apps/run/files/tree_test_view.h"
#include "apps/run/files/undo_log.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run::files {
namespace {

Descriptor open_file(const std::string& path, int flags = O_RDWR) {
  return Descriptor(::open(path.c_str(), flags, 0644));
}

/// What roll_back() refuses with, if it does.
std::optional<Error> refusal(const Scratch& scratch, std::uint64_t epoch) {
  try {
    FileHistory::roll_back(scratch.state(), epoch);
    return std::nullopt;
  } catch (const Exception& failure) {
    return failure.error();
  }
}

void overwrite(FileHistory& history, const std::string& path, const std::string& text,
               std::uint64_t offset = 0) {
  const Descriptor file = open_file(path);
  ASSERT_TRUE(history.before_write(file.get(), offset, text.size()).ok());
  ASSERT_TRUE(write_at(file.get(), text.data(), text.size(), offset));
}

TEST(FileHistory, NothingIsWrittenBeforeAFileChanges) {
  const Scratch scratch;
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  history.begin_epoch(2);
  EXPECT_EQ(undo_epochs(scratch.state()).size(), 0U);
}

TEST(FileHistory, ABlockIsTakenOnceAnEpoch) {
  const Scratch scratch;
  const std::string path = scratch.root() + "/file";
  write_text(path, std::string(100'000, 'a'));
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  overwrite(history, path, "one", 5000);
  const auto once = std::filesystem::file_size(undo_path(scratch.state(), 1));
  overwrite(history, path, "two", 6000);
  overwrite(history, path, "beyond", 100'000);
  EXPECT_EQ(std::filesystem::file_size(undo_path(scratch.state(), 1)), once);
  overwrite(history, path, "three", 9000);
  EXPECT_GT(std::filesystem::file_size(undo_path(scratch.state(), 1)), once + 4096);
}

TEST(FileHistory, AFileMadeInTheEpochTakesOneRecord) {
  const Scratch scratch;
  const std::string path = scratch.root() + "/file";
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  ASSERT_TRUE(history.before_create(path).ok());
  write_text(path, std::string(100'000, 'a'));
  const auto made = std::filesystem::file_size(undo_path(scratch.state(), 1));
  overwrite(history, path, "again");
  struct stat state{};
  ::stat(path.c_str(), &state);
  EXPECT_TRUE(history.all_taken(state));
  EXPECT_EQ(std::filesystem::file_size(undo_path(scratch.state(), 1)), made);
}

TEST(FileHistory, AnEditorsSaveIsTakenBack) {
  const Scratch scratch;
  const std::string path = scratch.root() + "/text", anew = scratch.root() + "/text.new";
  write_text(path, "before");
  const auto before = tree(scratch.root());
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  ASSERT_TRUE(history.before_create(anew).ok());
  write_text(anew, "after");
  ASSERT_TRUE(history.before_rename(anew, path).ok());
  std::filesystem::rename(anew, path);
  FileHistory::roll_back(scratch.state(), 0);
  EXPECT_EQ(tree(scratch.root()), before);
}

// To exchange them back takes both.
TEST(FileHistory, AnExchangedFileThatIsRemovedComesBackEvenIfItWasMadeInTheEpoch) {
  const Scratch scratch;
  const std::string old = scratch.root() + "/old", made = scratch.root() + "/made";
  write_text(old, "old");
  const auto before = tree(scratch.root());
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  ASSERT_TRUE(history.before_create(made).ok());
  write_text(made, "made");
  ASSERT_TRUE(history.before_rename(made, old, true).ok());
  ASSERT_EQ(::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, old.c_str(), RENAME_EXCHANGE), 0);
  ASSERT_TRUE(history.before_remove(old).ok());
  ASSERT_EQ(::unlink(old.c_str()), 0);
  FileHistory::roll_back(scratch.state(), 0);
  EXPECT_EQ(tree(scratch.root()), before);
}

// Files are copied into a state directory on another file system, and their inodes' numbers are used again.
TEST(FileHistory, AFileIsToldFromOneThatGotItsInodesNumber) {
  const Scratch scratch;
  const Scratch elsewhere("/dev/shm");
  const std::string old = scratch.root() + "/old", moved = scratch.root() + "/moved",
                    later = scratch.root() + "/later";
  const auto rename = [](FileHistory& history, const std::string& from, const std::string& to) {
    ASSERT_TRUE(history.before_rename(from, to).ok());
    ASSERT_EQ(::rename(from.c_str(), to.c_str()), 0);
  };
  int reused = 0;
  for (int trial = 0; trial < 20; ++trial) {
    write_text(old, "old");
    FileHistory history(elsewhere.state(), false);
    history.begin_epoch(1);
    rename(history, old, moved);
    const ino_t inode = state_at(moved)->st_ino;
    ASSERT_TRUE(history.before_remove(moved).ok());
    ASSERT_EQ(::unlink(moved.c_str()), 0);
    ASSERT_TRUE(history.before_create(later).ok());
    write_text(later, "another");
    reused += state_at(later)->st_ino == inode ? 1 : 0;
    rename(history, later, moved);
    FileHistory::roll_back(elsewhere.state(), 0);
    ASSERT_EQ(text_of(old), "old");
    ASSERT_FALSE(state_at(moved) || state_at(later));
  }
  if (reused == 0) GTEST_SKIP() << "numbers are not used again here";
}

TEST(FileHistory, WhatWasMadeAnewMoreThanOnceIsStillTheFile) {
  const Scratch scratch;
  const Scratch elsewhere("/dev/shm");
  const std::string path = scratch.root() + "/file";
  write_text(path, "contents");
  const FileFact fact = fact_of(open_file(path).get());
  for (int resume = 0; resume < 4; ++resume) {
    FileHistory history(elsewhere.state(), false);
    history.begin_epoch(1);
    ASSERT_TRUE(history.before_remove(path).ok());
    ASSERT_EQ(::unlink(path.c_str()), 0);
    const Descriptor other = open_file(scratch.root() + "/other" + std::to_string(resume),
                                       O_RDWR | O_CREAT);  // takes the number
    FileHistory::roll_back(elsewhere.state(), 0);
    EXPECT_EQ(text_of(path), "contents");
    EXPECT_TRUE(FileHistory::is(elsewhere.state(), fact.id, path)) << resume;
    EXPECT_FALSE(FileHistory::is(elsewhere.state(), fact.id, scratch.root())) << resume;
  }
  const Result<void> untouched =
      FileHistory::check_untouched(elsewhere.state(), 0, std::vector<FileFact>{fact});
  EXPECT_TRUE(untouched.ok()) << untouched.error().message;
}

TEST(FileHistory, AnExtendedAttributeIsTakenBack) {
  const Scratch scratch;
  const std::string path = scratch.root() + "/file";
  write_text(path, "text");
  if (::setxattr(path.c_str(), "user.kept", "old", 3, 0) != 0) GTEST_SKIP() << "none here";
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  const Descriptor file = open_file(path, O_PATH);
  ASSERT_TRUE(history.before_attribute(file.get(), "user.kept").ok());
  ::setxattr(path.c_str(), "user.kept", "newer", 5, 0);
  ASSERT_TRUE(history.before_attribute(file.get(), "user.more").ok());
  ::setxattr(path.c_str(), "user.more", "more", 4, 0);
  FileHistory::roll_back(scratch.state(), 0);
  char value[16] = {};
  EXPECT_EQ(::getxattr(path.c_str(), "user.kept", value, sizeof value), 3);
  EXPECT_EQ(std::string(value), "old");
  EXPECT_LT(::getxattr(path.c_str(), "user.more", value, sizeof value), 0);
}

TEST(FileHistory, CommittedEpochsTakeTheirUndoFilesAndKeptFilesWithThem) {
  const Scratch scratch;
  FileHistory history(scratch.state(), false);
  const auto kept = [&] {
    int count = 0;
    for ([[maybe_unused]] const auto& each :
         std::filesystem::directory_iterator(scratch.state() + "/kept"))
      ++count;
    return count;
  };
  write_text(scratch.root() + "/open", "still open");
  write_text(scratch.root() + "/closed", "closed");
  const Descriptor open = open_file(scratch.root() + "/open");
  history.begin_epoch(1);
  for (const char* name : {"/open", "/closed"}) {
    ASSERT_TRUE(history.before_remove(scratch.root() + name).ok());
    std::filesystem::remove(scratch.root() + name);
  }
  EXPECT_EQ(kept(), 2);
  const std::vector<FileId> still_open{fact_of(open.get()).id};
  history.begin_epoch(2);
  history.committed(1, still_open);
  EXPECT_EQ(kept(), 2);  // Epoch 0 can be resumed.
  EXPECT_EQ(undo_epochs(scratch.state()), std::vector<std::uint64_t>{1});
  history.begin_epoch(3);
  history.committed(2, still_open);
  EXPECT_EQ(kept(), 1);
  EXPECT_TRUE(undo_epochs(scratch.state()).empty());
  history.begin_epoch(4);
  history.committed(3, {});
  EXPECT_EQ(kept(), 1);  // It is open in epoch 2.
  history.begin_epoch(5);
  history.committed(4, {});
  EXPECT_EQ(kept(), 0);
}

TEST(FileHistory, OfTemporaryFilesOnlyThoseThatAreOpenAreKept) {
  const Scratch scratch;
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  for (const bool open : {true, false}) {
    const std::string path = scratch.root() + "/temporary";
    ASSERT_TRUE(history.before_create(path).ok());
    write_text(path, "text");
    const Descriptor file = open_file(path, open ? O_RDONLY : O_PATH);
    ASSERT_TRUE(history.before_remove(path).ok());
    const FileId id = fact_of(file.get()).id;
    EXPECT_EQ(std::filesystem::exists(FileHistory::kept_path(scratch.state(), id)), open);
    std::filesystem::remove(path);
  }
}

TEST(FileHistory, APartOfTheLastRecordDoesNotCount) {
  std::uint64_t records_end = 0;
  for (std::uint64_t lost = 1;; ++lost) {
    const Scratch scratch;
    const std::string one = scratch.root() + "/one", two = scratch.root() + "/two";
    write_text(one, "first");
    write_text(two, "second");
    const auto before = tree(scratch.root());
    FileHistory history(scratch.state(), false);
    history.begin_epoch(1);
    overwrite(history, one, "FIRST");
    const auto whole = std::filesystem::file_size(undo_path(scratch.state(), 1));
    const Descriptor file = open_file(two);
    ASSERT_TRUE(history.before_write(file.get(), 0, 6).ok());  // and the power goes
    records_end = std::filesystem::file_size(undo_path(scratch.state(), 1));
    if (records_end - lost < whole) break;
    std::filesystem::resize_file(undo_path(scratch.state(), 1), records_end - lost);
    ASSERT_FALSE(refusal(scratch, 0)) << lost;
    EXPECT_EQ(tree(scratch.root()), before) << lost;
  }
}

TEST(FileHistory, EveryChangedByteIsNoticedBeforeAnythingIsChanged) {
  const Scratch scratch;
  const std::string path = scratch.root() + "/file";
  write_text(path, "text that is overwritten");
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  overwrite(history, path, "TEXT");
  ASSERT_TRUE(history.before_remove(path).ok());
  std::filesystem::remove(path);
  const auto before = tree(scratch.root());
  const std::string undo = undo_path(scratch.state(), 1);
  const std::string whole = text_of(undo);
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << (byte % 8)));
    write_text(undo, damaged);
    const auto error = refusal(scratch, 0);
    ASSERT_TRUE(error) << byte;
    EXPECT_TRUE(error->code == Code::kCorrupt || error->code == Code::kForeign ||
                error->code == Code::kVersion)
        << error->message;
    EXPECT_NE(error->message.find("undo-1: offset "), std::string::npos) << error->message;
    ASSERT_EQ(tree(scratch.root()), before) << byte;
  }
  write_text(undo, whole);
  EXPECT_FALSE(refusal(scratch, 0));
  EXPECT_EQ(text_of(path), "text that is overwritten");
}

TEST(FileHistory, AMissingUndoFileOrKeptFileIsNoticed) {
  const Scratch scratch;
  const std::string path = scratch.root() + "/file";
  write_text(path, "one");
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  overwrite(history, path, "two");
  history.begin_epoch(2);
  const FileId id = fact_of(open_file(path).get()).id;
  ASSERT_TRUE(history.before_remove(path).ok());
  std::filesystem::remove(path);

  std::filesystem::rename(undo_path(scratch.state(), 1), scratch.root() + "/undo-1");
  EXPECT_EQ(refusal(scratch, 0)->code, Code::kNotFound);
  std::filesystem::rename(scratch.root() + "/undo-1", undo_path(scratch.state(), 1));

  const std::string kept = FileHistory::kept_path(scratch.state(), id);
  std::filesystem::rename(kept, scratch.root() + "/kept");
  EXPECT_EQ(refusal(scratch, 0)->code, Code::kCorrupt);
  std::filesystem::rename(scratch.root() + "/kept", kept);

  EXPECT_FALSE(refusal(scratch, 0));
  EXPECT_EQ(text_of(path), "one");
}

TEST(FileHistory, ANewEpochWithoutTakingBackIsRefused) {
  const Scratch scratch;
  write_text(scratch.root() + "/file", "one");
  {
    FileHistory history(scratch.state(), false);
    history.begin_epoch(3);
    overwrite(history, scratch.root() + "/file", "two");
  }
  FileHistory again(scratch.state(), false);
  EXPECT_THROW(again.begin_epoch(3), Exception);
  FileHistory::roll_back(scratch.state(), 2);
  again.begin_epoch(3);
}

TEST(FileHistory, WhatDoesNotFitIsToldAndNeverTakenBackByHalves) {
  const Scratch scratch;
  const std::string path = scratch.root() + "/file";
  write_text(path, std::string(200'000, 'a'));
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  overwrite(history, path, "one");
  history.begin_epoch(2);
  const Descriptor file = open_file(path);
  // A limit on the size of files stands in for a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = 50'000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Result<void> result = history.before_resize(file.get(), 0);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(result.ok());
  EXPECT_TRUE(history.broken());
  ASSERT_EQ(::ftruncate(file.get(), 0), 0);
  history.begin_epoch(3);
  EXPECT_FALSE(history.broken());
  overwrite(history, path, "three");

  const auto error = refusal(scratch, 1);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::kInvalid);
  EXPECT_NE(error->message.find("undo-2"), std::string::npos) << error->message;
  EXPECT_EQ(text_of(path), "three");
  EXPECT_FALSE(refusal(scratch, 2));
  EXPECT_EQ(text_of(path), "");
}

TEST(FileHistory, WhatSomebodyElseChangedIsNamed) {
  const Scratch scratch;
  const std::string touched = scratch.root() + "/touched", other = scratch.root() + "/other";
  write_text(touched, "touched");
  write_text(other, "other");
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  const std::vector<FileFact> facts{fact_of(open_file(touched).get()),
                                    fact_of(open_file(other).get())};
  overwrite(history, touched, "by the program");
  EXPECT_TRUE(FileHistory::check_untouched(scratch.state(), 0, facts).ok());
  write_text(other, "by somebody");
  const Result<void> result = FileHistory::check_untouched(scratch.state(), 0, facts);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, Code::kMisuse);
  EXPECT_NE(result.error().message.find(other), std::string::npos) << result.error().message;
}

TEST(FileHistory, AFileThatSomebodyElseTookAwayIsNamedAndMayBePutBack) {
  const Scratch scratch;
  const std::string path = scratch.root() + "/file", away = scratch.root() + "/away";
  write_text(path, "one");
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  overwrite(history, path, "two");
  std::filesystem::rename(path, away);
  const auto error = refusal(scratch, 0);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Code::kMisuse);
  std::filesystem::rename(away, path);
  EXPECT_FALSE(refusal(scratch, 0));
  EXPECT_EQ(text_of(path), "one");
}

TEST(FileHistory, FilesOfTheKernelAndOfTheStateDirectoryDoNotCount) {
  const Scratch scratch;
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  const Descriptor kernel = open_file("/proc/self/comm");
  EXPECT_TRUE(history.before_write(kernel.get(), 0, 4).ok());
  write_text(scratch.state() + "/segment", "one");
  overwrite(history, scratch.state() + "/segment", "two");
  EXPECT_TRUE(undo_epochs(scratch.state()).empty());
}

// A rename was let through and had not happened yet when the name was found absent, and about to be made.
TEST(FileHistory, AFileIsNotLostWhenCallsRaceForItsName) {
  const Scratch scratch;
  const std::string from = scratch.root() + "/from", to = scratch.root() + "/to";
  write_text(from, "precious");
  const auto before = tree(scratch.root());
  FileHistory history(scratch.state(), false);
  history.begin_epoch(1);
  ASSERT_TRUE(history.before_rename(from, to).ok());
  ASSERT_TRUE(history.before_create(to).ok());
  std::filesystem::rename(from, to);
  overwrite(history, to, "PRECIOUS");
  FileHistory::roll_back(scratch.state(), 0);
  EXPECT_EQ(tree(scratch.root()), before);
}

}  // namespace
}  // namespace perdure::run::files
