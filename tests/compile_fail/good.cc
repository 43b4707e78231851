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

Library* open(perdure::Pool& pool) { return pool.root<Library>("library"); }
