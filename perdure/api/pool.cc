// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

#include <unistd.h>

#include <algorithm>

#include "perdure/api/pool_core.h"
#include "perdure/api/pool_storage.h"
#include "perdure/api/raise_limits.h"
#include "perdure/engine/instantiations.h"

namespace perdure {
namespace {

/// The heap's largest record fits into what it leaves of the smallest log.
constexpr std::uint64_t kLeastLogLimit = std::uint64_t{16} << 10;

constexpr std::int64_t kMostRecoveryTarget = 60 * 60 * 1000;

/// A commit that finds too many pages waits until some are given back, which should be worth it.
constexpr std::uint64_t kLeastPrivateBytes = 16 * kPageBytes;

Geometry geometry_of(const ExpertOptions& options) {
  return {options.capacity_bytes, options.segment_bytes, options.ring_bytes, options.log_slots,
          options.root_entries};
}

std::uint64_t most_private_pages(const ExpertOptions& options, const Region& region) {
  // A program with an address space stores to it directly, so none of its pages may be given back.
  if (region.range_bytes() != ~std::uint64_t{0}) return ~std::uint64_t{0} >> 1;
  if (options.private_bytes != 0) return options.private_bytes / kPageBytes;
  return static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 4096L)) / 4;
}

/// Makes the library's engine for the storage of the region.
std::unique_ptr<Engine> redo_on(const EngineParts& parts, PoolStorage* storage) {
  if (storage == nullptr)
    return on_memory(parts.region->domain(), [&]<class D>(D domain) -> std::unique_ptr<Engine> {
      return std::make_unique<Redo<D>>(parts, domain);
    });
  if (storage->group)
    return std::make_unique<Redo<InPrivatePages<Sync<RegionDevice>>>>(
        parts, InPrivatePages(*storage->pages, 0, Sync<RegionDevice>(*storage->group)));
  return std::make_unique<Redo<InPrivatePages<AnyMemory>>>(
      parts, InPrivatePages(*storage->pages, storage->to_home, AnyMemory(parts.region->domain())));
}

}  // namespace

std::shared_ptr<PoolStorage> PoolStorage::of(const Region& region, const ExpertOptions& options) {
  const bool file = region.domain() == DomainKind::kSync;
  const bool over_memory = !file && region.home() != region.base();
  if (!file && !over_memory) return nullptr;
  const int owner = ::getpid();
  std::shared_ptr<PoolStorage> storage(new PoolStorage, [owner](PoolStorage* ended) {
    if (::getpid() == owner) delete ended;
  });
  storage->pages.emplace(region.base(), region.superblock().heap_offset,
                         region.geometry().capacity_bytes, most_private_pages(options, region));
  if (file) storage->group.emplace(RegionDevice(region), region.base());
  if (over_memory) storage->to_home = region.home() - region.base();
  return storage;
}

Result<void> check_options(const std::string& path, const ExpertOptions& options) {
  const auto invalid = [&](const std::string& what) {
    return Error{Code::kInvalid, path + ": " + what};
  };
  if (domain_name(options.domain) == "unknown" || truncation_name(options.truncation) == "unknown")
    return invalid("no such domain or truncation");
  if (options.placement == Placement::kPrivatePages && options.truncation != Truncation::kAuto &&
      options.truncation != Truncation::kBackground && options.truncation != Truncation::kWhenFull)
    return invalid(
        "private pages are written back in the background or when there is no more room; "
        "truncation must be auto, background or when-full");
  if (options.log_limit_bytes != 0 && options.log_limit_bytes < kLeastLogLimit)
    return invalid("log_limit_bytes is " + std::to_string(options.log_limit_bytes) +
                   ", must be 0 (as recovery_target says) or at least " +
                   std::to_string(kLeastLogLimit));
  if (options.recovery_target.count < 1 || options.recovery_target.count > kMostRecoveryTarget)
    return invalid("recovery_target is " + std::to_string(options.recovery_target.count) +
                   " ms, must be from 1 ms to an hour");
  if (options.scrub.count < 0)
    return invalid("scrub is " + std::to_string(options.scrub.count) + " ms, must not be negative");
  if (options.private_bytes != 0 && options.private_bytes < kLeastPrivateBytes)
    return invalid("private_bytes is " + std::to_string(options.private_bytes) +
                   ", must be at least " + std::to_string(kLeastPrivateBytes));
  if (options.lock_bits < 1 || options.lock_bits > 30)
    return invalid("lock_bits is " + std::to_string(options.lock_bits) + ", must be from 1 to 30");
  return {};
}

