// Expect: perdure: a persistent class has no constructor and no private field
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

struct Player {
  Player() : points(1) {}
  int points;
};

Player* open(perdure::Pool& pool) { return pool.root<Player>("player"); }
