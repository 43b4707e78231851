// SPDX-License-Identifier: BSD-3-Clause
// Tokyo Cabinet: its B+ tree with synced transactions; and its B+ tree and its hash table synced
// after each update, which is faster and less: an update is not atomic then.
#include <mutex>

#include "bench/comparison/kinds.h"
#include "bench/tokyo_cabinet.h"

namespace perdure::bench::comparison {
namespace {

enum class Updates : std::uint8_t { kTransactions, kSynced };

template <class Calls, Updates kUpdates>
class TokyoStore final : public Store {
 public:
  explicit TokyoStore(const StoreOptions& options)
      : table_(options.dir + "/records",
               kUpdates == Updates::kTransactions ? Calls::kSyncedTransactions : 0) {}

  void put(unsigned, std::span<const Record> records) override {
    update([&] {
      for (const Record& record : records) table_.put(OrderedKey(record.key).view(), record.value);
    });
  }
  void erase(unsigned, std::uint64_t key) override {
    update([&] { table_.erase(OrderedKey(key).view()); });
  }
  bool get(unsigned, std::uint64_t key, std::string& value) override {
    return table_.get(OrderedKey(key).view(), value);
  }
  void scan(unsigned thread, std::uint64_t from, std::uint64_t count, const Visit& visit) override {
    if constexpr (std::is_same_v<Calls, TokyoTreeCalls>) {
      const OrderedKey first(from);
      const std::unique_ptr<BDBCUR, decltype(&::tcbdbcurdel)> cursor(::tcbdbcurnew(table_.handle()),
                                                                     ::tcbdbcurdel);
      const std::unique_ptr<TCXSTR, decltype(&::tcxstrdel)> key(::tcxstrnew(), ::tcxstrdel);
      const std::unique_ptr<TCXSTR, decltype(&::tcxstrdel)> value(::tcxstrnew(), ::tcxstrdel);
      bool there =
          ::tcbdbcurjump(cursor.get(), first.view().data(), static_cast<int>(first.view().size()));
      for (; there && count > 0; --count, there = ::tcbdbcurnext(cursor.get())) {
        table_.check(::tcbdbcurrec(cursor.get(), key.get(), value.get()), "curr");
        visit(OrderedKey::number(::tcxstrptr(key.get())),
              {static_cast<const char*>(::tcxstrptr(value.get())),
               static_cast<std::size_t>(::tcxstrsize(value.get()))});
      }
      if (!there) table_.check(::tcbdbecode(table_.handle()) == TCENOREC, "scan");
    } else {
      Store::scan(thread, from, count, visit);
    }
  }

 private:
  template <class Work>
  void update(const Work& work) {
    if constexpr (kUpdates == Updates::kTransactions) {
      // Who begins one while another is open would poll in a loop of the library.
      const std::lock_guard turn(writers_);
      table_.in_transaction(work);
    } else {
      work();
      table_.sync();
    }
  }

  std::mutex writers_;
  TokyoCabinet<Calls> table_;
};

template <class Calls, Updates kUpdates>
std::unique_ptr<Store> make(const StoreOptions& options) {
  return std::make_unique<TokyoStore<Calls, kUpdates>>(options);
}

const RegisterStore kRegistered[] = {
    {"tokyo-tree-txn", make<TokyoTreeCalls, Updates::kTransactions>},
    {"tokyo-tree", make<TokyoTreeCalls, Updates::kSynced>},
    {"tokyo-hash", make<TokyoHashCalls, Updates::kSynced>},
};

}  // namespace
}  // namespace perdure::bench::comparison
