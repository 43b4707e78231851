// SPDX-License-Identifier: BSD-3-Clause
// What can be proved of a damaged directory: its entries. What finds them by name, by value and below
// another is made anew from these.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "apps/ldap/store.h"
#include "perdure/container/salvage.h"
#include "perdure/pool.h"

namespace perdure::ldap {

/// Makes a directory of entries. An entry whose superior is lost comes below a suffix that stands for
/// it, "cn=salvaged-<id>", from where it can be moved (modrdn with a new superior).
class DirectoryCopier {
 public:
  using Lose = std::function<void(const std::string&)>;

  /// `lose` hears what cannot come into the copy, and what stands elsewhere.
  DirectoryCopier(Pool& to, const std::string& root, Lose lose);
  void operator()(EntryId id, std::string_view record) { records_.emplace(id, record); }
  /// Which attributes were indexed, as Store::indexed has them.
  void operator()(const std::string& indexed) { indexed_ = indexed; }
  /// Puts the entries into the copy, and makes their index. How many entries it has.
  std::uint64_t finish();

 private:
  void drop_what_cannot_be_read();
  void ground();
  void stand_in_for(EntryId lost);
  void move(EntryId id, EntryId below);
  bool put(EntryId id, std::string_view record);

  Pool* pool_;
  Store* store_;
  Lose lose_;
  std::map<EntryId, std::string> records_;
  std::string indexed_;
};

}  // namespace perdure::ldap

namespace perdure::detail {

/// Of a structure that is made anew: what it owns is looked at, so that nobody takes it for something
/// else, and what is wrong with it does not matter.
template <class Finder>
struct Derived {
  Finder& finder;

  Room visit(Offset offset) { return finder.visit(offset); }
  Room visit_only(Offset offset) { return finder.visit_only(offset); }
  bool is_live(Offset offset) const { return finder.is_live(offset); }
  void release(Offset offset) { finder.release(offset); }
  void doubt(Offset offset) { finder.doubt(offset); }
  template <class F>
  void for_each_stray(F&&) {}
  void seems_empty() {}
  template <class... Entry>
  void take(Entry&&...) {}
  void lose(const std::string&) {}
};

template <>
struct Salvage<ldap::EqualityIndex> {
  template <class Tx, class Finder>
  static void run(Tx& tx, const ldap::EqualityIndex& index, Finder& finder) {
    Salvage<decltype(index.single_)>::run(tx, index.single_, finder);
    Salvage<ldap::PairSet>::run(tx, index.shared_, finder);
  }
};

/// Takes (the indexed attributes), and (entry id, record).
template <>
struct Salvage<ldap::Store> {
  template <class Tx, class Finder>
  static void run(Tx& tx, const ldap::Store& store, Finder& finder) {
    Derived<Finder> derived{finder};
    Salvage<decltype(store.names)>::run(tx, store.names, derived);
    Salvage<ldap::PairSet>::run(tx, store.children, derived);
    Salvage<ldap::EqualityIndex>::run(tx, store.equality, derived);
    Text<Finder> text{{finder}};
    Salvage<string>::run(tx, store.indexed, text);
    Salvage<decltype(store.entries)>::run(tx, store.entries, finder);
  }

 private:
  template <class Finder>
  struct Text : Derived<Finder> {
    void take(const std::string& text) { this->finder.take(text); }
  };
};

}  // namespace perdure::detail
