// SPDX-License-Identifier: BSD-3-Clause
// survey(): finds everything that an object heap owns, without the program's classes, and tells
// whether its reference counts are right. For `perdure check`, the crash explorer and tests; it
// trusts nothing that it reads.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "perdure/object/layout.h"
#include "perdure/object/types.h"
#include "perdure/tx.h"

namespace perdure::object_layout {

template <class Tx, class Visit>
class Survey {
 public:
  /// `visit(offset)`: called once for each allocation; returns its bytes, and throws Exception
  /// where none is.
  Survey(Tx& tx, const Control* control, Visit visit)
      : tx_(&tx), control_(control), visit_(std::move(visit)) {}

  /// Nothing, or what is wrong. What is not reached is for the caller to find: garbage has no
  /// owner.
  std::optional<std::string> run() {
    if (tx_->load(control_->magic) == 0) return std::nullopt;  // not made yet
    if (tx_->load(control_->magic) != kMagic) return "the root 'objects' is not an object heap's";
    if (tx_->load(control_->version) > kVersion)
      return "the objects are of a newer version than this tool knows";
    if (!read_types()) return wrong_;
    std::unordered_map<Offset, std::uint32_t> places;
    read_orphans(places);
    const Offset root = tx_->load(control_->root);
    expect_reference(root);
    for (const auto& [orphan, place] : places) add(orphan);
    for (const Stripe& stripe : control_->stripes) read_dead(stripe);
    while (!todo_.empty() && !wrong_) {
      const Offset object = todo_.back();
      todo_.pop_back();
      look_at(object);
    }
    for (const auto& [object, found] : objects_) {
      if (wrong_) break;
      judge(object, found, places);
    }
    judge_proxies();
    return wrong_;
  }

  /// After run(): an object or proxy that counts more references than were found. Wrong, too,
  /// unless what nothing reaches has them.
  const std::optional<std::string>& uncounted() const { return uncounted_; }

 private:
  struct Found {
    std::uint64_t references = 0;
    bool dead = false;
  };
  struct FoundProxy {
    std::uint64_t references = 0;
    bool owned = false;  // by the object that it leads to
  };

  template <class T>
  const T* at(Offset offset) const {
    return tx_->at(pptr<T>{offset});
  }
  std::string name(Offset object) const { return "the object at byte " + std::to_string(object); }
  void wrong(std::string what) {
    if (!wrong_) wrong_ = std::move(what);
  }

  bool read_types() {
    std::vector<std::string> texts;
    for (Offset record = tx_->load(control_->types); record != 0;) {
      const std::uint64_t room = visit_(record);
      const std::uint64_t bytes =
          room < sizeof(TypeRecord) ? ~std::uint64_t{0} : tx_->load(at<TypeRecord>(record)->bytes);
      if (bytes > room - sizeof(TypeRecord) || texts.size() == kMostTypes) {
        wrong("the description of a class at byte " + std::to_string(record) + " has no room");
        return false;
      }
      std::string text(bytes, '\0');
      tx_->read(text.data(), at<TypeRecord>(record) + 1, bytes);
      texts.push_back(std::move(text));
      record = tx_->load(at<TypeRecord>(record)->next);
    }
    for (auto text = texts.rbegin(); text != texts.rend(); ++text) {
      auto type = TypeInfo::parse(*text);
      if (!type) {
        wrong(type.error().message);
        return false;
      }
      types_.push_back(std::move(type).value());
    }
    return true;
  }

  void read_orphans(std::unordered_map<Offset, std::uint32_t>& places) {
    std::vector<Offset> tables;
    for (Offset table = tx_->load(control_->orphans); table != 0;
         table = tx_->load(at<OrphanTable>(table)->next)) {
      if (visit_(table) < sizeof(OrphanTable))
        return wrong("a table of orphans at byte " + std::to_string(table) + " is cut off");
      tables.push_back(table);
    }
    for (std::size_t i = 0; i < tables.size() * OrphanTable::kSlots; ++i) {
      const Offset table = tables[tables.size() - 1 - i / OrphanTable::kSlots];
      const Offset orphan = tx_->load(at<OrphanTable>(table)->slots[i % OrphanTable::kSlots]);
      if (orphan != 0 && !places.emplace(orphan, static_cast<std::uint32_t>(i)).second)
        wrong(name(orphan) + " stands twice among the orphans");
    }
  }

  void read_dead(const Stripe& stripe) {
    for (Offset object = tx_->load(stripe.dead); object != 0 && !wrong_;) {
      Found& found = add(object);
      if (found.dead) return wrong(name(object) + " stands twice among the dead");
      found.dead = true;
      object = tx_->load(header(object).aside);
    }
  }

