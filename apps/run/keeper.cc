// SPDX-License-Identifier: BSD-3-Clause
#include "apps/run/keeper.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "apps/run/image.h"
#include "apps/run/layout.h"

namespace perdure::run {
namespace {

using checkpoint::Barrier;
using checkpoint::Change;
using checkpoint::EpochStore;
using checkpoint::FileStorage;
using checkpoint::Storage;

constexpr std::uint64_t kLogBytes = std::uint64_t{256} << 20;

static_assert(sizeof(Change) == sizeof(SlotChange));

/// Without power cuts, what was written is there.
class UnsyncedStorage final : public Storage {
 public:
  UnsyncedStorage(Descriptor file, std::uint64_t bytes) : file_(std::move(file), bytes) {}
  bool read(void* data, std::size_t bytes, Offset offset) override {
    return file_.read(data, bytes, offset);
  }
  bool write(const void* data, std::size_t bytes, Offset offset) override {
    return file_.write(data, bytes, offset);
  }
  bool sync(Barrier) override { return true; }
  std::uint64_t bytes() const override { return file_.bytes(); }
  Offset next_data(Offset at) override { return file_.next_data(at); }

 private:
  FileStorage file_;
};

std::uint64_t nanoseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

void wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// Room for twice the memory of this machine.
std::uint64_t capacity() {
  struct sysinfo system{};
  ::sysinfo(&system);
  const std::uint64_t memory =
      (std::uint64_t{system.totalram} + system.totalswap) * system.mem_unit * 2;
  const std::uint64_t slots =
      kMemorySlot +
      std::clamp<std::uint64_t>(memory / kPageBytes, 1 << 18, kMostMemorySlots - 2 * kMemorySlot);
  return slots * kPageBytes;
}

std::unique_ptr<Storage> open_storage(const std::string& path, bool power) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat attributes{};
  if (file.get() < 0 || ::fstat(file.get(), &attributes) != 0) {
    if (errno == ENOENT)
      throw Exception(
          Code::kNotFound,
          path + ": not there; name the directory that `perdure run --state` was given");
    throw Exception(io_error(path));
  }
  const auto bytes = static_cast<std::uint64_t>(attributes.st_size);
  if (power) return std::make_unique<FileStorage>(std::move(file), bytes);
  return std::make_unique<UnsyncedStorage>(std::move(file), bytes);
}

void sync_directory(const std::string& directory) {
  const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 || ::fsync(folder.get()) != 0) throw Exception(io_error(directory));
}

EpochStore::Options store_options(bool power, bool accept_older = false) {
  EpochStore::Options options;
  options.power = power;
  options.log_bytes = kLogBytes;
  options.features = checkpoint::kHoldsProgram;
  options.accept_older = accept_older;
  return options;
}

Descriptor memory_file(const char* name, std::uint64_t bytes) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0 || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw Exception(io_error("memory to share with the program"));
  return file;
}

void* map(const Descriptor& file, std::uint64_t bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
  if (at == MAP_FAILED) throw Exception(io_error("mapping memory to share with the program"));
  return at;
}

}  // namespace

Keeper::Keeper(const std::string& directory, const Options& options)
    : directory_(directory),
      log_(open_storage(directory + "/image", options.power)),
      home_(open_storage(directory + "/image", options.power)) {}

std::unique_ptr<Keeper> Keeper::create(const std::string& directory, const Options& options) {
  const std::string path = directory + "/image";
  const auto super =
      EpochStore::plan(path, capacity(), 0, kShadowBase, checkpoint::kHoldsProgram).value();
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0 ||
      ::ftruncate(file.get(), static_cast<off_t>(checkpoint::file_bytes(super))) != 0)
    throw Exception(io_error(path));
  const std::unique_ptr<Storage> storage = open_storage(path, true);
  if (!EpochStore::format(*storage, super)) throw Exception(io_error(path));
  if (options.power && !storage->sync(Barrier::kAccept)) throw Exception(io_error(path));
  if (options.power) sync_directory(directory);
  return open(directory, options);
}

std::unique_ptr<Keeper> Keeper::open(const std::string& directory, const Options& options) {
  std::unique_ptr<Keeper> self(new Keeper(directory, options));
  self->store_ = EpochStore::open(*self->log_, *self->home_, directory + "/image",
                                  store_options(options.power, options.accept_older))
                     .value();
  self->share(options);
  return self;
}

Image Keeper::inspect(const std::string& directory) {
  const std::unique_ptr<Storage> storage = open_storage(directory + "/image", true);
  const auto store =
      EpochStore::open(*storage, *storage, directory + "/image", store_options(true), true).value();
  return ImageReader(*store, *storage, directory + "/image").image();
}

void Keeper::forget_last(const std::string& directory,
                         const std::function<void(std::uint64_t)>& may) {
  const std::unique_ptr<Storage> storage = open_storage(directory + "/image", true);
  const auto store =
      EpochStore::open(*storage, *storage, directory + "/image", store_options(true), true).value();
  if (store->lost().newest != 0 && store->lost().was_durable) {
    if (may) may(store->epoch());
    return;
  }
  if (may && store->epoch() > 1) may(store->epoch() - 1);
  store->forget_last().value();
}

