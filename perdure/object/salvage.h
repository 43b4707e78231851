// SPDX-License-Identifier: BSD-3-Clause
// What can be proved of a damaged heap of objects: all that references of the right class lead to from
// the root, and what a damaged one has led to, where the counts tell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "perdure/container/salvage.h"
#include "perdure/object/layout.h"
#include "perdure/object/types.h"

namespace perdure::object_layout {

/// Calls `f(place, member)` for each reference of an object, null or not, with the offset where it
/// stands. `elements`: of an array.
template <class F>
void for_each_reference(const TypeInfo& type, Offset object, std::uint64_t elements, F&& f) {
  for (const Member& member : type.members) {
    if (member.kind == MemberKind::kValue) continue;
    const std::uint64_t count = type.is_array ? elements : member.count;
    for (std::uint64_t i = 0; i < count; ++i)
      f(object + member.offset + i * sizeof(Offset), member);
  }
}

/// What was found.
struct Graph {
  struct Object {
    std::uint16_t type = 0;   // number; 0: none
    std::uint64_t bytes = 0;  // without the header
    std::uint64_t elements = 0;
    std::uint64_t references = 0;  // that lead to it
    bool has_weak = false;         // references
  };
  const std::byte* base = nullptr;  // of the damaged pool
  std::vector<TypeInfo> types;      // number 1 first
  std::vector<Offset> order;        // of the objects, as they were found: the root first
  std::unordered_map<Offset, Object> objects;
  /// What the reference at a place leads to: an object. Others are null.
  std::unordered_map<Offset, Offset> links;
};

}  // namespace perdure::object_layout

namespace perdure::detail {

template <class Tx, class Finder>
class GraphSalvage {
  using Graph = object_layout::Graph;
  using Header = object_layout::Header;
  static constexpr std::uint64_t kHeaderBytes = object_layout::kHeaderBytes;

 public:
  GraphSalvage(Tx& tx, const object_layout::Control& control, Finder& finder)
      : tx_(tx), control_(control), finder_(finder) {}

  void run() {
    finder_.seems_empty();                      // what is null may have led to something
    if (tx_.load(control_.magic) == 0) return;  // not made yet
    if (!attempt(finder_, "the classes", [&] { read_types(); })) return;
    graph_.base = at<std::byte>(0);
    follow_root();
    walk();
    mend();
    for (const Weak& weak : weak_) attempt(finder_, where(weak.place), [&] { follow_weak(weak); });
    for (const Offset object : graph_.order) judge(object);
    if (!graph_.order.empty()) finder_.take(std::as_const(graph_));
  }

 private:
  struct Weak {
    Offset place;
    Offset proxy;
  };
  struct Broken {
    Offset place;
    std::string name;  // of the class
  };

  template <class T>
  const T* at(Offset offset) const {
    return tx_.at(pptr<T>{offset});
  }
  const Header& header(Offset object) const { return *at<Header>(object - kHeaderBytes); }
  static std::string where(Offset place) {
    return "objects: the reference at byte " + std::to_string(place);
  }

  /// Errors: throws Exception. Without all of them no number of a class is known.
  void read_types() {
    for (Offset record = tx_.load(control_.types); record != 0;) {
      using object_layout::TypeRecord;
      const Room room = finder_.visit(record);
      const std::uint64_t bytes =
          room.holds(sizeof(TypeRecord)) ? tx_.load(at<TypeRecord>(record)->bytes) : 0;
      if (bytes == 0 || !room.holds(bytes) || !room.fits(sizeof(TypeRecord) + bytes))
        throw Exception(Code::kCorrupt, "the description at byte " + std::to_string(record) +
                                            " and its place do not agree");
      std::string text(bytes, '\0');
      tx_.read(text.data(), at<TypeRecord>(record) + 1, bytes);
      graph_.types.push_back(TypeInfo::parse(text).value());
      record = tx_.load(at<TypeRecord>(record)->next);
    }
    std::reverse(graph_.types.begin(), graph_.types.end());
  }

  /// The object there. Type 0: none can be.
  Graph::Object describe(Offset object, const Room& room) {
    Graph::Object found;
    const std::uint16_t number = object_layout::type_of(tx_.load(header(object).state));
    if (number == 0 || number > graph_.types.size()) return {};
    const TypeInfo& type = graph_.types[number - 1];
    found.bytes = type.bytes;
    if (!room.holds(kHeaderBytes + type.bytes)) return {};
    if (type.is_array) {
      found.elements = tx_.load(*at<std::uint64_t>(object));
      if (!room.holds(found.elements)) return {};
      found.bytes += found.elements * type.members[0].bytes;
    }
    if (!room.fits(kHeaderBytes + found.bytes)) return {};
    found.type = number;
    return found;
  }
  /// Whether a reference to that class may lead to an object of this one. Arrays are called otherwise
  /// where they are referred to.
  bool may_be(const std::string& name, std::uint16_t number) const {
    const TypeInfo& type = graph_.types[number - 1];
    if (name.empty() || type.name == name) return true;
    const bool is_class = std::any_of(graph_.types.begin(), graph_.types.end(),
                                      [&](const TypeInfo& known) { return known.name == name; });
    return !is_class && type.is_array;
  }

