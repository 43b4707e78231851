// SPDX-License-Identifier: BSD-3-Clause
#include "papers/blurred/evaluation/paper_jobs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

#include "bench/system.h"
#include "bench/workload.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "papers/pool.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"

namespace perdure::bench::reproduce {
namespace {

papers::LabOptions pool_options(const JobOptions& options) {
  papers::LabOptions pool = new_pool_options(options.memory);
  pool.engine = options.engine;
  pool.truncation = options.truncation;
  if (options.in_place) pool.in_place_bytes = kInPlaceBytes;
  pool.ring_bytes = options.ring_bytes;
  pool.log_slots = options.threads + 1;  // and the thread that sets everything up
  return pool;
}

constexpr std::uint64_t kTextKeyBytes = 16;

[[noreturn]] void refuse_figures(const std::string& what) {
  throw Exception(Code::kCorrupt, "reproduce: " + what +
                                      " is not what was put there; its figures would mean nothing");
}

/// What every job counts, and how it idles.
struct alignas(kLineBytes) Count {
  std::uint64_t attempts = 0;
  std::uint64_t transactions = 0;
};

class Base : public Job {
 public:
  Base(const JobOptions& options, std::uint64_t operations)
      : options_(options),
        operations_(options.operations == 0 ? operations : options.operations),
        file_(options.dir, "job"),
        pool_(papers::create(file_.path(), pool_options(options)).value()),
        counts_(options.threads) {}

  void run(std::uint64_t transactions, unsigned thread) final {
    const double idle_per_busy = options_.idle_part / (1 - options_.idle_part);
    for (; transactions > 0; --transactions) {
      const std::uint64_t start = TscClock::now();
      transact(thread);
      ++counts_[thread].transactions;
      if (idle_per_busy == 0) continue;
      const std::uint64_t end = TscClock::now();
      TscClock::spin_until(
          end + static_cast<std::uint64_t>(static_cast<double>(end - start) * idle_per_busy));
    }
  }
  double abort_part() const final {
    Count all;
    for (const Count& count : counts_) {
      all.attempts += count.attempts;
      all.transactions += count.transactions;
    }
    return all.attempts == 0
               ? 0
               : 1 - static_cast<double>(all.transactions) / static_cast<double>(all.attempts);
  }
  double recovery_us() final {
    ScratchFile copy(options_.dir, "copy");
    std::filesystem::copy_file(file_.path(), copy.path(),
                               std::filesystem::copy_options::overwrite_existing);
    papers::LabOptions again = pool_options(options_);
    return static_cast<double>(papers::open(copy.path(), again).value().recovery().nanoseconds) /
           1e3;
  }

 protected:
  virtual void transact(unsigned thread) = 0;
  template <class Body>
  void atomically(unsigned thread, Body body) {
    pool_.atomically([&](Tx& tx) {
      ++counts_[thread].attempts;
      body(tx);
    });
  }

  const JobOptions options_;
  const std::uint64_t operations_;
  ScratchFile file_;
  Pool pool_;
  std::vector<Count> counts_;
};

/// Random swaps in an array of values, all of it or, for each thread, a part of its own.
class Swaps final : public Base {
 public:
  explicit Swaps(const JobOptions& options)
      : Base(options, 1),
        words_(options.value_bytes / kWordBytes),
        entries_(options.shared_keys ? options.live : options.live * options.threads) {
    auto* root = pool_.root<perdure::pptr<std::uint64_t>>("array");
    array_ = pool_.atomically([&](Tx& tx) {
      auto* array = static_cast<std::uint64_t*>(tx.allocate(entries_ * words_ * kWordBytes));
      tx.store(*root, tx.link_to(array));
      return array;
    });
    std::vector<std::uint64_t> value(words_);
    for (std::uint64_t i = 0; i < entries_; ++i) {
      value.assign(words_, i);
      pool_.atomically([&](Tx& tx) { tx.write(entry(i), value.data(), words_ * kWordBytes); });
    }
    for (unsigned thread = 0; thread < options.threads; ++thread)
      lanes_.push_back({Random(options.seed * 1000 + thread), std::vector<std::uint64_t>(words_),
                        std::vector<std::uint64_t>(words_)});
  }

  void verify() override {
    std::vector<bool> seen(entries_);
    for (std::uint64_t i = 0; i < entries_; ++i) {
      const std::uint64_t value = *entry(i);
      for (std::uint64_t word = 0; word < words_; ++word) {
        if (entry(i)[word] != value) refuse_figures("an entry of an array");
      }
      if (value >= entries_ || seen[value]) refuse_figures("an array of swapped entries");
      seen[value] = true;
    }
  }

