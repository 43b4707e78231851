// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/object/reclaim.h"

#include <algorithm>
#include <unordered_set>

#include "perdure/object/core.h"

namespace perdure::object_layout {
namespace {

constexpr std::size_t kAtOnce = 64;
/// A proxy has the smallest place there is; an object, with its header, never fits into it.
constexpr std::uint64_t kProxyPlace = sizeof(Proxy);

class Reclaim {
 public:
  Reclaim(Pool& pool, std::span<const Offset> leaked)
      : pool_(&pool), leaked_(leaked), garbage_(leaked.begin(), leaked.end()) {
    control_ = pool.find_root<Control>(kControlRoot);
    if (control_ == nullptr) return;
    types_ = pool.read_only(
        [&](Tx& tx) { return detail::recorded_types(pool, tx, *control_, nullptr); });
  }

  Reclaimed run() {
    // All are judged before any is changed.
    for (const Offset place : leaked_) {
      if (is_object(place)) (void)class_of(place + kHeaderBytes);
    }
    for (const Offset place : leaked_) {
      if (is_object(place)) empty(place + kHeaderBytes);
    }
    Reclaimed done;
    for (std::size_t from = 0; from < leaked_.size(); from += kAtOnce) {
      const auto some = leaked_.subspan(from, std::min(kAtOnce, leaked_.size() - from));
      for (const Offset place : some) {
        if (!is_object(place)) continue;
        ++done.objects;
        done.bytes += core_of(*pool_).heap().usable_bytes(place);
      }
      pool_->atomically([&](Tx& tx) {
        for (const Offset place : some) tx.free(tx.at(pptr<std::byte>{place}));
      });
    }
    return done;
  }

 private:
  bool is_object(Offset place) const {
    return core_of(*pool_).heap().usable_bytes(place) > kProxyPlace;
  }
  template <class T>
  T& at(Offset offset) const {
    return *core_of(*pool_).region().at<T>(offset);
  }
  [[noreturn]] void refuse(Offset object) const {
    throw Exception(Code::kCorrupt, core_of(*pool_).region().path() +
                                        ": what nothing reaches at byte " + std::to_string(object) +
                                        " is not an object of a known class; nothing was freed, "
                                        "restore the heap from a backup");
  }

  std::uint64_t room_of(Offset object) const {
    return core_of(*pool_).heap().usable_bytes(object - kHeaderBytes) - kHeaderBytes;
  }
  const TypeInfo& class_of(Offset object) const {
    const Word state = pool_->read_only([&](Tx& tx) { return tx.load(header(object).state); });
    const std::uint16_t number = type_of(state);
    if (number == 0 || number > types_.size() || types_[number - 1].bytes > room_of(object))
      refuse(object);
    return types_[number - 1];
  }

  /// Step 1 of one object.
  void empty(Offset object) {
    const Heap& heap = core_of(*pool_).heap();
    const std::uint64_t room = room_of(object);
    const TypeInfo& type = class_of(object);
    pool_->atomically([&](Tx& tx) {
      const Offset proxy = tx.load(header(object).aside);
      if (proxy == 0 || !heap.holds(proxy, sizeof(Proxy))) return;
      tx.store(at<Proxy>(proxy).target, Offset{0});
      tx.store(header(object).aside, Offset{0});
      if (tx.load(at<Proxy>(proxy).count) == 0 && !garbage_.contains(proxy))
        tx.free(&at<Proxy>(proxy));
    });
    for (const Member& member : type.members) {
      if (member.kind == MemberKind::kValue) continue;
      std::uint64_t count = member.count;
      if (type.is_array)
        count = pool_->read_only([&](Tx& tx) { return tx.load(at<std::uint64_t>(object)); });
      if (count > (room - member.offset) / sizeof(Offset)) refuse(object);
      for (std::uint64_t from = 0; from < count; from += kAtOnce) {
        pool_->atomically([&](Tx& tx) {
          for (std::uint64_t i = from; i < std::min(count, from + kAtOnce); ++i) {
            auto& link = at<Offset>(object + member.offset + i * sizeof(Offset));
            const Offset to = tx.load(link);
            if (to == 0) continue;
            tx.store(link, Offset{0});
            member.kind == MemberKind::kRef ? drop(tx, to) : drop_weak(tx, to);
          }
        });
      }
    }
  }
  Header& header(Offset object) const { return at<Header>(object - kHeaderBytes); }

  /// Something that lives has another reference, or it would not.
  void drop(Tx& tx, Offset object) {
    if (garbage_.contains(object - kHeaderBytes)) return;
    if (!core_of(*pool_).heap().holds(object - kHeaderBytes, kHeaderBytes)) refuse(object);
    const Word state = tx.load(header(object).state);
    if ((state & kOrphan) != 0 || count_of(state) == 0) refuse(object);
    tx.store(header(object).state, state - 1);
  }
  void drop_weak(Tx& tx, Offset proxy) {
    if (garbage_.contains(proxy)) return;
    if (!core_of(*pool_).heap().holds(proxy, sizeof(Proxy))) refuse(proxy);
    Proxy& to = at<Proxy>(proxy);
    const std::uint64_t count = tx.load(to.count);
    if (count == 0) refuse(proxy);
    tx.store(to.count, count - 1);
    if (count == 1 && tx.load(to.target) == 0) tx.free(&to);
  }

  Pool* pool_;
  std::span<const Offset> leaked_;
  std::unordered_set<Offset> garbage_;
  const Control* control_ = nullptr;
  std::vector<TypeInfo> types_;
};

}  // namespace

Reclaimed reclaim(Pool& pool, std::span<const Offset> leaked) {
  return Reclaim(pool, leaked).run();
}

}  // namespace perdure::object_layout
