// SPDX-License-Identifier: BSD-3-Clause
#include "bench/comparison/kinds.h"

#include <map>

namespace perdure::bench::comparison {
namespace {

constexpr std::string_view kPowerCut = "a power cut";
constexpr std::string_view kIfMemoryPersists =
    "a power cut, if tmpfs were persistent memory; here the end of the process";
constexpr std::string_view kProcess = "the end of the process";
constexpr std::string_view kNothingToSync =
    "the end of the process: its syncs are made, but tmpfs has nothing to do for them";

/// Terms of a store that syncs a file: on tmpfs the same system calls, which then cost little and
/// give little.
constexpr StoreKind syncing(std::string_view name, std::string_view title, std::string_view package,
                            bool ordered, std::string_view setting) {
  return {name,
          title,
          package,
          ordered,
          Terms{setting, kNothingToSync, false},
          Terms{setting, kPowerCut, false}};
}

constexpr StoreKind not_atomic(std::string_view name, std::string_view title, bool ordered,
                               std::string_view setting) {
  constexpr std::string_view kPackage = "libtokyocabinet-dev";
  return {
      name,
      title,
      kPackage,
      ordered,
      Terms{setting, "the end of the process between updates: no transaction", true},
      Terms{setting, "a power cut between updates; during one it may leave a broken file", true}};
}

constexpr std::string_view kPmemobj = "libpmemobj-dev";
constexpr std::string_view kBerkeley = "libdb5.3-dev";
constexpr std::string_view kBerkeleySetting =
    "a transaction each, DB_TXN_SYNC; private environment, a cache for all pages; pages of 4 KiB, "
    "for several threads of eight values";

constexpr StoreKind kKinds[] = {
    {"hash_map-dram", "perdure hash_map, dram", "", false,
     Terms{"a transaction each; nothing written back", kProcess}, std::nullopt},
    {"btree_map-dram", "perdure btree_map, dram", "", true,
     Terms{"as the hash_map; values of more than 64 bytes are objects of their own", kProcess},
     std::nullopt},
    {"hash_map-adr", "perdure hash_map, adr", "", false,
     Terms{
         "a transaction each: lines written back, one fence, two for a new object of 256 bytes or "
         "more",
         kIfMemoryPersists},
     std::nullopt},
    {"btree_map-adr", "perdure btree_map, adr", "", true,
     Terms{"as the hash_map; values of more than 64 bytes are objects of their own",
           kIfMemoryPersists},
     std::nullopt},
    {"hash_map-sync", "perdure hash_map, sync", "", false, std::nullopt,
     Terms{"a transaction each; commits that meet share a synced write", kPowerCut}},
    {"btree_map-sync", "perdure btree_map, sync", "", true, std::nullopt,
     Terms{"as the hash_map; values of more than 64 bytes are objects of their own", kPowerCut}},
    {"pmemobj-hash", "libpmemobj hash map", kPmemobj, false,
     Terms{"a transaction each, PMEM_IS_PMEM_FORCE=1: lines written back, fences; a map for each "
           "thread, without locks",
           kIfMemoryPersists},
     Terms{"a transaction each, defaults: msync; a map for each thread, without locks", kPowerCut}},
    syncing("bdb-hash", "Berkeley DB hash", kBerkeley, false, kBerkeleySetting),
    syncing("bdb-btree", "Berkeley DB B-tree", kBerkeley, true, kBerkeleySetting),
    syncing("lmdb", "LMDB", "liblmdb-dev", true,
            "a write transaction each, default durability: the pages synced, then the meta page"),
    syncing("rocksdb", "RocksDB", "librocksdb-dev", true,
            "a WriteBatch each, WriteOptions.sync; no compression, else defaults"),
    syncing("leveldb", "LevelDB", "libleveldb-dev", true,
            "a WriteBatch each, WriteOptions.sync; no compression, else defaults"),
    syncing(
        "sqlite", "SQLite", "libsqlite3-dev", true,
        "a transaction each, journal_mode=WAL, synchronous=FULL, else defaults; a connection for "
        "each thread, writers take turns at a mutex"),
    syncing("tokyo-tree-txn", "Tokyo Cabinet B+ tree, transactions", "libtokyocabinet-dev", true,
            "tcbdbtranbegin, tcbdbtrancommit, BDBOTSYNC; writers take turns at a mutex"),
    not_atomic("tokyo-tree", "Tokyo Cabinet B+ tree, synced", true, "tcbdbsync after each update"),
    not_atomic("tokyo-hash", "Tokyo Cabinet hash, synced", false, "tchdbsync after each update"),
};

std::map<std::string_view, MakeStore>& makers() {
  static std::map<std::string_view, MakeStore> registered;
  return registered;
}

}  // namespace

std::span<const StoreKind> store_kinds() { return kKinds; }

MakeStore maker_of(const StoreKind& kind) {
  const auto found = makers().find(kind.name);
  return found == makers().end() ? nullptr : found->second;
}

RegisterStore::RegisterStore(std::string_view name, MakeStore make) { makers()[name] = make; }

}  // namespace perdure::bench::comparison