  /// The first that was recorded.
  std::string root_class() const { return graph_.types.empty() ? "" : graph_.types[0].name; }
  void follow_root() {
    const auto place = tx_.link_to(&control_.root).offset;
    if (const Offset root = tx_.load(control_.root); root != 0) {
      follow(place, root_class(), root);
    } else {
      finder_.lose("objects: the heap has no root");
    }
  }
  void follow(Offset place, const std::string& name, Offset object) {
    const bool good = attempt(finder_, where(place), [&] {
      const auto known = graph_.objects.find(object);
      const bool is_new = known == graph_.objects.end();
      const Graph::Object found = is_new ? look(object) : known->second;
      if (!may_be(name, found.type)) {
        if (is_new) finder_.release(object - kHeaderBytes);
        throw Exception(Code::kCorrupt, "leads to a " + graph_.types[found.type - 1].name +
                                            " at byte " + std::to_string(object));
      }
      if (is_new) {
        graph_.objects.emplace(object, found);
        graph_.order.push_back(object);
        todo_.push_back(object);
      }
      ++graph_.objects.at(object).references;
      graph_.links[place] = object;
    });
    if (!good) broken_.push_back({place, name});
  }
  /// Errors: throws Exception where no object is.
  Graph::Object look(Offset object) {
    const Offset begin = std::max(object, kHeaderBytes) - kHeaderBytes;
    const Room room = finder_.visit(begin);
    const Graph::Object found = describe(object, room);
    if (found.type != 0) return found;
    finder_.release(begin);
    throw Exception(Code::kCorrupt, "leads to byte " + std::to_string(object) +
                                        ", where no object of a known class fits");
  }
  void walk() {
    while (!todo_.empty()) {
      const Offset object = todo_.back();
      todo_.pop_back();
      const Graph::Object found = graph_.objects.at(object);
      object_layout::for_each_reference(graph_.types[found.type - 1], object, found.elements,
                                        [&](Offset place, const Member& member) {
                                          const Offset to = tx_.load(*at<Offset>(place));
                                          if (to == 0) return;
                                          if (member.kind == MemberKind::kRef) {
                                            follow(place, member.type, to);
                                          } else {
                                            weak_.push_back({place, to});
                                          }
                                        });
    }
  }

  // ---- what no reference leads to any more ------------------------------------------------------

  /// Looks where such objects have been: it is told by what counts more references than there are, or
  /// fewer.
  void mend() {
    find_strays();
    const std::vector<Broken> broken = std::exchange(broken_, {});
    for (const Broken& one : broken) {
      const auto same = std::count_if(broken.begin(), broken.end(),
                                      [&](const Broken& other) { return other.name == one.name; });
      if (const auto lost = lost_of(one.name); same == 1 && lost.size() == 1)
        lead(one.place, one.name, lost[0]);
    }
    if (broken.empty()) mend_what_leads_elsewhere();
  }
  void find_strays() {
    finder_.for_each_stray([&](Offset begin, const Room& room) {
      if (!room.holds(kHeaderBytes)) return;
      try {
        if (const Graph::Object found = describe(begin + kHeaderBytes, room); found.type != 0)
          strays_.emplace(begin + kHeaderBytes, found);
      } catch (const Exception&) {  // something else
      }
    });
    for (const auto& [object, found] : strays_) {
      for_each_strong(object, found, [&](Offset place, const Member&) {
        const Offset to = tx_.load(*at<Offset>(place));
        if (const auto stray = strays_.find(to); stray != strays_.end()) {
          ++stray->second.references;
        } else if (graph_.objects.contains(to)) {
          ++from_strays_[to];
        }
      });
    }
  }
  template <class F>
  void for_each_strong(Offset object, const Graph::Object& found, F&& f) {
    object_layout::for_each_reference(graph_.types[found.type - 1], object, found.elements,
                                      [&](Offset place, const Member& member) {
                                        if (member.kind == MemberKind::kRef) f(place, member);
                                      });
  }
  /// How many references more an object counts than lead to it; less than none is possible.
  std::int64_t lacks(Offset object, std::uint64_t references) const {
    const Word state = tx_.load(header(object).state);
    if ((state & object_layout::kOrphan) != 0) return 0;
    return static_cast<std::int64_t>(object_layout::count_of(state)) -
           static_cast<std::int64_t>(references);
  }
  /// The strays to which a reference to that class has led.
  std::vector<Offset> lost_of(const std::string& name) const {
    std::vector<Offset> lost;
    for (const auto& [object, found] : strays_) {
      if (lacks(object, found.references) == 1 && may_be(name, found.type)) lost.push_back(object);
    }
    return lost;
  }
  void lead(Offset place, const std::string& name, Offset object) {
    follow(place, name, object);
    walk();
  }

