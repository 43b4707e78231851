// The peer libpmemobj: its undo-log transactions, used as its own examples use them. The hash map
// does what PMDK's hashmap_tx example does (chained buckets, a count, TX_ADD before each change,
// allocation inside the transaction).
//
// On adr it runs with PMEM_IS_PMEM_FORCE=1, so that a file on tmpfs is written back with clwb as
// ours is; on sync with its defaults (msync). It has no mode without write-back that could be
// chosen this late, so eadr and dram have no peer.
#include <cstdlib>
#include <cstring>

#include <libpmemobj.h>

#include "bench/workload.h"

namespace perdure::bench {
namespace {

struct Map {
  PMEMoid buckets;  // PMEMoid[mask + 1]
  std::uint64_t mask;
  std::uint64_t count;
};
template <class V>
struct Entry {
  PMEMoid next;
  std::uint64_t key;
  V value;
};
struct Root {
  struct Lane {
    PMEMoid words;
    PMEMoid slots;
    Map map8;
    Map map64;
  } lanes[64];
};

[[noreturn]] void fail(const std::string& what) {
  throw Exception(Code::kIo, "libpmemobj: " + what + ": " + ::pmemobj_errormsg());
}

class PmemobjTx {
 public:
  static std::uint64_t load(const std::uint64_t& word) { return word; }
  static void store(std::uint64_t& word, std::uint64_t value) { add(word) = value; }
  template <class T>
  static T& add(T& object) {
    ::pmemobj_tx_add_range_direct(&object, sizeof(object));
    return object;
  }
};

template <class T>
T* at(PMEMoid object) {
  return static_cast<T*>(::pmemobj_direct(object));
}

class PmemobjStore {
 public:
  explicit PmemobjStore(const SystemOptions& options) : file_(options.dir, "pmemobj") {
    if (options.threads > std::size(Root{}.lanes))
      throw Exception(Code::kInvalid, "libpmemobj: at most 64 threads");
    const std::uint64_t lane_bytes = options.array_words * kWordBytes +
                                     options.slots * (sizeof(PMEMoid) + 256) +
                                     options.hash_entries * 512 + (std::uint64_t{8} << 20);
    pool_ = ::pmemobj_create(file_.path().c_str(), "perdure-bench",
                             options.threads * lane_bytes + PMEMOBJ_MIN_POOL, 0600);
    if (pool_ == nullptr) fail("create " + file_.path());
    root_ = at<Root>(::pmemobj_root(pool_, sizeof(Root)));
    for (unsigned thread = 0; thread < options.threads; ++thread) {
      Root::Lane& lane = root_->lanes[thread];
      make_array(lane.words, options.array_words * kWordBytes);
      make_array(lane.slots, options.slots * sizeof(PMEMoid));
      for (Map* map : {&lane.map8, &lane.map64}) {
        const std::uint64_t buckets = std::bit_ceil(options.hash_entries);
        make_array(map->buckets, buckets * sizeof(PMEMoid));
        map->mask = buckets - 1;
        ::pmemobj_persist(pool_, &map->mask, sizeof(map->mask));
      }
      words_.push_back(at<std::uint64_t>(lane.words));
    }
  }
  ~PmemobjStore() { ::pmemobj_close(pool_); }
  PmemobjStore(const PmemobjStore&) = delete;
  PmemobjStore& operator=(const PmemobjStore&) = delete;

  std::uint64_t* words(unsigned thread) { return words_[thread]; }

  template <class Body>
  void atomically(const Body& body) {
    volatile bool aborted = false;
    TX_BEGIN(pool_) {
      PmemobjTx tx;
      body(tx);
    }
    TX_ONABORT { aborted = true; }
    TX_END
    if (aborted) fail("transaction");
  }

  void allocate(unsigned thread, std::uint64_t slot, const Value64& value) {
    PMEMoid& place = at<PMEMoid>(root_->lanes[thread].slots)[slot];
    atomically([&](PmemobjTx&) {
      const PMEMoid object = ::pmemobj_tx_alloc(sizeof(Value64), 0);
      *at<Value64>(object) = value;  // written back by the commit: the object is new
      PmemobjTx::add(place) = object;
    });
  }
  void release(unsigned thread, std::uint64_t slot) {
    PMEMoid& place = at<PMEMoid>(root_->lanes[thread].slots)[slot];
    atomically([&](PmemobjTx&) {
      ::pmemobj_tx_free(place);
      PmemobjTx::add(place) = OID_NULL;
    });
  }

  template <class V>
  void put(unsigned thread, std::uint64_t key, const V& value) {
    Map& map = map_of<V>(thread);
    atomically([&](PmemobjTx&) {
      PMEMoid& link = find<V>(map, key);
      if (!OID_IS_NULL(link)) {
        PmemobjTx::add(at<Entry<V>>(link)->value) = value;
        return;
      }
      const PMEMoid object = ::pmemobj_tx_alloc(sizeof(Entry<V>), 0);
      *at<Entry<V>>(object) = {OID_NULL, key, value};
      PmemobjTx::add(link) = object;
      ++PmemobjTx::add(map.count);
    });
  }
  template <class V>
  void erase(unsigned thread, std::uint64_t key) {
    Map& map = map_of<V>(thread);
    atomically([&](PmemobjTx&) {
      PMEMoid& link = find<V>(map, key);
      const PMEMoid object = link;
      if (OID_IS_NULL(object)) return;
      PmemobjTx::add(link) = at<Entry<V>>(object)->next;
      --PmemobjTx::add(map.count);
      ::pmemobj_tx_free(object);
    });
  }
  std::uint64_t get(unsigned thread, std::uint64_t key) {
    return at<Entry<Value64>>(find<Value64>(map_of<Value64>(thread), key))->value.words[0];
  }

  static std::optional<DomainCounts> counts() { return std::nullopt; }

 private:
  void make_array(PMEMoid& array, std::uint64_t bytes) {
    if (::pmemobj_zalloc(pool_, &array, bytes, 0) != 0)
      fail("allocate " + std::to_string(bytes) + " bytes");
  }

  template <class V>
  Map& map_of(unsigned thread) {
    Root::Lane& lane = root_->lanes[thread];
    return std::is_same_v<V, Value64> ? lane.map64 : lane.map8;
  }

  /// The link that names the entry of `key`, or the null link at the end of its chain.
  template <class V>
  static PMEMoid& find(Map& map, std::uint64_t key) {
    PMEMoid* link = &at<PMEMoid>(map.buckets)[(key * 0x9e3779b97f4a7c15u >> 32) & map.mask];
    while (!OID_IS_NULL(*link) && at<Entry<V>>(*link)->key != key)
      link = &at<Entry<V>>(*link)->next;
    return *link;
  }

  ScratchFile file_;
  PMEMobjpool* pool_ = nullptr;
  Root* root_ = nullptr;
  std::vector<std::uint64_t*> words_;
};

std::unique_ptr<System> make_pmemobj(const SystemOptions& options) {
  if (options.domain == DomainKind::kAdr) {
    ::setenv("PMEM_IS_PMEM_FORCE", "1", 1);
  } else if (options.domain != DomainKind::kSync) {
    return nullptr;
  }
  return std::make_unique<Workload<PmemobjStore>>(options);
}

const RegisterPeer kRegistered({"libpmemobj", make_pmemobj});

}  // namespace
}  // namespace perdure::bench
