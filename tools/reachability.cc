// SPDX-License-Identifier: BSD-3-Clause
#include "tools/reachability.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>

#include "perdure/api/pool_core.h"
#include "perdure/heap/layout.h"
#include "perdure/object/survey.h"
#include "perdure/type_id.h"
#include "tools/known_types.h"

namespace perdure::tools {
namespace {

class Tracer {
 public:
  explicit Tracer(Pool& pool) : pool_(&pool) {
    core_of(pool).heap().for_each_object(
        [&](Offset offset, std::uint64_t bytes) { live_.push_back({offset, bytes}); });
    std::sort(live_.begin(), live_.end(),
              [](const Reachability::Object& a, const Reachability::Object& b) {
                return a.offset < b.offset;
              });
    result_.objects = live_.size();
  }

  Reachability run() {
    pool_->read_only([&](Tx& tx) {
      for (const RootEntry& root : core_of(*pool_).roots(tx)) visit_root(tx, root);
    });
    result_.reached = reached_.size();
    if (result_.opaque.empty() && result_.damage.empty()) {
      std::copy_if(
          live_.begin(), live_.end(), std::back_inserter(result_.leaked),
          [&](const Reachability::Object& object) { return !reached_.contains(object.offset); });
      // Where there is no garbage, nothing refers to an object but what was found.
      if (result_.leaked.empty() && uncounted_) result_.damage.push_back(*uncounted_);
    }
    return std::move(result_);
  }

 private:
  void visit_root(Tx& tx, const RootEntry& root) {
    name_ = "root '" +
            std::string(root.name.data(), ::strnlen(root.name.data(), root.name.size())) + "'";
    if (root.type == type_id<object_layout::Control>() &&
        root.bytes == sizeof(object_layout::Control))
      return visit_objects(tx, root);
    const KnownType* known = find_known_type(root.type);
    if (known == nullptr || known->bytes != root.bytes) result_.opaque.push_back(name_);
    try {
      reach(root.object);
      if (known == nullptr || known->bytes != root.bytes) return;
      Region& region = core_of(*pool_).region();
      CheckedTx checked(tx, *pool_);
      if (const auto wrong = known->audit(checked, region.at<void*>(root.object),
                                          [&](Offset at) { return reach(at); }))
        damaged(*wrong);
    } catch (const std::exception& error) {  // also a length that no memory could hold
      damaged(error.what());
    }
  }

  /// A heap of objects describes its classes itself.
  void visit_objects(Tx& tx, const RootEntry& root) {
    try {
      reach(root.object);
      CheckedTx checked(tx, *pool_);
      object_layout::Survey survey(
          checked, core_of(*pool_).region().at<const object_layout::Control>(root.object),
          [&](Offset at) { return reach(at).most; });
      if (const auto wrong = survey.run()) damaged(*wrong);
      if (survey.uncounted()) uncounted_ = name_ + ": " + *survey.uncounted();
    } catch (const std::exception& error) {
      damaged(error.what());
    }
  }

  void damaged(const std::string& what) { result_.damage.push_back(name_ + ": " + what); }

  /// The room of the live object at `offset`. Throws when there is none, and when going on could
  /// be endless.
  detail::Room reach(Offset offset) {
    const auto found = std::lower_bound(
        live_.begin(), live_.end(), offset,
        [](const Reachability::Object& object, Offset wanted) { return object.offset < wanted; });
    if (found == live_.end() || found->offset != offset)
      throw Exception(Code::kCorrupt,
                      "refers to byte " + std::to_string(offset) + ", where no live object starts");
    if (!reached_.insert(offset).second)
      throw Exception(Code::kCorrupt,
                      "reaches the object at byte " + std::to_string(offset) + " a second time");
    return room_of(*pool_, found->bytes);
  }

  Pool* pool_;
  std::vector<Reachability::Object> live_;
  std::unordered_set<Offset> reached_;
  Reachability result_;
  std::string name_;                      // of the root in hand
  std::optional<std::string> uncounted_;  // an object that counts more references than were found
};

}  // namespace

detail::Room room_of(const Pool& pool, std::uint64_t bytes) {
  return {heap_layout::least_bytes(core_of(pool).region().geometry(), bytes), bytes};
}

Reachability trace(Pool& pool) { return Tracer(pool).run(); }

Reachability trace_and_compare(Pool& pool) {
  Reachability found = trace(pool);
  const PageSumsReport pages = core_of(pool).region().check_sums().value();
  for (const auto& differs : pages.damage) found.damage.push_back(differs.what());
  return found;
}

}  // namespace perdure::tools
