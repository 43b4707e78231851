// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/region/region.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "perdure/lost_pages.h"
#include "perdure/region/file.h"
#include "perdure/region/file_backing.h"
#include "perdure/region/live_image.h"
#include "perdure/region/onlookers.h"
#include "perdure/region/superblock.h"

namespace perdure {
namespace {

Result<FoundSuperblock> find_superblock_in(int fd, std::uint64_t file_bytes,
                                           const std::string& path) {
  Superblock probe{};
  if (!read_at(fd, &probe, sizeof(probe), 0) && errno != 0)
    return io_error(path + ": reading the superblock");
  return find_superblock(path, file_bytes, [fd](Offset offset, void* data, std::size_t bytes) {
    return read_at(fd, data, bytes, offset);
  });
}

}  // namespace

Result<Superblock> Region::read_superblock(const std::string& path) {
  auto opened = open_followed(path, O_RDONLY);
  if (!opened) return opened.error();
  const Descriptor file = std::move(opened).value();
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return io_error(path);
  auto found = find_superblock_in(file.get(), static_cast<std::uint64_t>(status.st_size), path);
  if (!found) return found.error();
  return found->super;
}

Result<std::unique_ptr<Region>> Region::open_file(const std::string& path, DomainKind kind,
                                                  Access access, const OpenOptions& options) {
  const bool inspect = access == Access::kInspect;
  auto locked = open_locked(path, inspect);
  const bool may_look_on =
      inspect && options.look_on && options.features == 0 && options.base == nullptr;
  // Who opens or closes the file has its lock for a moment longer than it lets others look on.
  constexpr int kAttempts = 20;
  for (int i = 0; !locked && locked.error().code == Code::kBusy && may_look_on; ++i) {
    auto live = open_live(path, options);
    if (live || live.error().code != Code::kNotFound) return live;
    if (i == kAttempts) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    locked = open_locked(path, inspect);
  }
  if (!locked) return locked.error();
  Descriptor& file = locked->fd;
  const std::uint64_t file_bytes = locked->bytes;
  auto found = find_superblock_in(file.get(), file_bytes, path);
  if (!found) return found.error();
  const Superblock& super = found->super;
  if (super.incompatible != options.features)
    return Error{Code::kInvalid,
                 path + (options.features == 0
                             ? ": is the heap of a persistent address space; name its directory"
                             : ": is an ordinary pool, no address space; use another directory")};
  if (file_bytes < super.heap_offset)
    return Error{Code::kTruncated, path + ": " + std::to_string(file_bytes) +
                                       " bytes, but logs and tables alone take " +
                                       std::to_string(super.heap_offset) +
                                       "; restore it from a backup"};
  const DomainKind domain =
      kind != DomainKind::kAuto ? kind : domain_of_file(file.get(), file_bytes);
  std::unique_ptr<Onlookers> onlookers;
  if (!inspect && domain == DomainKind::kSync && options.features == 0)
    onlookers = Onlookers::on_file(file.get(), path);
  // Nobody waits for it: what a power cut takes back is replaced again.
  const Onlookers::Writing writing(found->replaces_other ? onlookers.get() : nullptr,
                                   other_superblock(found->at), sizeof(super));
  if (found->replaces_other && !inspect &&
      !write_at(file.get(), &super, sizeof(super), other_superblock(found->at)))
    return io_error(path + ": replacing a damaged superblock");

  std::unique_ptr<Region> region(new Region);
  region->path_ = path;
  region->range_bytes_ = options.range_bytes;
  region->domain_ = domain;
  // The whole capacity is mapped at once: growing then only extends the file under addresses that
  // already exist.
  const std::uint64_t bytes = std::max(super.geometry.capacity_bytes, options.room_bytes);
  region->room_bytes_ = bytes;
  const auto anywhere = [&](int flags) {
    return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file.get(), 0);
  };
  const auto at_our_place = [&](int flags) {
    if (options.base != nullptr)
      return ::mmap(options.base, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file.get(), 0);
    // An untrusted file must not choose addresses: only the one preference of this release is
    // honoured.
    void* got = ::mmap(reinterpret_cast<void*>(kPreferredBase), bytes, PROT_READ | PROT_WRITE,
                       flags | MAP_FIXED_NOREPLACE, file.get(), 0);
    return got == MAP_FAILED && errno == EEXIST ? anywhere(flags) : got;
  };
  const auto no_room = [&] {
    return io_error(path + ": mapping " + std::to_string(bytes) + " bytes of address space");
  };
  const auto map_shared = [&](auto map) {
    void* mapping = MAP_FAILED;
    if (region->domain_ == DomainKind::kAdr || region->domain_ == DomainKind::kEadr)
      mapping = map(MAP_NORESERVE | MAP_SHARED_VALIDATE | MAP_SYNC);
    region->persistent_memory_ = mapping != MAP_FAILED;
    // Without MAP_SYNC a file system on DAX may lose a flushed page. Where it is refused although
    // Adr was asked for (tmpfs standing in for persistent memory), the mapping is as good as the
    // storage can be.
    return mapping != MAP_FAILED ? mapping : map(MAP_NORESERVE | MAP_SHARED);
  };
  const bool files = inspect || region->domain_ == DomainKind::kSync;
  const bool private_heap = options.private_heap && !files;
  void* const mapping =
      files || private_heap ? at_our_place(MAP_NORESERVE | MAP_PRIVATE) : map_shared(at_our_place);
  if (files) region->persistent_memory_ = false;
  if (mapping == MAP_FAILED) return no_room();
  region->base_ = static_cast<std::byte*>(mapping);
  // Over a reservation, the addresses stay the caller's.
  region->mapped_bytes_ = options.base != nullptr ? 0 : bytes;
  region->owner_pid_ = ::getpid();
  region->mapped_.emplace(region->base_, options.base != nullptr ? options.range_bytes : bytes,
                          bytes, path);
  if (private_heap) {
    void* const home = map_shared(anywhere);
    if (home == MAP_FAILED) return no_room();
    region->home_ = static_cast<std::byte*>(home);
    region->mapped_home_.emplace(region->home_, bytes, bytes, path);
    ::madvise(home, bytes, MADV_DONTFORK);
    if (!map_private_heap(region->base_, file.get(), super, bytes)) return no_room();
  }
  // A forked child would share locks and logs without the threads that use them, so it gets no
  // mapping at all.
  ::madvise(mapping, bytes, MADV_DONTFORK);
  if (!inspect && region->domain_ == DomainKind::kSync) {
    region->durable_fd_ = open_for_durable_writes(file.get());
    if (region->durable_fd_ < 0) return io_error(path + ": opening it again for durable writes");
  }
  region->fd_ = file.release();
  int sync_fd = -1;
  if (!inspect) {
    const std::string self = "/proc/self/fd/" + std::to_string(region->fd_);
    sync_fd = ::open(self.c_str(), O_RDWR | O_CLOEXEC);
    if (sync_fd < 0) return io_error(path + ": opening it again for syncs");
  }
  if (options.let_look_on && !files && !private_heap && options.features == 0)
    onlookers =
        Onlookers::on_memory(region->fd_, path, region->base_, bytes, region->persistent_memory_);
  region->owned_backing_ =
      std::make_unique<FileBacking>(region->fd_, sync_fd, onlookers.get(), path);
  region->onlookers_ = std::move(onlookers);
  region->backing_ = region->owned_backing_.get();
  if (auto adopted = region->adopt(found.value(), file_bytes); !adopted) return adopted.error();
  if (auto begun = region->begin_sums(); !begun) return begun.error();
  return region;
}

