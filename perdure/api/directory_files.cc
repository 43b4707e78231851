// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/directory_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "perdure/region/file.h"
#include "perdure/region/space_layout.h"

namespace perdure {

DirectoryFiles::DirectoryFiles(std::string directory, std::byte* base, const Region& region,
                               bool inspect)
    : directory_(std::move(directory)), base_(base), region_(&region), inspect_(inspect) {}

DirectoryFiles::~DirectoryFiles() {
  for (auto& [file, opened] : opened_) close(opened);
}

void DirectoryFiles::close(Opened& opened) {
  for (const int fd : {opened.fd, opened.durable_fd, opened.memory_fd}) {
    if (fd >= 0) ::close(fd);
  }
}

std::string DirectoryFiles::name(std::uint64_t file) const {
  return directory_ + "/" + (file == kStatics ? "statics" : std::to_string(file)) + ".region";
}

Result<void> DirectoryFiles::sync_directory_of(std::uint64_t file) const {
  const std::string directory = directory_of(name(file));
  const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.get() < 0 || ::fsync(opened.get()) != 0)
    return io_error(directory + ": sync of its names");
  return {};
}

/// A whole file under the name `as`: content (or zeroes), trailer, real blocks, synced.
Result<void> DirectoryFiles::write_new(std::uint64_t file, std::uint64_t bytes,
                                       const std::byte* content, const std::string& as) {
  const int fd = ::open(as.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return io_error(as + ": creating");
  RegionTrailer trailer{};
  trailer.magic = kRegionMagic;
  trailer.space = region_->superblock().uuid;
  trailer.file = file;
  trailer.bytes = bytes;
  trailer.check = crc32c(&trailer, offsetof(RegionTrailer, check));
  // Real blocks: a store into a mapping must never meet a full device.
  errno = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes + kPageBytes));
  const bool whole = errno == 0 && (content == nullptr || write_at(fd, content, bytes, 0)) &&
                     write_at(fd, &trailer, sizeof(trailer), bytes) && ::fsync(fd) == 0;
  const Error error =
      whole ? Error{} : io_error(as + ": writing " + std::to_string(bytes) + " bytes");
  ::close(fd);
  if (whole) return {};
  ::unlink(as.c_str());
  return error;
}

Result<void> DirectoryFiles::create(std::uint64_t file, std::uint64_t bytes) {
  if (inspect_) return Error{Code::kMisuse, name(file) + ": opened for inspection"};
  if (auto written = write_new(file, bytes, nullptr, name(file)); !written) return written;
  return sync_directory_of(file);
}

Result<void> DirectoryFiles::remove(std::uint64_t file) {
  if (inspect_) return {};
  if (const auto found = opened_.find(file); found != opened_.end()) {
    close(found->second);
    opened_.erase(found);
  }
  if (::unlink(name(file).c_str()) != 0 && errno != ENOENT)
    return io_error(name(file) + ": removing");
  return sync_directory_of(file);
}

Result<void> DirectoryFiles::replace(std::uint64_t file, const std::vector<std::byte>& content) {
  const std::string fresh = name(file) + ".new";
  if (::unlink(fresh.c_str()) != 0 && errno != ENOENT) return io_error(fresh);
  if (auto written = write_new(file, content.size(), content.data(), fresh); !written)
    return written;
  if (const auto found = opened_.find(file); found != opened_.end()) {
    close(found->second);
    opened_.erase(found);
  }
  if (::rename(fresh.c_str(), name(file).c_str()) != 0) return io_error(fresh + ": renaming");
  return sync_directory_of(file);
}

