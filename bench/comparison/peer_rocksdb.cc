// SPDX-License-Identifier: BSD-3-Clause
// RocksDB.
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include "bench/comparison/kinds.h"
#include "bench/comparison/level_store.h"

namespace perdure::bench::comparison {
namespace {

struct RocksDB {
  static constexpr const char* kName = "RocksDB";
  static constexpr auto kNoCompression = ::rocksdb::kNoCompression;
  using Db = ::rocksdb::DB;
  using Options = ::rocksdb::Options;
  using WriteOptions = ::rocksdb::WriteOptions;
  using WriteBatch = ::rocksdb::WriteBatch;
  using Slice = ::rocksdb::Slice;
  using Status = ::rocksdb::Status;
  using Iterator = ::rocksdb::Iterator;
};

const RegisterStore kRegistered("rocksdb", make_level_store<RocksDB>);

}  // namespace
}  // namespace perdure::bench::comparison