Result<std::unique_ptr<Region>> open_pool_region(const std::string& path,
                                                 const ExpertOptions& options) {
  if (auto valid = check_options(path, options); !valid) return valid.error();
  Region::OpenOptions how;
  how.private_heap = options.placement == Placement::kPrivatePages;
  how.let_look_on = options.let_others_look;
  return Region::open_file(path, options.domain, Region::Access::kReadWrite, how);
}

Result<void> create_pool_file(const std::string& path, const ExpertOptions& options) {
  if (auto valid = check_options(path, options); !valid) return valid.error();
  Region::CreateOptions create{geometry_of(options), 1, options.mode};
  create.domain = options.domain;
  if (auto created = Region::create_file(path, create); !created) return created.error();
  return {};
}

Result<void> refuse_address_space(const Region& region, const std::string& why) {
  if (region.range_bytes() == ~std::uint64_t{0}) return {};
  return Error{Code::kInvalid, region.path() + ": " + why};
}

struct PoolAccess {
  static PoolCore& core(const Pool& pool) { return *pool.core_; }
  static Pool pool(std::unique_ptr<PoolCore> core) {
    const std::uint64_t id = core->id();
    return Pool(core.release(), id);
  }
};

PoolCore& core_of(const Pool& pool) { return PoolAccess::core(pool); }

Pool::~Pool() { delete core_; }
Pool& Pool::operator=(Pool&& other) noexcept {
  delete std::exchange(core_, nullptr);  // one may be a pool of the other's file
  core_ = std::exchange(other.core_, nullptr);
  id_ = std::exchange(other.id_, 0);
  return *this;
}

Result<Pool> Pool::create(const std::string& path, const PoolOptions& options) {
  return create(path, ExpertOptions(options));
}
Result<Pool> Pool::create(const std::string& path, const ExpertOptions& options) {
  if (auto created = create_pool_file(path, options); !created) return created.error();
  return open(path, options);
}

Result<Pool> Pool::open(const std::string& path, const PoolOptions& options) {
  return open(path, ExpertOptions(options));
}
Result<Pool> Pool::open(const std::string& path, const ExpertOptions& options) {
  if (options.raise_limits) {
    if (auto raised = perdure::raise_limits(path, options); !raised) return raised.error();
  }
  auto region = open_pool_region(path, options);
  if (!region) return region.error();
  return open_region(std::move(region).value(), options);
}

Result<Pool> Pool::open_or_create(const std::string& path, const PoolOptions& options) {
  return open_or_create(path, ExpertOptions(options));
}
Result<Pool> Pool::open_or_create(const std::string& path, const ExpertOptions& options) {
  auto opened = open(path, options);
  if (opened || opened.error().code != Code::kNotFound) return opened;
  auto created = create(path, options);
  // Another process may have created the file in between; then that one is opened.
  if (!created && created.error().code == Code::kExists) return open(path, options);
  return created;
}

Result<Pool> open_region(std::unique_ptr<Region> region, const ExpertOptions& options) {
  if (auto valid = check_options(region->path(), options); !valid) return valid.error();
  if (options.placement == Placement::kPrivatePages) {
    if (auto fit = refuse_address_space(
            *region,
            "private pages keep committed words where a program that uses an address space "
            "without transactions would not find them; use the placement 'shared'");
        !fit)
      return fit.error();
  }
  auto storage = PoolStorage::of(*region, options);
  auto pool = adopt_region(std::move(region), {[&](EngineParts parts) {
                             parts.tuning = tuning_of(options);
                             return redo_on(parts, storage.get());
                           }},
                           options.lock_bits, storage);
  if (!pool) return pool;
  if (options.truncation != Truncation::kAuto) pool->set_truncation(options.truncation);
  if (auto scrubbed = core_of(pool.value()).scrub_every(options.scrub); !scrubbed)
    return scrubbed.error();
  return pool;
}

