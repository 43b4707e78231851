// Expect: compiles
#include <array>
#include <cstdint>

#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"
#include "perdure/pool.h"

enum class Colour : std::uint8_t { kRed, kGreen };

struct Node {
  perdure::link<Node> next;
  std::array<std::uint32_t, 4> numbers;
  Colour colour;
};

struct Library {
  std::uint64_t version;
  perdure::link<Node> head;
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
