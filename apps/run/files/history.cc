// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/history.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "apps/run/files/paths.h"
#include "perdure/base/check.h"
#include "perdure/base/crc32c.h"

namespace perdure::run::files {
namespace {

/// Files of these are doors to the kernel, or memory.
bool keeps_data(int file) {
  struct statfs system{};
  if (::fstatfs(file, &system) != 0) return true;
  switch (static_cast<unsigned long>(system.f_type)) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case DEVPTS_SUPER_MAGIC:
    case BPF_FS_MAGIC:
    case EFIVARFS_MAGIC:
    case ANON_INODE_FS_MAGIC:
    case PIPEFS_MAGIC:
    case SOCKFS_MAGIC: return false;
    default: return true;
  }
}

}  // namespace

FileHistory::FileHistory(std::string state_directory, bool power, Rules rules)
    : directory_([&] {
        const std::unique_ptr<char, void (*)(void*)> path(
            ::realpath(state_directory.c_str(), nullptr), &::free);
        if (path == nullptr) throw Exception(io_error(state_directory));
        return std::string(path.get());
      }()),
      power_(power),
      rules_(rules),
      kept_(directory_, power) {
  // Made while there is room: a full disk is what it is to tell of.
  const std::string path = directory_ + "/broken";
  broken_mark_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (broken_mark_.get() < 0) throw Exception(io_error(path));
  if (state_of(broken_mark_.get()).st_size == sizeof(BrokenMark)) return;
  BrokenMark none{};
  none.magic = kBrokenMagic;
  none.crc = crc32c(&none, offsetof(BrokenMark, crc));
  if (!write_at(broken_mark_.get(), &none, sizeof none, 0) ||
      (power_ && ::fsync(broken_mark_.get()) != 0))
    throw Exception(io_error(path));
  if (power_) sync_directory(directory_);
}

void FileHistory::begin_epoch(std::uint64_t epoch) { begin_epoch(epoch, std::unique_lock(gate_)); }

void FileHistory::begin_epoch(std::uint64_t epoch, const std::unique_lock<std::mutex>& held) {
  PERDURE_CHECK(held.mutex() == &gate_ && held.owns_lock(), "the gate is held");
  if (log_ && log_->exists()) previous_undo_ = epoch_;
  if (!log_) {
    const std::vector<std::uint64_t> there = undo_epochs(directory_);
    previous_undo_ = there.empty() ? 0 : there.back();
    if (previous_undo_ >= epoch) {
      throw Exception(Code::kMisuse,
                      fmt::format("{}: changes of files after epoch {} were not taken back; roll "
                                  "back before the program goes on",
                                  undo_path(directory_, previous_undo_), epoch - 1));
    }
  }
  epoch_ = epoch;
  kept_.begin_epoch(epoch);
  log_.emplace(directory_, epoch, previous_undo_, power_);
  broken_.reset();
  touched_.clear();
  created_.clear();
  parents_.clear();
  for (auto& [device, directory] : changed_now_)
    changed_before_.try_emplace(device, std::move(directory));
  changed_now_.clear();
}

void FileHistory::cannot_take_back(const std::string& cause) {
  if (broken_) return;
  broken_ = Error{Code::kIo, cause};
  BrokenMark mark{};
  mark.magic = kBrokenMagic;
  mark.epoch = epoch_;
  cause.copy(mark.cause, sizeof mark.cause - 1);
  mark.crc = crc32c(&mark, offsetof(BrokenMark, crc));
  // In place: there may be no room. Should even this fail, the caller knows, and says so.
  if (write_at(broken_mark_.get(), &mark, sizeof mark, 0) && power_)
    ::fdatasync(broken_mark_.get());
}

std::optional<std::string> FileHistory::broken() {
  const std::lock_guard hold(gate_);
  if (!broken_) return std::nullopt;
  return broken_->message;
}

// ---- What a file is --------------------------------------------------------------------------------------------------

bool FileHistory::is_own(const std::string& path) const {
  return path.starts_with(directory_) &&
         (path.size() == directory_.size() || path[directory_.size()] == '/');
}

