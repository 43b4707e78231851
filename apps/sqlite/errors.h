// SPDX-License-Identifier: BSD-3-Clause
// From exceptions to what SQLite understands: a result code, and a message in its error log (SQLITE_CONFIG_LOG, in the shell
// `.log stderr`), since SQLite gives a VFS no way to say more than a number.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "apps/sqlite/sqlite_api.h"
#include "perdure/error.h"

namespace perdure::sqlite {

inline void log(int code, const std::string& message) {
  sqlite3_log(code, "perdure: %s", message.c_str());
}

/// Why a database cannot be opened, with SQLite's code for it. Thrown.
struct Refusal {
  int code;
  std::string message;
};

/// Calls `body`, which returns an SQLite result code. A Refusal is logged and becomes
/// its code; an exception is logged and becomes SQLITE_FULL if space is short,
/// SQLITE_BUSY if no log is to be had, SQLITE_CORRUPT if the pool is damaged, SQLITE_NOMEM if memory
/// is short, else `failure`.
template <class Body>
int guarded(int failure, Body&& body) noexcept {
  try {
    return body();
  } catch (const Refusal& refusal) {
    log(refusal.code, refusal.message);
    return refusal.code;
  } catch (const Exception& exception) {
    const int code = exception.code() == Code::kNoSpace   ? SQLITE_FULL
                     : exception.code() == Code::kBusy    ? SQLITE_BUSY
                     : exception.code() == Code::kCorrupt ? SQLITE_CORRUPT
                                                          : failure;
    log(code, exception.what());
    return code;
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  } catch (const std::exception& exception) {
    log(failure, exception.what());
    return failure;
  } catch (...) {
    return failure;
  }
}

}  // namespace perdure::sqlite
