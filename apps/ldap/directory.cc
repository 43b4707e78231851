// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/directory.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>

#include "apps/ldap/ldif.h"
#include "apps/ldap/matching.h"

namespace perdure::ldap {
namespace {

constexpr std::string_view kUsualIndex = "objectclass,uid,cn,sn,mail,member,memberuid";
constexpr std::size_t kStep = 64;  // entries or postings of one transaction of a long job
constexpr std::size_t kMaxLevels = 512;

Outcome refusal(ResultCode code, std::string info) { return {code, {}, std::move(info)}; }

Values::iterator find_value(Values& values, std::string_view attribute, std::string_view value) {
  return std::find_if(values.begin(), values.end(), [&](const Value& each) {
    return equal_ignoring_case(each.attribute, attribute) &&
           equal_values(attribute, each.value, value);
  });
}
bool has_attribute(const Values& values, std::string_view attribute) {
  return std::any_of(values.begin(), values.end(), [&](const Value& each) {
    return equal_ignoring_case(each.attribute, attribute);
  });
}
void erase_attribute(Values& values, std::string_view attribute) {
  std::erase_if(values,
                [&](const Value& each) { return equal_ignoring_case(each.attribute, attribute); });
}
/// Behind the other values of its attribute.
void insert_value(Values& values, Value value) {
  const auto last = std::find_if(values.rbegin(), values.rend(), [&](const Value& each) {
    return equal_ignoring_case(each.attribute, value.attribute);
  });
  if (last == values.rend()) {
    values.push_back(value);
  } else {
    values.insert(last.base(), {last->attribute, value.value});
  }
}

/// The level that names the entry itself; `text` of a suffix has several.
Rdn own_level(std::string_view text) {
  Dn dn = parse_dn(text).value();
  if (dn.rdns.empty()) throw Exception(Code::kCorrupt, "ldap: an entry has no name");
  return std::move(dn.rdns[0]);
}

Outcome increment(Values& values, const Change& change, Arena& arena) {
  const std::string attribute(change.attribute);
  const auto number = [](std::string_view text, std::int64_t& to) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    return error == std::errc() && end == text.data() + text.size();
  };
  std::int64_t by = 0;
  if (change.values.size() != 1 || !number(change.values[0], by))
    return refusal(ResultCode::kConstraintViolation,
                   attribute + ": an increment is one whole number");
  if (!has_attribute(values, attribute))
    return refusal(ResultCode::kNoSuchAttribute, attribute + ": the entry has none to increment");
  for (Value& value : values) {
    if (!equal_ignoring_case(value.attribute, attribute)) continue;
    std::int64_t now = 0;
    if (!number(value.value, now) || __builtin_add_overflow(now, by, &now))
      return refusal(ResultCode::kConstraintViolation, attribute + ": '" +
                                                           std::string(value.value.substr(0, 40)) +
                                                           "' cannot be incremented in 64 bits");
    value.value = arena.emplace_back(std::to_string(now));
  }
  return {};
}

/// Applies one change to `values`. What was stored before a refusal is dropped with the copy.
Outcome apply(Values& values, const Change& change, Arena& arena) {
  const std::string attribute(change.attribute);
  switch (change.kind) {
    case Change::Kind::kIncrement: return increment(values, change, arena);
    case Change::Kind::kReplace: erase_attribute(values, attribute); [[fallthrough]];
    case Change::Kind::kAdd:
      for (const std::string_view value : change.values) {
        if (find_value(values, attribute, value) != values.end())
          return refusal(ResultCode::kTypeOrValueExists,
                         attribute + ": the value is there already");
        insert_value(values, {change.attribute, value});
      }
      return {};
    case Change::Kind::kDelete:
      if (!has_attribute(values, attribute))
        return refusal(ResultCode::kNoSuchAttribute, attribute + ": the entry has none");
      if (change.values.empty()) erase_attribute(values, attribute);
      for (const std::string_view value : change.values) {
        const auto found = find_value(values, attribute, value);
        if (found == values.end())
          return refusal(ResultCode::kNoSuchAttribute, attribute + ": the entry has no such value");
        values.erase(found);
      }
      return {};
  }
  return refusal(ResultCode::kProtocolError, "no such kind of change");
}

}  // namespace

