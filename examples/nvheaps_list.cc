// SPDX-License-Identifier: BSD-3-Clause
// Figure 2 of the NV-heaps paper as a program: a list in a file, from which all links with one value are removed in one transaction.
#include <iostream>

#include "perdure/nvheaps.h"

class NVList : public NVObject {
  DECLARE_POINTER_TYPES(NVList);

 public:
  DECLARE_MEMBER(int, value);
  DECLARE_PTR_MEMBER(NVList::NVPtr, next);
};

void insert(NVHeap<NVList>* nv, int k) {
  AtomicBegin(nv) {
    NVList::VPtr link = nv->New<NVList>();
    link->set_value(k);
    link->set_next(nv->GetRoot());
    nv->SetRoot(link);
  }
  AtomicEnd;
}

/// All but the first link, which the root pointer keeps.
void remove(NVHeap<NVList>* nv, int k) {
  AtomicBegin(nv) {
    NVList::VPtr a = nv->GetRoot();  // inside: a transaction may run again
    while (a->get_next() != NULL) {
      if (a->get_next()->get_value() == k) {
        a->set_next(a->get_next()->get_next());
      } else {
        a = a->get_next();
      }
    }
  }
  AtomicEnd;
}

int main() {
  NVHeap<NVList>* nv = NVHOpen<NVList>("foo.nvheap");
  nv->SetRoot(nullptr);  // what an earlier run left ends here
  for (int k : {1, 2, 3, 2, 0}) insert(nv, k);
  remove(nv, 2);
  int sum = 0;
  AtomicBegin(nv) {
    sum = 0;  // a transaction may run again
    for (NVList::VPtr link = nv->GetRoot(); link != NULL; link = link->get_next())
      sum += link->get_value();
  }
  AtomicEnd;
  std::cout << "1 + 3 = " << sum << "\n";
  NVClose(nv);
  return sum == 4 ? 0 : 1;
}
