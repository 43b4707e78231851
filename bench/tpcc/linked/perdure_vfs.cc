// SPDX-License-Identifier: BSD-3-Clause
// The VFS `perdure`, linked in. (In a folder of its own: `perdure-lab bench tpcc` is complete without it.)
#include "apps/sqlite/perdure_sqlite.h"
#include "bench/tpcc/modes.h"
#include "papers/sqlite_pools.h"

namespace perdure::bench::tpcc {
namespace {

const LinkedVfs kLinked([] {
  perdure_sqlite_register(0);
  papers::open_databases_in_the_laboratory();
});

}  // namespace
}  // namespace perdure::bench::tpcc
