// SPDX-License-Identifier: BSD-3-Clause
/* A lattice-Boltzmann kernel, as 470.lbm: D3Q19, pulled streaming and collision (BGK) in one pass
   over two lattices, one array for each direction; the outermost cells are a boundary that stays as
   it is.

     perdure_guest_lbm [EDGE [STEPS]]     2 * 19 * 8 * EDGE^3 bytes */
#include "papers/thynvm/guest/measured.h"

enum { DIRECTIONS = 19 };
static const int step_of[DIRECTIONS][3] = {
    {0, 0, 0},  {1, 0, 0},   {-1, 0, 0},  {0, 1, 0},  {0, -1, 0}, {0, 0, 1},   {0, 0, -1},
    {1, 1, 0},  {-1, -1, 0}, {1, -1, 0},  {-1, 1, 0}, {1, 0, 1},  {-1, 0, -1}, {1, 0, -1},
    {-1, 0, 1}, {0, 1, 1},   {0, -1, -1}, {0, 1, -1}, {0, -1, 1}};

static double weight_of(int direction) {
  const int* step = step_of[direction];
  const int length = step[0] * step[0] + step[1] * step[1] + step[2] * step[2];
  return length == 0 ? 1.0 / 3 : length == 1 ? 1.0 / 18 : 1.0 / 36;
}

static void collide(double** to, const double f[DIRECTIONS], long at) {
  double density = 0;
  double u[3] = {0, 0, 0};
#pragma GCC unroll 19
  for (int d = 0; d < DIRECTIONS; ++d) {
    density += f[d];
    for (int k = 0; k < 3; ++k) u[k] += f[d] * step_of[d][k];
  }
  for (int k = 0; k < 3; ++k) u[k] /= density;
  const double square = u[0] * u[0] + u[1] * u[1] + u[2] * u[2];
#pragma GCC unroll 19
  for (int d = 0; d < DIRECTIONS; ++d) {
    const double along = step_of[d][0] * u[0] + step_of[d][1] * u[1] + step_of[d][2] * u[2];
    const double rest =
        weight_of(d) * density * (1 + 3 * along + 4.5 * along * along - 1.5 * square);
    to[d][at] = f[d] + 0.6 * (rest - f[d]);
  }
}

static void advance(double** from, double** to, long edge) {
  for (long z = 1; z < edge - 1; ++z)
    for (long y = 1; y < edge - 1; ++y)
      for (long x = 1; x < edge - 1; ++x) {
        const long at = (z * edge + y) * edge + x;
        double f[DIRECTIONS];
#pragma GCC unroll 19
        for (int d = 0; d < DIRECTIONS; ++d)
          f[d] = from[d][at - (step_of[d][2] * edge + step_of[d][1]) * edge - step_of[d][0]];
        collide(to, f, at);
      }
}

int main(int argc, char** argv) {
  const long edge = number_argument(argc, argv, 1, 80);
  const long steps = number_argument(argc, argv, 2, 100);
  const size_t cells = (size_t)(edge * edge * edge);
  double* lattices[2][DIRECTIONS];
  for (int d = 0; d < DIRECTIONS; ++d)
    for (int set = 0; set < 2; ++set) {
      lattices[set][d] = memory_of(cells, sizeof(double));
      for (size_t cell = 0; cell < cells; ++cell)
        lattices[set][d][cell] = weight_of(d) * (1 + 0.01 * (double)(cell % 7));
    }
  measured_begin();
  for (long i = 0; i < steps; ++i) advance(lattices[i % 2], lattices[(i + 1) % 2], edge);
  double mass = 0;
  for (int d = 0; d < DIRECTIONS; ++d)
    for (size_t cell = 0; cell < cells; ++cell) mass += lattices[steps % 2][d][cell];
  printf("mass %.6f\n", mass);
  return 0;
}
