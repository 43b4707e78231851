// Expect: compiles
// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstdint>

#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"
#include "perdure/object.h"
#include "perdure/pool.h"

enum class Colour : std::uint8_t { kRed, kGreen };

struct Node {
  perdure::pptr<Node> next;
  std::array<std::uint32_t, 4> numbers;
  Colour colour;
  char name[32];
  double places[2][3];
};

struct Library {
  std::uint64_t version;
  perdure::pptr<Node> head;
  perdure::string name;
  perdure::hash_map<perdure::bytes, perdure::bytes> titles;
  perdure::btree_map<std::uint64_t, double> prices;
  perdure::vector<Node> nodes;
};

// A pool made by one compiler's program opens in the other's.
static_assert(perdure::type_id<std::uint64_t>() == 0x8e216328d7648a3a);
static_assert(perdure::type_id<perdure::hash_map<unsigned long, long>>() == 0x9dab15ef1a27fc3f);
static_assert(perdure::type_id<perdure::hash_map<perdure::bytes, perdure::bytes>>() ==
              0x92f89821adb2fbaf);

Library* open(perdure::Pool& pool) { return pool.root<Library>("library"); }

struct Leaf : perdure::object<Leaf> {
  PERDURE_FIELDS(Leaf);
};
struct Branch : perdure::object<Branch> {
  static constexpr const char* persistent_name = "Branch";
  perdure::field<Colour> colour;
  perdure::field<std::array<int, 3>> place;
  std::array<perdure::ref<Branch>, 2> children;
  perdure::weak_ref<Branch> parent;
  perdure::ref<perdure::array<perdure::ref<Leaf>>> leaves;
  perdure::ref<perdure::chars> name;
  PERDURE_FIELDS(Branch, colour, place, children, parent, leaves, name);
  ~Branch() { name = nullptr; }
  void init(Colour with) { colour = with; }
};

perdure::handle<Branch> grow(perdure::object_heap<Branch>& heap) {
  return heap.atomically([&](auto root) {
    const perdure::local<Branch> branch = heap.make<Branch>(Colour::kGreen);
    branch->children[0] = root->children[1];
    branch->parent = branch->children[0];
    root->children[1] = branch->parent;
    branch->leaves = heap.make_array<perdure::ref<Leaf>>(3);
    branch->leaves.get()[0] = heap.make<Leaf>();
    branch->name = heap.make_text("a branch");
    const perdure::handle<Branch> held(branch);
    if (held == branch && root->children[0] == held && branch->parent == root->children[1])
      root->children[0] = nullptr;
    return held;
  });
}
