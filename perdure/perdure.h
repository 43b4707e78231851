// SPDX-License-Identifier: BSD-3-Clause
// Everything a program needs: pools, transactions, containers, logs.
#pragma once

#include "perdure/append_log.h"
#include "perdure/container/btree_map.h"
#include "perdure/container/hash_map.h"
#include "perdure/container/rb_map.h"
#include "perdure/container/string.h"
#include "perdure/container/vector.h"
#include "perdure/lost_pages.h"
#include "perdure/pool.h"
