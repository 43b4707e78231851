// SPDX-License-Identifier: BSD-3-Clause
/* An iterative solver whose matrix has a dense 5x5 block for each cell of a grid and each of its
   six neighbours, as 410.bwaves: conjugate gradients, that is matrix times vector, two products of
   vectors, three updates.

     perdure_guest_blocks [EDGE [STEPS]]     (7 * 200 + 4 * 40) * EDGE^3 bytes */
#include "papers/thynvm/guest/measured.h"

enum { FIELDS = 5, NEIGHBOURS = 7 };
typedef double block[FIELDS][FIELDS];

static double product(const double* a, const double* b, long count) {
  double sum = 0;
  for (long i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

static void multiply(block (*matrix)[NEIGHBOURS], const double* from, double* to, long edge) {
  const long cells = edge * edge * edge;
  const long steps[NEIGHBOURS] = {0, 1, -1, edge, -edge, edge * edge, -edge * edge};
  for (long cell = 0; cell < cells; ++cell) {
    double sum[FIELDS] = {0};
    for (int n = 0; n < NEIGHBOURS; ++n) {
      const double* there = from + (cell + steps[n] + cells) % cells * FIELDS;
      for (int i = 0; i < FIELDS; ++i)
        for (int j = 0; j < FIELDS; ++j) sum[i] += matrix[cell][n][i][j] * there[j];
    }
    for (int i = 0; i < FIELDS; ++i) to[cell * FIELDS + i] = sum[i];
  }
}

int main(int argc, char** argv) {
  const long edge = number_argument(argc, argv, 1, 36);
  const long steps = number_argument(argc, argv, 2, 100);
  const long cells = edge * edge * edge;
  const long unknowns = cells * FIELDS;
  block(*matrix)[NEIGHBOURS] = memory_of((size_t)cells, sizeof *matrix);
  double* x = memory_of((size_t)unknowns, sizeof(double));
  double* rest = memory_of((size_t)unknowns, sizeof(double));
  double* direction = memory_of((size_t)unknowns, sizeof(double));
  double* image = memory_of((size_t)unknowns, sizeof(double));
  for (long cell = 0; cell < cells; ++cell)
    for (int n = 0; n < NEIGHBOURS; ++n)
      for (int i = 0; i < FIELDS; ++i)
        for (int j = 0; j < FIELDS; ++j) /* symmetric, and its diagonal outweighs the rest */
          matrix[cell][n][i][j] = n == 0 && i == j ? 40 : -1;
  for (long i = 0; i < unknowns; ++i) rest[i] = direction[i] = (double)(i % 13);
  double square = product(rest, rest, unknowns);
  measured_begin();
  for (long step = 0; step < steps && square > 0; ++step) {
    multiply(matrix, direction, image, edge);
    const double length = square / product(direction, image, unknowns);
    for (long i = 0; i < unknowns; ++i) x[i] += length * direction[i];
    for (long i = 0; i < unknowns; ++i) rest[i] -= length * image[i];
    const double fresh = product(rest, rest, unknowns);
    for (long i = 0; i < unknowns; ++i) direction[i] = rest[i] + fresh / square * direction[i];
    square = fresh;
  }
  printf("rest %.6e, x %.6e\n", square, product(x, x, unknowns));
  return 0;
}
