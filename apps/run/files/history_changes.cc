// SPDX-License-Identifier: BSD-3-Clause
// FileHistory: what is recorded before each change.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "apps/run/files/history.h"
#include "apps/run/files/kept_files.h"
#include "apps/run/files/paths.h"
#include "apps/run/files/undo_layout.h"
#include "apps/run/files/undo_log.h"
#include "perdure/error.h"
#include "perdure/region/file.h"

namespace perdure::run::files {
namespace {

constexpr std::uint64_t kBlock = 4096;
// With power, contents are taken in units that grow with what was taken of the file: every unit costs a sync.
constexpr std::uint64_t kFirstUnit = std::uint64_t{64} << 10;

/// Bytes of a file as far as it has them. `file` may be one that cannot be read from, or only in its own way.
std::string contents_of(int file, std::uint64_t offset, std::uint64_t bytes) {
  std::string contents(bytes, '\0');
  ssize_t count = ::pread(file, contents.data(), bytes, static_cast<off_t>(offset));
  if (count < 0) {
    const Descriptor readable(::open(link_to(file).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (readable.get() >= 0)
      count = ::pread(readable.get(), contents.data(), bytes, static_cast<off_t>(offset));
    if (readable.get() < 0 || count < 0) throw Exception(io_error(path_of(file)));
  }
  contents.resize(static_cast<std::size_t>(count));
  return contents;
}

}  // namespace

template <class Do>
Result<void> FileHistory::recorded(Do&& record) {
  if (!log_) return Error{Code::kMisuse, "a file is changed before the first epoch has begun"};
  if (broken_) return *broken_;
  try {
    record();
    if (power_) log_->sync();
    return {};
  } catch (const Exception& failure) {
    cannot_take_back(failure.what());
    return *broken_;
  }
}

// ---- Contents and attributes -----------------------------------------------------------------------------------------

bool FileHistory::all_taken(const struct stat& state) const {
  const auto known = touched_.find(id_of(state));
  return known != touched_.end() && known->second.all_taken;
}

bool FileHistory::taken(const struct stat& state, std::uint64_t offset, std::uint64_t bytes) const {
  const auto known = touched_.find(id_of(state));
  if (known == touched_.end()) return false;
  const Touched& touched = known->second;
  if (touched.all_taken || offset >= touched.first_bytes) return true;
  const std::uint64_t end = offset + std::min(bytes, touched.first_bytes - offset);
  const std::uint64_t end_block = (end + kBlock - 1) / kBlock;
  if (end_block > touched.taken.size()) return false;
  const auto block = touched.taken.begin();
  return std::all_of(block + static_cast<std::ptrdiff_t>(offset / kBlock),
                     block + static_cast<std::ptrdiff_t>(end_block),
                     [](bool each) { return each; });
}

Result<void> FileHistory::before_write(int file, std::uint64_t offset, std::uint64_t bytes) {
  return recorded([&] {
    const struct stat state = state_of(file);
    Touched& touched = touch(file, state);
    if (touched.all_taken || offset >= touched.first_bytes) return;
    take(file, touched, offset, offset + std::min(bytes, touched.first_bytes - offset), state);
  });
}

Result<void> FileHistory::before_resize(int file, std::uint64_t bytes) {
  return recorded([&] {
    const struct stat state = state_of(file);
    Touched& touched = touch(file, state);
    if (!touched.all_taken && bytes < touched.first_bytes)
      take(file, touched, bytes, touched.first_bytes, state);
  });
}

void FileHistory::take(int file, Touched& touched, std::uint64_t offset, std::uint64_t end,
                       const struct stat& state) {
  if (!rules_.contents) return;
  const std::uint64_t unit =
      power_ ? std::min(kFirstUnit << std::min(touched.pieces, 4U), kMostData) : kBlock;
  std::uint64_t block = offset / unit * unit / kBlock;
  const std::uint64_t end_block =
      (std::min((end + unit - 1) / unit * unit, touched.first_bytes) + kBlock - 1) / kBlock;
  if (touched.taken.size() < end_block) touched.taken.resize(end_block);
  const std::string path = name_of(file, state).value_or("");
  while (block < end_block) {
    if (touched.taken[block]) {
      ++block;
      continue;
    }
    const std::uint64_t first = block;
    while (block < end_block && !touched.taken[block] && (block - first) * kBlock < kMostData)
      touched.taken[block++] = true;
    RecordBody body{};
    body.kind = UndoKind::kContents;
    body.device = state.st_dev;
    body.inode = state.st_ino;
    body.generation = touched.generation;
    body.size = first * kBlock;
    // What a file was cut by has been taken when it was cut: there may be less than once was.
    log_->append(body, path, {}, contents_of(file, body.size, (block - first) * kBlock));
    ++touched.pieces;
  }
}

Result<void> FileHistory::before_change(int file) {
  return recorded([&] { touch(file, state_of(file)); });
}

Result<void> FileHistory::before_attribute(int file, const std::string& name) {
  return recorded([&] {
    const struct stat state = state_of(file);
    const Touched& touched = touch(file, state);
    if (touched.made) return;
    const std::string path = path_of(file);
    if (!holds_data(file, path, state)) return;
    const std::optional<std::string> named = name_of(file, state);
    if (!named) return;
    RecordBody body = body_of(UndoKind::kAttribute, state, touched.generation);
    std::string value(std::size_t{1} << 16, '\0');
    const ssize_t bytes =
        ::getxattr(link_to(file).c_str(), name.c_str(), value.data(), value.size());
    if (bytes < 0 && errno == ENOTSUP) return;
    if (bytes < 0 && errno != ENODATA) throw Exception(io_error(path + ": attribute " + name));
    body.size = bytes < 0 ? 1 : 0;
    value.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    log_->append(body, *named, name, value);
  });
}

// ---- Names -----------------------------------------------------------------------------------------------------------

Result<void> FileHistory::before_create(const std::string& path) {
  return recorded([&] {
    if (is_own(path) || state_at(path)) return;
    touch_parent(path);
    RecordBody body{};
    body.kind = UndoKind::kAbsent;
    log_->append(body, path);
    created_.insert(path);
  });
}

Result<void> FileHistory::before_link(int file, const std::string& path) {
  return recorded([&] {
    if (is_own(path) || state_at(path)) return;
    touch_parent(path);
    const bool made = touch(file, state_of(file)).made;
    RecordBody body{};
    body.kind = UndoKind::kAbsent;
    log_->append(body, path);
    made ? (void)created_.insert(path) : (void)created_.erase(path);
  });
}

/// Nobody has it open: a lease is granted, and given back. Whoever opens it in between waits for that moment; should it
/// then be open without a name, the epoch carries its contents.
static bool is_closed(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return file.get() >= 0 && ::fcntl(file.get(), F_SETSIG, SIGURG) == 0 &&  // ignored
         ::fcntl(file.get(), F_SETLEASE, F_WRLCK) == 0;
}

bool FileHistory::keep(const std::string& path, const struct stat& state) {
  return rules_.keep && kept_.link(path, id_of(state), last_before());
}

void FileHistory::remove(const std::string& path, const struct stat& state) {
  touch_parent(path);
  const FileId id = id_of(state);
  const std::uint64_t generation = generation_of(AT_FDCWD, path);
  if (S_ISDIR(state.st_mode)) {
    log_->append(body_of(UndoKind::kDirectory, state, generation), path);
    touched_.erase(id);  // Its number may be used again.
    parents_.erase(path);
    return;
  }
  const auto known = touched_.find(id);
  const bool made = known != touched_.end() ? known->second.made : created_.contains(path);
  // That one made in this epoch was absent is recorded; but it may still be open when the epoch ends.
  if (made && S_ISREG(state.st_mode) && is_closed(path)) {
    touched_.erase(id);
    return;
  }
  const bool kept = keep(path, state);
  if (made) return;
  if (kept || !rules_.keep) {
    log_->append(body_of(UndoKind::kKept, state, generation), path);
  } else {
    copy(path, state, generation);
    touched_.erase(id);
  }
}

void FileHistory::copy(const std::string& path, const struct stat& state,
                       std::uint64_t generation) {
  if (state.st_nlink > 1) {
    throw Exception(Code::kInvalid,
                    path +
                        ": one of several names of a file is removed, and it cannot be linked "
                        "into the state directory; have that on the same file system");
  }
  std::string other;
  if (S_ISREG(state.st_mode)) {
    other = copy_name(epoch_, log_->bytes());
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (file.get() < 0) throw Exception(io_error(path));
    kept_.copy(file.get(), other, last_before());
  } else if (S_ISLNK(state.st_mode)) {
    other = text_of_link(path);
  }
  log_->append(body_of(UndoKind::kCopied, state, generation), path, other);
}

Result<void> FileHistory::before_remove(const std::string& path) {
  if (is_own(path)) return {};
  const Result<void> result = recorded([&] {
    if (const auto state = state_at(path)) remove(path, *state);
  });
  // Later epochs need the file, if it is open, even if this one cannot be taken back.
  struct stat state{};
  if (broken_ && ::lstat(path.c_str(), &state) == 0 && !S_ISDIR(state.st_mode)) keep(path, state);
  return result;
}

Result<void> FileHistory::before_rename(const std::string& from, const std::string& to,
                                        bool exchange) {
  if (is_own(from) && is_own(to)) return {};
  Result<void> result = recorded([&] {
    const auto source = state_at(from);
    const auto target = state_at(to);
    if (!source || (target && id_of(*source) == id_of(*target)) || (exchange && !target)) return;
    touch_parent(from);
    touch_parent(to);
    const bool directories = S_ISDIR(source->st_mode) || (exchange && S_ISDIR(target->st_mode));
    RecordBody body{};
    body.kind = exchange ? UndoKind::kExchange : UndoKind::kRename;
    body.device = source->st_dev;
    body.inode = source->st_ino;
    body.generation = generation_of(AT_FDCWD, from);
    // Touched before they move, so that nobody takes them for files made under a name that was absent.
    const auto is_made = [&](const std::string& path, const struct stat& state) {
      const Descriptor file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
      return file.get() >= 0 && touch(file.get(), state).made;
    };
    const bool made = is_made(from, *source);
    if (exchange) {
      is_made(to, *target);
      body.other_device = target->st_dev;
      body.other_inode = target->st_ino;
      body.other_generation = generation_of(AT_FDCWD, to);
    } else if (target) {
      remove(to, *target);
    }
    if (made && !exchange && !directories) {  // It goes by either name.
      body = {};
      body.kind = UndoKind::kAbsent;
      log_->append(body, to);
      created_.insert(to);
    } else {
      log_->append(body, from, to);
      created_.erase(from);
      created_.erase(to);
    }
    // To exchange them back takes both: also one made in this epoch has to come back if it is removed.
    for (const auto& each : {source, target}) {
      const auto known = each ? touched_.find(id_of(*each)) : touched_.end();
      if (exchange && known != touched_.end()) known->second.made = false;
    }
    if (directories) {  // Names below them mean something else now.
      created_.clear();
      parents_.clear();
    }
  });
  struct stat state{};
  if (broken_ && !exchange && ::lstat(to.c_str(), &state) == 0 && !S_ISDIR(state.st_mode))
    keep(to, state);
  return result;
}

}  // namespace perdure::run::files