  const Header& header(Offset object) const { return *at<Header>(object - kHeaderBytes); }
  Found& add(Offset object) {
    const auto [found, is_new] = objects_.try_emplace(object);
    if (is_new) {
      if (object < kHeaderBytes)
        wrong("a reference leads to byte " + std::to_string(object));
      else
        rooms_[object] = visit_(object - kHeaderBytes);
      todo_.push_back(object);
    }
    return found->second;
  }
  void expect_reference(Offset object) { ++add(object).references; }

  /// Follows what the object refers to.
  void look_at(Offset object) {
    const Word state = tx_->load(header(object).state);
    const std::uint16_t number = type_of(state);
    if (number == 0 || number > types_.size())
      return wrong(name(object) + " is of the class " + std::to_string(number) + " of " +
                   std::to_string(types_.size()));
    const TypeInfo& type = types_[number - 1];
    const std::uint64_t room = rooms_[object];
    std::uint64_t bytes = kHeaderBytes + type.bytes;
    std::uint64_t elements = 0;
    if (type.is_array && room >= bytes) {
      elements = tx_->load(*at<std::uint64_t>(object));
      bytes = elements > room ? ~std::uint64_t{0} : bytes + elements * type.members[0].bytes;
    }
    if (bytes > room)
      return wrong(name(object) + " is a " + type.name + " of " + std::to_string(bytes) +
                   " bytes in a place of " + std::to_string(room));
    for (const Member& member : type.members) {
      if (member.kind == MemberKind::kValue) continue;
      const std::uint64_t count = type.is_array ? elements : member.count;
      for (std::uint64_t i = 0; i < count; ++i) {
        const Offset to = tx_->load(*at<Offset>(object + member.offset + i * sizeof(Offset)));
        if (to == 0) continue;
        if (member.kind == MemberKind::kRef)
          expect_reference(to);
        else
          ++add_proxy(to).references;
      }
    }
    if ((state & kDead) != 0) return;
    const Offset proxy = tx_->load(header(object).aside);
    if (proxy == 0) return;
    add_proxy(proxy).owned = true;
    if (tx_->load(at<Proxy>(proxy)->target) != object)
      wrong(name(object) + " has a proxy that leads elsewhere");
  }
  FoundProxy& add_proxy(Offset proxy) {
    const auto [found, is_new] = proxies_.try_emplace(proxy);
    if (is_new && visit_(proxy) < sizeof(Proxy))
      wrong("a weak reference leads to byte " + std::to_string(proxy));
    return found->second;
  }

  void judge(Offset object, const Found& found,
             const std::unordered_map<Offset, std::uint32_t>& places) {
    const Word state = tx_->load(header(object).state);
    const auto place = places.find(object);
    const bool orphan = (state & kOrphan) != 0;
    if (orphan != (place != places.end()) || (orphan && count_of(state) != place->second))
      return wrong(name(object) + " and the table of orphans contradict each other");
    if (((state & kDead) != 0) != found.dead)
      return wrong(name(object) + " and the lists of the dead contradict each other");
    const std::uint64_t counted = orphan ? 0 : count_of(state);
    compare(name(object), counted, found.references);
  }
  void compare(const std::string& what, std::uint64_t counted, std::uint64_t found) {
    if (counted == found) return;
    std::string text = what + " counts " + std::to_string(counted) + " references, and has " +
                       std::to_string(found);
    if (counted < found) {
      wrong(std::move(text));
    } else {
      uncounted_ = std::move(text);
    }
  }
  void judge_proxies() {
    for (const auto& [offset, found] : proxies_) {
      if (wrong_) return;
      const Proxy* const proxy = at<Proxy>(offset);
      compare("the proxy at byte " + std::to_string(offset), tx_->load(proxy->count),
              found.references);
      const Offset target = tx_->load(proxy->target);
      // One of an object that nothing reaches leads there still: that is garbage, and not wrong.
      if (found.owned ? target == 0 : target != 0 && objects_.contains(target))
        return wrong("the proxy at byte " + std::to_string(offset) + " leads to " +
                     (target == 0 ? "nothing" : name(target) + ", which does not own it"));
    }
  }

  Tx* tx_;
  const Control* control_;
  Visit visit_;
  std::vector<TypeInfo> types_;
  std::unordered_map<Offset, Found> objects_;
  std::unordered_map<Offset, std::uint64_t> rooms_;
  std::unordered_map<Offset, FoundProxy> proxies_;
  std::vector<Offset> todo_;
  std::optional<std::string> wrong_;
  std::optional<std::string> uncounted_;
};

/// Judges a heap in which everything is reached.
template <class Tx, class Visit>
std::optional<std::string> survey(Tx& tx, const Control* control, Visit visit) {
  Survey<Tx, Visit> all(tx, control, std::move(visit));
  const auto wrong = all.run();
  return wrong ? wrong : all.uncounted();
}

}  // namespace perdure::object_layout