// ---- opening ------------------------------------------------------------------------------------

Directory::Directory(Pool& pool, const DirectoryOptions& options)
    : pool_(&pool), store_(pool.root<Store>(kRoot)), combiner_(pool) {
  const std::string kept = pool.read_only([&](Tx& tx) { return store_->indexed.str(tx); });
  if (options.seed && kept.empty()) {
    pool.atomically([&](Tx& tx) {
      if (store_->entries.size(tx) != 0) return;
      store_->entries.clear(tx);
      store_->names.clear(tx);
      while (!store_->equality.clear_some(tx, kStep)) {
      }
      store_->entries.use_seed(tx, *options.seed);
      store_->names.use_seed(tx, *options.seed);
      store_->equality.use_seed(tx, *options.seed);
    });
  }
  if (kept.empty()) {
    adopt_index(options.index.value_or(parse_attribute_list(kUsualIndex)));
  } else {
    indexed_ = parse_attribute_list(std::string_view(kept).substr(1));
    if (options.index && *options.index != indexed_) adopt_index(*options.index);
  }
}

void Directory::adopt_index(const std::vector<std::string>& wanted) {
  Pool& pool = *pool_;
  std::string list = "=";
  for (const std::string& attribute : wanted) list += (list.size() > 1 ? "," : "") + attribute;
  const bool any = pool.read_only([&](Tx& tx) { return store_->entries.size(tx) != 0; });
  if (any) {
    pool.atomically([&](Tx& tx) { store_->indexed.clear(tx); });                                // 1
    while (!pool.atomically([&](Tx& tx) { return store_->equality.clear_some(tx, kStep); })) {  // 2
    }
    indexed_ = wanted;
    std::uint64_t cursor = 0;
    do {  // 3
      cursor = pool.atomically([&](Tx& tx) {
        std::vector<std::pair<EntryId, std::string>> chunk;
        const std::uint64_t next = store_->entries.scan(
            tx, cursor, kStep,
            [&](EntryId id, std::string_view record) { chunk.emplace_back(id, record); });
        for (const auto& [id, record] : chunk) update_index(tx, id, {}, decode(record).values);
        return next;
      });
    } while (cursor != 0);
  }
  indexed_ = wanted;
  pool.atomically([&](Tx& tx) { store_->indexed.assign(tx, list); });  // 4
}

std::vector<std::string> parse_attribute_list(std::string_view text) {
  std::vector<std::string> attributes;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    std::string attribute = lower_case(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool plain =
        !attribute.empty() && std::all_of(attribute.begin(), attribute.end(), [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
        });
    if (!plain)
      throw Exception(Code::kInvalid, "the list of attributes has '" + attribute +
                                          "', which is none; write it as uid,cn,mail");
    attributes.push_back(std::move(attribute));
  }
  std::sort(attributes.begin(), attributes.end());
  attributes.erase(std::unique(attributes.begin(), attributes.end()), attributes.end());
  return attributes;
}

// ---- what updates share -------------------------------------------------------------------------

std::string Directory::name_key(EntryId parent, std::string_view rdn) {
  std::string key(reinterpret_cast<const char*>(&parent), sizeof(parent));
  key += rdn;
  return key;
}

Directory::Place Directory::locate(Tx& tx, const Dn& dn) const {
  Place place{kNoEntry, dn.rdns.size()};
  bool gap = true;  // nothing stands at the level above
  for (std::size_t level = dn.rdns.size(); level-- > 0;) {
    std::optional<EntryId> found;
    if (!gap) found = store_->names.get(tx, name_key(place.id, dn.rdns[level].normalised));
    if (!found) found = store_->names.get(tx, name_key(kNoEntry, dn.normalised(level)));
    gap = !found;
    if (found) place = {*found, level};
  }
  return place;
}

std::string Directory::record_of(Tx& tx, EntryId id) const {
  std::optional<std::string> record = store_->entries.get(tx, id);
  if (!record)
    throw Exception(Code::kCorrupt, pool_->path() + ": ldap: entry " + std::to_string(id) +
                                        " has a name and is not there; `perdure check` tells more");
  return std::move(*record);
}

