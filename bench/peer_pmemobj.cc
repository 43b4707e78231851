// SPDX-License-Identifier: BSD-3-Clause
// The peer libpmemobj: the store of pmemobj_map.h, with structures of each thread's own. Where it has
// no mode that fits the domain (eadr, dram), there is no peer.
#include "bench/chained_hash.h"
#include "bench/pmemobj_map.h"
#include "bench/workload.h"
#include "perdure/container/rb_map.h"

namespace perdure::bench {
namespace {

struct Root {
  struct Lane {
    PMEMoid words;
    PMEMoid slots;
    PmemobjMap map8;
    PmemobjMap map64;
    rb_map<std::uint64_t, std::uint64_t> tree;  // the same code as ours, as the next
    PMEMoid buckets;
    ChainedHash chains;
  } lanes[64];
};

/// Room for the arrays and the entries, with their headers and size classes, of all threads.
std::uint64_t pool_bytes(const SystemOptions& options) {
  if (options.threads > std::size(Root{}.lanes))
    throw Exception(Code::kInvalid, "libpmemobj: at most 64 threads");
  return options.threads *
         (options.array_words * kWordBytes + options.slots * (sizeof(PMEMoid) + 256) +
          options.hash_entries * 896 + (std::uint64_t{8} << 20));
}

class PmemobjStore {
 public:
  explicit PmemobjStore(const SystemOptions& options)
      : file_(options.dir, "pmemobj"),
        pool_(file_.path(), pool_bytes(options)),
        root_(pool_.root<Root>()) {
    for (unsigned thread = 0; thread < options.threads; ++thread) {
      Root::Lane& lane = root_->lanes[thread];
      pool_.make_array(lane.words, options.array_words * kWordBytes);
      pool_.make_array(lane.slots, options.slots * sizeof(PMEMoid));
      for (PmemobjMap* map : {&lane.map8, &lane.map64}) map->make(pool_, options.hash_entries);
      pool_.make_array(lane.buckets, ChainedHash::array_bytes(options.hash_entries));
      pool_.atomically([&](PmemobjTx& tx) {
        lane.chains.make(tx, pmemobj_at<void>(lane.buckets), options.hash_entries);
      });
      words_.push_back(pmemobj_at<std::uint64_t>(lane.words));
    }
  }

  std::uint64_t* words(unsigned thread) { return words_[thread]; }

  template <class Body>
  void atomically(const Body& body) {
    pool_.atomically(body);
  }

  void allocate(unsigned thread, std::uint64_t slot, const Value64& value) {
    PMEMoid& place = slot_of(thread, slot);
    pool_.atomically([&](PmemobjTx&) {
      const PMEMoid object = ::pmemobj_tx_alloc(sizeof(Value64), 0);
      *pmemobj_at<Value64>(object) = value;  // written back by the commit: the object is new
      PmemobjTx::add(place) = object;
    });
  }
  void release(unsigned thread, std::uint64_t slot) {
    PMEMoid& place = slot_of(thread, slot);
    pool_.atomically([&](PmemobjTx&) {
      ::pmemobj_tx_free(place);
      PmemobjTx::add(place) = OID_NULL;
    });
  }

  template <class V>
  void put(unsigned thread, std::uint64_t key, const V& value) {
    pool_.atomically([&](PmemobjTx&) { map_of<V>(thread).put(key, value); });
  }
  template <class V>
  void erase(unsigned thread, std::uint64_t key) {
    pool_.atomically([&](PmemobjTx&) { map_of<V>(thread).template erase<V>(key); });
  }
  std::uint64_t get(unsigned thread, std::uint64_t key) {
    return map_of<Value64>(thread).get<Value64>(key)->words[0];
  }

  void put_in_tree(unsigned thread, std::uint64_t key, std::uint64_t value) {
    pool_.atomically([&](PmemobjTx& tx) { root_->lanes[thread].tree.put(tx, key, value); });
  }
  void erase_in_tree(unsigned thread, std::uint64_t key) {
    pool_.atomically([&](PmemobjTx& tx) { root_->lanes[thread].tree.erase(tx, key); });
  }

  void put_in_chains(unsigned thread, std::uint64_t key, std::uint64_t value) {
    pool_.atomically([&](PmemobjTx& tx) { root_->lanes[thread].chains.insert(tx, key, value); });
  }
  void erase_in_chains(unsigned thread, std::uint64_t key) {
    pool_.atomically([&](PmemobjTx& tx) { root_->lanes[thread].chains.erase(tx, key); });
  }
  std::uint64_t get_in_chains(unsigned thread, std::uint64_t key) {
    PmemobjTx tx = pool_.reading();
    return root_->lanes[thread].chains.get(tx, key);
  }

  static std::optional<DomainCounts> counts() { return std::nullopt; }

 private:
  PMEMoid& slot_of(unsigned thread, std::uint64_t slot) {
    return pmemobj_at<PMEMoid>(root_->lanes[thread].slots)[slot];
  }
  template <class V>
  PmemobjMap& map_of(unsigned thread) {
    Root::Lane& lane = root_->lanes[thread];
    return std::is_same_v<V, Value64> ? lane.map64 : lane.map8;
  }

  ScratchFile file_;
  PmemobjPool pool_;
  Root* root_;
  std::vector<std::uint64_t*> words_;
};

std::unique_ptr<System> make_pmemobj(const SystemOptions& options) {
  if (!choose_pmemobj_mode(options.domain)) return nullptr;
  return std::make_unique<Workload<PmemobjStore>>(options);
}

const RegisterPeer kRegistered({"libpmemobj", make_pmemobj});

}  // namespace
}  // namespace perdure::bench
