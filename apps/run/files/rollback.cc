// SPDX-License-Identifier: BSD-3-Clause
// FileHistory::roll_back() and check_untouched(): the undo files, read.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/run/files/history.h"
#include "apps/run/files/kept_files.h"
#include "apps/run/files/paths.h"
#include "apps/run/files/taking_back.h"
#include "apps/run/files/undo_layout.h"
#include "apps/run/files/undo_log.h"
#include "perdure/base/crc32c.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run::files {
namespace {

constexpr std::size_t kMostForms =
    256;  // more than an epoch can be resumed from in vain without a pause

/// The file, what a roll-back made in its place, what another one made in the place of that, and so on.
std::vector<FileId> all_forms(const std::string& state_directory, FileId file) {
  std::vector<FileId> forms{file};
  while (forms.size() < kMostForms) {
    const std::string text = text_of_link(state_directory + "/kept/" + now_name(forms.back()));
    FileId next = file;
    if (std::sscanf(text.c_str(), "%lu %lu", &next.inode, &next.generation) != 2) break;
    forms.push_back(next);
  }
  return forms;
}

void refuse_broken(const std::string& directory, std::uint64_t epoch) {
  const std::string path = directory + "/broken";
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  BrokenMark mark{};
  if (file.get() < 0 || !read_at(file.get(), &mark, sizeof mark, 0)) {
    throw Exception(Code::kNotFound, path +
                                         ": is missing or cut off: files cannot go back; resume "
                                         "a copy of the directory, or start the program anew");
  }
  if (mark.magic != kBrokenMagic || mark.crc != crc32c(&mark, offsetof(BrokenMark, crc))) {
    throw Exception(Code::kCorrupt,
                    path +
                        ": offset 0: a wrong checksum: it cannot be told whether files can go "
                        "back; resume a copy of the directory, or start the program anew");
  }
  if (mark.epoch <= epoch) return;
  mark.cause[sizeof mark.cause - 1] = '\0';
  throw Exception(Code::kInvalid,
                  fmt::format("files cannot go back from epoch {} to the end of epoch {}: {}; "
                              "resume a later epoch, or start the program anew",
                              mark.epoch, epoch, mark.cause));
}

/// The undo files after an epoch, oldest first, each as a whole.
std::vector<UndoFile> read_after(const std::string& directory, std::uint64_t epoch) {
  refuse_broken(directory, epoch);
  std::vector<std::uint64_t> epochs = undo_epochs(directory);
  std::erase_if(epochs, [&](std::uint64_t each) { return each <= epoch; });
  std::vector<UndoFile> files;
  for (const std::uint64_t each : epochs) {
    files.emplace_back(undo_path(directory, each));
    const UndoFile& file = files.back();
    if (file.torn() && each != epochs.back()) {
      throw Exception(Code::kCorrupt,
                      fmt::format("{}: is cut off, though a later epoch has begun; files cannot go "
                                  "back to epoch {}: resume a copy of the directory, or start "
                                  "the program anew",
                                  file.path(), epoch));
    }
    if (file.head().magic == 0) continue;  // torn before its first record
    if (file.head().epoch != each) {
      throw Exception(Code::kForeign, fmt::format("{}: offset 16: epoch {}; give it its own name "
                                                  "back",
                                                  file.path(), file.head().epoch));
    }
    const std::uint64_t previous = file.head().previous;
    if (previous > epoch && !std::binary_search(epochs.begin(), epochs.end(), previous)) {
      throw Exception(Code::kNotFound,
                      undo_path(directory, previous) +
                          ": is missing; put it back, or resume a copy of the directory");
    }
  }
  return files;
}

}  // namespace

TakingBack::TakingBack(const std::string& directory, std::uint64_t epoch,
                       const FileHistory::RollBack& options)
    : directory_(directory), options_(options), undo_(read_after(directory, epoch)) {
  check();
}

void TakingBack::run() {
  if (!options_.newest_first) std::reverse(undo_.begin(), undo_.end());
  for (auto file = undo_.rbegin(); file != undo_.rend(); ++file) take_back(*file);
  if (!options_.newest_first) std::reverse(undo_.begin(), undo_.end());
  for (auto file = undo_.rbegin(); file != undo_.rend(); ++file) {
    step();
    if (::unlink(file->path().c_str()) != 0) throw Exception(io_error(file->path()));
  }
}

// Kept files are as much a part of the history as the undo files.
void TakingBack::check() {
  std::uint64_t order = 0;
  for (const UndoFile& file : undo_) {
    for (const std::uint64_t offset : file.offsets()) {
      const UndoRecord record = file.read(offset);
      ++order;
      names_[record.id()].insert(record.path);
      if (record.body.kind == UndoKind::kRename) {
        moved_to_.emplace(record.other, Move{record.id(), order});
        names_[record.id()].insert(record.other);
      }
      std::string needed;
      if (record.body.kind == UndoKind::kKept) needed = kept(record.id());
      if (record.body.kind == UndoKind::kCopied && S_ISREG(record.body.mode))
        needed = directory_ + "/kept/" + record.other;
      const std::optional<struct stat> found = needed.empty() ? std::nullopt : state_at(needed);
      if (needed.empty() || is(record.path, record.id())) continue;
      if (!found || (record.body.kind == UndoKind::kCopied &&
                     static_cast<std::uint64_t>(found->st_size) != record.body.size)) {
        throw Exception(Code::kCorrupt,
                        fmt::format("{}: offset {}: {} is missing or cut off; resume a copy of the "
                                    "directory, or start the program anew",
                                    file.path(), offset, needed));
      }
    }
  }
}

