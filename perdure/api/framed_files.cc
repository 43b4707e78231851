// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/framed_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "perdure/region/file.h"

namespace perdure {
namespace {

// Regions are whole pages, so frames are pages.
constexpr std::uint64_t kFrameBytes = kPageBytes;

FramePool::Options frame_options(std::uint64_t bytes) {
  FramePool::Options options;
  options.bytes = bytes;
  options.frame_bytes = kFrameBytes;
  options.file_entries = kMaxFileEntries;
  return options;
}

std::string link_of(const std::string& directory) { return directory + "/" + FramedFiles::kLink; }
std::string frames_of(const std::string& directory) {
  return directory + "/" + FramedFiles::kFrames;
}

}  // namespace

std::string FramedFiles::backing_of(const std::string& directory) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlink(link_of(directory).c_str(), target.data(), target.size() - 1);
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

Result<void> FramedFiles::prepare(const std::string& directory, const std::string& backing,
                                  std::uint64_t frames_bytes) {
  if (::mkdir(backing.c_str(), 0700) != 0 && errno != EEXIST) return io_error(backing);  // 1
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(backing.c_str(), nullptr),
                                                         &std::free);
  if (real == nullptr) return io_error(backing + ": its absolute name");
  if (auto created = FramePool::create(frames_of(directory), frame_options(frames_bytes));
      !created && created.error().code != Code::kExists)
    return created;
  if (::symlink(real.get(), link_of(directory).c_str()) != 0)  // 2
    return io_error(link_of(directory) + ": linking to " + real.get());
  const Descriptor parent(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || ::fsync(parent.get()) != 0)
    return io_error(directory + ": sync of its names");
  return {};
}

Result<std::unique_ptr<SpaceFiles>> FramedFiles::open(const std::string& directory, std::byte* base,
                                                      const Region& region, bool inspect) {
  std::unique_ptr<FramedFiles> files(new FramedFiles(directory, base, region, inspect));
  if (!inspect) {
    if (region.domain() == DomainKind::kSync)
      return Error{Code::kInvalid,
                   directory +
                       ": its frames must be memory, but it is on a file system that needs "
                       "syncs; put it on persistent memory, or say PERDURE_DOMAIN=adr"};
    auto frames = FramePool::open(frames_of(directory), frame_options(0));
    if (!frames) return frames.error();
    if (frames.value()->frame_bytes() != kFrameBytes)
      return Error{Code::kInvalid,
                   frames_of(directory) + ": has frames of " +
                       std::to_string(frames.value()->frame_bytes()) +
                       " bytes; those of an address space have 4096. Restore it from a backup"};
    files->frames_ = std::move(frames).value();
  }
  return std::unique_ptr<SpaceFiles>(std::move(files));
}

std::string FramedFiles::name(std::uint64_t file) const {
  if (file == kStatics) return DirectoryFiles::name(file);
  return link_of(directory()) + "/" + std::to_string(file) + ".region";
}

Result<void> FramedFiles::remove(std::uint64_t file) {
  // The frames forget a file first: its name may be used again, but its old pages must not appear
  // under it.
  if (file != kStatics && frames_ != nullptr) {
    if (auto forgotten = frames_->forget(name(file)); !forgotten) return forgotten;
  }
  return DirectoryFiles::remove(file);
}

Result<Region::Part> FramedFiles::map(std::uint64_t file, std::uint64_t file_offset, Offset begin,
                                      std::uint64_t bytes, std::uint32_t protection) {
  if (file == kStatics) return DirectoryFiles::map(file, file_offset, begin, bytes, protection);
  // Also judges the file.
  if (auto size = this->size(file); !size) return size.error();
  if (frames_ != nullptr) {
    const int may_write = (protection & PROT_WRITE) != 0 ? PROT_WRITE : 0;
    auto view =
        frames_->attach(base() + begin, bytes, name(file), PROT_READ | may_write, file_offset);
    if (!view) return view.error();
    return Region::Part{begin, begin + bytes};
  }
  auto part = DirectoryFiles::map(file, file_offset, begin, bytes, protection);
  if (!part) return part;
  // A private copy; the frames' pages go over it.
  const auto overlaid = FramePool::inspect(
      frames_of(directory()), name(file), [&](Offset at, std::span<const std::byte> page) {
        if (at >= file_offset && at < file_offset + bytes)
          std::memcpy(base() + begin + (at - file_offset), page.data(), page.size());
      });
  if (!overlaid) return overlaid.error();
  return part;
}

void FramedFiles::protect(Offset begin, std::uint64_t bytes, std::uint32_t protection) {
  const int may_write = (protection & PROT_WRITE) != 0 ? PROT_WRITE : 0;
  if (frames_ != nullptr) (void)frames_->protect(base() + begin, bytes, PROT_READ | may_write);
}

void FramedFiles::unmap(Offset begin, std::uint64_t bytes) {
  // The static variables, and regions that were never attached, are no views but ordinary mappings.
  if (frames_ == nullptr || !frames_->cut(base() + begin, bytes))
    DirectoryFiles::unmap(begin, bytes);
}

}  // namespace perdure
