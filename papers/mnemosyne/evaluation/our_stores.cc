// SPDX-License-Identifier: BSD-3-Clause
#include <cstring>
#include <string>
#include <vector>

#include "bench/system.h"
#include "bench/workload.h"
#include "papers/mnemosyne/evaluation/stores.h"
#include "papers/pool.h"
#include "perdure/api/pool_core.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"

namespace perdure::bench::reproduce {
namespace {

class HashTable final : public UpdateStore {
 public:
  explicit HashTable(const StoreOptions& options)
      : file_(options.dir, "hash"),
        pool_(papers::create(file_.path(), options.pool).value()),
        map_(pool_.root<hash_map<std::uint64_t, bytes>>("table")) {}

  void put(std::uint64_t key, std::string_view value) override {
    pool_.atomically([&](Tx& tx) { map_->put(tx, key, value); });
  }
  void erase(std::uint64_t key) override {
    pool_.atomically([&](Tx& tx) { map_->erase(tx, key); });
  }
  std::string get(std::uint64_t key) override {
    return pool_.read_only([&](Tx& tx) { return map_->get(tx, key).value_or(std::string()); });
  }
  Region& region() { return core_of(pool_).region(); }

 private:
  ScratchFile file_;
  Pool pool_;
  hash_map<std::uint64_t, bytes>* map_;
};

template <std::size_t kValueBytes>
class Tree final : public UpdateStore {
 public:
  explicit Tree(const StoreOptions& options)
      : file_(options.dir, "tree"),
        pool_(papers::create(file_.path(), options.pool).value()),
        map_(pool_.root<Map>("tree")) {}

  void put(std::uint64_t key, std::string_view value) override {
    Value fixed;
    if (value.size() != kValueBytes)
      throw Exception(Code::kInvalid, "reproduce: a value of another size than the tree's");
    value.copy(fixed.data(), kValueBytes);
    pool_.atomically([&](Tx& tx) { map_->put(tx, key, fixed); });
  }
  void erase(std::uint64_t key) override {
    pool_.atomically([&](Tx& tx) { map_->erase(tx, key); });
  }
  std::string get(std::uint64_t key) override {
    const auto value = pool_.read_only([&](Tx& tx) { return map_->get(tx, key); });
    return value ? std::string(value->data(), kValueBytes) : std::string();
  }

 private:
  using Value = std::array<char, kValueBytes>;
  using Map = btree_map<std::uint64_t, Value>;
  ScratchFile file_;
  Pool pool_;
  Map* map_;
};

/// The heap of a region as it was, and what has changed since.
class HeapDifference {
 public:
  explicit HeapDifference(Region& region) : region_(region) { renew(); }
  void renew() {
    const std::uint64_t bytes = region_.grown_bytes() - begin();
    was_.resize(bytes / kWordBytes);
    std::memcpy(was_.data(), region_.base() + begin(), bytes);
  }
  /// Counts, and begins again. What the heap has grown by held zeros.
  Touched take() {
    was_.resize((region_.grown_bytes() - begin()) / kWordBytes);
    const auto* const is = reinterpret_cast<const Word*>(region_.base() + begin());
    Touched touched;
    for (std::size_t at = 0; at < was_.size(); at += kLineBytes / kWordBytes) {
      if (std::memcmp(&was_[at], is + at, kLineBytes) == 0) continue;
      ++touched.lines;
      for (std::size_t i = at; i < at + kLineBytes / kWordBytes; ++i) {
        touched.words += was_[i] != is[i] ? 1 : 0;
        was_[i] = is[i];
      }
    }
    return touched;
  }

 private:
  Offset begin() const { return region_.superblock().heap_offset; }
  Region& region_;
  std::vector<Word> was_;
};

}  // namespace

papers::LabOptions new_pool_options(const EmulatedMemory& memory) {
  papers::LabOptions options;
  options.domain = DomainKind::kAdr;
  options.latency = memory.model();
  options.in_place_bytes = ~std::size_t{0};
  options.tornbit_logs = true;
  return options;
}

std::unique_ptr<UpdateStore> make_hash_table(const StoreOptions& options) {
  return std::make_unique<HashTable>(options);
}

Touched touched_by_inserts(const StoreOptions& options, std::uint64_t live, std::uint64_t seed) {
  constexpr int kInserts = 200;
  HashTable table(options);
  Random random(seed);
  KeyChurn churn(live);
  // At random, so that no word of a value is what stood there before.
  const auto put = [&](std::uint64_t key) {
    std::string value(options.value_bytes, '\0');
    for (char& byte : value) byte = static_cast<char>(random.next());
    table.put(key, value);
  };
  for (std::uint64_t i = 0; i < live; ++i) put(churn.keys()[i]);
  HeapDifference difference(table.region());
  Touched sum;
  for (int i = 0; i < kInserts; ++i) {
    table.erase(churn.erase(random));
    difference.take();
    put(churn.insert(random));
    const Touched one = difference.take();
    sum.words += one.words;
    sum.lines += one.lines;
  }
  return {sum.words / kInserts, sum.lines / kInserts};
}

std::unique_ptr<UpdateStore> make_tree(const StoreOptions& options) {
  switch (options.value_bytes) {
    case 64: return std::make_unique<Tree<64>>(options);
    case 1024: return std::make_unique<Tree<1024>>(options);
    default:
      throw Exception(Code::kInvalid,
                      "reproduce: the tree holds values of 64 or 1024 bytes, not of " +
                          std::to_string(options.value_bytes));
  }
}

Peers& peers() {
  static Peers built;
  return built;
}

PeerDisk make_peer_disk(const std::string& dir) {
  constexpr std::uint64_t kBytes = std::uint64_t{4} << 30;  // it takes what is written
  PeerDisk disk;
  if (peers().berkeley_db == nullptr && peers().tokyo_cabinet == nullptr) return disk;
  try {
    disk.device = std::make_unique<RamDisk>(dir, kBytes);
    disk.said =
        "The peer's files lie on an ext2 on a device in memory, and each sync waits besides as "
        "long as the emulated memory would take for the blocks that it wrote there, the file "
        "system's among them (their mean, counted while it warms up).";
  } catch (const Exception& lack) {
    disk.said = std::string(
                    "The peer's files lie on tmpfs, and each sync waits as long as the emulated "
                    "memory would take for the blocks that the peer wrote; the paper's had a file "
                    "system below them, which could not be had: ") +
                lack.what() + ".";
  }
  return disk;
}

}  // namespace perdure::bench::reproduce
