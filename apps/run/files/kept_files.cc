// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/kept_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "apps/run/files/undo_log.h"
#include "perdure/error.h"

namespace perdure::run::files {
namespace {

// Of what an earlier run left: not before the first epoch is known.
constexpr std::uint64_t kNotKnown = std::numeric_limits<std::uint64_t>::max();

}  // namespace

std::string kept_name(FileId file) { return fmt::format("{:x}-{:x}", file.device, file.inode); }

std::string now_name(FileId file) {
  return fmt::format("{}-{:x}.now", kept_name(file), file.generation);
}

std::string copy_name(std::uint64_t epoch, std::uint64_t offset) {
  return fmt::format("copy-{}-{}", epoch, offset);
}

void copy_contents(int from, int to, const std::string& to_name) {
  std::vector<char> chunk(1 << 18);
  for (std::uint64_t offset = 0;;) {
    const ssize_t count = ::pread(from, chunk.data(), chunk.size(), static_cast<off_t>(offset));
    if (count == 0) return;
    if (count < 0 || !write_at(to, chunk.data(), static_cast<std::size_t>(count), offset))
      throw Exception(io_error(to_name));
    offset += static_cast<std::uint64_t>(count);
  }
}

KeptFiles::KeptFiles(const std::string& state_directory, bool power)
    : directory_(state_directory + "/kept"), power_(power) {
  if (::mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST)
    throw Exception(io_error(directory_));
  handle_ = Descriptor(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory_.c_str()), &::closedir);
  if (handle_.get() < 0 || listing == nullptr) throw Exception(io_error(directory_));
  if (power_) sync_directory(state_directory);
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") needed_through_.emplace(name, kNotKnown);
  }
}

void KeptFiles::begin_epoch(std::uint64_t epoch) {
  for (auto& [name, through] : needed_through_)
    if (through == kNotKnown) through = epoch;
}

bool KeptFiles::link(const std::string& path, FileId file, std::uint64_t through) {
  const std::string name = kept_name(file);
  if (::linkat(AT_FDCWD, path.c_str(), handle_.get(), name.c_str(), 0) != 0 && errno != EEXIST)
    return false;
  return linked(name, file, through);
}

bool KeptFiles::link(int file, FileId id, std::uint64_t through) {
  const std::string name = kept_name(id);
  const std::string path = fmt::format("/proc/self/fd/{}", file);
  if (::linkat(AT_FDCWD, path.c_str(), handle_.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0 &&
      errno != EEXIST)
    return false;
  return linked(name, id, through);
}

// A path may name another file by now. What is kept is told by its number.
bool KeptFiles::linked(const std::string& name, FileId file, std::uint64_t through) {
  struct stat state{};
  if (::fstatat(handle_.get(), name.c_str(), &state, AT_SYMLINK_NOFOLLOW) != 0 ||
      id_of(state) != file) {
    ::unlinkat(handle_.get(), name.c_str(), 0);
    needed_through_.erase(name);
    return false;
  }
  if (power_ && ::fsync(handle_.get()) != 0) throw Exception(io_error(directory_));
  need(name, through);
  return true;
}

void KeptFiles::copy(int from, const std::string& name, std::uint64_t through) {
  const Descriptor copy(
      ::openat(handle_.get(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (copy.get() < 0) throw Exception(io_error(path_of(name)));
  need(name, through);
  copy_contents(from, copy.get(), path_of(name));
  if (power_ && (::fsync(copy.get()) != 0 || ::fsync(handle_.get()) != 0))
    throw Exception(io_error(path_of(name)));
}

void KeptFiles::need(FileId file, std::uint64_t through) {
  if (holds(file)) need(kept_name(file), through);
}

void KeptFiles::need(const std::string& name, std::uint64_t through) {
  std::uint64_t& known = needed_through_[name];
  known = std::max(known, through);
}

void KeptFiles::retire(std::uint64_t oldest) {
  for (auto kept = needed_through_.begin(); kept != needed_through_.end();) {
    if (kept->second >= oldest) {
      ++kept;
      continue;
    }
    ::unlinkat(handle_.get(), kept->first.c_str(), 0);
    kept = needed_through_.erase(kept);
  }
}

}  // namespace perdure::run::files
