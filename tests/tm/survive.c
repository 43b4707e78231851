// SPDX-License-Identifier: BSD-3-Clause
// A program that is killed at any moment, and continues where it was: a list that grows at its front, its length, and the
// sum of what it holds.
//
//   survive COUNTER check     status 0 if list, length and sum agree and nothing that COUNTER acknowledges is missing
//   survive COUNTER work N    checks, then does N transactions: pushes, and now and then a pop. It stops (SIGSTOP) before the
//                             first and after the last
//
// COUNTER is a file of 8 bytes that lies outside persistent memory: how many transactions the program took as done.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perdure/mnemosyne.h"

enum { kLongest = 40 };

struct node {
  struct node persistent* next;
  long value;
  char name[24];
};
pstatic struct node persistent* list = NULL;
pstatic long length = 0;
pstatic long sum = 0;
pstatic long transactions = 0;

static void push(long value) {
  __transaction_atomic {
    struct node persistent* fresh;
    if (pmalloc(sizeof(struct node), &fresh) == NULL) __transaction_cancel;
    fresh->next = list;
    fresh->value = value;
    memset(fresh->name, 'a' + (int)(value % 26), sizeof(fresh->name));
    list = fresh;
#ifdef TORN_ON_PURPOSE  // to see that the driver notices
  }
  __transaction_atomic {
#endif
    length += 1;
    sum += value;
    transactions += 1;
  }
}

static void pop(void) {
  __transaction_atomic {
    struct node persistent* first = list;
    list = first->next;
    length -= 1;
    sum -= first->value;
    transactions += 1;
    pfree(&first);
  }
}

static int check(long acknowledged) {
  long nodes = 0, total = 0;
  int whole = 1;
  for (const struct node persistent* node = list; node != NULL && nodes <= length;
       node = node->next) {
    nodes += 1;
    total += node->value;
    for (size_t i = 0; i < sizeof(node->name); ++i) {
      if (node->name[i] != 'a' + (int)(node->value % 26)) whole = 0;
    }
  }
  if (nodes == length && total == sum && whole && transactions >= acknowledged &&
      transactions <= acknowledged + 1)
    return 0;
  fprintf(
      stderr,
      "%ld nodes, length %ld; total %ld, sum %ld; names %s; %ld transactions, %ld acknowledged\n",
      nodes, length, total, sum, whole ? "whole" : "torn", transactions, acknowledged);
  return 1;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int file = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(long)) != 0) return 2;
  long* const acknowledged = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (acknowledged == MAP_FAILED) return 2;
  if (check(*acknowledged) != 0) return 1;
  *acknowledged = transactions;
  if (strcmp(argv[2], "work") != 0 || argc < 4) return 0;

  raise(SIGSTOP);
  for (long i = 0; i < atol(argv[3]); ++i) {
    if (length < kLongest && i % 4 != 3) {
      push(transactions * 7 + 3);
    } else {
      pop();
    }
    __atomic_store_n(acknowledged, *acknowledged + 1, __ATOMIC_RELEASE);
  }
  raise(SIGSTOP);
  return check(*acknowledged);
}
