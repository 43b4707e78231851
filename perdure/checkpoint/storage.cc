// SPDX-License-Identifier: BSD-3-Clause
#include "perdure/checkpoint/storage.h"

#include <unistd.h>

namespace perdure::checkpoint {

bool FileStorage::sync(Barrier) { return ::fdatasync(file_.get()) == 0; }

}  // namespace perdure::checkpoint