Result<DirectoryFiles::Opened*> DirectoryFiles::opened(std::uint64_t file) {
  if (const auto found = opened_.find(file); found != opened_.end()) return &found->second;
  const std::string path = name(file);
  Opened fresh;
  fresh.fd =
      ::open(path.c_str(), (inspect_ ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fresh.fd < 0) {
    if (errno == ENOENT)
      return Error{Code::kNotFound,
                   path + ": missing, but the region table names it; restore it from a backup"};
    if (errno == ELOOP)
      return Error{Code::kForeign, path + ": is a symbolic link; put the region file itself there"};
    if (errno == EISDIR || errno == ENXIO)
      return Error{Code::kForeign, path + ": not a regular file; restore it from a backup"};
    if (errno == EMFILE || errno == ENFILE)
      return io_error(path + ": one file is open per region, raise the limit (ulimit -n)");
    return io_error(path);
  }
  const auto refuse = [&](Code code, const std::string& what) {
    close(fresh);
    return Error{code, path + ": " + what};
  };
  struct stat status{};
  if (::fstat(fresh.fd, &status) != 0 || !S_ISREG(status.st_mode))
    return refuse(Code::kForeign, "not a regular file; restore it from a backup");
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  RegionTrailer trailer{};
  if (bytes < 2 * kPageBytes || !is_aligned(bytes, kPageBytes))
    return refuse(Code::kTruncated,
                  std::to_string(bytes) + " bytes are no region file; restore it from a backup");
  if (!read_at(fresh.fd, &trailer, sizeof(trailer), bytes - kPageBytes)) {
    const Error error = io_error(path + ": reading its last page");
    close(fresh);
    return error;
  }
  if (trailer.magic != kRegionMagic)
    return refuse(Code::kTruncated,
                  "its last page (byte " + std::to_string(bytes - kPageBytes) +
                      ") is not that of a region: cut off or foreign; restore it from a backup");
  if (trailer.check != crc32c(&trailer, offsetof(RegionTrailer, check)) ||
      trailer.bytes != bytes - kPageBytes)
    return refuse(Code::kCorrupt, "its last page (byte " + std::to_string(bytes - kPageBytes) +
                                      ") fails its check; restore it from a backup");
  if (trailer.space != region_->superblock().uuid)
    return refuse(
        Code::kForeign,
        "belongs to another address space than " + region_->path() +
            (file == kStatics
                 ? "; put the right file there, or remove it to start the static variables over"
                 : "; put the right file there"));
  if (trailer.file != file)
    return refuse(Code::kForeign, "is what " + name(trailer.file) +
                                      " should be; rename the files to what they are");
  fresh.bytes = trailer.bytes;
  return &opened_.emplace(file, fresh).first->second;
}

Result<std::optional<std::uint64_t>> DirectoryFiles::size(std::uint64_t file) {
  auto found = opened(file);
  if (found) return std::optional(found.value()->bytes);
  if (found.error().code == Code::kNotFound) return std::optional<std::uint64_t>();
  return found.error();
}

Result<Region::Part> DirectoryFiles::map(std::uint64_t file, std::uint64_t file_offset,
                                         Offset begin, std::uint64_t bytes,
                                         std::uint32_t protection) {
  auto found = opened(file);
  if (!found) return found.error();
  Opened& opened = *found.value();
  const auto what = [&] { return name(file) + ": mapping " + std::to_string(bytes) + " bytes"; };
  const bool sync = region_->domain() == DomainKind::kSync;
  const bool is_private = inspect_ || sync;
  int fd = opened.fd;
  int flags = MAP_FIXED | MAP_NORESERVE | (is_private ? MAP_PRIVATE : MAP_SHARED);
  if (file == kStatics && is_private) {
    // The statics are mapped twice, so a private mapping is not enough: both mappings share a copy
    // in memory.
    if (opened.memory_fd < 0) {
      std::vector<std::byte> copy(opened.bytes);
      opened.memory_fd = ::memfd_create("perdure-statics", MFD_CLOEXEC);
      if (opened.memory_fd < 0 || !read_at(opened.fd, copy.data(), copy.size(), 0) ||
          !write_at(opened.memory_fd, copy.data(), copy.size(), 0))
        return io_error(what());
    }
    fd = opened.memory_fd;
    flags = MAP_FIXED | MAP_SHARED;
  }
  const auto map_with = [&](int with) {
    return ::mmap(base_ + begin, bytes, static_cast<int>(protection), with, fd,
                  static_cast<off_t>(file_offset));
  };
  void* mapped = MAP_FAILED;
  if (!is_private && region_->is_persistent_memory())
    mapped = map_with(MAP_FIXED | MAP_SHARED_VALIDATE | MAP_SYNC);
  if (mapped == MAP_FAILED) mapped = map_with(flags);
  if (mapped == MAP_FAILED) return io_error(what());
  // A forked child would work on this data without the parent's locks and logs (see Region).
  ::madvise(mapped, bytes, MADV_DONTFORK);
  if (file == kStatics) statics_begin_ = begin;
  if (sync && !inspect_ && opened.durable_fd < 0) {
    opened.durable_fd = open_for_durable_writes(opened.fd);
    if (opened.durable_fd < 0) return io_error(what());
  }
  return Region::Part{begin, begin + bytes, {opened.fd, opened.durable_fd}, file_offset};
}

void DirectoryFiles::protect(Offset begin, std::uint64_t bytes, std::uint32_t protection) {
  // An inspection may read everything.
  if (!inspect_) ::mprotect(base_ + begin, bytes, static_cast<int>(protection));
}

Result<void> DirectoryFiles::map_nowhere(Offset begin, std::uint64_t bytes) {
  void* mapped = ::mmap(base_ + begin, bytes, PROT_READ | PROT_WRITE,
                        MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return io_error(directory_ + ": mapping memory");
  return {};
}

Result<void> DirectoryFiles::alias(Offset begin, std::uint64_t bytes, void* address) {
  auto found = opened(kStatics);
  if (!found) return found.error();
  const int fd = found.value()->memory_fd >= 0 ? found.value()->memory_fd : found.value()->fd;
  void* mapped = ::mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, fd,
                        static_cast<off_t>(begin - statics_begin_));
  if (mapped == MAP_FAILED) return io_error(name(kStatics) + ": mapping it over the variables");
  ::madvise(mapped, bytes, MADV_DONTFORK);
  return {};
}

void DirectoryFiles::unmap(Offset begin, std::uint64_t bytes) {
  (void)::mmap(base_ + begin, bytes, PROT_NONE,
               MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

void DirectoryFiles::punch(std::uint64_t file, std::uint64_t file_offset, std::uint64_t bytes) {
  if (inspect_) return;
  if (auto found = opened(file); found)
    (void)::fallocate(found.value()->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      static_cast<off_t>(file_offset), static_cast<off_t>(bytes));
}

}  // namespace perdure
