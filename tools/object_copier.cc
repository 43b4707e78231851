// SPDX-License-Identifier: BSD-3-Clause
#include "tools/object_copier.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace perdure::tools {

using namespace object_layout;

namespace {

struct Place {
  Offset object;
  Offset proxy = 0;
};

/// Calls `body(tx, begin, end)` for pieces of [0, count), each in a transaction.
template <class Body>
void in_pieces(Pool& pool, std::size_t count, Body body) {
  constexpr std::size_t kPiece = 256;
  for (std::size_t begin = 0; begin < count; begin += kPiece) {
    pool.atomically(Durability::kRelaxed,
                    [&](Tx& tx) { body(tx, begin, std::min(begin + kPiece, count)); });
  }
}

}  // namespace

ObjectCopier::ObjectCopier(Pool& to, const std::string& root,
                           const std::function<void(const std::string&)>&)
    : pool_(&to), control_(to.root<Control>(root)) {}

void ObjectCopier::operator()(const Graph& graph) {
  in_pieces(*pool_, graph.types.size(), [&](Tx& tx, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const std::string text = graph.types[i].text();
      auto* const record = static_cast<TypeRecord*>(tx.allocate(sizeof(TypeRecord) + text.size()));
      const TypeRecord head{tx.load(control_->types), text.size()};
      tx.write(record, &head, sizeof(head));
      tx.write(record + 1, text.data(), text.size());
      tx.store(control_->types, tx.link_to(record).offset);
    }
  });

  std::unordered_map<Offset, Place> places;
  in_pieces(*pool_, graph.order.size(), [&](Tx& tx, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Graph::Object& object = graph.objects.at(graph.order[i]);
      auto* const at = static_cast<Header*>(tx.allocate(kHeaderBytes + object.bytes));
      Place& place = places[graph.order[i]];
      place.object = tx.link_to(at + 1).offset;
      if (object.has_weak)
        place.proxy = tx.link_to(static_cast<Proxy*>(tx.allocate(sizeof(Proxy)))).offset;
    }
  });

  std::unordered_map<Offset, std::uint64_t> weak_references;
  in_pieces(*pool_, graph.order.size(), [&](Tx& tx, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Offset from = graph.order[i];
      const Graph::Object& object = graph.objects.at(from);
      const Place& place = places.at(from);
      std::vector<std::byte> image(kHeaderBytes + object.bytes);
      std::memcpy(image.data() + kHeaderBytes, graph.base + from, object.bytes);
      const Header header{object.references | Word{object.type} << kTypeShift, place.proxy};
      std::memcpy(image.data(), &header, sizeof(header));
      for_each_reference(graph.types[object.type - 1u], from, object.elements,
                         [&](Offset at, const Member& member) {
                           Offset to = 0;
                           if (const auto link = graph.links.find(at); link != graph.links.end()) {
                             const Place& target = places.at(link->second);
                             const bool strong = member.kind == MemberKind::kRef;
                             to = strong ? target.object : target.proxy;
                             if (!strong) ++weak_references[link->second];
                           }
                           std::memcpy(image.data() + kHeaderBytes + (at - from), &to, sizeof(to));
                         });
      tx.write(tx.at(pptr<std::byte>{place.object - kHeaderBytes}), image.data(), image.size());
    }
  });

  in_pieces(*pool_, graph.order.size(), [&](Tx& tx, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const Place& place = places.at(graph.order[i]);
      if (place.proxy == 0) continue;
      const Proxy proxy{place.object, weak_references.at(graph.order[i])};
      tx.write(tx.at(pptr<Proxy>{place.proxy}), &proxy, sizeof(proxy));
    }
  });
  pool_->atomically([&](Tx& tx) {
    tx.store(control_->root, places.at(graph.order.front()).object);
    tx.store(control_->version, std::uint64_t{object_layout::kVersion});
    tx.store(control_->magic, Word{object_layout::kMagic});
  });
  objects_ = graph.order.size();
}

}  // namespace perdure::tools
