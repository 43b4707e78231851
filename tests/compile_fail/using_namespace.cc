// Expect: compiles
// SPDX-License-Identifier: BSD-3-Clause
// A program that uses the whole namespace, and POSIX.
#include <sys/socket.h>
#include <unistd.h>

#include "perdure/object.h"
#include "perdure/perdure.h"

using namespace perdure;

struct Node {
  pptr<Node> next;
  std::uint64_t number;
};

int keep(Pool& pool, const char* path) {
  auto* const first = pool.root<pptr<Node>>("first");
  pool.atomically([&](auto& tx) {
    Node* const node = static_cast<Node*>(tx.allocate(sizeof(Node)));
    tx.store(node->next, tx.load(*first));
    tx.store(*first, tx.link_to(node));
  });
  return link(path, "kept") + static_cast<int>(read(0, nullptr, 0)) + unlink(path);
}
