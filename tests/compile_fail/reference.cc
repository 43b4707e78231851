// Expect: perdure: a raw pointer or reference would dangle after a restart
#include "perdure/persistable.h"

void check() { perdure::require_persistable<int&>(); }
