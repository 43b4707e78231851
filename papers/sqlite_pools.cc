// SPDX-License-Identifier: BSD-3-Clause
#include "papers/sqlite_pools.h"

#include "apps/sqlite/databases.h"
#include "apps/sqlite/errors.h"
#include "papers/pool.h"
#include "perdure/api/pool_core.h"

namespace perdure::papers {
namespace {

Result<Pool> open_by_name(const sqlite::Request& request) {
  LabOptions options = request.options;
  std::string names;
  bool known = request.engine.empty();
  for (const EngineKind kind : kEngineKinds) {
    if (engine_name(kind) == request.engine) {
      options.engine = kind;
      known = true;
    }
    names += (names.empty() ? "" : ", ") + std::string(engine_name(kind));
  }
  if (!known)
    return Error{Code::kInvalid, request.path + ": engine=" + request.engine +
                                     " in its URI; it may be one of " + names};
  if (request.line_ns != 0)
    options.latency = write_combining_buffer(static_cast<double>(request.line_ns));
  if (request.alias_words != 0) options.tables.limits.words = request.alias_words;
  auto pool = request.create ? open_or_create(request.path, options) : open(request.path, options);
  if (!pool) return pool.error();
  if (!core_of(pool.value()).engine().is_durable())
    sqlite::log(SQLITE_WARNING,
                request.path + ": this engine is a baseline; nothing survives a crash");
  return Pool(std::move(pool).value());
}

}  // namespace

void open_databases_in_the_laboratory() { sqlite::open_pools_by(open_by_name); }

}  // namespace perdure::papers