bool FileHistory::holds_data(int file, const std::string& path, const struct stat& state) {
  // A nameless file of the program's that a resume has opened was called so: that name is deleted.
  const bool nameless = path.ends_with(" (deleted)");
  if ((is_own(path) && !nameless) || path.starts_with("/memfd:")) return false;
  const auto [known, is_new] = data_devices_.try_emplace(state.st_dev, true);
  if (is_new) known->second = keeps_data(file);
  return known->second;
}

/// The file's name, empty when it has none but a kept link. Nothing when it can have none.
std::optional<std::string> FileHistory::name_of(int file, const struct stat& state) {
  std::string path = path_of(file);
  if (path.empty())
    throw Exception(Code::kInvalid, link_to(file) + ": a path of more than 4,095 bytes");
  if (!path.ends_with(" (deleted)")) return path;
  const FileId id = id_of(state);
  const auto named = state_at(path);
  if (named && id_of(*named) == id) return path;  // It is called so.
  kept_.need(id, last_before());
  if (kept_.holds(id) || kept_.link(file, id, last_before())) return "";
  if (state.st_nlink == 0) return std::nullopt;
  throw Exception(Code::kInvalid,
                  path +
                      ": a file is changed under a name that it has lost, and it cannot be "
                      "linked into the state directory; have that on the same file system");
}

FileHistory::Touched& FileHistory::touch(int file, const struct stat& state) {
  const auto [known, is_new] = touched_.try_emplace(id_of(state));
  Touched& touched = known->second;
  if (!is_new) return touched;
  touched.all_taken = true;  // as long as it is not known to be otherwise
  if (!holds_data(file, path_of(file), state)) return touched;
  const std::optional<std::string> path = name_of(file, state);
  if (!path) return touched;  // Who retains it is told.
  changed(state.st_dev, path->empty() ? directory_ : parent_of(*path));
  touched.made = created_.contains(*path);
  if (touched.made) return touched;
  touched.first_bytes = static_cast<std::uint64_t>(state.st_size);
  touched.all_taken = !S_ISREG(state.st_mode) || touched.first_bytes == 0;
  touched.generation = generation_of(file, "");
  log_->append(body_of(UndoKind::kState, state, touched.generation), *path);
  return touched;
}

void FileHistory::touch_parent(const std::string& path) {
  const std::string parent = parent_of(path);
  if (!parents_.insert(parent).second) return;
  const Descriptor directory(::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) touch(directory.get(), state_of(directory.get()));
}

void FileHistory::changed(std::uint64_t device, const std::string& directory) {
  if (!power_ || changed_now_.contains(device)) return;
  Descriptor handle(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() < 0) throw Exception(io_error(directory));
  changed_now_.emplace(device, std::move(handle));
}

// ---- Epochs ----------------------------------------------------------------------------------------------------------

std::string FileHistory::kept_path(const std::string& state_directory, FileId file) {
  return state_directory + "/kept/" + kept_name(file);
}

Result<void> FileHistory::sync_touched() {
  std::unordered_map<std::uint64_t, Descriptor> systems;
  {
    const std::lock_guard hold(gate_);
    systems.swap(changed_before_);
  }
  for (const auto& [device, directory] : systems) {
    if (::syncfs(directory.get()) == 0) continue;
    const Error error = io_error(path_of(directory.get()));
    const std::lock_guard hold(gate_);
    for (auto& [again, handle] : systems) changed_before_.try_emplace(again, std::move(handle));
    return error;
  }
  return {};
}

void FileHistory::committed(std::uint64_t epoch, std::span<const FileId> still_open) {
  const std::lock_guard hold(gate_);
  for (const FileId file : still_open) kept_.need(file, epoch);
  for (const std::uint64_t old : undo_epochs(directory_))
    if (old < epoch) ::unlink(undo_path(directory_, old).c_str());
  kept_.retire(epoch - 1);
}

}  // namespace perdure::run::files