/// As open_file() for inspection, while another process has the file open.
Result<std::unique_ptr<Region>> Region::open_live(const std::string& path,
                                                  const OpenOptions& options) {
  auto opened = open_followed(path, O_RDONLY);
  if (!opened) return opened.error();
  auto image = LiveImage::open(std::move(opened).value(), path);
  if (!image) return image.error();
  LiveImage& live = *image.value();
  std::optional<Error> unreadable;
  auto found =
      find_superblock(path, live.bytes(), [&](Offset offset, void* data, std::size_t size) {
        std::array<std::byte, kPageBytes> page;
        const Offset begin = round_down(offset, kPageBytes);
        if (!inside(offset, size, begin, begin + kPageBytes)) return false;
        if (auto got = live.read(begin, page.data(), page.size()); !got) {
          unreadable = got.error();
          return false;
        }
        std::memcpy(data, page.data() + (offset - begin), size);
        return true;
      });
  if (unreadable) return *unreadable;
  if (!found) return found.error();
  std::unique_ptr<Region> region(new Region);
  region->path_ = path;
  region->domain_ = DomainKind::kSync;
  region->persistent_memory_ = false;
  region->room_bytes_ = std::max(found->super.geometry.capacity_bytes, options.room_bytes);
  region->owner_pid_ = ::getpid();
  region->live_ = std::move(image).value();
  auto base = live.map(region->room_bytes_);
  if (!base) return base.error();
  region->base_ = base.value();
  region->mapped_.emplace(region->base_, region->room_bytes_, region->room_bytes_, path);
  live.tell_losses_to(
      [mapped = &*region->mapped_](Offset at, const Error& error) { mapped->lose(at, error); });
  region->owned_backing_ = std::make_unique<FileBacking>(-1, -1, nullptr, path);
  region->backing_ = region->owned_backing_.get();
  if (auto adopted = region->adopt(found.value(), live.bytes()); !adopted)
    return region->loss().value_or(adopted.error());
  return region;
}

