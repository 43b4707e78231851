// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/files/undo_log.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "perdure/base/crc32c.h"

namespace perdure::run::files {
namespace {

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

template <class Head>
std::uint32_t crc_of_head(const Head& head) {
  return crc32c(&head, offsetof(Head, crc));
}

}  // namespace

FileId id_of(const struct stat& state) { return {state.st_dev, state.st_ino}; }

RecordBody body_of(UndoKind kind, const struct stat& state, std::uint64_t generation) {
  RecordBody body{};
  body.kind = kind;
  body.mode = state.st_mode;
  body.user = state.st_uid;
  body.group = state.st_gid;
  body.device = state.st_dev;
  body.inode = state.st_ino;
  body.generation = generation;
  body.size = static_cast<std::uint64_t>(state.st_size);
  body.accessed_ns = nanoseconds(state.st_atim);
  body.modified_ns = nanoseconds(state.st_mtim);
  return body;
}

std::string undo_path(const std::string& directory, std::uint64_t epoch) {
  return fmt::format("{}/undo-{}", directory, epoch);
}

std::vector<std::uint64_t> undo_epochs(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory.c_str()), &::closedir);
  if (listing == nullptr) throw Exception(io_error(directory));
  std::vector<std::uint64_t> epochs;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with("undo-")) continue;
    std::uint64_t epoch = 0;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + 5, end, epoch);
    if (error == std::errc{} && rest == end) epochs.push_back(epoch);
  }
  std::sort(epochs.begin(), epochs.end());
  return epochs;
}

void sync_directory(const std::string& directory) {
  const Descriptor file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0) throw Exception(io_error(directory));
}

// ---- Writing ---------------------------------------------------------------------------------------------------------

UndoLog::UndoLog(std::string directory, std::uint64_t epoch, std::uint64_t previous, bool power)
    : directory_(std::move(directory)),
      epoch_(epoch),
      previous_(previous),
      power_(power),
      bytes_(sizeof(UndoHead)) {}

void UndoLog::create() {
  const std::string path = undo_path(directory_, epoch_);
  UndoHead head{};
  head.magic = kUndoMagic;
  head.version = kUndoVersion;
  head.head_bytes = sizeof head;
  head.epoch = epoch_;
  head.previous = previous_;
  head.power = power_ ? 1 : 0;
  head.crc = crc_of_head(head);
  // One that is there already is of an epoch that was rolled back, or whose record never began.
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0 || !write_at(file.get(), &head, sizeof head, 0))
    throw Exception(io_error(path));
  file_ = std::move(file);
  if (power_) sync_directory(directory_);
}

void UndoLog::append(RecordBody body, const std::string& path, const std::string& other,
                     const std::string& data) {
  if (!exists()) create();
  body.path_bytes = static_cast<std::uint32_t>(path.size());
  body.other_bytes = static_cast<std::uint32_t>(other.size());
  body.data_bytes = static_cast<std::uint32_t>(data.size());
  RecordHead head{};
  head.offset = bytes_;
  head.bytes = static_cast<std::uint32_t>(sizeof body + path.size() + other.size() + data.size());
  buffer_.resize(sizeof head);
  buffer_.append(reinterpret_cast<const char*>(&body), sizeof body);
  buffer_.append(path).append(other).append(data);
  head.bytes_crc = crc32c(buffer_.data() + sizeof head, head.bytes);
  head.crc = crc_of_head(head);
  std::memcpy(buffer_.data(), &head, sizeof head);
  if (!write_at(file_.get(), buffer_.data(), buffer_.size(), bytes_)) {
    const Error error = io_error(undo_path(directory_, epoch_));
    [[maybe_unused]] const int ignored = ::ftruncate(file_.get(), static_cast<off_t>(bytes_));
    throw Exception(error);
  }
  bytes_ += buffer_.size();
  synced_ = false;
}

void UndoLog::sync() {
  if (synced_) return;
  if (::fdatasync(file_.get()) != 0) throw Exception(io_error(undo_path(directory_, epoch_)));
  synced_ = true;
}

// ---- Reading ---------------------------------------------------------------------------------------------------------

