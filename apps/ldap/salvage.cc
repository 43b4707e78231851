// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/salvage.h"

#include <set>
#include <utility>

#include "apps/ldap/directory.h"
#include "apps/ldap/dn.h"
#include "apps/ldap/entry.h"

namespace perdure::ldap {
namespace {

std::string named(EntryId id) { return "entry " + std::to_string(id); }

}  // namespace

DirectoryCopier::DirectoryCopier(Pool& to, const std::string& root, Lose lose)
    : pool_(&to), store_(to.root<Store>(root)), lose_(std::move(lose)) {}

std::uint64_t DirectoryCopier::finish() {
  drop_what_cannot_be_read();
  ground();
  std::uint64_t entries = 0;
  for (const auto& [id, record] : records_) entries += put(id, record) ? 1 : 0;
  const EntryId newest = records_.empty() ? 0 : records_.rbegin()->first;
  pool_->atomically([&](Tx& tx) { tx.store(store_->drawn, newest); });
  DirectoryOptions options;
  try {
    if (!indexed_.empty())
      options.index = parse_attribute_list(std::string_view(indexed_).substr(1));
  } catch (const Exception&) {  // the usual ones, then
  }
  Directory(*pool_, options);
  return entries;
}

void DirectoryCopier::drop_what_cannot_be_read() {
  for (auto at = records_.begin(); at != records_.end();) {
    try {
      (void)decode(at->second);
      ++at;
    } catch (const Exception& error) {
      lose_(named(at->first) + ": " + error.what());
      at = records_.erase(at);
    }
  }
}

/// Afterwards every entry stands below a suffix.
void DirectoryCopier::ground() {
  std::set<EntryId> grounded{kNoEntry};
  std::vector<EntryId> ids;
  for (const auto& [id, record] : records_) ids.push_back(id);
  for (const EntryId id : ids) {
    std::set<EntryId> path;
    for (EntryId at = id; !grounded.contains(at);) {
      path.insert(at);
      const EntryId above = parent_of(records_.at(at));
      if (above != kNoEntry && !records_.contains(above)) {
        lose_(named(above) + " is lost, and others stand below it: they are below cn=salvaged-" +
              std::to_string(above));
        stand_in_for(above);
      }
      if (path.contains(above)) {
        const EntryId fresh = records_.rbegin()->first + 1;
        lose_(named(at) + " stands above itself; it is below cn=salvaged-" + std::to_string(fresh));
        stand_in_for(fresh);
        move(at, fresh);
        break;
      }
      at = above;
    }
    grounded.merge(path);
  }
}

void DirectoryCopier::stand_in_for(EntryId lost) {
  const std::string name = "salvaged-" + std::to_string(lost);
  records_[lost] =
      encode({kNoEntry,
              "cn=" + name,
              {{"objectClass", "applicationProcess"},
               {"cn", name},
               {"description", "stands for an entry that perdure salvage did not find"}}});
}

void DirectoryCopier::move(EntryId id, EntryId below) {
  const std::string before = records_.at(id);
  Record record = decode(before);
  record.parent = below;
  records_[id] = encode(record);
}

/// False: it is lost.
bool DirectoryCopier::put(EntryId id, std::string_view bytes) {
  const Record record = decode(bytes);
  std::string name;
  if (record.parent == kNoEntry) {
    if (auto dn = parse_dn(record.rdn)) name = dn->normalised();
  } else if (auto rdn = parse_rdn(record.rdn)) {
    name = rdn->normalised;
  }
  if (name.empty()) {
    lose_(named(id) + ": '" + std::string(record.rdn) + "' is no name");
    return false;
  }
  const bool fresh = pool_->atomically(Durability::kRelaxed, [&](Tx& tx) {
    if (!store_->names.try_put(tx, Directory::name_key(record.parent, name), id)) return false;
    store_->entries.put(tx, id, bytes);
    store_->children.put(tx, {record.parent, id}, 0);
    return true;
  });
  if (!fresh) lose_(named(id) + ": another has its name, '" + std::string(record.rdn) + "'");
  return fresh;
}

}  // namespace perdure::ldap
