// SPDX-License-Identifier: BSD-3-Clause
// Berkeley DB 5.3 under the workloads of Figure 7: its B-tree and its hash table as they are, SPS on the B-tree, SixDegs by hand on
// it: an edge is a key of two vertices. Searches read records one by one, without a transaction around them.
#include <endian.h>

#include <cstring>

#include "bench/berkeley_db.h"
#include "bench/berkeley_on_pcm_disk.h"
#include "papers/nvheaps/evaluation/others.h"

namespace perdure::bench::nvheaps {
namespace {

/// Big-endian, so that keys are sorted as numbers are.
struct Key {
  explicit Key(std::uint64_t first, std::uint64_t second = 0)
      : words{htobe64(first), htobe64(second)} {}
  std::string_view single() const { return {reinterpret_cast<const char*>(words), 8}; }
  std::string_view pair() const { return {reinterpret_cast<const char*>(words), 16}; }
  std::uint64_t words[2];
};

class BerkeleyStore final : public OtherStore {
 public:
  explicit BerkeleyStore(const OtherOptions& options)
      : directory_(options.dir, "berkeley"),
        disk_(disk_below(options.disk, directory_.path())),
        table_(directory_.path(), {.type = options.work == Work::kHashTable ? DB_HASH : DB_BTREE}),
        graph_(options.work == Work::kSixDegrees),
        flags_(options.waits ? DB_TXN_SYNC : DB_TXN_NOSYNC) {}

  void fill(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& pairs) override {
    for (std::size_t from = 0; from < pairs.size(); from += kFillAtOnce) {
      table_.in_transaction("put", DB_TXN_NOSYNC, [&](DB_TXN* transaction) {
        for (std::size_t i = from; i < pairs.size() && i < from + kFillAtOnce; ++i) {
          const Key key(pairs[i].first, pairs[i].second);
          const int status =
              graph_ ? table_.put(transaction, key.pair(), {})
                     : table_.put(transaction, key.single(), Key(pairs[i].second).single());
          if (status != 0) return status;
        }
        return 0;
      });
    }
  }
  void swap(std::uint64_t one, std::uint64_t other, unsigned) override {
    const Key first(one);
    const Key second(other);
    table_.in_transaction("swap", flags_, [&](DB_TXN* transaction) {
      std::string a(8, '\0');
      std::string b(8, '\0');
      int status = table_.get_to_write(transaction, first.single(), a);
      if (status == 0) status = table_.get_to_write(transaction, second.single(), b);
      if (status == 0) status = table_.put(transaction, first.single(), b);
      if (status == 0) status = table_.put(transaction, second.single(), a);
      return status;
    });
  }
  bool toggle(std::uint64_t number, unsigned) override {
    const Key key(number);
    bool inserted = false;
    table_.in_transaction("toggle", flags_, [&](DB_TXN* transaction) {
      const int status = table_.erase(transaction, key.single());
      inserted = status == DB_NOTFOUND;
      return inserted ? table_.put(transaction, key.single(), key.single()) : status;
    });
    return inserted;
  }
  bool toggle_edge(std::uint64_t one, std::uint64_t other, unsigned) override {
    const Key there(one, other);
    const Key back(other, one);
    bool inserted = false;
    table_.in_transaction("toggle an edge", flags_, [&](DB_TXN* transaction) {
      int status = table_.erase(transaction, there.pair());
      inserted = status == DB_NOTFOUND;
      if (!inserted) return status == 0 ? table_.erase(transaction, back.pair()) : status;
      status = table_.put(transaction, there.pair(), {});
      return status == 0 ? table_.put(transaction, back.pair(), {}) : status;
    });
    return inserted;
  }
  void neighbours(std::uint64_t vertex, std::vector<std::uint64_t>& to, unsigned) override {
    const std::size_t before = to.size();
    const Key from(vertex);
    while (!table_.scan_while(from.pair(), [&](std::string_view key, std::string_view) {
      Key found(0);
      std::memcpy(found.words, key.data(), key.size());
      if (found.words[0] != from.words[0]) return false;
      to.push_back(be64toh(found.words[1]));
      return true;
    }))
      to.resize(before);
  }
  std::uint64_t count() override {
    std::uint64_t count = 0;
    BerkeleyDb::check(table_.scan_while({},
                                        [&](std::string_view, std::string_view) {
                                          ++count;
                                          return true;
                                        })
                          ? 0
                          : DB_LOCK_DEADLOCK,
                      "count");
    return count;
  }

 private:
  static std::unique_ptr<BerkeleyOnPcmDisk> disk_below(
      const std::optional<reproduce::EmulatedMemory>& memory, const std::string& directory) {
    return memory ? std::make_unique<BerkeleyOnPcmDisk>(*memory, directory) : nullptr;
  }

  ScratchDirectory directory_;
  std::unique_ptr<BerkeleyOnPcmDisk> disk_;  // null: as the directory's is
  BerkeleyDb table_;
  bool graph_;
  std::uint32_t flags_;
};

const bool kRegistered = [] {
  others().berkeley.make = [](const OtherOptions& options) -> std::unique_ptr<OtherStore> {
    return std::make_unique<BerkeleyStore>(options);
  };
  return true;
}();

}  // namespace
}  // namespace perdure::bench::nvheaps