void Directory::refuse_as_circle_at(std::size_t level) const {
  if (level < kMaxLevels) return;
  throw Exception(
      Code::kCorrupt,
      pool_->path() + ": ldap: an entry stands above itself; `perdure check` tells more");
}

std::string Directory::name_of(Tx& tx, EntryId id) const {
  std::string name;
  for (std::size_t level = 0; id != kNoEntry; ++level) {
    refuse_as_circle_at(level);
    const std::string bytes = record_of(tx, id);
    const Record record = decode(bytes);
    if (!name.empty()) name += ',';
    name += record.rdn;
    id = record.parent;
  }
  return name;
}

Outcome Directory::no_such_object(Tx& tx, const Place& place, const Dn& dn) const {
  return {ResultCode::kNoSuchObject, name_of(tx, place.id),
          "no entry '" + dn.text(place.unmatched == 0 ? 0 : place.unmatched - 1) + "'"};
}

EntryId Directory::draw_id(Tx& tx) {
  const EntryId id = tx.load(store_->drawn) + 1;
  tx.store(store_->drawn, id);
  return id;
}

bool Directory::is_indexed(std::string_view attribute) const {
  const std::string_view type = without_options(attribute);
  return std::any_of(indexed_.begin(), indexed_.end(),
                     [&](const std::string& known) { return equal_ignoring_case(known, type); });
}

void Directory::update_index(Tx& tx, EntryId id, const Values& before, const Values& after) {
  const auto hashes_of = [&](const Values& values) {
    std::vector<std::uint64_t> hashes;
    for (const Value& value : values) {
      if (is_indexed(value.attribute)) hashes.push_back(index_hash(value.attribute, value.value));
    }
    std::sort(hashes.begin(), hashes.end());
    hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
    return hashes;
  };
  const std::vector<std::uint64_t> old = hashes_of(before);
  const std::vector<std::uint64_t> fresh = hashes_of(after);
  std::vector<std::uint64_t> changed;
  std::set_difference(old.begin(), old.end(), fresh.begin(), fresh.end(),
                      std::back_inserter(changed));
  for (const std::uint64_t hash : changed) store_->equality.remove(tx, hash, id);
  changed.clear();
  std::set_difference(fresh.begin(), fresh.end(), old.begin(), old.end(),
                      std::back_inserter(changed));
  for (const std::uint64_t hash : changed) store_->equality.add(tx, hash, id);
}

Outcome Directory::update(const std::function<Outcome(Tx&)>& body) {
  Outcome outcome;
  combiner_.run([&](Tx& tx) { outcome = body(tx); });
  return outcome;
}

// ---- the updates --------------------------------------------------------------------------------

Outcome Directory::add(const Dn& dn, const Values& values, bool is_suffix) {
  if (dn.rdns.empty())
    return refusal(ResultCode::kUnwillingToPerform, "the root of all names is no entry");
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t k = i; k-- > 0 && values[k].attribute == values[i].attribute;) {
      if (equal_values(values[i].attribute, values[k].value, values[i].value))
        return refusal(ResultCode::kTypeOrValueExists,
                       std::string(values[i].attribute) + ": a value is given twice");
    }
  }
  return update([&](Tx& tx) -> Outcome {
    const Place place = locate(tx, dn);
    if (place.unmatched == 0)
      return refusal(ResultCode::kAlreadyExists, "'" + dn.text() + "' is there already");
    const bool has_parent = place.unmatched == 1 && place.id != kNoEntry;
    if (!has_parent && !is_suffix) return no_such_object(tx, place, dn);
    const EntryId parent = has_parent ? place.id : kNoEntry;
    const EntryId id = draw_id(tx);
    const std::string name = has_parent ? dn.rdns[0].text : dn.text();
    store_->entries.put(tx, id, encode({parent, name, values}));
    store_->names.put(tx, name_key(parent, has_parent ? dn.rdns[0].normalised : dn.normalised()),
                      id);
    store_->children.put(tx, {parent, id}, 0);
    update_index(tx, id, {}, values);
    return {};
  });
}

