// SPDX-License-Identifier: BSD-3-Clause
// A map from text to text. Each change is one transaction: after a crash it is there as a whole, or
// not at all.
#include <cstdio>
#include <string_view>

#include "perdure/container/hash_map.h"
#include "perdure/pool.h"

using PhoneBook = perdure::hash_map<perdure::bytes, perdure::bytes>;

int main() {  // NOLINT(bugprone-exception-escape): an error may end an example
  auto pool = perdure::Pool::open_or_create("phone_book.pool").value();
  auto* book = pool.root<PhoneBook>("book");

  pool.atomically([&](auto& tx) {
    book->put(tx, "Ada", "+44 20 7946 0001");
    book->put(tx, "Grace", "+1 212 555 0100");
  });

  // Ada marries: her number must not be lost in between, and not be listed twice.
  pool.atomically([&](auto& tx) {
    if (const auto number = book->get(tx, "Ada")) {
      book->put(tx, "Ada King", *number);
      book->erase(tx, "Ada");
    }
  });

  // A change of mind takes everything back.
  try {
    pool.atomically([&](auto& tx) {
      book->clear(tx);
      throw "a change of mind";
    });
  } catch (const char* reason) {
    std::printf("not cleared: %s\n", reason);
  }

  pool.read_only([&](auto& tx) {
    book->for_each(tx, [](std::string_view name, std::string_view number) {
      std::printf("%-10.*s %.*s\n", static_cast<int>(name.size()), name.data(),
                  static_cast<int>(number.size()), number.data());
    });
  });
  const bool right =
      pool.read_only([&](auto& tx) { return book->size(tx) == 2 && !book->contains(tx, "Ada"); });
  return right ? 0 : 1;
}