Result<std::unique_ptr<Region>> Region::open_memory(std::byte* base, std::uint64_t bytes,
                                                    std::uint64_t file_bytes, DomainKind kind,
                                                    Backing& backing, std::uint64_t range_bytes) {
  auto found =
      find_superblock("memory", file_bytes, [&](Offset offset, void* data, std::size_t size) {
        if (!inside(offset, size, 0, bytes)) return false;
        std::memcpy(data, base + offset, size);
        return true;
      });
  if (!found) return found.error();
  const Superblock& super = found->super;
  if (super.geometry.capacity_bytes > bytes)
    return Error{Code::kTruncated, "memory: smaller than its capacity"};
  if (file_bytes < super.heap_offset)
    return Error{Code::kTruncated, "memory: the file ends inside its tables"};
  std::unique_ptr<Region> region(new Region);
  region->path_ = "memory";
  region->range_bytes_ = range_bytes;
  region->base_ = base;
  region->room_bytes_ = bytes;
  region->domain_ = kind;
  region->backing_ = &backing;
  if (auto adopted = region->adopt(found.value(), file_bytes); !adopted) return adopted.error();
  if (auto begun = region->begin_sums(); !begun) return begun.error();
  return region;
}

Result<void> Region::begin_sums() {
  if (super_.version < kPageSumsSinceVersion || !backing_->keeps_sums()) return {};
  sums_ = std::make_unique<PageSums>(*this, *backing_);
  return sums_->load();
}

Result<void> Region::begin_stores() {
  if (!sums_ || domain_ == DomainKind::kSync || sums_->open_all()) return {};
  return Error{Code::kIo, path_ + ": the words of the page sums cannot be written"};
}

void Region::rest() {
  // On memory nobody knows what was written, so that it may be all of the heap.
  constexpr std::uint64_t kMostOnFiles = std::uint64_t{1} << 30;
  constexpr std::uint64_t kMostOnMemory = std::uint64_t{64} << 20;
  constexpr std::uint64_t kTheRootsAtLeast =
      kAreaBytes;  // their area is the first one that has sums
  if (!sums_) return;
  const bool all_of_memory = grown_bytes() - super_.heap_offset <= kMostOnMemory;
  (void)sums_->rest(domain_ == DomainKind::kSync || all_of_memory ? kMostOnFiles
                                                                  : kTheRootsAtLeast);
}

Result<void> Region::read_file(Offset offset, std::byte* to, std::uint64_t bytes) const {
  if (live_) return live_->read(offset, to, bytes);
  if (read_at(fd_, to, bytes, offset)) return {};
  return io_error(path_ + ": reading at " + std::to_string(offset));
}

