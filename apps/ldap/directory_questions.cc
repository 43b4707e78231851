// SPDX-License-Identifier: BSD-3-Clause
// The questions a directory answers, and how a search finds its candidates.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "apps/ldap/directory.h"
#include "apps/ldap/matching.h"
#include "apps/ldap/password.h"

namespace perdure::ldap {
/// One search: reads names and candidates by small transactions.
class Directory::Searcher {
 public:
  Searcher(Directory& directory, const Search& search, const Emit& emit)
      : directory_(&directory), search_(&search), emit_(&emit) {}

  Outcome run() {
    Outcome outcome = pool().read_only([&](Tx& tx) -> Outcome {
      const Place place = directory_->locate(tx, search_->base);
      if (!search_->base.rdns.empty() && (place.id == kNoEntry || place.unmatched != 0))
        return directory_->no_such_object(tx, place, search_->base);
      base_ = place.id;
      return {};
    });
    if (outcome.code != ResultCode::kSuccess) return outcome;
    if (search_->time_limit.count() > 0)
      deadline_ = std::chrono::steady_clock::now() + search_->time_limit;

    if (search_->scope == Search::Scope::kBase) {
      if (base_ != kNoEntry) consider(base_);
    } else if (const auto hashes = plan(search_->filter); hashes && worth_it(*hashes)) {
      by_index(*hashes);
    } else {
      by_walking();
    }
    return {ended_, {}, {}};
  }

 private:
  static constexpr std::size_t kChunk = 256;  // candidates gathered in one transaction
  static constexpr std::size_t kFew = 512;

  using Hashes = std::vector<std::uint64_t>;

  Pool& pool() { return *directory_->pool_; }
  const Store& store() const { return *directory_->store_; }

  /// The postings that hold every entry that the filter can find, when the index knows.
  std::optional<Hashes> plan(const Filter& filter) {
    switch (filter.kind) {
      case Filter::Kind::kEqual:
        if (!directory_->is_indexed(filter.attribute)) return std::nullopt;
        return Hashes{index_hash(filter.attribute, filter.values[0])};
      case Filter::Kind::kAnd: {
        std::optional<Hashes> best;
        std::size_t fewest = 0;
        for (const Filter& child : filter.children) {
          std::optional<Hashes> one = plan(child);
          if (!one) continue;
          const std::size_t count = estimate(*one);
          if (best && count >= fewest) continue;
          best = std::move(one);
          fewest = count;
        }
        return best;
      }
      case Filter::Kind::kOr: {
        Hashes all;
        for (const Filter& child : filter.children) {
          const std::optional<Hashes> one = plan(child);
          if (!one) return std::nullopt;
          all.insert(all.end(), one->begin(), one->end());
        }
        return all;
      }
      default: return std::nullopt;
    }
  }

  /// How many candidates; stops counting when they are not few.
  std::size_t estimate(const Hashes& hashes) {
    return pool().read_only([&](Tx& tx) {
      std::size_t count = 0;
      for (const std::uint64_t hash : hashes)
        store().equality.for_each(tx, hash, 0, [&](EntryId) { return ++count < kFew; });
      return count;
    });
  }
  /// Whether the children themselves would not be the shorter list.
  bool worth_it(const Hashes& hashes) {
    return search_->scope != Search::Scope::kOneLevel || estimate(hashes) < kFew;
  }

  void by_index(const Hashes& hashes) {
    std::unordered_set<EntryId> seen;
    for (const std::uint64_t hash : hashes) {
      EntryId from = 0;
      std::vector<EntryId> chunk;
      do {
        chunk = pool().read_only([&](Tx& tx) {
          std::vector<EntryId> ids;
          store().equality.for_each(tx, hash, from, [&](EntryId id) {
            ids.push_back(id);
            return ids.size() < kChunk;
          });
          return ids;
        });
        for (const EntryId id : chunk) {
          if (hashes.size() > 1 && !seen.insert(id).second) continue;
          if (!consider(id)) return;
        }
        go_on_behind(chunk, from);
      } while (chunk.size() == kChunk);
    }
  }

