// SPDX-License-Identifier: BSD-3-Clause
// Linked against libitm, so that check_runtime.sh has something to refuse. It is never run.
static long counter = 0;

int main(void) {
  __transaction_atomic { counter += 1; }
  return counter == 1 ? 0 : 1;
}