void Region::rest_quiet(std::size_t most_areas) {
  constexpr std::chrono::seconds kBetweenLooks(2);
  const auto now = std::chrono::steady_clock::now();
  if (!sums_ || domain_ != DomainKind::kSync || now - looked_for_quiet_at_ < kBetweenLooks) return;
  looked_for_quiet_at_ = now;
  sums_->rest_quiet(most_areas);
}

Descriptor Region::open_again(int flags) const {
  const std::string self = "/proc/self/fd/" + std::to_string(fd_);
  return Descriptor(::open(self.c_str(), flags | O_CLOEXEC));
}

Result<PageSumsReport> Region::check_sums(const ShowAreas& show) const {
  return check_page_sums(
      super_, grown_bytes(),
      [this](Offset at, std::byte* to, std::uint64_t bytes) { return read_file(at, to, bytes); },
      show);
}

Result<void> Region::check_sums_of_roots() const {
  if (fd_ < 0) return {};
  auto found = perdure::check_sums_of_roots(
      super_,
      [this](Offset at, std::byte* to, std::uint64_t bytes) { return read_file(at, to, bytes); });
  if (!found) return found.error();
  for (const PageSumsReport::Damage& damage : found->damage) {
    // Of a table whose sums are damaged nothing is known; its entries have checks of their own.
    if (damage.in_sums) continue;
    return Error{Code::kCorrupt,
                 path_ + ": " + damage.what() +
                     ", in the table of roots: roots may be missing in it; restore the "
                     "pool from a backup, or copy what can be proved with `perdure salvage`"};
  }
  return {};
}

bool Region::unchanged_since(std::uint64_t retired) const {
  return domain_ == DomainKind::kSync &&
         unseal(load_word(&state()->unchanged_since.word), kSaltUnchanged) == retired;
}
void Region::say_unchanged(std::uint64_t retired) {
  if (domain_ != DomainKind::kSync) return;
  const Word word = seal(retired, kSaltUnchanged);
  store_word(&state()->unchanged_since.word, word);
  // Failed, it is as if it had not been said.
  (void)backing_->tell(kStateOffset + offsetof(StatePage, unchanged_since), word);
}
bool Region::say_changed() {
  Word* const word = &state()->unchanged_since.word;
  if (domain_ != DomainKind::kSync || load_word(word) == 0) return true;
  store_word(word, 0);
  return backing_->tell(kStateOffset + offsetof(StatePage, unchanged_since), 0);
}

bool Region::map_private_heap(std::byte* base, int fd, const Superblock& super,
                              std::uint64_t bytes) {
  const auto map = [&](Offset begin, Offset end, int flags) {
    return ::mmap(base + begin, end - begin, PROT_READ | PROT_WRITE,
                  flags | MAP_NORESERVE | MAP_FIXED, fd, static_cast<off_t>(begin)) != MAP_FAILED;
  };
  const auto map_shared = [&](Offset begin, Offset end) {
    return map(begin, end, MAP_SHARED_VALIDATE | MAP_SYNC) || map(begin, end, MAP_SHARED);
  };
  bool mapped = map_shared(0, super.heap_offset) && map(super.heap_offset, bytes, MAP_PRIVATE);
  for (const Section& table : tables_of(super)) {
    if (is_moved(super, table)) mapped = mapped && map_shared(table.begin, table.end());
  }
  return mapped;
}