  void by_walking() {
    if (search_->scope == Search::Scope::kSubtree && base_ != kNoEntry && !consider(base_)) return;
    std::vector<EntryId> parents{base_};
    std::unordered_set<EntryId> moved;
    while (!parents.empty()) {
      const EntryId parent = parents.back();
      parents.pop_back();
      EntryId from = 0;
      std::vector<EntryId> chunk;
      do {
        chunk = pool().read_only([&](Tx& tx) {
          std::vector<EntryId> ids;
          store().children.for_each_in(tx, {parent, from}, {parent, ~EntryId{0}},
                                       [&](const Pair& pair, std::uint8_t) {
                                         ids.push_back(pair.second);
                                         return ids.size() < kChunk;
                                       });
          return ids;
        });
        for (const EntryId id : chunk) {
          if (!consider(id)) return;
          // An entry has one parent, so no circle leads back; and below one that has moved meanwhile,
          // or whose parent is damaged, it goes once.
          if (search_->scope != Search::Scope::kOneLevel && parent_ &&
              (*parent_ == parent || moved.insert(id).second))
            parents.push_back(id);
        }
        go_on_behind(chunk, from);
      } while (chunk.size() == kChunk);
    }
  }

  void go_on_behind(const std::vector<EntryId>& chunk, EntryId& from) const {
    if (chunk.empty()) return;
    if (chunk.back() < from || chunk.back() == ~EntryId{0})
      throw Exception(Code::kCorrupt, directory_->pool_->path() +
                                          ": ldap: what is in order by its number is not; `perdure "
                                          "check` tells more");
    from = chunk.back() + 1;
  }

  /// Emits the entry if it is in scope and found; notes its parent. False when the search is to end.
  bool consider(EntryId id) {
    if (deadline_ && std::chrono::steady_clock::now() > *deadline_) {
      ended_ = ResultCode::kTimeLimitExceeded;
      return false;
    }
    std::string name;
    parent_.reset();
    const auto bytes = pool().read_only([&](Tx& tx) -> std::optional<std::string> {
      std::optional<std::string> found = store().entries.get(tx, id);
      if (!found) return std::nullopt;  // it has gone since it was a candidate
      const EntryId parent = parent_of(*found);
      parent_ = parent;
      if (!in_scope(tx, id, parent)) return std::nullopt;
      name = above(tx, parent);
      return found;
    });
    if (!bytes) return true;
    const Record record = decode(*bytes);
    if (evaluate(search_->filter, record.values) != Truth::kTrue) return true;
    if (search_->size_limit != 0 && emitted_ == search_->size_limit) {
      ended_ = ResultCode::kSizeLimitExceeded;
      return false;
    }
    ++emitted_;
    (*emit_)(name.empty() ? std::string(record.rdn) : std::string(record.rdn) + "," + name,
             record.values);
    return true;
  }

  bool in_scope(Tx& tx, EntryId id, EntryId parent) {
    switch (search_->scope) {
      case Search::Scope::kBase: return id == base_;
      case Search::Scope::kOneLevel: return parent == base_;
      case Search::Scope::kBelow:
        if (id == base_) return false;
        break;
      case Search::Scope::kSubtree: break;
    }
    if (base_ == kNoEntry || id == base_) return true;
    for (std::size_t level = 0; parent != base_; ++level) {
      if (parent == kNoEntry) return false;
      directory_->refuse_as_circle_at(level);
      parent = parent_of(directory_->record_of(tx, parent));
    }
    return true;
  }

  /// The name of a parent. Most candidates of a search have the same few.
  std::string above(Tx& tx, EntryId parent) {
    if (parent == kNoEntry) return {};
    const auto known = names_.find(parent);
    if (known != names_.end()) return known->second;
    std::string name = directory_->name_of(tx, parent);
    if (names_.size() > kFew) names_.clear();
    names_.emplace(parent, name);
    return name;
  }