Outcome Directory::remove(const Dn& dn) {
  return update([&](Tx& tx) -> Outcome {
    const Place place = locate(tx, dn);
    if (place.id == kNoEntry || place.unmatched != 0) return no_such_object(tx, place, dn);
    const auto child = store_->children.lower_bound(tx, {place.id, 0});
    if (child && child->first.first == place.id)
      return refusal(ResultCode::kNotAllowedOnNonLeaf, "there are entries below it");
    const std::string bytes = record_of(tx, place.id);
    const Record record = decode(bytes);
    update_index(tx, place.id, record.values, {});
    store_->children.erase(tx, {record.parent, place.id});
    store_->names.erase(
        tx, name_key(record.parent,
                     record.parent == kNoEntry ? dn.normalised() : dn.rdns[0].normalised));
    store_->entries.erase(tx, place.id);
    return {};
  });
}

Outcome Directory::modify(const Dn& dn, const std::vector<Change>& changes) {
  return update([&](Tx& tx) -> Outcome {
    const Place place = locate(tx, dn);
    if (place.id == kNoEntry || place.unmatched != 0) return no_such_object(tx, place, dn);
    const std::string bytes = record_of(tx, place.id);
    const Record before = decode(bytes);
    Record after = before;
    Arena arena;
    for (const Change& change : changes) {
      Outcome outcome = apply(after.values, change, arena);
      if (outcome.code != ResultCode::kSuccess) return outcome;
    }
    for (const NamePart& part : own_level(before.rdn).parts) {
      if (find_value(after.values, part.attribute, part.value) == after.values.end())
        return refusal(ResultCode::kNotAllowedOnRdn,
                       part.attribute + ": the entry is named by the value; rename it instead");
    }
    if (has_attribute(before.values, "objectClass") && !has_attribute(after.values, "objectClass"))
      return refusal(ResultCode::kObjectClassViolation, "an entry must keep an objectClass");
    update_index(tx, place.id, before.values, after.values);
    store_->entries.put(tx, place.id, encode(after));
    return {};
  });
}

Outcome Directory::rename(const Dn& dn, const Rdn& new_rdn, bool delete_old_rdn,
                          const Dn* new_superior) {
  return update([&](Tx& tx) -> Outcome {
    const Place place = locate(tx, dn);
    if (place.id == kNoEntry || place.unmatched != 0) return no_such_object(tx, place, dn);
    const std::string bytes = record_of(tx, place.id);
    const Record before = decode(bytes);
    if (before.parent == kNoEntry)
      return refusal(ResultCode::kUnwillingToPerform, "a suffix cannot be renamed");
    Record after = before;
    if (new_superior != nullptr) {
      const Place above = locate(tx, *new_superior);
      if (above.id == kNoEntry || above.unmatched != 0)
        return no_such_object(tx, above, *new_superior);
      std::size_t level = 0;
      for (EntryId up = above.id; up != kNoEntry; up = parent_of(record_of(tx, up))) {
        refuse_as_circle_at(level++);
        if (up == place.id)
          return refusal(ResultCode::kUnwillingToPerform, "an entry cannot stand below itself");
      }
      after.parent = above.id;
    }
    const Rdn& old_rdn = dn.rdns[0];
    const std::string key = name_key(after.parent, new_rdn.normalised);
    const std::optional<EntryId> taken = store_->names.get(tx, key);
    if (taken && *taken != place.id)
      return refusal(ResultCode::kAlreadyExists, "an entry of that name is there already");

    if (delete_old_rdn) {
      for (const NamePart& part : old_rdn.parts) {
        const auto found = find_value(after.values, part.attribute, part.value);
        if (found != after.values.end()) after.values.erase(found);
      }
    }
    for (const NamePart& part : new_rdn.parts) {
      if (find_value(after.values, part.attribute, part.value) == after.values.end())
        insert_value(after.values, {part.attribute, part.value});
    }
    after.rdn = new_rdn.text;
    store_->names.erase(tx, name_key(before.parent, old_rdn.normalised));
    store_->names.put(tx, key, place.id);
    if (after.parent != before.parent) {
      store_->children.erase(tx, {before.parent, place.id});
      store_->children.put(tx, {after.parent, place.id}, 0);
    }
    update_index(tx, place.id, before.values, after.values);
    store_->entries.put(tx, place.id, encode(after));
    return {};
  });
}

}  // namespace perdure::ldap
