// SPDX-License-Identifier: BSD-3-Clause
#include "papers/nvheaps/evaluation/checkpointed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "measure/measure.h"
#include "perdure/checkpoint/arena_file.h"

namespace perdure::bench::nvheaps {
namespace {

constexpr std::uint64_t kRoundBytes = std::uint64_t{2} << 20;

std::byte* map_zeros(std::uint64_t bytes, const std::string& whose) {
  void* const got = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED)
    throw Exception(Code::kNoSpace, whose + ": mapping " + std::to_string(bytes) + " bytes");
  ::madvise(got, bytes, MADV_NOHUGEPAGE);  // a page that is written is 4 KiB
  return static_cast<std::byte*>(got);
}

std::unique_ptr<checkpoint::FileStorage> opened(const std::string& path, std::uint64_t bytes) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) throw Exception(Code::kIo, path + ": " + std::strerror(errno));
  return std::make_unique<checkpoint::FileStorage>(std::move(file), bytes);
}

checkpoint::EpochStore::Options store_options(std::uint64_t bytes) {
  checkpoint::EpochStore::Options options;
  options.log_bytes = checkpoint::usual_log_bytes(bytes);
  return options;
}

}  // namespace

CheckpointedMemory::CheckpointedMemory(std::string dir, std::uint64_t bytes)
    : dir_(std::move(dir)),
      file_(dir_, "checkpoint"),
      bytes_(round_up(bytes, kRoundBytes)),
      granularity_(bytes_ / kPageBytes) {
  const std::string& path = file_.path();
  const auto super =
      checkpoint::EpochStore::plan(path, bytes_, checkpoint::usual_log_bytes(bytes_), kRoundBytes)
          .value();
  const std::uint64_t file_bytes = checkpoint::file_bytes(super);
  {
    const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(file_bytes)) != 0)
      throw Exception(Code::kIo, path + ": " + std::strerror(errno));
  }
  log_ = opened(path, file_bytes);
  home_ = opened(path, file_bytes);
  if (!checkpoint::EpochStore::format(*log_, super))
    throw Exception(Code::kIo, path + ": writing the format");
  store_ = checkpoint::EpochStore::open(*log_, *home_, path, store_options(bytes_)).value();
  memory_ = map_zeros(bytes_, path);
  shadow_ = map_zeros(bytes_, path);
  dirty_ = checkpoint::DirtyPages::watch(memory_, bytes_ / kPageBytes, checkpoint::Tracking::kAuto)
               .value();
}

CheckpointedMemory::~CheckpointedMemory() {
  dirty_.reset();
  for (std::byte* const mapped : {memory_, shadow_}) {
    if (mapped != nullptr) ::munmap(mapped, bytes_);
  }
}

void CheckpointedMemory::take() {
  written_.clear();
  changes_.clear();
  dirty_->collect(written_, true).value();
  for (const checkpoint::PageRange& range : written_) {
    counts_.pages += range.count;
    for (std::uint64_t page = range.first; page < range.first + range.count; ++page) stage(page);
  }
  ++counts_.taken;
  if (changes_.empty()) return;
  store_->commit(changes_, shadow_).value();
  store_->bring_home().value();
}

void CheckpointedMemory::stage(std::uint64_t page) {
  const std::byte* const now = memory_ + page * kPageBytes;
  std::byte* const then = shadow_ + page * kPageBytes;
  const std::uint64_t mask = differing_(now, then);
  if (mask == 0) return;
  const auto number = static_cast<std::uint32_t>(page);
  if (granularity_.whole(page, static_cast<std::uint32_t>(std::popcount(mask)))) {
    std::memcpy(then, now, kPageBytes);
    changes_.push_back({number, 0, ~std::uint64_t{0}});
    return;
  }
  for (std::uint64_t left = mask; left != 0; left &= left - 1) {
    const std::size_t at = static_cast<std::size_t>(std::countr_zero(left)) * kLineBytes;
    std::memcpy(then + at, now + at, kLineBytes);
  }
  changes_.push_back({number, 0, mask});
}

std::unique_ptr<CheckpointedMemory> CheckpointedMemory::read_back() const {
  const std::string& path = file_.path();
  const auto file = opened(path, log_->bytes());
  const auto store =
      checkpoint::EpochStore::open(*file, *file, path, store_options(bytes_), /*inspect=*/true)
          .value();
  if (store->epoch() == 0) throw Exception(Code::kNotFound, path + ": no checkpoint was taken");
  auto found = std::make_unique<CheckpointedMemory>(dir_, bytes_);
  const Offset home = store->superblock().home_offset;
  // What was never written is zeros, as it is in `found`.
  for (Offset at = file->next_data(home); at < home + bytes_; at = file->next_data(at)) {
    const Offset page = home + round_down(at - home, kPageBytes);
    if (!file->read(found->memory_ + (page - home), kPageBytes, page))
      throw Exception(Code::kIo, path + ": reading");
    at = page + kPageBytes;
  }
  store
      ->for_each_piece_of_last([&](const checkpoint::Piece& piece) {
        std::byte* const to = found->memory_ + piece.page * kPageBytes + piece.at;
        if (piece.data == nullptr) {
          std::memset(to, 0, piece.bytes);
        } else {
          std::memcpy(to, piece.data, piece.bytes);
        }
      })
      .value();
  return found;
}

CheckpointCounts CheckpointedMemory::counts() const {
  CheckpointCounts counts = counts_;
  counts.bytes = store_->log_bytes_written() + store_->home_bytes_written();
  return counts;
}

bool CheckpointPace::look() {
  const double now = thread_cpu_ns();
  if (looked_ns_ < 0) {
    looked_ns_ = taken_ns_ = now;
  } else {
    // As many operations as took a sixteenth of the period.
    const double each = std::max((now - looked_ns_) / static_cast<double>(stride_), 1.0);
    stride_ =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(period_ns_ / 16 / each), 1, 4 * stride_);
  }
  looked_ns_ = now;
  until_look_ = stride_;
  if (now - taken_ns_ < period_ns_) return false;
  taken_ns_ = now;
  return true;
}

}  // namespace perdure::bench::nvheaps
