// SPDX-License-Identifier: BSD-3-Clause
/* Maxwell's equations in the time domain, as 459.GemsFDTD: six field components on Yee's grid, the
   magnetic ones updated from the curl of the electric ones and the other way round, in turn.

     perdure_guest_fdtd [EDGE [STEPS]]     6 * 8 * EDGE^3 bytes */
#include "papers/thynvm/guest/measured.h"

typedef struct {
  double *x, *y, *z;
} field;

static field field_of(size_t cells) {
  const field made = {memory_of(cells, sizeof(double)), memory_of(cells, sizeof(double)),
                      memory_of(cells, sizeof(double))};
  return made;
}

/* to += factor * curl(from), with differences over one cell in the direction `sign`. */
static void add_curl(field to, field from, long edge, long sign, double factor) {
  const long y_step = sign * edge;
  const long z_step = sign * edge * edge;
  for (long z = 1; z < edge - 1; ++z)
    for (long y = 1; y < edge - 1; ++y)
      for (long x = 1; x < edge - 1; ++x) {
        const long at = (z * edge + y) * edge + x;
        to.x[at] += factor * (from.z[at + y_step] - from.z[at] - from.y[at + z_step] + from.y[at]);
        to.y[at] += factor * (from.x[at + z_step] - from.x[at] - from.z[at + sign] + from.z[at]);
        to.z[at] += factor * (from.y[at + sign] - from.y[at] - from.x[at + y_step] + from.x[at]);
      }
}

int main(int argc, char** argv) {
  const long edge = number_argument(argc, argv, 1, 110);
  const long steps = number_argument(argc, argv, 2, 100);
  const size_t cells = (size_t)(edge * edge * edge);
  field electric = field_of(cells);
  field magnetic = field_of(cells);
  for (size_t cell = 0; cell < cells; ++cell) electric.z[cell] = (double)(cell % 17) / 17;
  measured_begin();
  for (long i = 0; i < steps; ++i) {
    add_curl(magnetic, electric, edge, 1, -0.4);
    add_curl(electric, magnetic, edge, -1, -0.4);
  }
  double energy = 0;
  for (size_t cell = 0; cell < cells; ++cell)
    energy += electric.z[cell] * electric.z[cell] + magnetic.x[cell] * magnetic.x[cell];
  printf("energy %.6f\n", energy);
  return 0;
}
