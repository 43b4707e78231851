// SPDX-License-Identifier: BSD-3-Clause
// LevelDB.
#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include "bench/comparison/kinds.h"
#include "bench/comparison/level_store.h"

namespace perdure::bench::comparison {
namespace {

struct LevelDB {
  static constexpr const char* kName = "LevelDB";
  static constexpr auto kNoCompression = ::leveldb::kNoCompression;
  using Db = ::leveldb::DB;
  using Options = ::leveldb::Options;
  using WriteOptions = ::leveldb::WriteOptions;
  using WriteBatch = ::leveldb::WriteBatch;
  using Slice = ::leveldb::Slice;
  using Status = ::leveldb::Status;
  using Iterator = ::leveldb::Iterator;
};

const RegisterStore kRegistered("leveldb", make_level_store<LevelDB>);

}  // namespace
}  // namespace perdure::bench::comparison
