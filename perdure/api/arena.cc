// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "perdure/base/hex.h"
#include "perdure/checkpoint/arena_file.h"
#include "perdure/checkpoint/epoch_store.h"
#include "perdure/region/file.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000  // Linux 4.17
#endif

namespace perdure {
namespace {

using checkpoint::DirtyPages;
using checkpoint::Epochs;
using checkpoint::EpochStore;
using checkpoint::FileStorage;
using checkpoint::Piece;

constexpr std::uint64_t kPlaceBytes = std::uint64_t{2} << 20;
// Where arenas are put: far from what the system maps, and where a sanitizer leaves room to the
// program.
#ifdef __SANITIZE_THREAD__
constexpr std::uint64_t kPlacesBegin = 0x7e9000000000;
constexpr std::uint64_t kPlacesEnd = 0x7ed000000000;
#else
constexpr std::uint64_t kPlacesBegin = 0x200000000000;
constexpr std::uint64_t kPlacesEnd = 0x600000000000;
#endif

/// Memory that is unmapped at its end.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* base, std::uint64_t bytes) : base_(static_cast<std::byte*>(base)), bytes_(bytes) {}
  ~Mapping() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }
  Mapping(Mapping&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {
    bytes_ = other.bytes_;
  }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Maps exactly there, or nowhere (errno EEXIST: something else is there).
void* map_at(std::uint64_t address, std::uint64_t bytes, int fd, Offset offset) {
  const int anonymous = fd < 0 ? MAP_ANONYMOUS : 0;
  void* const wanted = reinterpret_cast<void*>(address);
  void* got = ::mmap(wanted, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED_NOREPLACE | anonymous, fd,
                     static_cast<off_t>(offset));
  if (got == MAP_FAILED || got == wanted) return got;
  ::munmap(got, bytes);  // an older kernel, which takes the address as a hint
  errno = EEXIST;
  return MAP_FAILED;
}

/// What this process has mapped in the range, from the kernel's list of its mappings.
std::string who_is_at(std::uint64_t address, std::uint64_t bytes) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin = 0;
    unsigned long long end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx", &begin, &end) != 2) continue;
    if (begin < address + bytes && end > address) return line;
  }
  return "something";
}

Error taken(const std::string& path, std::uint64_t address, std::uint64_t bytes) {
  return {Code::kBusy, path + ": its addresses, " + hex(address) + " to " + hex(address + bytes) +
                           ", are taken in this process by: " + who_is_at(address, bytes) +
                           "; open the arena before that, or create it at another address"};
}

Result<std::uint64_t> choose_address(const std::string& path, const ArenaOptions& options) {
  const std::uint64_t bytes = options.capacity_bytes;
  const auto is_free = [&](std::uint64_t address) {
    void* got = map_at(address, bytes, -1, 0);
    if (got == MAP_FAILED) return false;
    ::munmap(got, bytes);
    return true;
  };
  if (options.address != 0) {
    if (!is_aligned(options.address, kPlaceBytes))
      return Error{Code::kInvalid,
                   path + ": address is " + hex(options.address) + ", must be a multiple of 2 MiB"};
    if (!is_free(options.address)) return taken(path, options.address, bytes);
    return std::uint64_t{options.address};
  }
  const std::uint64_t room = kPlacesEnd - kPlacesBegin;
  for (int attempt = 0; attempt < 64 && bytes < room; ++attempt) {
    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof(random), 0) != sizeof(random)) break;
    const std::uint64_t address =
        kPlacesBegin + random % ((room - bytes) / kPlaceBytes + 1) * kPlaceBytes;
    if (is_free(address)) return address;
  }
  return Error{Code::kBusy, path + ": no free addresses for " + std::to_string(bytes) +
                                " bytes were found; name an `address`"};
}

std::uint64_t log_bytes_of(const ArenaOptions& options, std::uint64_t capacity) {
  return options.log_bytes != 0 ? options.log_bytes : checkpoint::usual_log_bytes(capacity);
}

/// Another opening of the same file.
Descriptor reopened(int fd) {
  return Descriptor(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
}

}  // namespace

struct Arena::Core {
  std::string path;
  pid_t pid = ::getpid();
  Descriptor lock;
  std::unique_ptr<FileStorage> log, home;
  std::unique_ptr<EpochStore> store;
  Mapping memory, shadow;
  std::unique_ptr<DirtyPages> dirty;
  checkpoint::ArenaHeap* heap = nullptr;
  std::unique_ptr<Epochs> epochs;
  std::uint64_t lost_epochs = 0;

  Result<void> map();
};

/// Both mappings show home, and get private pages where the last epoch or the program changes
/// something. What is brought home later concerns only pages that are private by then.
Result<void> Arena::Core::map() {
  const auto& super = store->superblock();
  void* base = map_at(super.address, super.capacity_bytes, log->fd(), super.home_offset);
  if (base == MAP_FAILED) {
    if (errno == EEXIST) return taken(path, super.address, super.capacity_bytes);
    return io_error(path + ": mapping at " + hex(super.address));
  }
  memory = Mapping(base, super.capacity_bytes);
  void* other =
      ::mmap(nullptr, super.capacity_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
             log->fd(), static_cast<off_t>(super.home_offset));
  if (other == MAP_FAILED) return io_error(path + ": mapping the shadow");
  shadow = Mapping(other, super.capacity_bytes);
  // A forked child would change a copy that nobody saves.
  ::madvise(base, super.capacity_bytes, MADV_DONTFORK);
  ::madvise(other, super.capacity_bytes, MADV_DONTFORK);
  return store->for_each_piece_of_last([&](const Piece& piece) {
    for (std::byte* image : {memory.base(), shadow.base()}) {
      std::byte* const to = image + piece.page * kPageBytes + piece.at;
      if (piece.data == nullptr) {
        std::memset(to, 0, piece.bytes);
      } else {
        std::memcpy(to, piece.data, piece.bytes);
      }
    }
  });
}

