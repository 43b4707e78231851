// SPDX-License-Identifier: BSD-3-Clause
#include "papers/pool.h"

#include "papers/make_engine.h"
#include "perdure/api/pool_core.h"

namespace perdure::papers {

// Each in a source of its own.
template <>
std::unique_ptr<Engine> make_engine<Mnemosyne>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<PrivatePlacement>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<Blurred>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<Adaptive>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<Tables>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<UndoObjects>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<Base>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<Undo>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<Nonatomic>(const EngineSetting&);
template <>
std::unique_ptr<Engine> make_engine<Volatile>(const EngineSetting&);

namespace {

Result<void> check_tables(const std::string& path, const LabOptions& options) {
  const alias::AliasLimits& limits = options.tables.limits;
  const auto is_size = [](std::uint64_t count, std::uint64_t least, std::uint64_t most) {
    return (count & (count - 1)) == 0 && count >= least && count <= most;
  };
  if (!is_size(limits.words, 64, std::uint64_t{1} << 32) ||
      !is_size(limits.pages, 16, std::uint64_t{1} << 32) ||
      !is_size(limits.page_bytes, 64, kPageBytes))
    return Error{Code::kInvalid,
                 path + ": alias tables have " + std::to_string(limits.words) + " words and " +
                     std::to_string(limits.pages) + " pages of " +
                     std::to_string(limits.page_bytes) +
                     " bytes; each must be a power of two, at least 64, 16 and 64, and a page at "
                     "most 4096"};
  if (options.tables.threshold < 2 || options.tables.threshold > limits.pages)
    return Error{Code::kInvalid,
                 path + ": the tables' threshold is " + std::to_string(options.tables.threshold) +
                     ", must be from 2 (a table is full when half of it is taken) to "
                     "the number of pages"};
  return {};
}

Result<void> check(const std::string& path, const LabOptions& options) {
  const auto invalid = [&](const char* what) { return Error{Code::kInvalid, path + ": " + what}; };
  if (engine_name(options.engine) == "unknown") return invalid("no such engine");
  if (options.latency && options.domain != DomainKind::kAdr)
    return invalid("latency can be emulated on the adr domain only; open with domain adr");
  const Truncation truncation = options.truncation;
  if (truncation != Truncation::kAuto) {
    if (!is_durable(options.engine))
      return invalid("a baseline engine keeps no logs; leave truncation at auto");
    if (is_softwrap(options.engine) && truncation != Truncation::kBackground &&
        truncation != Truncation::kWhenFull)
      return invalid(
          "the softwrap engines retire what is not home in the background or when there is no more "
          "room; truncation must be auto, background or when-full");
    if (is_undo(options.engine) && truncation != Truncation::kEachCommit)
      return invalid("the undo engines empty their logs at each commit; leave truncation at auto");
  }
  return check_tables(path, options);
}

/// With what a pool of that engine has to be opened.
LabOptions completed(LabOptions options) {
  if (options.engine == EngineKind::kSoftwrap) options.placement = Placement::kPrivatePages;
  return options;
}

Result<void> check_region(const Region& region, EngineKind engine) {
  if (is_softwrap(engine))
    return refuse_address_space(
        region,
        "the softwrap engines keep committed words where a program that uses an address space "
        "without transactions would not find them; use another engine");
  if (engine == EngineKind::kUndoObjects)
    return refuse_address_space(
        region,
        "the engine undo-objects takes back whole lines, also what a program stored there without "
        "transactions, as it may in an address space; use another engine");
  return {};
}

}  // namespace

Result<LabPool> open(const std::string& path, const LabOptions& asked) {
  const LabOptions options = completed(asked);
  if (auto valid = check(path, options); !valid) return valid.error();
  auto region = open_pool_region(path, options);
  if (!region) return region.error();
  if (auto fit = check_region(*region.value(), options.engine); !fit) return fit.error();
  auto storage = PoolStorage::of(*region.value(), options);
  const auto counters = options.count ? std::make_shared<DomainCounters>() : nullptr;
  const EngineSource source{[&](EngineParts parts) {
                              parts.tuning = tuning_of(options);
                              return with_engine(options.engine, [&]<class E>(E) {
                                return make_engine<E>(
                                    {options, parts, storage.get(), counters.get()});
                              });
                            },
                            &blurred::kXilFormat};
  // What the engine's domain refers to: the counters, too.
  struct Kept {
    std::shared_ptr<DomainCounters> counters;
    std::shared_ptr<PoolStorage> storage;
  };
  const auto kept = std::make_shared<Kept>(Kept{counters, storage});
  auto pool = adopt_region(std::move(region).value(), source, options.lock_bits, kept);
  if (!pool) return pool.error();
  if (options.truncation != Truncation::kAuto) pool->set_truncation(options.truncation);
  return LabPool(std::move(pool).value(), counters);
}

Result<LabPool> create(const std::string& path, const LabOptions& asked) {
  const LabOptions options = completed(asked);
  if (auto valid = check(path, options); !valid) return valid.error();
  if (auto created = create_pool_file(path, options); !created) return created.error();
  return open(path, options);
}

Result<LabPool> inspect(const std::string& path) {
  auto region = Region::open_file(path, DomainKind::kAuto, Region::Access::kInspect);
  if (!region) return region.error();
  const EngineSource source{
      [](const EngineParts& parts) { return std::make_unique<Redo<Dram>>(parts, Dram{}); },
      &blurred::kXilFormat};
  auto pool = adopt_region(std::move(region).value(), source, 16, nullptr);
  if (!pool) return pool.error();
  return LabPool(std::move(pool).value(), nullptr);
}

Result<RecoveryReport> recover(const std::string& path) {
  auto pool = open(path, {});
  if (!pool) return pool.error();
  return pool->recovery();
}

Result<LabPool> open_or_create(const std::string& path, const LabOptions& options) {
  auto opened = open(path, options);
  if (opened || opened.error().code != Code::kNotFound) return opened;
  auto created = create(path, options);
  // Another process may have created it in between: then its pool is the one to open.
  if (!created && created.error().code == Code::kExists) return open(path, options);
  return created;
}

}  // namespace perdure::papers
