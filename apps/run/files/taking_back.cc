// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/taking_back.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>

#include "apps/run/files/kept_files.h"
#include "apps/run/files/paths.h"

namespace perdure::run::files {
namespace {

timespec time_of(std::int64_t ns) {
  const std::int64_t second = 1'000'000'000;
  const std::int64_t rest = ((ns % second) + second) % second;
  return {static_cast<time_t>((ns - rest) / second), static_cast<long>(rest)};
}

[[noreturn]] void gone(const std::string& path) {
  throw Exception(Code::kMisuse, path +
                                     ": is gone, or another file than the program had changed; "
                                     "put it back and resume again");
}

/// The program had it open when it became read-only; the state that is taken back later says so.
Descriptor open_to_write(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0 && errno == EACCES && ::chmod(path.c_str(), 0600) == 0)
    file = Descriptor(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) throw Exception(io_error(path));
  return file;
}

}  // namespace

void TakingBack::take_back(const UndoRecord& record, std::uint64_t order) {
  switch (record.body.kind) {
    case UndoKind::kState: return restore_state(record);
    case UndoKind::kContents: return restore_contents(record);
    case UndoKind::kAbsent: return remove_made(record, order);
    case UndoKind::kKept: return restore_kept(record);
    case UndoKind::kCopied: return restore_copied(record);
    case UndoKind::kDirectory: return restore_directory(record);
    case UndoKind::kRename: return rename_back(record);
    case UndoKind::kExchange: return exchange_back(record);
    case UndoKind::kAttribute: return restore_attribute(record);
  }
}

// ---- Which file ------------------------------------------------------------------------------------------------------

/// Where a file is now: under the name that it had when the record was written, in kept/, or, if calls raced with
/// each other, under another name that it had.
std::string TakingBack::find(FileId file, const std::string& path) const {
  if (!path.empty() && is(path, file)) return path;
  if (is(kept(file), file)) return kept(file);
  if (const auto names = names_.find(file); names != names_.end()) {
    for (const std::string& name : names->second)
      if (!name.empty() && is(name, file)) return name;
  }
  gone(path.empty() ? kept(file) : path);
}

void TakingBack::made_anew(FileId before, const std::string& path) {
  const std::optional<struct stat> state = state_at(path);
  const std::string link = directory_ + "/kept/" + now_name(before);
  step();
  done(::unlink(link.c_str()) == 0 || errno == ENOENT, link);
  const std::string now =
      std::to_string(state->st_ino) + " " + std::to_string(generation_of(AT_FDCWD, path));
  done(::symlink(now.c_str(), link.c_str()) == 0, link);
}

// ---- What a file is --------------------------------------------------------------------------------------------------

void TakingBack::set_attributes(const std::string& path, const RecordBody& body) {
  const std::optional<struct stat> state = state_at(path);
  if (!state) gone(path);
  step();
  if (state->st_uid != body.user || state->st_gid != body.group)
    done(::lchown(path.c_str(), body.user, body.group) == 0, path);
  // After the owner, which takes set-user-ID away.
  if (!S_ISLNK(body.mode)) done(::chmod(path.c_str(), body.mode & 07777) == 0, path);
  step();
  const timespec times[2] = {time_of(body.accessed_ns), time_of(body.modified_ns)};
  done(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0, path);
}

void TakingBack::restore_state(const UndoRecord& record) {
  const std::string path = find(record.id(), record.path);
  const std::optional<struct stat> state = state_at(path);
  if (S_ISREG(record.body.mode) && static_cast<std::uint64_t>(state->st_size) != record.body.size) {
    step();
    const Descriptor file = open_to_write(path);
    done(::ftruncate(file.get(), static_cast<off_t>(record.body.size)) == 0, path);
  }
  set_attributes(path, record.body);
}

void TakingBack::restore_contents(const UndoRecord& record) {
  const std::string path = find(record.id(), record.path);
  step();
  const Descriptor file = open_to_write(path);
  done(write_at(file.get(), record.data.data(), record.data.size(), record.body.size), path);
}

