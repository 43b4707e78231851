// SPDX-License-Identifier: BSD-3-Clause
#include "tools/known_types.h"

#include "apps/kv/store.h"
#include "apps/ldap/salvage.h"
#include "apps/memcached/salvage.h"
#include "apps/sqlite/database_file.h"
#include "apps/sqlite/salvage.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"
#include "perdure/object/survey.h"
#include "perdure/type_id.h"
#include "tools/object_copier.h"
#include "tools/torture_state.h"

namespace perdure::tools {
namespace {

/// Hears what cannot come into a copy.
using Lose = std::function<void(const std::string&)>;

/// A type that refers to nothing.
template <class T>
constexpr KnownType plain() {
  return {type_id<T>(), sizeof(T), type_name<T>(),
          [](CheckedTx&, void*, const Visit&) { return std::optional<std::string>(); },
          [](Wreck& wreck, const Wreck::Root& root, Pool* to) -> std::uint64_t {
            if (to == nullptr) return 0;
            T* const copy = to->root<T>(root.name);
            to->atomically([&](Tx& tx) { tx.write(copy, wreck.object(root), sizeof(T)); });
            return 1;
          }};
}

template <class Container>
constexpr KnownType audited() {
  return {type_id<Container>(), sizeof(Container), type_name<Container>(),
          [](CheckedTx& tx, void* object, const Visit& visit) {
            return static_cast<Container*>(object)->audit(tx, visit);
          }};
}

/// Fills a copy, many entries to a transaction.
template <class Container>
class Copier {
 public:
  Copier(Pool& pool, const std::string& name, const Lose&)
      : pool_(&pool), container_(pool.root<Container>(name)) {}
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  template <class K, class V>
  void operator()(const K& key, const V& value) {
    batch_.emplace_back(key, value);
    if (batch_.size() == kBatch) flush();
  }
  void operator()(const std::string& text) {
    pool_->atomically([&](Tx& tx) { container_->assign(tx, text); });
    entries_ = 1;
  }
  std::uint64_t finish() {
    flush();
    return entries_;
  }

 private:
  static constexpr std::size_t kBatch = 256;
  template <class C>
  struct EntryOf {
    using Type = std::pair<std::uint64_t, std::uint64_t>;  // none
  };
  template <class K, class V>
  struct EntryOf<hash_map<K, V>> {
    using Type = std::pair<owned_t<K>, owned_t<V>>;
  };
  template <class K, class V, std::size_t kBytes>
  struct EntryOf<btree_map<K, V, kBytes>> {
    using Type = std::pair<owned_t<K>, owned_t<V>>;
  };
  template <class K, class V>
  struct EntryOf<rb_map<K, V>> {
    using Type = std::pair<K, V>;
  };
  template <class T>
  struct EntryOf<vector<T>> {
    using Type = std::pair<std::uint64_t, T>;
  };

  void flush() {
    if (batch_.empty()) return;
    entries_ += pool_->atomically(Durability::kRelaxed, [&](Tx& tx) {
      std::uint64_t fresh = 0;
      for (const auto& [key, value] : batch_) {
        if constexpr (requires { container_->try_put(tx, key, value); }) {
          fresh += container_->try_put(tx, key, value) ? 1 : 0;
        } else if constexpr (requires { container_->push_back(tx, value); }) {
          // What is lost in between is zero.
          while (container_->size(tx) < key) container_->push_back(tx, {});
          container_->push_back(tx, value);
          ++fresh;
        }
      }
      return fresh;
    });
    batch_.clear();
  }

  Pool* pool_;
  Container* container_;
  std::vector<typename EntryOf<Container>::Type> batch_;
  std::uint64_t entries_ = 0;
};

/// As KnownType::salvage, with a copier that takes what is found.
template <class Container, class CopierOfIt>
std::uint64_t salvage(Wreck& wreck, const Wreck::Root& root, Pool* to) {
  if (to == nullptr) {
    wreck.salvage<Container>(root, [](const auto&...) {});
    return 0;
  }
  const auto lose = [&](const std::string& what) {
    wreck.lose("root '" + root.name + "': " + what);
  };
  CopierOfIt copier(*to, root.name, lose);
  wreck.salvage<Container>(root, [&](const auto&... found) { copier(found...); });
  return copier.finish();
}

template <class Container, class CopierOfIt = Copier<Container>>
constexpr KnownType container() {
  KnownType type = audited<Container>();
  type.salvage = salvage<Container, CopierOfIt>;
  return type;
}

/// Writes the file of a database, chunk by chunk; what was not found of it is zeros.
class FileCopier {
 public:
  FileCopier(Pool& pool, sqlite::StoredFile* file) : pool_(&pool), file_(file) {}
  FileCopier(Pool& pool, const std::string& name, const Lose&)
      : FileCopier(pool, pool.root<sqlite::StoredFile>(name)) {}
  FileCopier(const FileCopier&) = delete;
  FileCopier& operator=(const FileCopier&) = delete;