 private:
  struct Lane {
    Random random;
    std::vector<std::uint64_t> one;
    std::vector<std::uint64_t> other;
  };
  std::uint64_t* entry(std::uint64_t i) const { return array_ + i * words_; }
  void transact(unsigned thread) override {
    Lane& lane = lanes_[thread];
    const Random before = lane.random;
    atomically(thread, [&](Tx& tx) {
      lane.random = before;  // an attempt that is repeated does the same again
      for (std::uint64_t i = 0; i < operations_; ++i) {
        std::uint64_t* const a = pick(lane, thread);
        std::uint64_t* const b = pick(lane, thread);
        const std::uint64_t bytes = words_ * kWordBytes;
        tx.read(lane.one.data(), a, bytes);
        tx.read(lane.other.data(), b, bytes);
        tx.write(a, lane.other.data(), bytes);
        tx.write(b, lane.one.data(), bytes);
      }
    });
  }
  std::uint64_t* pick(Lane& lane, unsigned thread) const {
    const std::uint64_t first = options_.shared_keys ? 0 : options_.live * thread;
    return entry(first + lane.random.below(options_.live));
  }

  std::uint64_t words_;  // of an entry
  std::uint64_t entries_;
  std::uint64_t* array_ = nullptr;
  std::vector<Lane> lanes_;
};

/// How each map spells its keys and values.
struct Number {
  using Type = std::uint64_t;
  static Type of(std::uint64_t key, std::uint64_t) { return key; }
};
/// A key that is ordered, of the same size as the store's texts.
struct ShortText {
  using Type = std::array<char, kTextKeyBytes>;
  static Type of(std::uint64_t key, std::uint64_t) {
    Type text{};
    std::memcpy(text.data(), &key, sizeof(key));
    return text;
  }
};
struct Text {
  using Type = bytes;
  /// Begins and ends with the key, so that a torn value or another key's would show.
  static std::string of(std::uint64_t key, std::uint64_t size) {
    std::string text(size, '\0');
    std::memcpy(text.data(), &key, sizeof(key));
    std::memcpy(text.data() + size - sizeof(key), &key, sizeof(key));
    return text;
  }
};
template <class Key, class Value, template <class...> class Map>
struct Kind {
  using KeyOf = Key;
  using ValueOf = Value;
  using MapOf = Map<typename Key::Type, typename Value::Type>;
};
/// Nodes of 4 KiB, as in the paper; with texts as keys some 150 entries, and Tokyo Cabinet's hold 128.
template <class K, class V>
using WideTree = btree_map<K, V, 4096>;

/// A map that all threads share.
template <class Kind>
class MapJob : public Base {
 protected:
  MapJob(const JobOptions& options, std::uint64_t operations)
      : Base(options, operations), map_(pool_.root<typename Kind::MapOf>("map")) {}

  static auto key_of(std::uint64_t key) { return Kind::KeyOf::of(key, kTextKeyBytes); }
  auto value_of(std::uint64_t key) const { return Kind::ValueOf::of(key, options_.value_bytes); }
  void put(Tx& tx, std::uint64_t key) { map_->put(tx, key_of(key), value_of(key)); }
  /// Whether the key is there. Errors: throws where its value is another's.
  bool holds(std::uint64_t key) {
    const auto value = pool_.read_only([&](Tx& tx) { return map_->get(tx, key_of(key)); });
    if (value && !(*value == value_of(key))) refuse_value(key);
    return value.has_value();
  }
  [[noreturn]] static void refuse_value(std::uint64_t key) {
    refuse_figures("key " + std::to_string(key) + " of a map");
  }

  typename Kind::MapOf* map_;
};

/// Inserts and deletes, each thread with keys of its own.
template <class Kind>
class Churn final : public MapJob<Kind> {
  using Job = MapJob<Kind>;
  using Job::atomically, Job::holds, Job::key_of, Job::map_, Job::operations_, Job::options_,
      Job::pool_, Job::put, Job::refuse_value;

 public:
  Churn(const JobOptions& options, std::uint64_t operations)
      : Job(options, operations),
        look_ups_(static_cast<std::uint64_t>(options.look_up_part * kParts + 0.5)) {
    for (unsigned thread = 0; thread < options.threads; ++thread) {
      Lane& lane = lanes_.emplace_back(options, thread);
      for (std::uint64_t i = 0; i < options.live; ++i)
        pool_.atomically([&](Tx& tx) { put(tx, lane.first_key + lane.churn.keys()[i]); });
    }
  }

  void verify() override {
    for (Lane& lane : lanes_) {
      const std::vector<std::uint64_t>& keys = lane.churn.keys();
      const std::uint64_t step = std::max<std::uint64_t>(1, keys.size() / 500);
      for (std::uint64_t i = 0; i < keys.size(); i += step) {
        const std::uint64_t key = lane.first_key + keys[i];
        if (holds(key) != (i < lane.churn.live())) refuse_value(key);
      }
    }
  }

