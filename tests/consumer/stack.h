// SPDX-License-Identifier: BSD-3-Clause
/* A stack of numbers in persistent memory. Called inside transactions. */
#include <perdure/mnemosyne.h>

#ifdef __cplusplus
extern "C" {
#endif

struct element {
  struct element persistent* below;
  long value;
};

__attribute__((transaction_safe)) void push(struct element persistent* persistent* top, long value);
/* Pushes `value` in a transaction of its own. */
void push_alone(struct element persistent* persistent* top, long value);

#ifdef __cplusplus
}
#endif
