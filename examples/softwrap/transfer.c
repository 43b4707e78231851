// SPDX-License-Identifier: BSD-3-Clause
// Two accounts and a list of what moved between them, in plain C: a wrap makes each transfer whole.
//
//   $ ./transfer
//   100 - 5 = 95; moved: 5
//   $ ./transfer
//   100 - 10 = 90; moved: 5 5
#include <perdure/softwrap.h>
#include <stdio.h>

struct move {
  struct move* before;  // the pool is at the same address in each run
  long amount;
};
struct bank {
  long from, to;
  struct move* newest;
};

static int transfer(struct bank* bank, long amount) {
  wrapOpen(0);
  struct move* const move = pmalloc(sizeof *move);
  wrapStore(&move->before, wrapLoad(&bank->newest));
  wrapStore(&move->amount, amount);
  wrapStore(&bank->newest, move);
  wrapStore(&bank->from, wrapLoad(&bank->from) - amount);
  wrapStore(&bank->to, wrapLoad(&bank->to) + amount);
  return wrapClose();  // 0: all of it is durable; -1: nothing of it has happened
}

int main(void) {
  struct bank* bank = NULL;
  if (wrapAttach("bank.pool", NULL) != 0 || (bank = wrapRoot("bank", sizeof *bank)) == NULL ||
      transfer(bank, 5) != 0) {
    fprintf(stderr, "%s\n", wrapError());
    return 1;
  }
  printf("100 - %ld = %ld; moved:", wrapLoad(&bank->to), 100 + wrapLoad(&bank->from));
  for (struct move* at = wrapLoad(&bank->newest); at != NULL; at = wrapLoad(&at->before))
    printf(" %ld", wrapLoad(&at->amount));
  printf("\n");
  return wrapDetach();
}
