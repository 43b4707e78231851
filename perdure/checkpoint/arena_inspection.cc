// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/arena_inspection.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "perdure/region/file.h"

namespace perdure::checkpoint {
namespace {

/// Neither as it was made, zeros, nor checked: something wrote to it that was not the store.
template <class T>
bool spoilt(const T& sealed, std::uint64_t magic) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&sealed);
  const bool empty =
      std::all_of(bytes, bytes + sizeof(sealed), [](auto byte) { return byte == 0; });
  return !empty && (sealed.magic != magic || crc_of(sealed) != sealed.crc);
}

}  // namespace

bool is_arena(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::uint64_t magic = 0;
  return file.get() >= 0 && read_at(file.get(), &magic, sizeof(magic), 0) && magic == kArenaMagic;
}

void ArenaInspection::Unmap::operator()(std::byte* image) const { ::munmap(image, bytes); }

Result<ArenaInspection> ArenaInspection::of(const std::string& path) {
  auto file = open_locked(path, true);
  if (!file) return file.error();
  ArenaInspection found;
  if (auto looked = found.look(path, file.value().fd.get(), file.value().bytes); !looked)
    return looked.error();
  return found;
}

Result<void> ArenaInspection::look(const std::string& path, int fd, std::uint64_t file_bytes) {
  // What is no arena, or cannot be read, is not judged; the rest is damage.
  const auto judge = [&](const char* part, const Error& error) -> Result<void> {
    if (error.code != Code::kCorrupt && error.code != Code::kTruncated) return error;
    find(part, error.message);
    return {};
  };
  FileStorage storage(Descriptor(::dup(fd)), file_bytes);
  auto super = EpochStore::read_superblock(storage, path);
  if (!super) return judge("superblock", super.error());
  super_ = super.value();
  has_super_ = true;
  if (auto slots = judge_slots(storage, path); !slots) return slots;
  auto store = EpochStore::open(storage, storage, path, {}, true);
  if (!store) return judge("log", store.error());
  if (auto end = judge_log_end(storage, *store.value(), path); !end) return end;
  if (auto loaded = load(*store.value(), fd, path); !loaded) return judge("log", loaded.error());

  epoch_ = store.value()->epoch();
  home_epoch_ = store.value()->home_epoch();
  if (epoch_ == 0) return {};
  if (super_.capacity_bytes < ArenaHeap::kLeastCapacity) {
    find("heap", path + ": an arena of " + std::to_string(super_.capacity_bytes) +
                     " bytes has no room for its heap; restore it from a backup");
    return {};
  }
  const auto* heap = reinterpret_cast<const ArenaHeap*>(image_.get());
  if (const auto fault = heap->find_fault(super_.capacity_bytes, super_.address); !fault.empty()) {
    find("heap", path + ": " + fault + "; restore it from a backup");
  } else {
    heap_ = heap;
  }
  return {};
}

Result<void> ArenaInspection::judge_slots(Storage& storage, const std::string& path) {
  for (int i = 0; i < 2; ++i) {
    StateSlot state{};
    SegmentHead head{};
    if (!storage.read(&state, sizeof(state), kStateOffset[i]) ||
        !storage.read(&head, sizeof(head), super_.segment_offset[i]))
      return io_error(path + ": reading a state slot and the head of a log segment");
    const auto finding = [&](const char* part, const std::string& what, Offset at) {
      find(part, path + ": " + what + " at byte " + std::to_string(at) +
                     " fails its checksum; opening recovers what it can prove, which may be older "
                     "than the last epoch: restore it from a backup if it is");
    };
    if (spoilt(state, kStateMagic)) finding("state", "the state slot", kStateOffset[i]);
    if (spoilt(head, kSegmentMagic)) finding("log", "the segment head", super_.segment_offset[i]);
  }
  return {};
}

Result<void> ArenaInspection::judge_log_end(Storage& storage, const EpochStore& store,
                                            const std::string& path) {
  const std::string missing = std::to_string(store.epoch() + 1);
  const EpochStore::Lost& lost = store.lost();
  if (lost.newest != 0)
    find("log",
         path + ": epoch " + missing + " of the log does not check, although " + lost.proof +
             (lost.was_durable ? "; opening refuses that unless told to accept epoch "
                               : ": damage, or a power cut to an arena that is only to survive its "
                                 "process; opening recovers epoch ") +
             std::to_string(store.epoch()) + ": restore it from a backup if that is too old");
  const int newest = store.segment(0).head.generation > store.segment(1).head.generation ? 0 : 1;
  const auto& segment = store.segment(newest);
  const Offset end = super_.segment_offset[newest] + std::max(segment.used, kSegmentHeadBytes);
  if (segment.head.magic != kSegmentMagic || segment.used == super_.segment_bytes) return {};
  Record record{};
  if (!storage.read(&record, sizeof(record), end)) return io_error(path + ": reading the log");
  unfinished_ = record.epoch == store.epoch() + 1;
  return {};
}

Result<void> ArenaInspection::load(EpochStore& store, int fd, const std::string& path) {
  void* got = ::mmap(nullptr, super_.capacity_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_NORESERVE, fd, static_cast<off_t>(super_.home_offset));
  if (got == MAP_FAILED) return io_error(path + ": mapping the image");
  image_ = {static_cast<std::byte*>(got), Unmap{super_.capacity_bytes}};
  for (int i = 0; i < 2; ++i) {
    const auto& segment = store.segment(i);
    if (segment.last_epoch > store.home_epoch()) log_bytes_ += segment.used - kSegmentHeadBytes;
  }
  return store.for_each_piece_of_last([&](const Piece& piece) {
    std::byte* const to = image_.get() + piece.page * kPageBytes + piece.at;
    if (piece.data == nullptr) {
      std::memset(to, 0, piece.bytes);
    } else {
      std::memcpy(to, piece.data, piece.bytes);
    }
  });
}

}  // namespace perdure::checkpoint