  /// A damaged reference may lead to an object of its class, which then has one too many, or be null.
  /// The right one of those that it could be is that without which nothing else is lost.
  void mend_what_leads_elsewhere() {
    const std::vector<Offset> lost = lost_of("");
    if (lost.size() != 1) return;
    Offset crowded = 0;
    for (const Offset object : graph_.order) {
      const auto more = from_strays_.find(object);
      const std::uint64_t references =
          graph_.objects.at(object).references + (more != from_strays_.end() ? more->second : 0);
      if (lacks(object, references) >= 0) continue;
      if (crowded != 0 || lacks(object, references) != -1) return;
      crowded = object;
    }
    std::vector<Broken> could_be;
    for (const Offset object : graph_.order) {
      for_each_strong(object, graph_.objects.at(object), [&](Offset place, const Member& member) {
        if (tx_.load(*at<Offset>(place)) == crowded &&
            may_be(member.type, strays_.at(lost[0]).type) &&
            (crowded == 0 || !others_end_without(place, lost[0])))
          could_be.push_back({place, member.type});
      });
    }
    if (could_be.size() != 1) return;
    finder_.lose(where(could_be[0].place) +
                 (crowded == 0 ? " is null" : " leads to another object") +
                 ", and is taken as one to the object at byte " + std::to_string(lost[0]) +
                 ", which counts it");
    if (crowded != 0) --graph_.objects.at(crowded).references;
    lead(could_be[0].place, could_be[0].name, lost[0]);
  }
  /// Whether something that was found is reached no more if the reference at `place` leads to `to`.
  bool others_end_without(Offset place, Offset to) {
    std::vector<Offset> todo{graph_.order.front()};
    std::unordered_set<Offset> reached{todo[0]};
    std::size_t found = 1;
    while (!todo.empty()) {
      const Offset object = todo.back();
      todo.pop_back();
      const auto known = graph_.objects.find(object);
      const Graph::Object& as = known != graph_.objects.end() ? known->second : strays_.at(object);
      for_each_strong(object, as, [&](Offset at_place, const Member&) {
        const Offset next = at_place == place ? to : tx_.load(*at<Offset>(at_place));
        const bool is_known = graph_.objects.contains(next);
        if ((!is_known && !strays_.contains(next)) || !reached.insert(next).second) return;
        found += is_known ? 1 : 0;
        todo.push_back(next);
      });
    }
    return found < graph_.order.size();
  }

  /// Errors: throws Exception where it does not lead to an object that was found.
  void follow_weak(const Weak& weak) {
    using object_layout::Proxy;
    if (!proxies_.contains(weak.proxy)) {
      const Room room = finder_.visit(weak.proxy);
      const Offset target = room.fits(sizeof(Proxy)) ? tx_.load(at<Proxy>(weak.proxy)->target) : 0;
      // Of an object that has ended it is null, and so is the reference.
      const bool gone = room.fits(sizeof(Proxy)) && target == 0;
      if (!gone &&
          (!graph_.objects.contains(target) || tx_.load(header(target).aside) != weak.proxy)) {
        finder_.release(weak.proxy);
        throw Exception(Code::kCorrupt, "leads to no object, as a weak reference");
      }
      proxies_[weak.proxy] = target;
    }
    const Offset target = proxies_.at(weak.proxy);
    if (target == 0) return;
    graph_.links[weak.place] = target;
    graph_.objects.at(target).has_weak = true;
  }

  void judge(Offset object) {
    if (lacks(object, graph_.objects.at(object).references) < 0)
      finder_.lose("objects: more references lead to the object at byte " + std::to_string(object) +
                   " than it counts: one of them may have led elsewhere");
  }

  Tx& tx_;
  const object_layout::Control& control_;
  Finder& finder_;
  Graph graph_;
  std::vector<Offset> todo_;
  std::vector<Weak> weak_;
  std::vector<Broken> broken_;
  std::unordered_map<Offset, Graph::Object> strays_;  // their references: those of other strays
  std::unordered_map<Offset, std::uint64_t> from_strays_;
  std::unordered_map<Offset, Offset> proxies_;  // to their targets
};

/// Takes the Graph of what was found.
template <>
struct Salvage<object_layout::Control> {
  template <class Tx, class Finder>
  static void run(Tx& tx, const object_layout::Control& control, Finder& finder) {
    GraphSalvage<Tx, Finder>(tx, control, finder).run();
  }
};

}  // namespace perdure::detail
