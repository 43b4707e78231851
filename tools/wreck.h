// SPDX-License-Identifier: BSD-3-Clause
// Wreck: a damaged pool, of which all that can be proved is to be saved (container/salvage.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "perdure/api/pool_core.h"
#include "perdure/container/salvage.h"
#include "perdure/pool.h"
#include "tools/checked_tx.h"
#include "tools/reachability.h"

namespace perdure::tools {

/// Whether the entry of a root table has a name and its checksum.
bool is_whole(const RootEntry& entry);
/// Makes the entry what it was before one of its bits changed, or its link, which led to one of the
/// objects. False: it cannot be told.
bool mend_root(RootEntry& entry, const std::vector<Reachability::Object>& live);

class Wreck {
 public:
  struct Root {
    std::string name;
    std::uint64_t type;
    Offset object;
    std::uint64_t bytes;
  };

  /// Opens a private copy of the file. What is damaged in its logs, its heap and its root table goes
  /// to lost(). Of a damaged log it takes what comes before; of an entry of the table one flipped bit,
  /// or all of its link, is put right in the copy.
  /// Errors: throws Exception; the superblock and the heads of the logs have to be whole.
  explicit Wreck(const std::string& path);

  Pool& pool() { return pool_; }
  const std::vector<Root>& roots() const { return roots_; }
  const std::vector<std::string>& lost() const { return lost_; }
  void lose(std::string what) { lost_.push_back(std::move(what)); }
  /// How many objects of the heap neither a root led to nor salvage() found.
  std::uint64_t strays() const {
    return static_cast<std::uint64_t>(std::count(reached_.begin(), reached_.end(), false));
  }
  void* object(const Root& root) { return core_of(pool_).region().at<void*>(root.object); }

  /// Calls `take` for each entry of the container at `root` that can be proved: with key and value;
  /// of a vector with index and element; of a string with its text.
  template <class Container, class Take>
  void salvage(const Root& root, Take take) {
    const std::vector<bool> none(live_.size());
    Finder<Take> finder{*this, root, none, none, take};
    try {
      finder.visit(root.object);
      CheckedTx tx(pool_);
      detail::Salvage<Container>::run(tx, *static_cast<const Container*>(object(root)), finder);
    } catch (const std::exception& error) {  // also a length that no memory could hold
      finder.lose(error.what());
    }
    for (std::size_t i = 0; i < live_.size(); ++i)
      reached_[i] = reached_[i] || finder.reached[i] || finder.doubted[i];
    for (std::size_t i = 0; surveying_ && !is_damaged(root) && i < live_.size(); ++i)
      owned_[i] = owned_[i] || finder.reached[i];
  }

 private:
  template <class Take>
  struct Finder {
    Wreck& wreck;
    const Root& root;
    std::vector<bool> reached;  // of the live objects, by this root
    std::vector<bool> doubted;
    Take& on_entry;

    detail::Room visit(Offset offset) {
      const std::size_t index = wreck.index_of(offset);
      if (reached[index]) refuse_second_link(offset);
      if (!wreck.surveying_ && wreck.owned_[index] && wreck.is_damaged(root))
        throw Exception(Code::kCorrupt, "the object at byte " + std::to_string(offset) +
                                            " belongs to a root that is sound");
      reached[index] = true;
      return wreck.room(index);
    }
    bool is_live(Offset offset) const { return wreck.find(offset) != wreck.live_.end(); }
    detail::Room visit_only(Offset offset) {
      const std::size_t index = wreck.index_of(offset);
      if (wreck.surveying_ && reached[index]) wreck.shared_.insert(offset);
      if (wreck.shared_.contains(offset)) refuse_second_link(offset);
      return visit(offset);
    }
    void release(Offset offset) { reached[wreck.index_of(offset)] = false; }
    void seems_empty() {
      if (wreck.surveying_) wreck.empty_.push_back(root.object);
    }
    void doubt(Offset offset) {
      reached[wreck.index_of(offset)] = false;
      doubted[wreck.index_of(offset)] = true;
    }
    template <class F>
    void for_each_stray(F f) {
      if (!wreck.may_claim(root)) return;
      for (std::size_t i = 0; i < reached.size(); ++i) {
        if (!reached[i] && !wreck.reached_[i]) f(wreck.live_[i].offset, wreck.room(i));
      }
    }
    template <class... Entry>
    void take(Entry&&... entry) {
      on_entry(std::forward<Entry>(entry)...);
    }
    [[noreturn]] static void refuse_second_link(Offset offset) {
      throw Exception(Code::kCorrupt,
                      "a second link leads to the object at byte " + std::to_string(offset));
    }
    void lose(const std::string& what) {
      wreck.damaged(root);
      if (!wreck.surveying_) wreck.lose("root '" + root.name + "': " + what);
    }
  };

  using Objects = std::vector<Reachability::Object>;
  Objects::const_iterator find(Offset offset) const;
  /// Throws when no live object starts there.
  std::size_t index_of(Offset offset) const;
  detail::Room room(std::size_t index) const;
  bool is_damaged(const Root& root) const {
    return std::find(damaged_.begin(), damaged_.end(), root.object) != damaged_.end();
  }
  /// Where only one root leads to damage, what no link leads to is its.
  bool may_claim(const Root& root) const {
    return !surveying_ && damaged_.size() == 1 && damaged_[0] == root.object;
  }
  void damaged(const Root& root) {
    if (surveying_ && (damaged_.empty() || damaged_.back() != root.object))
      damaged_.push_back(root.object);
  }
  void find_roots();
  void survey();

  std::vector<std::string> lost_;
  Pool pool_;
  std::vector<Root> roots_;
  Objects live_;  // by offset
  bool surveying_ = true;
  std::vector<bool> reached_;    // of the live objects, by any root
  std::vector<bool> owned_;      // by a root that is sound
  std::vector<Offset> damaged_;  // root objects that lead to damage
  std::vector<Offset> empty_;    // root objects that lead nowhere
  std::set<Offset> shared_;      // to which several links lead where one should
};

}  // namespace perdure::tools
