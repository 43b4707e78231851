// SPDX-License-Identifier: BSD-3-Clause
// When a class has changed too much for its heap: the old heap is read with the old class under a new name, and copied.
#include <cstdio>
#include <iostream>

#include "perdure/object.h"

namespace before {
struct Account : perdure::object<Account> {
  perdure::field<std::uint32_t> cents;
  perdure::ref<Account> next;
  static constexpr const char* persistent_name = "Account";
  PERDURE_FIELDS(Account, cents, next);
};
struct Bank : perdure::object<Bank> {
  perdure::ref<Account> first;
  static constexpr const char* persistent_name = "Bank";
  PERDURE_FIELDS(Bank, first);
};
}  // namespace before

struct Account : perdure::object<Account> {
  perdure::field<std::int64_t> cents;  // may be overdrawn, and large
  perdure::ref<Account> next;
  PERDURE_FIELDS(Account, cents, next);
};
struct Bank : perdure::object<Bank> {
  perdure::ref<Account> first;
  PERDURE_FIELDS(Bank, first);
};

void upgrade(const std::string& path) {
  const std::string fresh = path + ".new";
  std::remove(fresh.c_str());  // of an upgrade that was cut off
  {
    auto from = perdure::object_heap<before::Bank>::open(path).value();
    auto to = perdure::object_heap<Bank>::create(fresh).value();
    // One at a time here; some hundred in a transaction are faster.
    perdure::handle<before::Account> next =
        from.read_only([](auto bank) { return perdure::handle<before::Account>(bank->first); });
    while (next) {
      const std::uint32_t cents = from.read_only([&] { return next->cents.get(); });
      to.atomically([&](auto bank) {
        auto account = to.make<Account>();
        account->cents = cents;
        account->next = bank->first;
        bank->first = account;
      });
      next = from.read_only([&] { return perdure::handle<before::Account>(next->next); });
    }
  }
  std::rename(fresh.c_str(), path.c_str());
}

int main() {
  std::remove("bank.heap");
  {
    auto old = perdure::object_heap<before::Bank>::create("bank.heap").value();
    old.atomically([&](auto bank) {
      bank->first = old.make<before::Account>();
      bank->first->cents = 250;
    });
  }
  auto bank = perdure::object_heap<Bank>::open("bank.heap");
  std::cout << bank.error().message << "\n";  // refused, and why
  upgrade("bank.heap");
  bank = perdure::object_heap<Bank>::open("bank.heap");
  return bank.value().read_only([](auto of) { return of->first->cents == 250 ? 0 : 1; });
}
