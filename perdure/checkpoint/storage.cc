// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/storage.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace perdure::checkpoint {

bool FileStorage::sync(Barrier) { return ::fdatasync(file_.get()) == 0; }

Offset FileStorage::next_data(Offset at) {
  const off_t found = ::lseek(file_.get(), static_cast<off_t>(at), SEEK_DATA);
  if (found >= 0) return static_cast<Offset>(found);
  return errno == ENXIO ? std::max(at, bytes_) : at;  // only holes; or nobody knows
}

}  // namespace perdure::checkpoint
