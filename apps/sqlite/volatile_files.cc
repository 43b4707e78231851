// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/volatile_files.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/sqlite/sqlite_api.h"

namespace perdure::sqlite {

std::size_t VolatileFile::read(void* to, std::size_t bytes, std::uint64_t at) const {
  const std::lock_guard lock(mutex_);
  if (at >= bytes_) return 0;
  bytes = std::min<std::uint64_t>(bytes, bytes_ - at);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t skip = (at + done) % kPieceBytes;
    const std::size_t here = std::min(bytes - done, kPieceBytes - skip);
    std::memcpy(static_cast<std::byte*>(to) + done, pieces_[(at + done) / kPieceBytes].get() + skip,
                here);
    done += here;
  }
  return bytes;
}

void VolatileFile::resize(std::uint64_t bytes) {
  const std::size_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  while (pieces_.size() < pieces)
    pieces_.push_back(std::make_unique_for_overwrite<std::byte[]>(kPieceBytes));
  pieces_.resize(pieces);
  while (bytes_ < bytes) {  // what a piece holds at first is anything
    const std::size_t skip = bytes_ % kPieceBytes;
    const std::size_t here = std::min<std::uint64_t>(bytes - bytes_, kPieceBytes - skip);
    std::memset(pieces_[bytes_ / kPieceBytes].get() + skip, 0, here);
    bytes_ += here;
  }
  bytes_ = bytes;
}

void VolatileFile::write(const void* from, std::size_t bytes, std::uint64_t at) {
  const std::lock_guard lock(mutex_);
  if (at + bytes > bytes_) resize(at + bytes);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t skip = (at + done) % kPieceBytes;
    const std::size_t here = std::min(bytes - done, kPieceBytes - skip);
    std::memcpy(pieces_[(at + done) / kPieceBytes].get() + skip,
                static_cast<const std::byte*>(from) + done, here);
    done += here;
  }
}

void VolatileFile::truncate(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  resize(bytes);
}

std::uint64_t VolatileFile::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

VolatileFiles& VolatileFiles::instance() {
  // Never destroyed: connections may be closed by destructors of static objects.
  static auto& files = *new VolatileFiles;
  return files;
}

std::shared_ptr<VolatileFile> VolatileFiles::open(const std::string& name, bool create,
                                                  bool exclusive) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(name);
  if (found != files_.end()) return exclusive ? nullptr : found->second;
  if (!create) return nullptr;
  return files_.emplace(name, std::make_shared<VolatileFile>()).first->second;
}

bool VolatileFiles::exists(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(name);
}

bool VolatileFiles::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  return files_.erase(name) > 0;
}

namespace {

class OpenVolatile final : public OpenFile {
 public:
  OpenVolatile(std::shared_ptr<VolatileFile> file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}
  ~OpenVolatile() override {
    if (!name_.empty()) VolatileFiles::instance().remove(name_);
  }
  std::size_t read(void* to, std::size_t bytes, std::uint64_t at) override {
    return file_->read(to, bytes, at);
  }
  int write(const void* from, std::size_t bytes, std::uint64_t at) override {
    file_->write(from, bytes, at);
    return SQLITE_OK;
  }
  int truncate(std::uint64_t bytes) override {
    file_->truncate(bytes);
    return SQLITE_OK;
  }
  int sync() override { return SQLITE_OK; }
  std::uint64_t size() override { return file_->bytes(); }
  int lock(int) override { return SQLITE_OK; }
  int unlock(int) override { return SQLITE_OK; }
  bool reserved() override { return false; }
  int control(int, void*) override { return SQLITE_NOTFOUND; }

 private:
  std::shared_ptr<VolatileFile> file_;
  std::string name_;
};

}  // namespace

std::unique_ptr<OpenFile> open_volatile(std::shared_ptr<VolatileFile> file, std::string name) {
  return std::make_unique<OpenVolatile>(std::move(file), std::move(name));
}

}  // namespace perdure::sqlite
