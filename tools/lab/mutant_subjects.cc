// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "apps/ldap/directory.h"
#include "apps/ldap/filter.h"
#include "apps/memcached/pool_store.h"
#include "apps/sqlite/database_file.h"
#include "perdure/api/pool_core.h"
#include "perdure/append_log.h"
#include "perdure/arena.h"
#include "perdure/checkpoint/arena_inspection.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"
#include "perdure/expert.h"
#include "perdure/object.h"
#include "tools/lab/mutants.h"
#include "tools/reachability.h"

namespace perdure::tools {
namespace {

enum class Left { kClosed, kKilled };

constexpr std::uint64_t kRecords = 200;
std::string text_of(std::uint64_t n) {
  return "number " + std::to_string(n) + std::string(n * 7 % 90, static_cast<char>('a' + n % 26));
}

ExpertOptions small(DomainKind domain) {
  ExpertOptions options;
  options.domain = domain;
  options.capacity_bytes = std::uint64_t{8} << 20;
  options.segment_bytes = std::uint64_t{128} << 10;
  options.ring_bytes = std::uint64_t{64} << 10;
  options.log_slots = 4;
  options.root_entries = 16;
  return options;
}
ExpertOptions to_open(DomainKind domain) {
  ExpertOptions options;
  options.domain = domain;
  options.lock_bits = 10;
  return options;
}

/// Keeps an object as a process that is killed does.
template <class T>
void leave(std::optional<T>&& of, Left left) {
  if (left == Left::kKilled) new std::optional<T>(std::move(of));
}

bool pool_is_sound(const std::string& path) {
  std::vector<std::string> damage;
  Pool pool = inspect_pool(path, &damage).value();
  return damage.empty() && trace_and_compare(pool).damage.empty();
}

// ---- containers ---------------------------------------------------------------------------------

using Texts = hash_map<bytes, bytes>;
using Numbers = hash_map<std::uint64_t, std::uint64_t>;
using Sorted = btree_map<std::uint64_t, bytes>;
using Tree = rb_map<std::uint64_t, std::uint64_t>;

template <DomainKind kDomain, Left kLeft>
void make_containers(const std::string& path) {
  std::optional<Pool> pool(Pool::create(path, small(kDomain)).value());
  auto* texts = pool->root<Texts>("texts");
  auto* numbers = pool->root<Numbers>("numbers");
  auto* sorted = pool->root<Sorted>("sorted");
  auto* tree = pool->root<Tree>("tree");
  auto* list = pool->root<vector<std::uint64_t>>("list");
  auto* sentence = pool->root<string>("sentence");
  pool->atomically([&](Tx& tx) {  // the same file in every run, as far as that is possible
    texts->use_seed(tx, 7);
    numbers->use_seed(tx, 7);
  });
  for (std::uint64_t n = 0; n < kRecords; ++n) {
    pool->atomically([&](Tx& tx) {
      texts->put(tx, text_of(n), text_of(n + 1));
      numbers->put(tx, n, n * n);
      sorted->put(tx, n, text_of(n));
      tree->put(tx, n, n * n);
      list->push_back(tx, n * n);
      sentence->assign(tx, text_of(n));
    });
  }
  leave(std::move(pool), kLeft);
}

template <DomainKind kDomain>
bool use_containers(const std::string& path) {
  Pool pool = Pool::open(path, to_open(kDomain)).value();
  auto* texts = pool.root<Texts>("texts");
  auto* numbers = pool.root<Numbers>("numbers");
  auto* sorted = pool.root<Sorted>("sorted");
  auto* tree = pool.root<Tree>("tree");
  auto* list = pool.root<vector<std::uint64_t>>("list");
  auto* sentence = pool.root<string>("sentence");
  bool right = true;
  pool.read_only([&](Tx& tx) {
    right = list->size(tx) == kRecords && sentence->str(tx) == text_of(kRecords - 1);
  });
  for (std::uint64_t n = 0; n < kRecords; ++n) {
    pool.read_only([&](Tx& tx) {
      right = right && texts->get(tx, text_of(n)) == text_of(n + 1) &&
              numbers->get(tx, n) == n * n && sorted->get(tx, n) == text_of(n) &&
              tree->get(tx, n) == n * n && n < list->size(tx) && list->at(tx, n) == n * n;
    });
  }
  std::uint64_t seen = 0;
  pool.read_only([&](Tx& tx) {
    seen = 0;
    texts->for_each(tx, [&](std::string_view, std::string_view) { ++seen; });
    numbers->for_each(tx, [&](std::uint64_t, std::uint64_t) { ++seen; });
    sorted->for_each(tx, [&](std::uint64_t, std::string_view) { ++seen; });
    tree->for_each(tx, [&](std::uint64_t, std::uint64_t) { ++seen; });
  });
  right = right && seen == 4 * kRecords;
  for (std::uint64_t n = 0; n < kRecords; n += 9) {
    pool.atomically([&](Tx& tx) {
      texts->put(tx, text_of(n), text_of(n + 2));
      texts->erase(tx, text_of(n + 1));
      texts->put(tx, text_of(n + 1000), "new");
      numbers->erase(tx, n);
      numbers->put(tx, n + 1000, n);
      sorted->erase(tx, n);
      sorted->put(tx, n + 1000, text_of(n));
      tree->erase(tx, n);
      tree->put(tx, n + 1000, n);
      list->push_back(tx, n);
      sentence->assign(tx, text_of(n));
    });
  }
  return right;
}

// ---- programs -----------------------------------------------------------------------------------

std::string key_of(std::uint64_t n) { return "key" + std::to_string(n); }

struct Server {
  explicit Server(Pool& pool) : syncer(pool, true), store(pool, syncer, clock, {}) {}
  memcached::Clock clock{1'700'000'000};
  memcached::Syncer syncer;
  memcached::PoolStore store;

  void set(std::uint64_t n) {
    const std::string value = text_of(n);
    store.alter(key_of(n), value.size(), memcached::ItemStore::Use::kUse,
                [&](const memcached::ItemView*) {
                  memcached::Plan plan;
                  plan.kind = memcached::Plan::Kind::kStore;
                  plan.value = value;
                  return plan;
                });
  }
  std::optional<std::string> get(std::uint64_t n) {
    const std::string key = key_of(n);
    const std::string_view keys[] = {key};
    std::optional<std::string> value;
    store.look(keys, memcached::ItemStore::Use::kUse,
               [&](std::size_t, const memcached::ItemView* item) {
                 value.reset();
                 if (item == nullptr) return;
                 value.emplace(item->value_bytes, '\0');
                 item->read(value->data(), 0, value->size());
               });
    return value;
  }
};

template <Left kLeft>
void make_cache(const std::string& path) {
  std::optional<Pool> pool(Pool::create(path, small(DomainKind::kAdr)).value());
  Server server(*pool);
  for (std::uint64_t n = 0; n < kRecords; ++n) server.set(n);
  leave(std::move(pool), kLeft);
}
bool use_cache(const std::string& path) {
  Pool pool = Pool::open(path, to_open(DomainKind::kAdr)).value();
  Server server(pool);
  bool right = true;
  for (std::uint64_t n = 0; n < kRecords; ++n) right = right && server.get(n) == text_of(n);
  for (std::uint64_t n = 0; n < 20; ++n) server.set(n * 13);
  server.store.tidy();
  server.store.set_limit(16 << 10);  // the hand goes round
  for (std::uint64_t n = 0; n < 20; ++n) server.set(n * 17);
  return right;
}

ldap::Dn name_of_entry(std::uint64_t n) {
  if (n == 0) return ldap::parse_dn("dc=a").value();
  const std::string below = n % 5 == 0 ? "" : "cn=" + std::to_string(n / 5 * 5) + ",";
  return ldap::parse_dn("cn=" + std::to_string(n) + "," + (n < 5 ? "" : below) + "dc=a").value();
}
void add_entry(ldap::Directory& directory, std::uint64_t n) {
  const std::string cn = std::to_string(n);
  const std::string sn = text_of(n);
  if (n == 0) {
    directory.add(name_of_entry(0), {{"objectClass", "domain"}, {"dc", "a"}}, true);
  } else {
    directory.add(name_of_entry(n), {{"objectClass", "person"}, {"cn", cn}, {"sn", sn}}, false);
  }
}
template <Left kLeft>
void make_directory(const std::string& path) {
  std::optional<Pool> pool(Pool::create(path, small(DomainKind::kAdr)).value());
  ldap::DirectoryOptions options;
  options.seed = 7;  // the same file in every run, as far as that is possible
  ldap::Directory directory(*pool, options);
  for (std::uint64_t n = 0; n < kRecords; ++n) add_entry(directory, n);
  leave(std::move(pool), kLeft);
}
bool use_directory(const std::string& path) {
  Pool pool = Pool::open(path, to_open(DomainKind::kAdr)).value();
  ldap::Directory directory(pool);
  std::set<std::string> found;
  ldap::Search search;
  search.base = name_of_entry(0);
  search.scope = ldap::Search::Scope::kSubtree;
  search.filter = ldap::parse_filter("(objectClass=*)").value();
  directory.search(search, [&](const std::string&, const ldap::Values& values) {
    for (const auto& [attribute, value] : values) {
      if (attribute == "sn") found.emplace(value);
    }
  });
  bool right = found.size() == kRecords - 1;
  for (std::uint64_t n = 1; n < kRecords; ++n) right = right && found.contains(text_of(n));
  for (std::uint64_t n = 0; n < 20; ++n) {
    search.filter = ldap::parse_filter("(cn=" + std::to_string(n * 7) + ")").value();
    std::size_t names = 0;
    directory.search(search, [&](const std::string&, const ldap::Values&) { ++names; });
    right = right && names == (n == 0 ? 0 : 1);
  }
  for (std::uint64_t n = 0; n < 20; ++n) {
    directory.remove(name_of_entry(n * 9 + 1));
    add_entry(directory, kRecords + n);
  }
  return right;
}

constexpr std::uint64_t kDatabaseBytes = 300 << 10;
template <Left kLeft>
void make_database(const std::string& path) {
  std::optional<Pool> pool(Pool::create(path, small(DomainKind::kSync)).value());
  sqlite::DatabaseFile file(*pool, pool->root<sqlite::StoredFile>(sqlite::kRoot));
  for (std::uint64_t at = 0; at < kDatabaseBytes; at += 8) file.write(&at, 8, at);
  file.commit(Durability::kStrict);
  // Commits that a log has, if nobody brings them home.
  for (std::uint64_t at = 0; at < 100 * 8; at += 8) {
    for (const std::uint64_t value : {~at, at}) {
      file.write(&value, 8, at);
      file.commit(Durability::kStrict);
    }
  }
  leave(std::move(pool), kLeft);
}
bool use_database(const std::string& path) {
  Pool pool = Pool::open(path, to_open(DomainKind::kSync)).value();
  sqlite::DatabaseFile file(pool, pool.root<sqlite::StoredFile>(sqlite::kRoot));
  std::vector<std::uint64_t> all(kDatabaseBytes / 8);
  bool right =
      file.bytes() == kDatabaseBytes && file.read(all.data(), kDatabaseBytes, 0) == kDatabaseBytes;
  for (std::uint64_t i = 0; right && i < all.size(); ++i) right = all[i] == i * 8;
  const std::vector<char> block(4096, 'x');
  for (std::uint64_t at = 0; at < 400 << 10; at += 40 << 10)
    file.write(block.data(), block.size(), at);
  file.commit(Durability::kStrict);
  file.truncate(100 << 10);
  file.commit(Durability::kStrict);
  return right;
}

// ---- what is no map -----------------------------------------------------------------------------

struct Leaf : object<Leaf> {
  field<std::uint64_t> number;
  ref<Leaf> next;
  ref<Leaf> other;
  weak_ref<Leaf> back;
  ref<chars> label;
  PERDURE_FIELDS(Leaf, number, next, other, back, label);
};
std::string text_in(const local<chars>& label) {
  std::string text(label->size(), '\0');
  label->read(0, text.data(), text.size());
  return text;
}
struct Grove : object<Grove> {
  ref<Leaf> first;
  ref<array<ref<Leaf>>> slots;
  PERDURE_FIELDS(Grove, first, slots);
};

template <Left kLeft>
void make_objects(const std::string& path) {
  std::optional<Pool> pool(Pool::create(path, small(DomainKind::kAdr)).value());
  auto heap = object_heap<Grove>::in_pool(*pool).value();
  heap.atomically([&](auto root) { root->slots = heap.template make_array<ref<Leaf>>(32); });
  for (std::uint64_t n = 0; n < kRecords; ++n) {
    heap.atomically([&](auto root) {
      auto leaf = heap.template make<Leaf>();
      leaf->number = n;
      leaf->label = heap.make_text(text_of(n));
      leaf->next = root->first;
      leaf->other = root->slots.get()[n % 32];
      if (leaf->next) leaf->next->back = leaf;
      root->slots.get()[n % 32] = leaf;
      root->first = leaf;
    });
  }
  leave(std::move(pool), kLeft);
}
bool use_objects(const std::string& path) {
  Pool pool = Pool::open(path, to_open(DomainKind::kAdr)).value();
  auto heap = object_heap<Grove>::in_pool(pool).value();
  bool right = true;
  heap.atomically([&](auto root) {
    std::uint64_t n = kRecords;
    right = true;
    for (auto leaf = root->first.get(); leaf && n > 0; leaf = leaf->next.get()) {
      --n;
      right = right && leaf->number == n && text_in(leaf->label.get()) == text_of(n);
    }
    right = right && n == 0;
  });
  for (std::uint64_t n = 0; n < 20; ++n) {
    heap.atomically([&](auto root) {
      root->slots.get()[n] = nullptr;
      if (root->first) root->first = root->first->next;
    });
  }
  return right;
}

template <Left kLeft>
void make_log(const std::string& path) {
  std::optional<Pool> pool(Pool::create(path, small(DomainKind::kAdr)).value());
  std::optional<Log> log(Log::open_or_create(*pool, "log", 32 << 10).value());
  for (std::uint64_t n = 0; n < kRecords; ++n) {
    const std::string text = text_of(n);
    if (!log->append(text.data(), text.size())) throw Exception(Code::kNoSpace, "the log is full");
    log->flush();
  }
  leave(std::move(log), kLeft);
  leave(std::move(pool), kLeft);
}
bool use_log(const std::string& path) {
  Pool pool = Pool::open(path, to_open(DomainKind::kAdr)).value();
  Log log = Log::open_or_create(pool, "log", 32 << 10).value();
  std::uint64_t n = 0;
  bool right = true;
  log.for_each([&](std::span<const std::byte> record) {
    right = right && std::string_view(reinterpret_cast<const char*>(record.data()),
                                      record.size()) == text_of(n);
    ++n;
  });
  right = right && n == kRecords;
  if (log.append("one more", 8)) log.flush();
  log.truncate();
  return right;
}

ArenaOptions arena_options() {
  ArenaOptions options;
  options.capacity_bytes = std::uint64_t{2} << 20;
  options.log_bytes = std::uint64_t{256} << 10;
  options.tracking = ArenaTracking::kMprotect;
  return options;
}
constexpr std::uint64_t kArenaWords = 5000;
void make_arena(const std::string& path) {
  // Closing it changes nothing: it is as if it was killed.
  Arena arena = Arena::create(path, arena_options()).value();
  auto* words = static_cast<std::uint64_t*>(arena.allocate(kArenaWords * 8));
  arena.set_root("words", words);
  for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
    for (std::uint64_t i = epoch * 500; i < epoch * 500 + 500; ++i) words[i] = i * i;
    arena.deallocate(arena.allocate(100 + epoch * 300));
    (void)arena.allocate(50);
    arena.persist().value();
  }
}
bool use_arena(const std::string& path) {
  Arena arena = Arena::open(path, arena_options()).value();
  const auto* words = arena.root<std::uint64_t>("words");
  bool right = words != nullptr;
  for (std::uint64_t i = 0; right && i < kArenaWords; ++i) right = words[i] == i * i;
  for (std::size_t i = 0; i < 20; ++i) arena.deallocate(arena.allocate(60 + i * 200));
  arena.persist().value();
  return right;
}
bool arena_is_sound(const std::string& path) {
  return checkpoint::ArenaInspection::of(path).value().findings().empty();
}

/// The test of the test: a list whose links are followed wherever they lead.
constexpr std::uint64_t kCareless = 4000;
void make_careless(const std::string& path) {
  Pool pool = Pool::create(path, small(DomainKind::kAdr)).value();
  auto* list = pool.root<pptr<pptr<std::uint64_t>>>("list");
  for (std::uint64_t n = 0; n < kCareless; ++n) {
    pool.atomically([&](Tx& tx) {
      auto* node = static_cast<std::uint64_t*>(tx.allocate(16));
      tx.store(*node, tx.load(list->offset));
      tx.store(list->offset, tx.link_to(node).offset);
    });
  }
}
bool use_careless(const std::string& path) {
  Pool pool = Pool::open(path, to_open(DomainKind::kAdr)).value();
  const std::byte* const base = core_of(pool).region().base();
  std::uint64_t nodes = 0;
  for (const Word* at = reinterpret_cast<const Word*>(pool.root<pptr<pptr<std::uint64_t>>>("list"));
       load_word(at) != 0; at = reinterpret_cast<const Word*>(base + load_word(at)))
    ++nodes;
  return nodes == kCareless;
}

template <class Make>
constexpr Subject subject(const char* name, const char* about, Make make,
                          bool (*use)(const std::string&)) {
  return {name, about, make, use, pool_is_sound};
}

}  // namespace

std::span<const Subject> mutant_subjects() {
  constexpr auto kAdr = DomainKind::kAdr;
  constexpr auto kSync = DomainKind::kSync;
  static const std::array subjects{
      subject("containers", "six containers, closed, in memory",
              make_containers<kAdr, Left::kClosed>, use_containers<kAdr>),
      subject("containers-killed", "the same, of a process that was killed",
              make_containers<kAdr, Left::kKilled>, use_containers<kAdr>),
      subject("file", "six containers, closed, on a file", make_containers<kSync, Left::kClosed>,
              use_containers<kSync>),
      subject("file-killed", "the same, of a process that was killed",
              make_containers<kSync, Left::kKilled>, use_containers<kSync>),
      subject("cache", "the memcached server's", make_cache<Left::kClosed>, use_cache),
      subject("directory", "the LDAP server's", make_directory<Left::kClosed>, use_directory),
      subject("database", "SQLite's", make_database<Left::kClosed>, use_database),
      subject("database-killed", "the same, of a process that was killed",
              make_database<Left::kKilled>, use_database),
      subject("objects", "a heap of objects", make_objects<Left::kClosed>, use_objects),
      subject("objects-killed", "the same, of a process that was killed",
              make_objects<Left::kKilled>, use_objects),
      subject("log", "a log of an application", make_log<Left::kClosed>, use_log),
      Subject{"arena", "an arena", make_arena, use_arena, arena_is_sound},
      Subject{"careless", nullptr, make_careless, use_careless, pool_is_sound},
  };
  return subjects;
}

}  // namespace perdure::tools
