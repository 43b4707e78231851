// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/backing_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace perdure {

Result<std::string> BackingFiles::prepare(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
  if (file.get() < 0) return io_error(path + ": opening the backing file");
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return io_error(path);
  if (!S_ISREG(status.st_mode)) return Error{Code::kInvalid, path + ": not a regular file"};
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (real == nullptr) return io_error(path + ": its absolute name");
  // The name must be there after a power cut before the mapping table relies on it.
  const Descriptor parent(
      ::open(directory_of(real.get()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || ::fsync(file.get()) != 0 || ::fsync(parent.get()) != 0)
    return io_error(path + ": sync of the backing file's name");
  return std::string(real.get());
}

Result<int> BackingFiles::descriptor_of(FileNumber file) {
  if (const auto failed = failed_.find(file); failed != failed_.end()) return failed->second;
  if (const auto known = open_.find(file); known != open_.end()) return known->second.get();
  const std::string name(name_of_(file));
  // Not created: a page that is not in a frame was in this file, and would silently become zeros.
  Descriptor fd(::open(name.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) {
    Error error = io_error(name + ": opening a backing file");
    if (error.code == Code::kNotFound)
      error.message += "; the pool holds pages of it: put the file back where it was";
    return error;
  }
  return open_.emplace(file, std::move(fd)).first->second.get();
}

std::string BackingFiles::describe(FilePage page) const {
  return std::string(name_of_(page.file)) + ": page at byte " + std::to_string(offset_of(page));
}

Result<void> BackingFiles::read_page(FilePage page, std::byte* to) {
  auto fd = descriptor_of(page.file);
  if (!fd) return fd.error();
  std::size_t done = 0;
  while (done < page_bytes_) {
    const ssize_t got = ::pread(fd.value(), to + done, page_bytes_ - done,
                                static_cast<off_t>(offset_of(page) + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error(describe(page) + ": reading");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  std::memset(to + done, 0, page_bytes_ - done);
  return {};
}

Result<void> BackingFiles::write_page(FilePage page, const std::byte* from) {
  auto fd = descriptor_of(page.file);
  if (!fd) return fd.error();
  if (!write_at(fd.value(), from, page_bytes_, offset_of(page)))
    return io_error(describe(page) + ": writing");
  return {};
}

Result<void> BackingFiles::sync(FileNumber file) {
  auto fd = descriptor_of(file);
  if (!fd) return fd.error();
  if (::fdatasync(fd.value()) == 0) return {};
  const Error error = io_error(std::string(name_of_(file)) + ": sync of a backing file");
  const Error final{Code::kIo, error.message + "; mend the device and reopen the frame pool"};
  failed_.emplace(file, final);
  return final;
}

}  // namespace perdure
