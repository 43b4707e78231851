// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/frame_pool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "perdure/region/frame_manager.h"

namespace perdure {
namespace {

/// As many frames as fit behind their tables.
FrameSuperblock superblock_for(const FramePool::Options& options) {
  FrameSuperblock super{};
  super.geometry = {options.frame_bytes, 0, options.file_entries};
  const auto bytes_with = [&](std::uint64_t frames) {
    super.geometry.frame_count = static_cast<std::uint32_t>(frames);
    lay_out(super);
    return file_bytes_of(super);
  };
  std::uint64_t frames =
      std::min<std::uint64_t>(options.bytes / (options.frame_bytes + kWordBytes), kMaxFrameCount);
  while (frames > 0 && bytes_with(frames) > options.bytes) --frames;
  bytes_with(frames);
  return super;
}

/// As the file table has it; of a file that is gone, its name as it is.
std::string absolute_name(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real != nullptr ? real.get() : path;
}

}  // namespace

class FramePool::Manager : public FrameManager {
  using FrameManager::FrameManager;
};

Result<void> FramePool::create(const std::string& path, const Options& options) {
  if (!std::has_single_bit(options.frame_bytes) || options.frame_bytes < kPageBytes ||
      options.frame_bytes > kMaxFrameBytes)
    return Error{Code::kInvalid, path + ": frame_bytes is " + std::to_string(options.frame_bytes) +
                                     ", must be a power of two from 4 KiB to 2 MiB"};
  const FrameGeometry geometry = superblock_for(options).geometry;
  if (geometry.frame_count == 0)
    return Error{Code::kInvalid, path + ": " + std::to_string(options.bytes) +
                                     " bytes hold no frame beside the tables; give it more"};
  auto super = make_frame_superblock(geometry, path);
  if (!super) return super.error();
  return create_whole_file(path, options.mode, [&](int fd) -> Result<void> {
    const std::vector<std::byte> format = frame_format(super.value());
    // Real blocks for all of it: a store to a mapped frame must not meet a full device.
    if (!allocate_blocks(fd, 0, file_bytes_of(super.value())))
      return io_error(path + ": reserving " + std::to_string(options.bytes) + " bytes");
    if (!write_at(fd, format.data(), format.size(), 0)) return io_error(path + ": formatting");
    return {};
  });
}

Result<std::unique_ptr<FramePool>> FramePool::open(const std::string& path,
                                                   const Options& options) {
  auto manager = std::make_unique<Manager>(path, options.max_mappings);
  if (auto opened = manager->open(options.user_mode_only); !opened) return opened.error();
  return std::unique_ptr<FramePool>(new FramePool(std::move(manager)));
}

Result<std::unique_ptr<FramePool>> FramePool::open_or_create(const std::string& path,
                                                             const Options& options) {
  auto opened = open(path, options);
  if (opened || opened.error().code != Code::kNotFound) return opened;
  // Somebody else may create it at the same time: then theirs is opened.
  if (auto created = create(path, options); !created && created.error().code != Code::kExists)
    return created.error();
  return open(path, options);
}

FramePool::FramePool(std::unique_ptr<Manager> manager) : manager_(std::move(manager)) {}
FramePool::~FramePool() = default;

Result<FramePool::View> FramePool::attach(void* address, std::uint64_t bytes,
                                          const std::string& backing_file, int protection,
                                          Offset file_offset) {
  return manager_->attach(static_cast<std::byte*>(address), bytes, backing_file, protection,
                          file_offset);
}
Result<void> FramePool::detach(const View& view) { return manager_->detach(view); }
Result<void> FramePool::cut(void* address, std::uint64_t bytes) {
  return manager_->cut(static_cast<std::byte*>(address), bytes);
}
Result<void> FramePool::protect(void* address, std::uint64_t bytes, int protection) {
  return manager_->protect(static_cast<std::byte*>(address), bytes, protection);
}
Result<void> FramePool::forget(const std::string& backing_file) {
  return manager_->forget(absolute_name(backing_file));
}
Result<void> FramePool::inspect(
    const std::string& path, const std::string& backing_file,
    const std::function<void(Offset, std::span<const std::byte>)>& visit) {
  Manager manager(path, 0);
  if (auto opened = manager.open_to_inspect(); !opened) return opened;
  manager.visit(absolute_name(backing_file), visit);
  return {};
}
Result<void> FramePool::write_back_all() { return manager_->write_back_all(); }
FramePool::Statistics FramePool::statistics() const { return manager_->statistics(); }
std::optional<Error> FramePool::last_failure() const { return manager_->last_failure(); }
const std::string& FramePool::path() const { return manager_->path(); }
std::uint64_t FramePool::frame_bytes() const { return manager_->frame_bytes(); }
bool FramePool::is_persistent_memory() const { return manager_->is_persistent_memory(); }
bool FramePool::sees_system_calls() const { return manager_->sees_system_calls(); }

}  // namespace perdure
