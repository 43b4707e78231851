// SPDX-License-Identifier: BSD-3-Clause
#include "papers/blurred/evaluation/paper_jobs.h"

#include <algorithm>
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
  pool.ring_bytes = options.log_bytes;
  pool.log_slots = options.threads + 1;  // and the thread that sets everything up
  return pool;
}

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

/// Random swaps in an array of values, each thread in a part of its own.
class Swaps final : public Base {
 public:
  explicit Swaps(const JobOptions& options)
      : Base(options, 1),
        words_(options.value_bytes / kWordBytes),
        entries_(options.live * options.threads) {
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
    return entry(options_.live * thread + lane.random.below(options_.live));
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
/// Nodes of 4 KiB, as in the paper.
template <class K, class V>
using WideTree = btree_map<K, V, 4096>;

constexpr std::uint64_t kTextKeyBytes = 16;

/// Inserts and deletes in a map that all threads share.
template <class Kind>
class Churn final : public Base {
 public:
  Churn(const JobOptions& options, std::uint64_t operations)
      : Base(options, operations),
        look_ups_(static_cast<std::uint64_t>(options.look_up_part * kParts + 0.5)),
        map_(pool_.root<typename Kind::MapOf>("map")) {
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
        const bool right = pool_.read_only([&](Tx& tx) {
          const auto value = map_->get(tx, key_of(key));
          return i < lane.churn.live() ? value && *value == value_of(key) : !value;
        });
        if (!right) refuse_figures("key " + std::to_string(key) + " of a map");
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
  static auto key_of(std::uint64_t key) { return Kind::KeyOf::of(key, kTextKeyBytes); }
  auto value_of(std::uint64_t key) const { return Kind::ValueOf::of(key, options_.value_bytes); }
  void put(Tx& tx, std::uint64_t key) { map_->put(tx, key_of(key), value_of(key)); }
  void look_up(Lane& lane) {
    const std::uint64_t key =
        lane.first_key + lane.churn.keys()[lane.random.below(lane.churn.live())];
    const bool found =
        pool_.read_only([&](Tx& tx) { return map_->get(tx, key_of(key)).has_value(); });
    if (!found) refuse_figures("key " + std::to_string(key) + " of a map");
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
  typename Kind::MapOf* map_;
  std::vector<Lane> lanes_;
};

}  // namespace

std::unique_ptr<Job> make_job(Work work, const JobOptions& options) {
  switch (work) {
    case Work::kSps: return std::make_unique<Swaps>(options);
    case Work::kHash: return std::make_unique<Churn<Kind<Number, Text, hash_map>>>(options, 1);
    case Work::kRbTree: return std::make_unique<Churn<Kind<Number, Number, rb_map>>>(options, 1);
    case Work::kBTree: return std::make_unique<Churn<Kind<Number, Number, WideTree>>>(options, 4);
    case Work::kStore: return std::make_unique<Churn<Kind<Text, Text, hash_map>>>(options, 1);
  }
  return nullptr;
}

}  // namespace perdure::bench::reproduce
