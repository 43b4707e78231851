// SPDX-License-Identifier: BSD-3-Clause
/* A lattice gauge kernel, as 433.milc: on a lattice of four dimensions every site has four 3x3
   complex matrices and a complex vector; a step multiplies each neighbour's vector by the matrix
   between the two, and sums up.

     perdure_guest_su3 [EDGE [STEPS]]     (4 * 144 + 32 + 2 * 48) * EDGE^4 bytes */
#include <complex.h>

#include "papers/thynvm/guest/measured.h"

typedef struct {
  double complex c[3];
} vector;
typedef struct {
  double complex c[3][3];
} matrix;

static long edge;

/* The site one step further (or back) along a dimension. */
static size_t neighbour(size_t site, int dimension, long step) {
  size_t stride = 1;
  for (int d = 0; d < dimension; ++d) stride *= (size_t)edge;
  const long here = (long)(site / stride) % edge;
  const long there = (here + step + edge) % edge;
  return site + (size_t)(there - here) * stride;
}

static void multiply_add(vector* sum, const matrix* m, const vector* v) {
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) sum->c[i] += m->c[i][j] * v->c[j];
}
static void multiply_subtract_adjoint(vector* sum, const matrix* m, const vector* v) {
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) sum->c[i] -= conj(m->c[j][i]) * v->c[j];
}

static void advance(matrix (*links)[4], uint32_t (*neighbours)[8], const vector* from, vector* to,
                    size_t sites) {
  for (size_t site = 0; site < sites; ++site) {
    vector sum = {{0, 0, 0}};
    for (int d = 0; d < 4; ++d) {
      const size_t ahead = neighbours[site][d];
      const size_t behind = neighbours[site][4 + d];
      multiply_add(&sum, &links[site][d], &from[ahead]);
      multiply_subtract_adjoint(&sum, &links[behind][d], &from[behind]);
    }
    for (int i = 0; i < 3; ++i) to[site].c[i] = from[site].c[i] + 0.01 * sum.c[i];
  }
}

int main(int argc, char** argv) {
  edge = number_argument(argc, argv, 1, 18);
  const long steps = number_argument(argc, argv, 2, 100);
  const size_t sites = (size_t)(edge * edge * edge * edge);
  matrix(*links)[4] = memory_of(sites, sizeof *links);
  vector* vectors[2] = {memory_of(sites, sizeof(vector)), memory_of(sites, sizeof(vector))};
  uint32_t(*neighbours)[8] = memory_of(sites, sizeof *neighbours);
  for (size_t site = 0; site < sites; ++site) {
    for (int d = 0; d < 8; ++d)
      neighbours[site][d] = (uint32_t)neighbour(site, d % 4, d < 4 ? 1 : -1);
    for (int d = 0; d < 4; ++d)
      for (int i = 0; i < 3; ++i) /* a rotation of the phases: unitary */
        links[site][d].c[i][i] = (site + (size_t)(d + i)) % 2 == 0 ? I : 1;
    vectors[0][site].c[site % 3] = 1;
  }
  measured_begin();
  for (long i = 0; i < steps; ++i)
    advance(links, neighbours, vectors[i % 2], vectors[(i + 1) % 2], sites);
  double norm = 0;
  for (size_t site = 0; site < sites; ++site)
    for (int i = 0; i < 3; ++i)
      norm += creal(vectors[steps % 2][site].c[i] * conj(vectors[steps % 2][site].c[i]));
  printf("norm %.6f\n", norm);
  return 0;
}
