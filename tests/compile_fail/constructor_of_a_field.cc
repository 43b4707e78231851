// Expect: of a type that is not persistable (it has a constructor
// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/pool.h"

struct Player {
  explicit Player(int with) : points(with) {}
  int points;
};
struct Game {
  int round;
  Player players[2];
};

Game* open(perdure::Pool& pool) { return pool.root<Game>("game"); }