Arena::Arena(std::unique_ptr<Core> core)
    : core_(std::move(core)), heap_(core_->heap), gate_(&core_->epochs->gate()) {}
Arena::Arena(Arena&&) noexcept = default;
Arena& Arena::operator=(Arena&&) noexcept = default;
Arena::~Arena() {
  // A forked child has neither the threads nor the memory; there is nothing that it could close.
  if (core_ && core_->pid != ::getpid()) (void)core_.release();
}

Result<Arena> Arena::create(const std::string& path, const ArenaOptions& options) {
  if (options.capacity_bytes < checkpoint::ArenaHeap::kLeastCapacity ||
      options.capacity_bytes > checkpoint::kMaxArenaBytes)
    return Error{Code::kInvalid, path + ": capacity_bytes is " +
                                     std::to_string(options.capacity_bytes) +
                                     ", must be from 128 KiB to 1 TiB"};
  auto address = choose_address(path, options);
  if (!address) return address.error();
  const std::uint64_t log_bytes = log_bytes_of(options, options.capacity_bytes);
  auto super = EpochStore::plan(path, options.capacity_bytes, log_bytes, address.value());
  if (!super) return super.error();
  auto created = create_whole_file(path, options.mode, [&](int fd) -> Result<void> {
    const auto& plan = super.value();
    if (auto reserved = checkpoint::reserve_arena(fd, plan, log_bytes, path); !reserved)
      return reserved;
    FileStorage storage(Descriptor(::dup(fd)), checkpoint::file_bytes(plan));
    if (!EpochStore::format(storage, plan)) return io_error(path + ": writing the format");
    return {};
  });
  if (!created) return created.error();
  return open(path, options);
}

Result<Arena> Arena::open_or_create(const std::string& path, const ArenaOptions& options) {
  auto opened = open(path, options);
  if (opened || opened.error().code != Code::kNotFound) return opened;
  auto created = create(path, options);
  // Another process was quicker.
  if (!created && created.error().code == Code::kExists) return open(path, options);
  return created;
}

Result<Arena> Arena::open(const std::string& path, const ArenaOptions& options) {
  if (options.epoch.count() < 0)
    return Error{Code::kInvalid, path + ": an epoch of negative length"};
  auto file = open_locked(path, false);
  if (!file) return file.error();
  auto core = std::make_unique<Core>();
  core->path = path;
  core->lock = std::move(file.value().fd);
  for (auto* storage : {&core->log, &core->home}) {
    Descriptor again = reopened(core->lock.get());
    if (again.get() < 0) return io_error(path + ": opening it again");
    *storage = std::make_unique<FileStorage>(std::move(again), file.value().bytes);
  }
  auto super = EpochStore::read_superblock(*core->log, path);
  if (!super) return super.error();
  const std::uint64_t capacity = super.value().capacity_bytes;
  auto store = EpochStore::open(*core->log, *core->home, path,
                                {options.durable == ArenaDurable::kPower,
                                 log_bytes_of(options, capacity),
                                 {},
                                 {},
                                 0,
                                 options.accept_older});
  if (!store) return store.error();
  core->store = std::move(store.value());
  if (const std::uint64_t newest = core->store->lost().newest; newest != 0)
    core->lost_epochs = newest - core->store->epoch();
  if (auto mapped = core->map(); !mapped) return mapped.error();

  auto dirty = DirtyPages::watch(core->memory.base(), capacity / kPageBytes, options.tracking);
  if (!dirty) return Error{dirty.error().code, path + ": " + dirty.error().message};
  core->dirty = std::move(dirty.value());
  if (options.tracking == ArenaTracking::kAuto &&
      core->dirty->tracking() == ArenaTracking::kMprotect)
    std::fprintf(
        stderr,
        "perdure: %s: this kernel does not tell which pages were written (Linux 6.7 does); "
        "mprotect is used instead, at 3 to 10 us for each page in each epoch\n",
        path.c_str());

  auto heap = checkpoint::ArenaHeap::open(core->memory.base(), capacity, core->store->epoch() == 0);
  if (!heap) return Error{heap.error().code, path + ": " + heap.error().message};
  core->heap = heap.value();
  core->epochs = std::make_unique<Epochs>(*core->store, core->memory.base(), core->shadow.base(),
                                          *core->dirty, options.epoch);
  return Arena(std::move(core));
}

Result<void> Arena::persist() {
  if (core_->pid != ::getpid())
    return Error{Code::kMisuse, core_->path + ": persist() in a forked child"};
  return core_->epochs->persist();
}

ArenaStats Arena::epoch() const { return core_->epochs->stats(); }
std::uint64_t Arena::lost_epochs() const { return core_->lost_epochs; }
ArenaTracking Arena::tracking() const { return core_->dirty->tracking(); }
std::byte* Arena::address() const { return core_->memory.base(); }

}  // namespace perdure
