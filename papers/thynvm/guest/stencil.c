// SPDX-License-Identifier: BSD-3-Clause
/* A solver of transport equations on a grid, as 437.leslie3d: five fields, each from its own six
   neighbours and from the flow of the first three, into a second set of fields.

     perdure_guest_stencil [EDGE [STEPS]]     2 * 5 * 8 * EDGE^3 bytes */
#include "papers/thynvm/guest/measured.h"

enum { FIELDS = 5 };

static void advance(double** from, double** to, long edge) {
  const long row = edge;
  const long plane = edge * edge;
  for (long z = 1; z < edge - 1; ++z)
    for (long y = 1; y < edge - 1; ++y)
      for (long x = 1; x < edge - 1; ++x) {
        const long at = z * plane + y * row + x;
        const double u = from[0][at];
        const double v = from[1][at];
        const double w = from[2][at];
        for (int k = 0; k < FIELDS; ++k) {
          const double* f = from[k];
          const double spread = f[at - 1] + f[at + 1] + f[at - row] + f[at + row] + f[at - plane] +
                                f[at + plane] - 6 * f[at];
          const double flow = u * (f[at + 1] - f[at - 1]) + v * (f[at + row] - f[at - row]) +
                              w * (f[at + plane] - f[at - plane]);
          to[k][at] = f[at] + 0.1 * spread - 0.01 * flow;
        }
      }
}

int main(int argc, char** argv) {
  const long edge = number_argument(argc, argv, 1, 100);
  const long steps = number_argument(argc, argv, 2, 100);
  const size_t cells = (size_t)(edge * edge * edge);
  double* fields[2][FIELDS];
  for (int k = 0; k < FIELDS; ++k)
    for (int set = 0; set < 2; ++set) {
      fields[set][k] = memory_of(cells, sizeof(double));
      for (size_t cell = 0; cell < cells; ++cell)
        fields[set][k][cell] = (double)((cell * 7 + k) % 11);
    }
  measured_begin();
  for (long i = 0; i < steps; ++i) advance(fields[i % 2], fields[(i + 1) % 2], edge);
  double sum = 0;
  for (int k = 0; k < FIELDS; ++k)
    for (size_t cell = 0; cell < cells; ++cell) sum += fields[steps % 2][k][cell];
  printf("sum %.6f\n", sum);
  return 0;
}
