// SPDX-License-Identifier: BSD-3-Clause
// Clone tables: for each transaction_safe function that is called through a pointer, where its
// instrumented copy is.
#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <vector>

#include "perdure/mnemosyne/tm_thread.h"

namespace perdure::compiled {
namespace {

struct Pair {
  void* function;
  void* clone;
};
struct Tables {
  std::shared_mutex mutex;
  struct Table {
    void* key;
    std::vector<Pair> pairs;  // sorted
  };
  std::vector<Table> tables;  // one per executable and library with such functions

  void* clone_of(void* function) {
    const std::shared_lock lock(mutex);
    for (const Table& table : tables) {
      const auto found =
          std::lower_bound(table.pairs.begin(), table.pairs.end(), function,
                           [](const Pair& pair, void* wanted) { return pair.function < wanted; });
      if (found != table.pairs.end() && found->function == function) return found->clone;
    }
    return nullptr;
  }
};

Tables& tables() {
  // Made by the first start-up code that registers, before any constructor; never destroyed: the
  // last user comes later.
  static auto* const the_tables = new Tables;
  return *the_tables;
}

}  // namespace

void* find_clone(void* function) { return tables().clone_of(function); }

/// libstdc++ has clones of its exceptions' virtual functions (what() and others) but registers
/// none: its symbols tell.
static void* find_clone_by_name(void* function) {
  Dl_info info{};
  if (::dladdr(function, &info) == 0 || info.dli_sname == nullptr || info.dli_saddr != function)
    return nullptr;
  const std::string_view name = info.dli_sname;
  if (!name.starts_with("_Z")) return nullptr;
  return ::dlsym(RTLD_DEFAULT, ("_ZGTt" + std::string(name.substr(2))).c_str());
}

static void* clone_of(void* function) {
  void* const registered = find_clone(function);
  return registered != nullptr ? registered : find_clone_by_name(function);
}

}  // namespace perdure::compiled

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" {
void _ITM_registerTMCloneTable(void* table, std::size_t entries) {
  using perdure::compiled::Pair;
  const auto* const pairs = static_cast<const Pair*>(table);
  std::vector<Pair> sorted(pairs, pairs + entries);
  std::sort(sorted.begin(), sorted.end(),
            [](const Pair& a, const Pair& b) { return a.function < b.function; });
  auto& all = perdure::compiled::tables();
  const std::unique_lock lock(all.mutex);
  all.tables.push_back({table, std::move(sorted)});
}

void _ITM_deregisterTMCloneTable(void* table) {
  auto& all = perdure::compiled::tables();
  const std::unique_lock lock(all.mutex);
  std::erase_if(all.tables, [&](const auto& known) { return known.key == table; });
}

void* _ITM_getTMCloneSafe(void* function) {
  void* const clone = perdure::compiled::clone_of(function);
  if (clone == nullptr)
    perdure::mnemosyne::stop(
        "a __transaction_atomic calls, through a pointer, a function that has no transactional "
        "clone; declare it "
        "transaction_safe and compile it with -fgnu-tm");
  return clone;
}

void* _ITM_getTMCloneOrIrrevocable(void* function) {
  if (void* const clone = perdure::compiled::clone_of(function); clone != nullptr) return clone;
  perdure::compiled::Thread::self().become_irrevocable(function);
  return function;
}
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
