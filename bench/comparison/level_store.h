// SPDX-License-Identifier: BSD-3-Clause
// LevelDB and RocksDB have one interface in two namespaces; this is the store over either.
#pragma once

#include "bench/comparison/store.h"

namespace perdure::bench::comparison {

/// `Library`: kName, Db, Options, WriteOptions, ReadOptions, WriteBatch, Slice, Status, Iterator.
template <class Library>
class LevelStore final : public Store {
 public:
  explicit LevelStore(const StoreOptions& options) {
    typename Library::Options how;
    how.create_if_missing = true;
    how.compression = Library::kNoCompression;
    typename Library::Db* opened = nullptr;
    check(Library::Db::Open(how, options.dir, &opened), "open");
    db_.reset(opened);
    synced_.sync = true;
  }

  void put(unsigned, std::span<const Record> records) override {
    typename Library::WriteBatch batch;
    for (const Record& record : records)
      batch.Put(slice(OrderedKey(record.key).view()), slice(record.value));
    check(db_->Write(synced_, &batch), "write");
  }
  void erase(unsigned, std::uint64_t key) override {
    check(db_->Delete(synced_, slice(OrderedKey(key).view())), "delete");
  }
  bool get(unsigned, std::uint64_t key, std::string& value) override {
    const auto status = db_->Get({}, slice(OrderedKey(key).view()), &value);
    if (!status.IsNotFound()) check(status, "get");
    return status.ok();
  }
  void scan(unsigned, std::uint64_t from, std::uint64_t count, const Visit& visit) override {
    const std::unique_ptr<typename Library::Iterator> at(db_->NewIterator({}));
    for (at->Seek(slice(OrderedKey(from).view())); at->Valid() && count > 0; at->Next(), --count)
      visit(OrderedKey::number(at->key().data()), {at->value().data(), at->value().size()});
    check(at->status(), "scan");
  }

 private:
  static typename Library::Slice slice(std::string_view bytes) {
    return {bytes.data(), bytes.size()};
  }
  static void check(const typename Library::Status& status, const char* what) {
    if (!status.ok())
      throw Exception(Code::kIo,
                      std::string(Library::kName) + ": " + what + ": " + status.ToString());
  }

  std::unique_ptr<typename Library::Db> db_;
  typename Library::WriteOptions synced_;
};

template <class Library>
std::unique_ptr<Store> make_level_store(const StoreOptions& options) {
  return std::make_unique<LevelStore<Library>>(options);
}

}  // namespace perdure::bench::comparison