Result<Pool> adopt_region(std::unique_ptr<Region> region, const EngineSource& source,
                          unsigned lock_bits, std::shared_ptr<void> storage) {
  auto core = PoolCore::open(std::move(region), source, lock_bits, std::move(storage));
  if (!core) return core.error();
  return PoolAccess::pool(std::move(core).value());
}

Result<Pool> Pool::inspect(const std::string& path) { return inspect_pool(path, nullptr); }

Result<Pool> inspect_pool(const std::string& path, std::vector<std::string>* findings) {
  auto region = Region::open_file(path, DomainKind::kAuto, Region::Access::kInspect);
  if (!region) return region.error();
  return inspect_region(std::move(region).value(), findings);
}

namespace {

Result<Pool> inspect(std::unique_ptr<Region> region, std::vector<std::string>* findings,
                     std::vector<std::string>* log_damage) {
  EngineSource source;
  source.make = [](const EngineParts& parts) {
    return std::make_unique<Redo<Dram>>(parts, Dram{});
  };
  source.log_damage = log_damage;
  auto core = PoolCore::open(std::move(region), source, 16, nullptr, findings);
  if (!core) return core.error();
  return PoolAccess::pool(std::move(core).value());
}

}  // namespace

Result<Pool> inspect_region(std::unique_ptr<Region> region, std::vector<std::string>* findings) {
  return inspect(std::move(region), findings, nullptr);
}

namespace {

Result<std::unique_ptr<Region>> closed_region(const std::string& path) {
  Region::OpenOptions how;
  how.look_on = false;
  return Region::open_file(path, DomainKind::kAuto, Region::Access::kInspect, how);
}

}  // namespace

Result<Pool> inspect_closed(const std::string& path) {
  auto region = closed_region(path);
  if (!region) return region.error();
  return inspect_region(std::move(region).value(), nullptr);
}

Result<Pool> inspect_wreck(const std::string& path, std::vector<std::string>& findings) {
  auto region = closed_region(path);
  if (!region) return region.error();
  return inspect(std::move(region).value(), &findings, &findings);
}

void* Pool::make_root(Tx& tx, std::string_view name, std::uint64_t type, std::uint64_t bytes) {
  return core_->find_root(tx, name, type, bytes, true)->object;
}

void* Pool::look_for_root(Tx& tx, std::string_view name, std::uint64_t type, std::uint64_t bytes) {
  const auto root = core_->find_root(tx, name, type, bytes, false);
  return root ? root->object : nullptr;
}

void Pool::sync() {
  core_->refuse_after_fork();
  core_->engine().sync();
}

void Pool::checkpoint() {
  core_->refuse_after_fork();
  core_->engine().truncate();
}

void Pool::set_truncation(Truncation truncation) {
  core_->refuse_after_fork();
  core_->engine().set_truncation(truncation);
}

const std::string& Pool::path() const { return core_->region().path(); }

std::string Pool::damage() const { return core_->damage(); }

PoolUsage Pool::usage() {
  const Region& region = core_->region();
  const Heap::Usage heap = core_->heap().usage();
  return {.roots = read_only([&](Tx& tx) { return core_->roots(tx).size(); }),
          .objects = heap.objects,
          .object_bytes = heap.object_bytes,
          .file_bytes = region.grown_bytes(),
          .capacity_bytes = region.geometry().capacity_bytes};
}

std::span<const std::byte> Pool::memory() const {
  const Region& region = core_->region();
  const Offset begin = region.superblock().heap_offset;
  return {region.base() + begin, region.grown_bytes() - begin};
}

std::byte* Pool::base() const { return core_->region().base(); }

void Pool::prefetch_word(std::uint64_t offset) const {
  const TxWorld& world = core_->world();
  __builtin_prefetch(world.base + offset);
  __builtin_prefetch(&world.locks->of(offset));
}

DomainKind Pool::domain() const { return core_->region().domain(); }

const RecoveryReport& Pool::recovery() const { return core_->recovery(); }

std::string_view Pool::guarantee() const {
  if (!core_->engine().is_durable()) return "nothing (this engine is a baseline)";
  const bool memory = domain() == DomainKind::kAdr || domain() == DomainKind::kEadr;
  if (memory && !core_->region().is_persistent_memory())
    return "process death only (the file is not on persistent memory)";
  return domain_guarantee(domain());
}

}  // namespace perdure
