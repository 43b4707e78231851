// SPDX-License-Identifier: BSD-3-Clause
// Directory: a tree of LDAP entries in a pool, with equality indexes. It does what a back end of
// slapd is asked to do; every update is one durable transaction.
//
// Not for: schemas. What attributes an entry may have is slapd's to say; the directory only keeps
// an entry's name among its values and one object class in it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ldap/combiner.h"
#include "apps/ldap/dn.h"
#include "apps/ldap/entry.h"
#include "apps/ldap/filter.h"
#include "apps/ldap/store.h"
#include "perdure/pool.h"

namespace perdure::ldap {

/// The result codes of RFC 4511 that a directory answers with.
enum class ResultCode : int {
  kSuccess = 0,
  kOperationsError = 1,
  kProtocolError = 2,
  kTimeLimitExceeded = 3,
  kSizeLimitExceeded = 4,
  kCompareFalse = 5,
  kCompareTrue = 6,
  kAuthMethodNotSupported = 7,
  kAdminLimitExceeded = 11,
  kNoSuchAttribute = 16,
  kConstraintViolation = 19,
  kTypeOrValueExists = 20,
  kInvalidSyntax = 21,
  kNoSuchObject = 32,
  kInvalidDnSyntax = 34,
  kInvalidCredentials = 49,
  kUnwillingToPerform = 53,
  kObjectClassViolation = 65,
  kNotAllowedOnNonLeaf = 66,
  kNotAllowedOnRdn = 67,
  kAlreadyExists = 68,
  kOther = 80,
};

struct Outcome {
  ResultCode code = ResultCode::kSuccess;
  std::string matched;  // the name of the nearest entry above what was not found
  std::string info;
};

struct Change {
  enum class Kind { kAdd, kDelete, kReplace, kIncrement };
  Kind kind;
  std::string_view attribute;
  std::vector<std::string_view> values;
};

struct Search {
  enum class Scope { kBase, kOneLevel, kSubtree, kBelow };
  Dn base;
  Scope scope = Scope::kSubtree;
  Filter filter;
  std::uint64_t size_limit = 0;  // 0: none
  std::chrono::seconds time_limit{0};
};

struct DirectoryOptions {
  /// The attributes to index; not given: those that the pool has, or the usual ones for a new one.
  std::optional<std::vector<std::string>> index;
  /// Hash seed of a new directory, for tests that must be replayed word by word.
  std::optional<std::uint64_t> seed;
};

class Directory {
 public:
  /// Opens the directory of `pool`, which must outlive it, and brings the index up to
  /// `options.index`; that takes a while when it changes.
  ///   1. the list of indexed attributes is emptied    cut from here on ⇒ the next open starts over
  ///   2. the old index goes, some postings at a time
  ///   3. the new one comes, some entries at a time
  ///   4. the new list is stored                       cut after it ⇒ the index is whole
  /// Requires: no other thread uses the pool until it returns.
  /// Errors: throws Exception as Pool::root, kInvalid for an attribute that cannot be one.
  explicit Directory(Pool& pool, const DirectoryOptions& options = {});

  // The updates. Durable: on return. Threads: any. Errors: the outcome says, and nothing has
  // changed; throws Exception as Pool::atomically, kCorrupt when the pool is damaged.

  /// `values` hold each attribute's values together (see gather()). `is_suffix`: the entry may
  /// stand without one above it.
  /// Errors: kAlreadyExists, kNoSuchObject (no parent), kTypeOrValueExists, kInvalidDnSyntax.
  Outcome add(const Dn& dn, const Values& values, bool is_suffix);
  /// Errors: kNoSuchObject, kNotAllowedOnNonLeaf.
  Outcome remove(const Dn& dn);
  /// All changes or none, in order. Errors: kNoSuchObject, kNoSuchAttribute, kTypeOrValueExists,
  /// kNotAllowedOnRdn, kObjectClassViolation, kConstraintViolation.
  Outcome modify(const Dn& dn, const std::vector<Change>& changes);
  /// Gives the entry a new name at its level, and with `new_superior` another place; what is below
  /// comes with it.
  /// Errors: kNoSuchObject, kAlreadyExists, kUnwillingToPerform (a suffix, or below itself).
  Outcome rename(const Dn& dn, const Rdn& new_rdn, bool delete_old_rdn, const Dn* new_superior);

  // The questions. Each entry is read in a transaction of its own, so that a long search neither
  // waits for updates nor holds them up: it sees each entry whole, and all that were there
  // throughout.

  /// kCompareTrue, kCompareFalse. Errors: kNoSuchObject, kNoSuchAttribute.
  Outcome compare(const Dn& dn, std::string_view attribute, std::string_view value);
  /// Whether `password` is one of the entry's userPasswords. Errors: kInvalidCredentials, whatever
  /// the reason.
  Outcome bind(const Dn& dn, std::string_view password);
  /// Calls `emit(dn, values)` for every entry in scope that the filter finds, in no order.
  /// Errors: kNoSuchObject, kSizeLimitExceeded, kTimeLimitExceeded; what was found before stays
  /// emitted.
  using Emit = std::function<void(const std::string& dn, const Values& values)>;
  Outcome search(const Search& search, const Emit& emit);

  /// Conflicts with every concurrent addition and removal.
  std::uint64_t size();
  std::vector<std::string> indexed_attributes() const { return indexed_; }
  /// Whether names, children and index say exactly what the entries say; what is wrong, a few
  /// findings at most. Requires: no other thread uses the pool.
  std::vector<std::string> verify();

  /// What Store::names has for an entry. Of a suffix the level is its whole name.
  static std::string name_key(EntryId parent, std::string_view rdn);

 private:
  class Searcher;

  struct Place {
    EntryId id = kNoEntry;
    std::size_t unmatched = 0;  // levels of the name that were not found
  };
  /// The level `rdn` of a name below `parent`, as the key of Store::names.
  /// Walks down from the suffix as far as the name goes.
  Place locate(Tx& tx, const Dn& dn) const;
  std::string record_of(Tx& tx, EntryId id) const;
  /// On a way up: throws Exception kCorrupt where no entry is so deep.
  void refuse_as_circle_at(std::size_t level) const;
  /// The name of an entry, put together on the way up. kCorrupt if that goes in circles.
  std::string name_of(Tx& tx, EntryId id) const;
  Outcome no_such_object(Tx& tx, const Place& place, const Dn& dn) const;
  EntryId draw_id(Tx& tx);
  bool is_indexed(std::string_view attribute) const;
  /// Adds and removes what tells the postings of `after` from those of `before`.
  void update_index(Tx& tx, EntryId id, const Values& before, const Values& after);

  /// Durable: on return, alone or with other threads' updates (see combiner.h).
  Outcome update(const std::function<Outcome(Tx&)>& body);
  void adopt_index(const std::vector<std::string>& wanted);

  Pool* pool_;
  Store* store_;
  Combiner combiner_;
  std::vector<std::string> indexed_;  // in lower case
};

/// Splits "uid,cn" at its commas, into lower case. Errors: throws Exception kInvalid.
std::vector<std::string> parse_attribute_list(std::string_view text);

}  // namespace perdure::ldap