void TakingBack::restore_attribute(const UndoRecord& record) {
  const std::string path = find(record.id(), record.path);
  step();
  const bool success =
      record.body.size == 1
          ? ::lremovexattr(path.c_str(), record.other.c_str()) == 0 || errno == ENODATA
          : ::lsetxattr(path.c_str(), record.other.c_str(), record.data.data(), record.data.size(),
                        0) == 0;
  done(success, path + ": attribute " + record.other);
}

// ---- Which names there are -------------------------------------------------------------------------------------------

void TakingBack::remove(const std::string& path, const struct stat& state) {
  step();
  const int result = S_ISDIR(state.st_mode) ? ::rmdir(path.c_str()) : ::unlink(path.c_str());
  if (result != 0 && errno == ENOTEMPTY) {
    throw Exception(Code::kMisuse,
                    path +
                        ": a directory that the program made since holds what somebody else "
                        "put there; move that away and resume again");
  }
  done(result == 0 || errno == ENOENT, path);
}

void TakingBack::remove_made(const UndoRecord& record, std::uint64_t order) {
  const std::optional<struct stat> state = state_at(record.path);
  if (!state) return;
  // Calls raced for the name: a file that a rename brought here goes back when that one is taken back.
  const auto [first, last] = moved_to_.equal_range(record.path);
  if (std::any_of(first, last, [&](const auto& move) {
        return move.second.order < order && is(record.path, move.second.file);
      }))
    return;
  remove(record.path, *state);
}

void TakingBack::restore_kept(const UndoRecord& record) {
  if (is(record.path, record.id())) return;
  const std::optional<struct stat> state = state_at(record.path);
  if (state) remove(record.path, *state);
  step();
  const std::string from = kept(record.id());
  done(::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, record.path.c_str(), 0) == 0, record.path);
}

void TakingBack::restore_copied(const UndoRecord& record) {
  if (is(record.path, record.id())) return;
  const std::string anew = record.path + ".perdure-undo";
  step();
  done(::unlink(anew.c_str()) == 0 || errno == ENOENT, anew);
  if (S_ISREG(record.body.mode)) {
    const std::string from = directory_ + "/kept/" + record.other;
    const Descriptor copy(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
    done(copy.get() >= 0, from);
    const Descriptor file(::open(anew.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    done(file.get() >= 0, anew);
    copy_contents(copy.get(), file.get(), anew);
  } else if (S_ISLNK(record.body.mode)) {
    done(::symlink(record.other.c_str(), anew.c_str()) == 0, anew);
  } else {
    done(::mknod(anew.c_str(), record.body.mode, 0) == 0, anew);
  }
  set_attributes(anew, record.body);
  made_anew(record.id(), anew);
  step();
  done(::rename(anew.c_str(), record.path.c_str()) == 0, record.path);
}

void TakingBack::restore_directory(const UndoRecord& record) {
  if (is(record.path, record.id())) return;
  const std::optional<struct stat> state = state_at(record.path);
  if (state && !S_ISDIR(state->st_mode)) remove(record.path, *state);
  step();
  done(::mkdir(record.path.c_str(), 0700) == 0 || errno == EEXIST, record.path);
  set_attributes(record.path, record.body);
  made_anew(record.id(), record.path);
}

void TakingBack::rename_back(const UndoRecord& record) {
  if (is(record.path, record.id())) return;
  if (state_at(record.path) || !is(record.other, record.id())) gone(record.other);
  step();
  done(::rename(record.other.c_str(), record.path.c_str()) == 0, record.other);
}

void TakingBack::exchange_back(const UndoRecord& record) {
  if (is(record.path, record.id())) return;
  if (!is(record.path, record.other_id()) || !is(record.other, record.id())) gone(record.path);
  step();
  done(::renameat2(AT_FDCWD, record.path.c_str(), AT_FDCWD, record.other.c_str(),
                   RENAME_EXCHANGE) == 0,
       record.path);
}

}  // namespace perdure::run::files