UndoFile::UndoFile(const std::string& path)
    : path_(path), file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  struct stat state{};
  if (file_.get() < 0 || ::fstat(file_.get(), &state) != 0) throw Exception(io_error(path_));
  const auto bytes = static_cast<std::uint64_t>(state.st_size);
  if (bytes < sizeof head_) {  // Its first record was not let through.
    torn_ = true;
    return;
  }
  if (!read_at(file_.get(), &head_, sizeof head_, 0)) throw Exception(io_error(path_));
  if (head_.magic != kUndoMagic) {
    if (zeros_from(0, bytes)) {
      torn_ = true;
      return;
    }
    throw Exception(Code::kForeign,
                    path_ +
                        ": offset 0: not an undo file of `perdure run`; put back the one that "
                        "was there, or resume a copy of the directory");
  }
  if (head_.version > kUndoVersion) {
    throw Exception(Code::kVersion,
                    fmt::format("{}: offset 8: format {}, and this perdure knows {}; resume it "
                                "with the release that wrote it",
                                path_, head_.version, kUndoVersion));
  }
  if (head_.crc != crc_of_head(head_) || head_.head_bytes != sizeof head_)
    damaged(0, "the file's head has a wrong checksum");
  scan(bytes);
}

void UndoFile::damaged(std::uint64_t offset, const std::string& what) const {
  throw Exception(Code::kCorrupt,
                  fmt::format("{}: offset {}: {}; files cannot go back to an epoch before {}: "
                              "resume a copy of the directory, or start the program anew",
                              path_, offset, what, head_.epoch));
}

// The device of an appended file may hold zeros where data was to come when the power went.
bool UndoFile::zeros_from(std::uint64_t offset, std::uint64_t end) const {
  std::string chunk;
  while (offset < end) {
    chunk.resize(std::min<std::uint64_t>(end - offset, 1 << 16));
    if (!read_at(file_.get(), chunk.data(), chunk.size(), offset)) return false;
    if (chunk.find_first_not_of('\0') != std::string::npos) return false;
    offset += chunk.size();
  }
  return true;
}

void UndoFile::scan(std::uint64_t file_bytes) {
  for (std::uint64_t offset = sizeof head_; offset < file_bytes;) {
    RecordHead head{};
    if (file_bytes - offset < sizeof head) {
      torn_ = true;
      return;
    }
    if (!read_at(file_.get(), &head, sizeof head, offset)) throw Exception(io_error(path_));
    if (head.crc != crc_of_head(head) || head.offset != offset) {
      if (!zeros_from(offset, file_bytes)) damaged(offset, "a record's head has a wrong checksum");
      torn_ = true;
      return;
    }
    if (file_bytes - offset - sizeof head < head.bytes) {
      torn_ = true;
      return;
    }
    (void)read(offset);  // checks
    offsets_.push_back(offset);
    offset += sizeof head + head.bytes;
  }
}

UndoRecord UndoFile::read(std::uint64_t offset) const {
  RecordHead head{};
  if (!read_at(file_.get(), &head, sizeof head, offset)) throw Exception(io_error(path_));
  if (head.bytes < sizeof(RecordBody) || head.bytes > kMostRecord)
    damaged(offset, "a record has an impossible length");
  std::string bytes(head.bytes, '\0');
  if (!read_at(file_.get(), bytes.data(), bytes.size(), offset + sizeof head))
    throw Exception(io_error(path_));
  if (crc32c(bytes.data(), bytes.size()) != head.bytes_crc)
    damaged(offset, "a record has a wrong checksum");
  UndoRecord record;
  std::memcpy(&record.body, bytes.data(), sizeof record.body);
  const RecordBody& body = record.body;
  const std::uint64_t tails = std::uint64_t{body.path_bytes} + body.other_bytes + body.data_bytes;
  if (tails != bytes.size() - sizeof body || body.kind < UndoKind::kState ||
      body.kind > UndoKind::kAttribute)
    damaged(offset, "a record's fields do not fit");
  record.path = bytes.substr(sizeof body, body.path_bytes);
  record.other = bytes.substr(sizeof body + body.path_bytes, body.other_bytes);
  record.data = bytes.substr(sizeof body + body.path_bytes + body.other_bytes);
  return record;
}

void UndoFile::cut(std::uint64_t offset, bool sync) {
  if (::ftruncate(file_.get(), static_cast<off_t>(offset)) != 0 ||
      (sync && ::fdatasync(file_.get()) != 0))
    throw Exception(io_error(path_));
}

}  // namespace perdure::run::files