Result<void> Region::adopt(const FoundSuperblock& found, std::uint64_t file_bytes) {
  super_ = found.super;
  superblock_at_ = found.at;
  superblock_damage_ = found.damage;
  publish_parts({});
  const std::uint64_t segment_bytes = super_.geometry.segment_bytes;
  // A crash may have come after the superblock that moved them, and before the size.
  std::uint64_t end_of_tables = super_.heap_offset;
  for (const Section& table : tables_of(super_)) {
    if (is_moved(super_, table)) end_of_tables = std::max(end_of_tables, table.end());
  }
  end_of_tables = super_.heap_offset + round_up(end_of_tables - super_.heap_offset, segment_bytes);
  const auto grown = unseal(load_word(&state()->grown_bytes.word), kSaltGrown);
  if (!grown)
    return Error{Code::kCorrupt,
                 path_ + ": grown_bytes (byte 4096) fails its check; `perdure check` tells more"};
  if (*grown < super_.heap_offset || *grown > super_.geometry.capacity_bytes ||
      end_of_tables > super_.geometry.capacity_bytes ||
      (*grown - super_.heap_offset) % segment_bytes != 0)
    return Error{Code::kCorrupt, path_ + ": grown_bytes (byte 4096) is " + std::to_string(*grown) +
                                     ", which is no end of a segment"};
  const std::uint64_t bytes = std::max(*grown, end_of_tables);
  if (file_bytes < bytes)
    return Error{Code::kTruncated, path_ + ": " + std::to_string(file_bytes) +
                                       " bytes, but the pool has " + std::to_string(bytes) +
                                       "; restore it from a backup"};
  grown_bytes_.store(bytes, std::memory_order_release);
  return {};
}

bool Region::holds_tables(std::uint64_t segment) const {
  const std::uint64_t bytes = super_.geometry.segment_bytes;
  const Offset begin = super_.heap_offset + segment * bytes;
  return overlaps_tables(begin, bytes);
}

bool Region::overlaps_tables(Offset offset, std::uint64_t bytes) const {
  if (super_.generation == 0) return false;
  for (const Section& table : tables_of(super_)) {
    if (is_moved(super_, table) && offset < table.end() && table.begin < offset + bytes)
      return true;
  }
  return false;
}

void Region::publish_parts(std::vector<Part> parts) {
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  all_parts_.push_back(std::make_unique<const std::vector<Part>>(std::move(parts)));
  parts_.store(all_parts_.back().get(), std::memory_order_release);
}

void Region::attach(const Part& part) {
  const std::lock_guard lock(parts_mutex_);
  std::vector<Part> parts = this->parts();
  parts.push_back(part);
  publish_parts(std::move(parts));
}

void Region::detach(Offset begin, Offset end) {
  const std::lock_guard lock(parts_mutex_);
  std::vector<Part> kept;
  for (const Part& part : parts()) {
    if (part.begin < begin) {
      kept.push_back(part);
      kept.back().end = std::min(part.end, begin);
    }
    if (part.end > end) {
      kept.push_back(part);
      const Offset from = std::max(part.begin, end);
      kept.back().device_begin += from - part.begin;
      kept.back().begin = from;
    }
  }
  publish_parts(std::move(kept));
}

Error Region::no_space(std::uint64_t count) const {
  return {Code::kNoSpace, path_ + ": full: " + std::to_string(count) +
                              " more segments do not fit into the capacity of " +
                              std::to_string(super_.geometry.capacity_bytes) +
                              " bytes; raise it with `perdure grow FILE --capacity SIZE`"};
}

std::optional<Error> Region::loss() const {
  auto lost = mapped_ ? mapped_->loss() : std::nullopt;
  if (!lost && mapped_home_) lost = mapped_home_->loss();
  return lost;
}

void Region::raise_when_lost(std::atomic<bool>* flag) {
  if (mapped_) mapped_->raise(flag);
  if (mapped_home_) mapped_home_->raise(flag);
}

Region::Region() = default;
Region::~Region() {
  onlookers_.reset();
  if (owner_pid_ != ::getpid()) (void)live_.release();  // a child has none of its threads
  live_.reset();
  mapped_.reset();
  mapped_home_.reset();
  // Said aloud, because a forked child that lives on keeps the descriptor, and with it the lock,
  // open.
  if (fd_ >= 0 && owner_pid_ == ::getpid()) ::flock(fd_, LOCK_UN);
  // A forked child has no such mapping; at its address there may be another.
  if (mapped_bytes_ != 0 && owner_pid_ == ::getpid()) ::munmap(base_, mapped_bytes_);
  if (home_ != nullptr && owner_pid_ == ::getpid()) ::munmap(home_, room_bytes_);
  if (durable_fd_ >= 0) ::close(durable_fd_);
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace perdure
