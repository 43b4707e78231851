// Everything a program needs: pools, transactions, containers, logs.
#pragma once

#include "perdure/append_log.h"
#include "perdure/pool.h"