  void operator()(std::uint64_t at, std::span<const std::byte> bytes) {
    while (chunks_ < at / sqlite::kChunkBytes) add({});
    add(bytes);
    bytes_ = at + bytes.size();
    ++found_;
  }
  std::uint64_t finish() {
    pool_->atomically([&](Tx& tx) {
      tx.store(file_->bytes, bytes_);
      tx.store(file_->defined, bytes_);
      tx.store(file_->chunk_bytes, sqlite::kChunkBytes);
    });
    return found_;
  }

 private:
  void add(std::span<const std::byte> bytes) {
    std::vector<std::byte> whole(bytes.begin(), bytes.end());
    whole.resize(sqlite::kChunkBytes);
    pool_->atomically(Durability::kRelaxed, [&](Tx& tx) {
      auto* const chunk = static_cast<std::uint64_t*>(tx.allocate(sqlite::kChunkBytes));
      tx.write(chunk, whole.data(), whole.size());
      file_->chunks.push_back(tx, tx.link_to(chunk));
    });
    ++chunks_;
  }

  Pool* pool_;
  sqlite::StoredFile* file_;
  std::uint64_t chunks_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t found_ = 0;
};

/// The same for a database and its journal.
class PlainCopier {
 public:
  PlainCopier(Pool& pool, const std::string& name, const Lose&)
      : pool_(&pool),
        store_(pool.root<sqlite::PlainStore>(name)),
        database_(pool, &store_->database),
        journal_(pool, &store_->journal) {}

  void operator()(int part, std::uint64_t at, std::span<const std::byte> bytes) {
    part == 0 ? database_(at, bytes) : journal_(at, bytes);
  }
  void operator()(bool journal_exists) { journal_exists_ = journal_exists; }
  std::uint64_t finish() {
    const std::uint64_t found = database_.finish() + (journal_exists_ ? journal_.finish() : 0);
    pool_->atomically(
        [&](Tx& tx) { tx.store(store_->journal_exists, std::uint64_t{journal_exists_}); });
    return found;
  }

 private:
  Pool* pool_;
  sqlite::PlainStore* store_;
  FileCopier database_;
  FileCopier journal_;
  bool journal_exists_ = false;
};

constexpr KnownType sqlite_database() {
  using File = sqlite::StoredFile;
  return {type_id<File>(), sizeof(File), type_name<File>(),
          [](CheckedTx& tx, void* object, const Visit& visit) {
            return sqlite::DatabaseFile::audit(tx, *static_cast<File*>(object), visit);
          },
          salvage<File, FileCopier>};
}

/// Of the VFS perdure-plain: a database and its journal.
constexpr KnownType sqlite_plain() {
  using Store = sqlite::PlainStore;
  return {type_id<Store>(), sizeof(Store), type_name<Store>(),
          [](CheckedTx& tx, void* object, const Visit& visit) {
            const auto& store = *static_cast<Store*>(object);
            auto wrong = sqlite::DatabaseFile::audit(tx, store.database, visit);
            if (!wrong) wrong = sqlite::DatabaseFile::audit(tx, store.journal, visit);
            return wrong;
          },
          salvage<Store, PlainCopier>};
}

constexpr KnownType objects() {
  using object_layout::Control;
  return {type_id<Control>(), sizeof(Control), type_name<Control>(),
          [](CheckedTx& tx, void* object, const Visit& visit) {
            return object_layout::survey(tx, static_cast<const Control*>(object),
                                         [&](Offset at) { return visit(at).most; });
          },
          salvage<Control, ObjectCopier>};
}

constexpr KnownType kKnown[] = {
    plain<std::uint64_t>(),
    plain<std::int64_t>(),
    plain<kv::DemoMarker>(),
    plain<TortureState>(),
    container<ldap::Store, ldap::DirectoryCopier>(),
    container<memcached::Cache, memcached::CacheCopier>(),
    sqlite_database(),
    sqlite_plain(),
    objects(),
    container<hash_map<bytes, bytes>>(),
    container<hash_map<bytes, std::uint64_t>>(),
    container<hash_map<std::uint64_t, bytes>>(),
    container<hash_map<std::uint64_t, std::uint64_t>>(),
    container<btree_map<std::uint64_t, std::uint64_t>>(),
    container<btree_map<std::uint64_t, bytes>>(),
    container<rb_map<std::uint64_t, std::uint64_t>>(),
    container<vector<std::uint64_t>>(),
    container<vector<std::int64_t>>(),
    container<vector<double>>(),
    container<string>(),
};

}  // namespace

const KnownType* find_known_type(std::uint64_t type) {
  for (const KnownType& known : kKnown) {
    if (known.type == type) return &known;
  }
  return nullptr;
}

}  // namespace perdure::tools
