// SPDX-License-Identifier: BSD-3-Clause
// libstdc++'s exception classes, whose constructors have transactional clones and whose destructors have none: thrown out of
// transactions, and caught inside them.
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "perdure/mnemosyne.h"
#include "tests/tm/expect.h"
#include "tests/tm/rival.h"
#include "tests/tm/typed_catch.h"

pstatic long durable = 0;

__attribute__((transaction_safe, noinline)) void fail_as_the_library_does(long which) {
  if (which == 1) throw std::runtime_error("a long message: it does not fit into any short string");
  if (which == 2) throw std::logic_error("logic");
  if (which == 3) throw std::out_of_range("range");
  if (which == 4) throw std::bad_alloc();
}

void library_exceptions_out_of_transactions() {
  bool same[5] = {};
  for (long which = 1; which <= 4; ++which) {
    try {
      __transaction_atomic {
        durable = which;
        fail_as_the_library_does(which);
      }
    } catch (const std::runtime_error& error) {
      same[1] =
          std::strcmp(error.what(), "a long message: it does not fit into any short string") == 0;
    } catch (const std::out_of_range& error) {
      same[3] = std::strcmp(error.what(), "range") == 0;
    } catch (const std::logic_error& error) {
      same[2] = std::strcmp(error.what(), "logic") == 0;
    } catch (const std::bad_alloc&) {
      same[4] = true;
    }
    EXPECT(same[which]);
    EXPECT(durable == which);
  }
}

/// The handler destroys the exception, and then the attempt fails: its memory is freed once.
void library_exceptions_inside_transactions() {
  for (int round = 0; round < 20; ++round) {
    long conflicts = 0, length = 0;
    rival_arm();
    __transaction_atomic {
      try {
        fail_as_the_library_does(1);
      } catch (const std::runtime_error& error) {
        const char* const what = error.what();
        for (length = 0; what[length] != '\0';) ++length;
      }
      conflicts += conflict_once();
      durable = length;
    }
    EXPECT(rival_struck() && conflicts == 0);
    EXPECT(durable == 53);
  }
  // Cancelled while handled.
  durable = 1;
  __transaction_atomic {
    try {
      fail_as_the_library_does(2);
    } catch (const std::logic_error&) {
      durable = 2;
      if (durable == 2) __transaction_cancel;
    }
  }
  EXPECT(durable == 1);
}

int main() {
  library_exceptions_out_of_transactions();
  library_exceptions_inside_transactions();
  EXPECT(std::uncaught_exceptions() == 0);
  EXPECT(std::current_exception() == nullptr);
  return expect_status();
}