void Keeper::share(const Options& options) {
  const std::uint64_t slots = store_->superblock().capacity_bytes / kPageBytes;
  shared_file_ = memory_file("perdure-shared", sizeof(Shared));
  shadow_file_ = memory_file("perdure-shadow", slots * kPageBytes);
  shared_ = static_cast<Shared*>(map(shared_file_, sizeof(Shared)));
  shadow_ = static_cast<std::byte*>(map(shadow_file_, slots * kPageBytes));
  shared_->capacity_slots = slots;
  shared_->period_ns = options.period_ns;
  shared_->budget_millionths = options.budget_millionths;
  shared_->recording = options.recording;
  shared_->full_only = options.full_only ? 1 : 0;
  shared_->epoch = store_->epoch() + 1;
  directory_.copy(shared_->directory, sizeof shared_->directory - 1);
  if (store_->epoch() == 0) return;
  shared_->memory_slots = reader().fill_shadow(shadow_);
}

Keeper::~Keeper() {
  stop();
  if (shadow_ != nullptr) ::munmap(shadow_, shared_->capacity_slots * kPageBytes);
  if (shared_ != nullptr) ::munmap(shared_, sizeof(Shared));
}

void Keeper::start() {
  stopping_ = false;
  commits_ = std::thread([this] { commit_all(); });
  home_thread_ = std::thread([this] { bring_home(); });
}

void Keeper::commit_all() {
  while (!stopping_) {
    const std::uint32_t staged = shared_->staged;
    if (staged != shared_->committed && shared_->poisoned == 0) {
      commit_staged();
      continue;
    }
    look_after_program();
    const timespec most{0, 100'000'000};
    ::syscall(SYS_futex, &shared_->staged, FUTEX_WAIT, staged, &most, nullptr, 0);
  }
}

void Keeper::stop() {
  if (!commits_.joinable()) return;
  stopping_ = true;
  wake(shared_->staged);
  commits_.join();
  {
    const std::lock_guard lock(mutex_);
    home_wanted_.notify_all();
  }
  home_thread_.join();
  if (shared_->staged != shared_->committed && shared_->poisoned == 0) commit_staged();
}

void Keeper::commit_staged() try {
  const std::uint64_t epoch = shared_->epoch - 1;
  if (auto ready = before_commit(epoch); !ready) return poison(ready.error());
  const std::uint32_t count = std::min(shared_->change_count, kMostChanges);
  if (shared_->recording != Recording::kNothing) {
    const auto* const changes = reinterpret_cast<const Change*>(shared_->changes);
    if (auto done = store_->commit({changes, count}, shadow_); !done) return poison(done.error());
  }
  shared_->change_count = 0;
  after_commit(epoch);
  shared_->supervisor_cpu_ns = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
  ++shared_->committed;
  wake(shared_->committed);
  const std::lock_guard lock(mutex_);
  home_due_ = true;
  home_wanted_.notify_all();
} catch (const Exception& error) {
  poison({error.code(), error.what()});
}

void Keeper::expect_runtime() {
  shared_->live = 0;
  runtime_due_ns_ = nanoseconds(CLOCK_MONOTONIC) + 2'000'000'000;
  // A signal to a thread that is about to exec would outlive the handler, and end the next program.
  ++shared_->execs;
  for (int tries = 0; shared_->stopping != 0 && tries < 20'000; ++tries) ::usleep(100);
  // The next program's runtime changes the shadow: what is staged is committed first.
  while (shared_->committed != shared_->staged && shared_->poisoned == 0) ::usleep(100);
}

void Keeper::look_after_program() {
  if (const std::uint32_t refused = shared_->refused;
      refused != refused_ || shared_->poisoned != 0) {
    refused_ = refused;
    on_refused();
  }
  if (runtime_due_ns_ == 0) return;
  if (shared_->live != 0) {
    runtime_due_ns_ = 0;
  } else if (nanoseconds(CLOCK_MONOTONIC) > runtime_due_ns_) {
    fmt::print(stderr,
               "perdure: the program has replaced itself by one that cannot be carried (linked "
               "statically?): no epoch "
               "ends any more, and a resume goes back to before that\n");
    runtime_due_ns_ = 0;
  }
}

void Keeper::bring_home() {
  // Nothing waits for it, but for a segment of the log later on: the program, and the end of its epochs, go first.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 10);
  std::unique_lock lock(mutex_);
  for (;;) {
    home_wanted_.wait(lock, [&] { return stopping_ || home_due_; });
    if (stopping_) return;
    home_due_ = false;
    lock.unlock();
    if (auto home = store_->bring_home(); !home) return poison(home.error());
    lock.lock();
  }
}

void Keeper::poison(const Error& error) {
  if (shared_->poisoned.exchange(1) == 0)
    fmt::print(stderr, "perdure: {}; the program goes on, and no epoch ends any more\n",
               error.message);
  wake(shared_->committed);
}

KeeperStatistics Keeper::statistics() const {
  const Shared& with = *shared_;
  std::vector<std::uint32_t> pauses(
      with.pause_ns, with.pause_ns + std::min<std::uint64_t>(with.pauses, kMostPauses));
  std::sort(pauses.begin(), pauses.end());
  const auto pause = [&](std::size_t hundredths) -> std::uint64_t {
    return pauses.empty() ? 0
                          : pauses[std::min(pauses.size() - 1, pauses.size() * hundredths / 100)];
  };
  return {with.ended,
          with.late,
          with.dirty_pages,
          with.whole_pages,
          with.blocks,
          store_->log_bytes_written(),
          store_->home_bytes_written(),
          pause(50),
          pause(99),
          pause(100),
          with.pause_total_ns,
          with.stop_cpu_ns,
          with.fault_ns,
          with.tracked != 0};
}

}  // namespace perdure::run