  Directory* directory_;
  const Search* search_;
  const Emit* emit_;
  EntryId base_ = kNoEntry;
  std::optional<EntryId> parent_;  // of the entry that was considered last, if it is there
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::unordered_map<EntryId, std::string> names_;
  std::uint64_t emitted_ = 0;
  ResultCode ended_ = ResultCode::kSuccess;
};

Outcome Directory::search(const Search& search, const Emit& emit) {
  return Searcher(*this, search, emit).run();
}

Outcome Directory::compare(const Dn& dn, std::string_view attribute, std::string_view value) {
  return pool_->read_only([&](Tx& tx) -> Outcome {
    const Place place = locate(tx, dn);
    if (place.id == kNoEntry || place.unmatched != 0) return no_such_object(tx, place, dn);
    const std::string bytes = record_of(tx, place.id);
    bool any = false;
    for (const Value& each : decode(bytes).values) {
      if (!is_of_type(each.attribute, attribute)) continue;
      any = true;
      if (equal_values(each.attribute, each.value, value))
        return {ResultCode::kCompareTrue, {}, {}};
    }
    return {any ? ResultCode::kCompareFalse : ResultCode::kNoSuchAttribute, {}, {}};
  });
}

Outcome Directory::bind(const Dn& dn, std::string_view password) {
  const auto bytes = pool_->read_only([&](Tx& tx) -> std::optional<std::string> {
    const Place place = locate(tx, dn);
    if (place.id == kNoEntry || place.unmatched != 0) return std::nullopt;
    return record_of(tx, place.id);
  });
  bool right = false;
  // An empty password would be an unauthenticated bind, which proves nothing (RFC 4513 §5.1.2).
  if (bytes && !password.empty()) {
    for (const Value& value : decode(*bytes).values) {
      if (is_of_type(value.attribute, "userPassword"))
        right = is_password(value.value, password) || right;
    }
  }
  return {right ? ResultCode::kSuccess : ResultCode::kInvalidCredentials, {}, {}};
}

std::uint64_t Directory::size() {
  return pool_->read_only([&](Tx& tx) { return store_->entries.size(tx); });
}

std::vector<std::string> Directory::verify() {
  constexpr std::size_t kEnough = 8;
  std::vector<std::string> wrong;
  const auto complain = [&](std::string what) {
    if (wrong.size() < kEnough) wrong.push_back(std::move(what));
  };
  pool_->read_only([&](Tx& tx) {
    wrong.clear();
    std::unordered_map<EntryId, std::string> records;
    std::uint64_t postings = 0;
    store_->entries.for_each(
        tx, [&](EntryId id, std::string_view bytes) { records.emplace(id, bytes); });
    for (const auto& [id, bytes] : records) {
      const std::string where = "entry " + std::to_string(id);
      const Record record = decode(bytes);
      if (record.parent != kNoEntry && !records.contains(record.parent))
        complain(where + " has no parent");
      const Dn name = parse_dn(record.rdn).value();
      const auto named = store_->names.get(tx, name_key(record.parent, name.normalised()));
      if (named != id) complain(where + " is not found by its name '" + name.text() + "'");
      if (!store_->children.contains(tx, {record.parent, id}))
        complain(where + " is not among the children of its parent");
      std::unordered_set<std::uint64_t> hashes;
      for (const Value& value : record.values) {
        if (is_indexed(value.attribute)) hashes.insert(index_hash(value.attribute, value.value));
      }
      postings += hashes.size();
      for (const std::uint64_t hash : hashes) {
        bool found = false;
        store_->equality.for_each(tx, hash, id, [&](EntryId first) {
          found = first == id;
          return false;
        });
        if (!found) complain(where + " is not in the index with one of its values");
      }
    }
    std::uint64_t found = 0;
    store_->equality.for_each(tx, [&](std::uint64_t, EntryId) { ++found; });
    if (found != postings)
      complain("the index has " + std::to_string(found) + " postings for " +
               std::to_string(postings) + " indexed values");
    const auto count = [&](std::uint64_t there, const char* of) {
      if (there != records.size())
        complain(std::to_string(there) + std::string(of) + std::to_string(records.size()) +
                 " entries");
    };
    count(store_->names.size(tx), " names for ");
    count(store_->children.size(tx), " children for ");
  });
  return wrong;
}

}  // namespace perdure::ldap
