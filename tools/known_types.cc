// SPDX-License-Identifier: BSD-3-Clause
#include "tools/known_types.h"

#include "apps/kv/store.h"
#include "apps/ldap/store.h"
#include "apps/memcached/item_table.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"
#include "perdure/type_id.h"
#include "tools/torture_state.h"

namespace perdure::tools {
namespace {

/// A type that refers to nothing.
template <class T>
constexpr KnownType plain() {
  return {type_id<T>(), sizeof(T), type_name<T>(),
          [](CheckedTx&, void*, const Visit&) { return std::optional<std::string>(); }};
}

template <class Container>
constexpr KnownType container() {
  return {type_id<Container>(), sizeof(Container), type_name<Container>(),
          [](CheckedTx& tx, void* object, const Visit& visit) {
            return static_cast<Container*>(object)->audit(tx, visit);
          }};
}

constexpr KnownType kKnown[] = {
    plain<std::uint64_t>(),
    plain<std::int64_t>(),
    plain<kv::DemoMarker>(),
    plain<TortureState>(),
    container<ldap::Store>(),
    container<memcached::Cache>(),
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
