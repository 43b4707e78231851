// SPDX-License-Identifier: BSD-3-Clause
#include "stack.h"

void push(element** top, long value) {
  element* fresh = nullptr;
  pmalloc(sizeof(element), &fresh);
  fresh->below = *top;
  fresh->value = value;
  *top = fresh;
}

void push_alone(element** top, long value) {
  __transaction_atomic { push(top, value); }
}
