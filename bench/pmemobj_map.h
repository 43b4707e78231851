// SPDX-License-Identifier: BSD-3-Clause
// libpmemobj as the benchmarks use it: a pool, its undo-log transactions as its own examples use
// them, and the hash map of PMDK's hashmap_tx example (chained buckets, a count, TX_ADD before each
// change, allocation inside the transaction).
#pragma once

#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <type_traits>

#include <libpmemobj.h>

#include "perdure/domain/domain.h"
#include "perdure/error.h"
#include "perdure/tx.h"

namespace perdure::bench {

/// Says how libpmemobj makes stores durable: on adr with PMEM_IS_PMEM_FORCE=1, so that a file on
/// tmpfs is written back with clwb as ours is; on sync with its defaults (msync). False for others:
/// it has no mode without write-back that could be chosen this late.
/// Requires: the same domain in all calls of a process; the library looks once.
inline bool choose_pmemobj_mode(DomainKind domain) {
  if (domain == DomainKind::kAdr) return ::setenv("PMEM_IS_PMEM_FORCE", "1", 1) == 0;
  if (domain == DomainKind::kSync) return ::unsetenv("PMEM_IS_PMEM_FORCE") == 0;
  return false;
}

template <class T>
T* pmemobj_at(PMEMoid object) {
  return static_cast<T*>(::pmemobj_direct(object));
}

/// Inside a transaction. Containers of ours run on it, too: then each changed field is snapshotted, as TX_SET does it.
class PmemobjTx {
 public:
  explicit PmemobjTx(PMEMobjpool* pool) : base_(reinterpret_cast<std::byte*>(pool)) {}

  template <Field T>
  static T load(const T& field) {
    return field;
  }
  template <Field T>
  static void store(T& field, std::type_identity_t<T> value) {
    add(field) = value;
  }
  static void read(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }
  static void write(void* to, const void* from, std::size_t bytes) {
    ::pmemobj_tx_add_range_direct(to, bytes);
    std::memcpy(to, from, bytes);
  }
  template <class T>
  T* at(pptr<T> to) const {
    return reinterpret_cast<T*>(base_ + to.offset);
  }
  template <class T>
  pptr<T> link_to(const T* object) const {
    if (object == nullptr) return {};
    return {static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(object) - base_)};
  }
  static void* allocate(std::size_t bytes) {
    return pmemobj_at<void>(::pmemobj_tx_alloc(bytes, 0));
  }
  static void free(void* object) { ::pmemobj_tx_free(::pmemobj_oid(object)); }

  template <class T>
  static T& add(T& object) {
    ::pmemobj_tx_add_range_direct(&object, sizeof(object));
    return object;
  }

 private:
  std::byte* base_;  // what offsets count from
};
static_assert(Transaction<PmemobjTx>);

/// Errors: throws Exception kIo, as all of it.
class PmemobjPool {
 public:
  /// Opens the file, or creates it with room for `bytes`.
  PmemobjPool(const std::string& path, std::uint64_t bytes) {
    constexpr const char* kLayout = "perdure-bench";
    pool_ = ::access(path.c_str(), F_OK) == 0
                ? ::pmemobj_open(path.c_str(), kLayout)
                : ::pmemobj_create(path.c_str(), kLayout, bytes + PMEMOBJ_MIN_POOL, 0600);
    if (pool_ == nullptr) fail("open " + path);
  }
  ~PmemobjPool() { ::pmemobj_close(pool_); }
  PmemobjPool(const PmemobjPool&) = delete;
  PmemobjPool& operator=(const PmemobjPool&) = delete;

  template <class Root>
  Root* root() {
    return pmemobj_at<Root>(::pmemobj_root(pool_, sizeof(Root)));
  }
  void make_array(PMEMoid& array, std::uint64_t bytes) {
    if (::pmemobj_zalloc(pool_, &array, bytes, 0) != 0)
      fail("allocate " + std::to_string(bytes) + " bytes");
  }
  template <class T>
  void persist(T& object, const T& value) {
    object = value;
    ::pmemobj_persist(pool_, &object, sizeof(object));
  }

  /// To read with outside of transactions, as programs on this library do: nothing isolates it.
  PmemobjTx reading() const { return PmemobjTx(pool_); }
  template <class Body>
  void atomically(const Body& body) {
    volatile bool aborted = false;
    TX_BEGIN(pool_) {
      PmemobjTx tx(pool_);
      body(tx);
    }
    TX_ONABORT { aborted = true; }
    TX_END
    if (aborted) fail("transaction");
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw Exception(Code::kIo, "libpmemobj: " + what + ": " + ::pmemobj_errormsg());
  }
  PMEMobjpool* pool_ = nullptr;
};

/// In a pool; all-zero bytes until made. Values of type V are the caller's to tell.
/// Threads: none; no isolation.
class PmemobjMap {
 public:
  /// With 2^n buckets, at least as many as `entries`.
  void make(PmemobjPool& pool, std::uint64_t entries) {
    const std::uint64_t count = std::bit_ceil(entries);
    pool.persist(mask_, count - 1);
    pool.make_array(buckets_, count * sizeof(PMEMoid));
  }
  bool made() const { return !OID_IS_NULL(buckets_); }

  /// Requires, as erase(): inside a transaction.
  template <class V>
  void put(std::uint64_t key, const V& value) {
    PMEMoid& link = find<V>(key);
    if (!OID_IS_NULL(link)) {
      PmemobjTx::add(pmemobj_at<Entry<V>>(link)->value) = value;
      return;
    }
    const PMEMoid object = ::pmemobj_tx_alloc(sizeof(Entry<V>), 0);
    *pmemobj_at<Entry<V>>(object) = {OID_NULL, key, value};
    PmemobjTx::add(link) = object;
    ++PmemobjTx::add(count_);
  }
  template <class V>
  void erase(std::uint64_t key) {
    PMEMoid& link = find<V>(key);
    const PMEMoid object = link;
    if (OID_IS_NULL(object)) return;
    PmemobjTx::add(link) = pmemobj_at<Entry<V>>(object)->next;
    --PmemobjTx::add(count_);
    ::pmemobj_tx_free(object);
  }
  /// Null when there is none.
  template <class V>
  const V* get(std::uint64_t key) {
    const PMEMoid object = find<V>(key);
    return OID_IS_NULL(object) ? nullptr : &pmemobj_at<Entry<V>>(object)->value;
  }

 private:
  template <class V>
  struct Entry {
    PMEMoid next;
    std::uint64_t key;
    V value;
  };

  /// The link that names the entry of `key`, or the null link at the end of its chain.
  template <class V>
  PMEMoid& find(std::uint64_t key) {
    PMEMoid* link = &pmemobj_at<PMEMoid>(buckets_)[(key * 0x9e3779b97f4a7c15u >> 32) & mask_];
    while (!OID_IS_NULL(*link) && pmemobj_at<Entry<V>>(*link)->key != key)
      link = &pmemobj_at<Entry<V>>(*link)->next;
    return *link;
  }

  PMEMoid buckets_;  // PMEMoid[mask_ + 1]
  std::uint64_t mask_;
  std::uint64_t count_;
};

}  // namespace perdure::bench
