#include "perdure/pool.h"

#include <unistd.h>

#include "perdure/domain/any_adr.h"
#include "perdure/domain/dram.h"
#include "perdure/domain/eadr.h"
#include "perdure/domain/paged.h"
#include "perdure/domain/sync.h"
#include "perdure/engine/make_engine.h"

namespace perdure {

template std::unique_ptr<Engine> make_engine(EngineKind, const EngineParts&, Dram);
template std::unique_ptr<Engine> make_engine(EngineKind, const EngineParts&, Counted<Dram>);

/// What copies of a domain share. Outlives the engine.
struct Pool::Storage {
  std::optional<SyncGroup<RegionDevice>> group;  // on files: Sync's waiting threads
  std::optional<PrivatePages> pages;             // on files, and of the engine softwrap
  int owner_pid = ::getpid();
};
void Pool::StorageDelete::operator()(Storage* storage) const {
  // In a forked child it is left alone: its destructor would wait for threads that waited for the device at the fork.
  if (storage->owner_pid == ::getpid()) delete storage;
}

namespace {

/// The heap's largest record fits into what it leaves of the smallest log.
constexpr std::uint64_t kLeastLogLimit = std::uint64_t{16} << 10;

/// A commit that finds too many pages waits until some are given back, which should be worth it.
constexpr std::uint64_t kLeastPrivateBytes = 16 * kPageBytes;

Geometry geometry_of(const PoolOptions& options) {
  return {options.capacity_bytes, options.segment_bytes, options.ring_bytes, options.log_slots,
          options.root_entries};
}

Result<void> check_aliases(const std::string& path, const PoolOptions& options) {
  const alias::AliasLimits& aliases = options.aliases;
  const auto is_size = [](std::uint64_t count, std::uint64_t least, std::uint64_t most) {
    return (count & (count - 1)) == 0 && count >= least && count <= most;
  };
  if (!is_size(aliases.words, 64, std::uint64_t{1} << 32) ||
      !is_size(aliases.pages, 16, std::uint64_t{1} << 32) ||
      !is_size(aliases.page_bytes, 64, kPageBytes))
    return Error{Code::kInvalid,
                 path + ": alias tables have " + std::to_string(aliases.words) + " words and " +
                     std::to_string(aliases.pages) + " pages of " +
                     std::to_string(aliases.page_bytes) +
                     " bytes; each must be a power of two, at least 64, 16 and 64, and a page at "
                     "most 4096"};
  if (options.alias_threshold < 2 || options.alias_threshold > aliases.pages)
    return Error{Code::kInvalid,
                 path + ": alias_threshold is " + std::to_string(options.alias_threshold) +
                     ", must be from 2 (a table is full when half of it is taken) to "
                     "the number of pages"};
  return {};
}

Result<void> check_options(const std::string& path, const PoolOptions& options) {
  if (options.latency && options.domain != DomainKind::kAdr)
    return Error{Code::kInvalid,
                 path + ": latency can be emulated on the adr domain only; open with domain adr"};
  if (engine_name(options.engine) == "unknown" || domain_name(options.domain) == "unknown" ||
      truncation_name(options.truncation) == "unknown")
    return Error{Code::kInvalid, path + ": no such engine, domain or truncation"};
  if (options.truncation != Truncation::kAuto && !is_durable(options.engine))
    return Error{Code::kInvalid,
                 path + ": a yardstick engine keeps no logs; leave truncation at auto"};
  if (is_softwrap(options.engine) && options.truncation != Truncation::kAuto &&
      !retires_by(options.truncation))
    return Error{
        Code::kInvalid,
        path +
            ": the softwrap engines retire what is aside in the background or "
            "when there is no more room; truncation must be auto, background or when-full"};
  if (is_undo(options.engine) && options.truncation != Truncation::kAuto &&
      options.truncation != Truncation::kEachCommit)
    return Error{
        Code::kInvalid,
        path + ": the undo engines empty their logs at each commit; leave truncation at auto"};
  if (options.log_limit_bytes != 0 && options.log_limit_bytes < kLeastLogLimit)
    return Error{Code::kInvalid, path + ": log_limit_bytes is " +
                                     std::to_string(options.log_limit_bytes) +
                                     ", must be 0 (no limit but the log's size) or at least " +
                                     std::to_string(kLeastLogLimit)};
  if (auto valid = check_aliases(path, options); !valid) return valid;
  if (options.private_bytes != 0 && options.private_bytes < kLeastPrivateBytes)
    return Error{Code::kInvalid, path + ": private_bytes is " +
                                     std::to_string(options.private_bytes) + ", must be at least " +
                                     std::to_string(kLeastPrivateBytes)};
  if (options.lock_bits < 1 || options.lock_bits > 30)
    return Error{Code::kInvalid, path + ": lock_bits is " + std::to_string(options.lock_bits) +
                                     ", must be from 1 to 30"};
  return {};
}

/// Stamps the engine for `domain` as it is, or counted.
template <Domain D>
std::unique_ptr<Engine> stamp(const PoolOptions& options, const EngineParts& parts,
                              DomainCounters* counters, D domain) {
  if (counters == nullptr) return make_engine(options.engine, parts, std::move(domain));
  return make_engine(options.engine, parts, Counted<D>(*counters, std::move(domain)));
}

std::unique_ptr<Engine> stamp_memory(const PoolOptions& options, const EngineParts& parts,
                                     DomainCounters* counters) {
  switch (parts.region->domain()) {
    case DomainKind::kEadr: return stamp(options, parts, counters, Eadr{});
    case DomainKind::kDram: return stamp(options, parts, counters, Dram{});
    default: break;
  }
  // Every stamp is a copy of all engines: a branch at each flush is cheap where memory is emulated, or evicted by clflush.
  if (options.latency)
    return stamp(options, parts, counters, Latency<AnyAdr>(*options.latency, AnyAdr{}));
  if (x86::best_write_back() == x86::WriteBack::kClwb)
    return stamp(options, parts, counters, Adr<x86::Clwb>{});
  return stamp(options, parts, counters, AnyAdr{});
}

/// Files are mapped privately, whatever the engine.
template <Domain D>
std::unique_ptr<Engine> stamp_files(const PoolOptions& options, PrivatePages& pages,
                                    const EngineParts& parts, DomainCounters* counters, D domain) {
  if (counters == nullptr)
    return make_engine(options.engine, parts, Paged<D>(pages, 0, std::move(domain)));
  return make_engine(options.engine, parts,
                     Paged<Counted<D>>(pages, 0, Counted<D>(*counters, std::move(domain))));
}

/// The engine softwrap, over memory. What it counts is what goes home.
template <Domain D>
std::unique_ptr<Engine> stamp_aside(PrivatePages& pages, const EngineParts& parts,
                                    DomainCounters* counters, D domain) {
  const std::ptrdiff_t to_home = parts.region->home() - parts.region->base();
  if (counters == nullptr)
    return make_paged_engine(parts, Paged<D>(pages, to_home, std::move(domain)));
  return make_paged_engine(
      parts, Paged<Counted<D>>(pages, to_home, Counted<D>(*counters, std::move(domain))));
}
std::unique_ptr<Engine> stamp_aside(const PoolOptions& options, PrivatePages& pages,
                                    const EngineParts& parts, DomainCounters* counters) {
  switch (parts.region->domain()) {
    case DomainKind::kEadr: return stamp_aside(pages, parts, counters, Eadr{});
    case DomainKind::kDram: return stamp_aside(pages, parts, counters, Dram{});
    default: break;
  }
  if (options.latency)
    return stamp_aside(pages, parts, counters, Latency<AnyAdr>(*options.latency, AnyAdr{}));
  return stamp_aside(pages, parts, counters, AnyAdr{});
}

/// Whether memory is mapped privately, too.
bool is_aside(const PoolOptions& options) { return options.engine == EngineKind::kSoftwrap; }

std::uint64_t most_private_pages(const PoolOptions& options, const Region& region) {
  // A program that uses an address space stores without us: none of its pages may be given back.
  if (region.range_bytes() != ~std::uint64_t{0}) return ~std::uint64_t{0} >> 1;
  if (options.private_bytes != 0) return options.private_bytes / kPageBytes;
  return static_cast<std::uint64_t>(std::max(::sysconf(_SC_PHYS_PAGES), 4096L)) / 4;
}

}  // namespace

Result<Pool> Pool::create(const std::string& path, const PoolOptions& options) {
  if (auto valid = check_options(path, options); !valid) return valid.error();
  Region::CreateOptions create{geometry_of(options), 1, options.mode};
  create.domain = options.domain;
  if (auto created = Region::create_file(path, create); !created) return created.error();
  return open(path, options);
}

Result<Pool> Pool::open(const std::string& path, const PoolOptions& options) {
  if (auto valid = check_options(path, options); !valid) return valid.error();
  Region::OpenOptions how;
  how.private_heap = is_aside(options);
  auto region = Region::open_file(path, options.domain, Region::Access::kReadWrite, how);
  if (!region) return region.error();
  return open_region(std::move(region).value(), options);
}

Result<Pool> Pool::open_region(std::unique_ptr<Region> region, const PoolOptions& options) {
  if (auto valid = check_options(region->path(), options); !valid) return valid.error();
  if (is_softwrap(options.engine) && region->range_bytes() != ~std::uint64_t{0})
    return Error{
        Code::kInvalid,
        region->path() +
            ": the softwrap engines keep committed words aside, where a program that uses "
            "an address space without transactions would not find them; use another engine"};
  if (options.engine == EngineKind::kUndoObjects && region->range_bytes() != ~std::uint64_t{0})
    return Error{
        Code::kInvalid,
        region->path() +
            ": the engine undo-objects takes back whole lines, also what a program stored "
            "there without transactions, as it may in an address space; use another engine"};
  Pool pool;
  pool.engine_ = options.engine;
  if (options.count) pool.counters_ = std::make_unique<DomainCounters>();
  const Region& opened = *region;
  const bool sync = opened.domain() == DomainKind::kSync;
  const bool aside = !sync && is_aside(options) && opened.home() != opened.base();
  if (sync || aside) {
    pool.storage_.reset(new Storage);
    pool.storage_->pages.emplace(opened.base(), opened.superblock().heap_offset,
                                 opened.geometry().capacity_bytes,
                                 most_private_pages(options, opened));
  }
  if (sync) pool.storage_->group.emplace(RegionDevice(opened), opened.base());
  auto core = PoolCore::open(
      std::move(region),
      [&](EngineParts parts) {
        parts.relaxed_delay = options.relaxed_delay;
        parts.log_limit_bytes = options.log_limit_bytes;
        parts.in_place_bytes = options.in_place_bytes;
        parts.aliases = options.aliases;
        parts.alias_threshold = options.alias_threshold;
        Storage* const storage = pool.storage_.get();
        if (sync)
          return stamp_files(options, *storage->pages, parts, pool.counters_.get(),
                             Sync<RegionDevice>(*storage->group));
        if (aside) return stamp_aside(options, *storage->pages, parts, pool.counters_.get());
        return stamp_memory(options, parts, pool.counters_.get());
      },
      options.lock_bits);
  if (!core) return core.error();
  pool.core_ = std::move(core).value();
  if (options.truncation != Truncation::kAuto) pool.set_truncation(options.truncation);
  return pool;
}

std::string_view Pool::guarantee() const {
  if (!is_durable(engine_)) return "nothing (this engine is a yardstick)";
  const bool memory = domain() == DomainKind::kAdr || domain() == DomainKind::kEadr;
  if (memory && !core_->region().is_persistent_memory())
    return "process death only (the file is not on persistent memory)";
  return domain_guarantee(domain());
}

Result<Pool> Pool::open_or_create(const std::string& path, const PoolOptions& options) {
  auto opened = open(path, options);
  if (opened || opened.error().code != Code::kNotFound) return opened;
  auto created = create(path, options);
  // Another process may have created it in between: then its pool is the one to open.
  if (!created && created.error().code == Code::kExists) return open(path, options);
  return created;
}

Result<Pool> Pool::inspect(const std::string& path, std::vector<std::string>* findings) {
  auto region = Region::open_file(path, DomainKind::kAuto, Region::Access::kInspect);
  if (!region) return region.error();
  return inspect_region(std::move(region).value(), findings);
}

Result<Pool> Pool::inspect_region(std::unique_ptr<Region> region,
                                  std::vector<std::string>* findings) {
  Pool pool;
  auto core = PoolCore::open(
      std::move(region),
      [](const EngineParts& parts) { return make_engine(EngineKind::kMnemosyne, parts, Dram{}); },
      16, findings);
  if (!core) return core.error();
  pool.core_ = std::move(core).value();
  return pool;
}

Result<Pool> Pool::adopt(std::unique_ptr<Region> region, const PoolCore::EngineFactory& factory,
                         unsigned lock_bits) {
  Pool pool;
  auto core = PoolCore::open(std::move(region), factory, lock_bits);
  if (!core) return core.error();
  pool.core_ = std::move(core).value();
  return pool;
}

}  // namespace perdure