 private:
  struct Lane {
    Lane(const JobOptions& options, unsigned thread)
        : churn(options.live),
          random(options.seed * 1000 + thread),
          first_key(std::uint64_t{thread} << 32) {}
    KeyChurn churn;
    Random random;
    std::uint64_t first_key;
    struct Update {
      bool inserts;
      std::uint64_t key;
    };
    std::vector<Update> updates;  // of one transaction, drawn before it: it may be repeated
  };
  void look_up(Lane& lane) {
    const std::uint64_t key =
        lane.first_key + lane.churn.keys()[lane.random.below(lane.churn.live())];
    const bool found =
        pool_.read_only([&](Tx& tx) { return map_->get(tx, key_of(key)).has_value(); });
    if (!found) refuse_value(key);
  }
  void transact(unsigned thread) override {
    Lane& lane = lanes_[thread];
    if (lane.random.below(kParts) < look_ups_) return look_up(lane);
    lane.updates.clear();
    for (std::uint64_t i = 0; i < operations_; ++i) {
      const bool inserts = lane.churn.insert_is_next();
      const std::uint64_t key =
          inserts ? lane.churn.insert(lane.random) : lane.churn.erase(lane.random);
      lane.updates.push_back({inserts, lane.first_key + key});
    }
    atomically(thread, [&](Tx& tx) {
      for (const auto& update : lane.updates) {
        if (update.inserts) {
          put(tx, update.key);
        } else {
          map_->erase(tx, key_of(update.key));
        }
      }
    });
  }

  static constexpr std::uint64_t kParts = 1000;
  const std::uint64_t look_ups_;  // of kParts transactions
  std::vector<Lane> lanes_;
};

/// The same of keys that all threads share.
template <class Kind>
class SharedChurn final : public MapJob<Kind> {
  using Job = MapJob<Kind>;
  using Job::atomically, Job::holds, Job::key_of, Job::map_, Job::operations_, Job::options_,
      Job::pool_, Job::put;

 public:
  SharedChurn(const JobOptions& options, std::uint64_t operations) : Job(options, operations) {
    for (std::uint64_t key = 0; key < keys(); key += 2)
      pool_.atomically([&](Tx& tx) { put(tx, key); });
    for (unsigned thread = 0; thread < options.threads; ++thread)
      lanes_.push_back({Random(options.seed * 1000 + thread), {}});
  }

  void verify() override {
    std::int64_t expected = static_cast<std::int64_t>(options_.live);
    for (const Lane& lane : lanes_) expected += lane.inserted;
    std::int64_t found = 0;
    for (std::uint64_t key = 0; key < keys(); ++key) found += holds(key) ? 1 : 0;
    if (found != expected)
      refuse_figures("a map of " + std::to_string(found) + " keys, not " +
                     std::to_string(expected) + ",");
  }

 private:
  struct alignas(kLineBytes) Lane {
    Random random;
    std::vector<std::uint64_t> drawn;  // for one transaction: it may be repeated
    std::int64_t inserted = 0;         // less those that it has deleted
  };
  std::uint64_t keys() const { return 2 * options_.live; }
  void transact(unsigned thread) override {
    Lane& lane = lanes_[thread];
    lane.drawn.clear();
    for (std::uint64_t i = 0; i < operations_; ++i) lane.drawn.push_back(lane.random.below(keys()));
    std::int64_t inserted = 0;
    atomically(thread, [&](Tx& tx) {
      inserted = 0;
      for (const std::uint64_t key : lane.drawn) {
        if (map_->erase(tx, key_of(key))) {
          --inserted;
        } else {
          put(tx, key);
          ++inserted;
        }
      }
    });
    lane.inserted += inserted;
  }

  std::vector<Lane> lanes_;
};

template <class Kind>
std::unique_ptr<Job> make_map_job(const JobOptions& options, std::uint64_t operations) {
  if (options.shared_keys) return std::make_unique<SharedChurn<Kind>>(options, operations);
  return std::make_unique<Churn<Kind>>(options, operations);
}

}  // namespace

std::unique_ptr<Job> make_job(Work work, const JobOptions& options) {
  switch (work) {
    case Work::kSps: return std::make_unique<Swaps>(options);
    case Work::kHash: return make_map_job<Kind<Number, Text, hash_map>>(options, 1);
    case Work::kRbTree: return make_map_job<Kind<Number, Number, rb_map>>(options, 1);
    case Work::kBTree: return make_map_job<Kind<Number, Number, WideTree>>(options, 4);
    case Work::kStore: return make_map_job<Kind<ShortText, Text, WideTree>>(options, 1);
  }
  return nullptr;
}

}  // namespace perdure::bench::reproduce
