// SPDX-License-Identifier: BSD-3-Clause
// Does my own structure survive power cuts? Ten lines of scenario, and the explorer tries them all.
//
// The structure is a stack in a pool: nodes, linked from a root. First as it should be; then with
// the mistake of doing in two transactions what must be one, to see that it would be noticed.
#include <cstdio>

#include "sim/crash/explorer.h"

namespace {

using perdure::Pool;

struct Node {
  std::uint64_t value;
  perdure::pptr<Node> below;
};
struct Stack {
  perdure::pptr<Node> top;
};

void push(Pool& pool, std::uint64_t value) {
  Stack& stack = *pool.root<Stack>("stack");
  pool.atomically([&](auto& tx) {
    auto* node = static_cast<Node*>(tx.allocate(sizeof(Node)));
    tx.store(node->value, value);
    tx.store(node->below, tx.load(stack.top));
    tx.store(stack.top, tx.link_to(node));
  });
}

void push_with_a_gap(Pool& pool, std::uint64_t value) {
  Stack& stack = *pool.root<Stack>("stack");
  Node* node = pool.atomically([&](auto& tx) {
    auto* fresh = static_cast<Node*>(tx.allocate(sizeof(Node)));
    tx.store(fresh->value, value);
    return fresh;
  });
  // A cut here leaks the node: it is allocated, and nobody knows it.
  pool.atomically([&](auto& tx) {
    tx.store(node->below, tx.load(stack.top));
    tx.store(stack.top, tx.link_to(node));
  });
}

template <class Visit>
void for_each(Pool& pool, Visit visit) {
  pool.read_only([&](auto& tx) {
    const Stack* stack = pool.find_root<Stack>("stack");
    if (stack == nullptr) return;
    int bound = 100;  // whatever a cut left, the check must end
    for (auto at = tx.load(stack->top); at && bound-- > 0; at = tx.load(tx.at(at)->below))
      visit(tx, tx.at(at));
  });
}

perdure::crash::Scenario scenario_of(const char* name, void (*push_one)(Pool&, std::uint64_t)) {
  perdure::crash::Scenario s;
  s.name = name;
  s.steps = 4;
  s.step = [=](Pool& pool, std::uint64_t step) { push_one(pool, step); };
  s.check = [](Pool& pool, std::uint64_t step) -> std::optional<std::string> {
    std::uint64_t expected = step;  // after step n: n, n-1, … 1 from the top
    bool right = true;
    for_each(pool, [&](auto& tx, const Node* node) {
      right = tx.load(node->value) == expected-- && right;
    });
    if (right && expected == 0) return std::nullopt;
    return "the stack is not " + std::to_string(step) + " … 1";
  };
  s.reach = [](Pool& pool, const perdure::crash::Scenario::Visit& visit) {
    for_each(pool, [&](auto&, const Node* node) { visit(node); });
  };
  return s;
}

}  // namespace

int main() {
  const auto good = perdure::crash::explore(scenario_of("stack", push));
  std::printf("push in one transaction:  %lu crash images, %lu of cut recoveries, %zu violations\n",
              good.images, good.nested_images, good.violations.size());

  const auto bad = perdure::crash::explore(scenario_of("stack-with-a-gap", push_with_a_gap));
  std::printf("push in two transactions: %zu violations\n", bad.violations.size());
  for (const auto& violation : bad.violations) {
    std::printf("  %s\n  again with: %s\n", violation.what.c_str(), violation.replay.c_str());
  }
  return good.violations.empty() && !bad.violations.empty() ? 0 : 1;
}
