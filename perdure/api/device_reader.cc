// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/api/device_reader.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "perdure/region/region.h"

namespace perdure {
namespace {

constexpr std::uint64_t kBufferBytes = std::uint64_t{1} << 20;

}  // namespace

Result<DeviceReader> DeviceReader::open(const std::string& path) {
  auto direct = open_followed(path, O_RDONLY | O_DIRECT);
  auto cached = open_followed(path, O_RDONLY);
  if (!cached) return cached.error();
  return DeviceReader(path, direct ? std::move(direct).value() : Descriptor(),
                      std::move(cached).value());
}

Result<DeviceReader> DeviceReader::open_again(const Region& region) {
  Descriptor cached = region.open_again(O_RDONLY);
  if (cached.get() < 0) return io_error(region.path() + ": opening it again to be read");
  return DeviceReader(region.path(), region.open_again(O_RDONLY | O_DIRECT), std::move(cached));
}

DeviceReader::DeviceReader(const std::string& path, Descriptor direct, Descriptor cached)
    : path_(path),
      direct_(std::move(direct)),
      cached_(std::move(cached)),
      buffer_(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kBufferBytes))) {
  if (!buffer_) throw std::bad_alloc();
}

Result<void> DeviceReader::read(Offset offset, std::byte* to, std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t here = std::min(kBufferBytes, bytes - done);
    if (!read_some(offset + done, here))
      return io_error(path_ + ": reading at byte " + std::to_string(offset + done));
    std::memcpy(to + done, buffer_.get(), here);
    done += here;
  }
  return {};
}

bool DeviceReader::read_some(Offset offset, std::uint64_t bytes) {
  if (direct_.get() >= 0) {
    if (read_at(direct_.get(), buffer_.get(), bytes, offset)) return true;
    if (errno != EINVAL) return false;
    direct_ = Descriptor();
  }
  return read_at(cached_.get(), buffer_.get(), bytes, offset);
}

}  // namespace perdure