// Runs of contents and states, and runs of removals, may be taken back again from their newest on: their paths stay
// what they are, and what is gone was to go.
void TakingBack::take_back(UndoFile& file) {
  const auto run_of = [](UndoKind kind) {
    if (kind == UndoKind::kContents || kind == UndoKind::kState) return 1;
    return kind == UndoKind::kAbsent ? 2 : 0;
  };
  const bool power = file.head().power != 0;
  std::vector<std::uint64_t> offsets = file.offsets();
  if (options_.newest_first) std::reverse(offsets.begin(), offsets.end());
  std::uint64_t order = 0;  // of the oldest record of this file, less one
  for (const UndoFile& each : undo_) {
    if (&each == &file) break;
    order += each.offsets().size();
  }
  int run = 0;
  constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::uint64_t taken = kNothing;  // back, down to this offset, but not settled
  for (std::size_t index = 0; index < offsets.size(); ++index) {
    const UndoRecord record = file.read(offsets[index]);
    const int kind = run_of(record.body.kind);
    if (taken != kNothing && (kind == 0 || kind != run)) {
      settle(file, taken);
      taken = kNothing;
    }
    run = kind;
    if (power) will_change(record);
    take_back(record, order + offsets.size() - index);
    if (power) {
      taken = offsets[index];
    } else if (options_.newest_first) {
      step();
      file.cut(offsets[index], false);
    }
  }
  if (taken != kNothing && options_.newest_first) settle(file, taken);
}

// Remembers on which file system a record's change is: that one is synced before the record is cut off.
void TakingBack::will_change(const UndoRecord& record) {
  for (std::string place : {kept(record.id()), record.path}) {
    if (place.empty()) continue;
    place.resize(std::max<std::size_t>(place.rfind('/'), 1));
    if (changed_.contains(place)) continue;
    Descriptor handle(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (handle.get() >= 0) changed_.emplace(place, std::move(handle));
  }
}

void TakingBack::settle(UndoFile& file, std::uint64_t offset) {
  std::set<dev_t> synced;
  for (const auto& [directory, handle] : changed_) {
    struct stat state{};
    done(::fstat(handle.get(), &state) == 0, directory);
    if (synced.insert(state.st_dev).second) done(::syncfs(handle.get()) == 0, directory);
  }
  changed_.clear();
  step();
  file.cut(offset, true);
}

// The device's number may be another one after a reboot; a path and an inode are enough.
bool FileHistory::is(const std::string& state_directory, FileId file, const std::string& path) {
  const std::optional<struct stat> state = state_at(path);
  if (!state) return false;
  const std::uint64_t generation = generation_of(AT_FDCWD, path);
  const std::vector<FileId> forms = all_forms(state_directory, file);
  return std::any_of(forms.begin(), forms.end(), [&](const FileId& form) {
    return form.inode == state->st_ino &&
           (form.generation == generation || form.generation == 0 || generation == 0);
  });
}

void FileHistory::roll_back(const std::string& state_directory, std::uint64_t epoch,
                            const RollBack& options) {
  TakingBack(state_directory, epoch, options).run();
}

void FileHistory::make_oldest(const std::string& state_directory, std::uint64_t epoch) {
  const RollBack options;
  TakingBack(state_directory, epoch, options);  // reads and checks all
  FileHistory history(state_directory, true);
  history.epoch_ = epoch;
  history.cannot_take_back("`perdure resume --back` has gone back to it");
}

Result<void> FileHistory::check_untouched(const std::string& state_directory, std::uint64_t epoch,
                                          std::span<const FileFact> facts) {
  try {
    std::set<std::uint64_t> touched;  // inodes: a device's number may change
    std::vector<std::string> moved;
    for (const UndoFile& file : read_after(state_directory, epoch)) {
      for (const std::uint64_t offset : file.offsets()) {
        const UndoRecord record = file.read(offset);
        touched.insert(record.body.inode);
        touched.insert(record.body.other_inode);
        if (record.body.kind != UndoKind::kRename && record.body.kind != UndoKind::kExchange)
          continue;
        moved.push_back(record.path + "/");
        moved.push_back(record.other + "/");
      }
    }
    for (const FileFact& fact : facts) {
      const std::vector<FileId> forms = all_forms(state_directory, fact.id);
      if (std::any_of(forms.begin(), forms.end(),
                      [&](const FileId& form) { return touched.contains(form.inode); }) ||
          std::any_of(moved.begin(), moved.end(),
                      [&](const std::string& above) { return fact.path.starts_with(above); }))
        continue;
      const auto differs = [&](const std::string& what) {
        return Error{Code::kMisuse, fmt::format("{}: {} since epoch {}, and not by the program; "
                                                "put back what was there and resume again",
                                                fact.path, what, epoch)};
      };
      const std::optional<struct stat> state = state_at(fact.path);
      if (!state) return differs("was removed");
      if (!is(state_directory, fact.id, fact.path)) return differs("was replaced");
      const RecordBody now = body_of(UndoKind::kState, *state, 0);
      if (now.size != fact.bytes)
        return differs(fmt::format("has {} bytes and had {}: was changed", now.size, fact.bytes));
      if (now.modified_ns != fact.modified_ns) return differs("was written to");
    }
    return {};
  } catch (const Exception& failure) {
    return failure.error();
  }
}

}  // namespace perdure::run::files
