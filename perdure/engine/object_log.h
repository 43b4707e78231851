// ObjectLog: a Tx's door to the log of an engine that changes objects where they are (NV-heaps §3.5). The Tx knows no domain,
// so the engine keeps what stands there before the first store, and puts it back when the transaction comes to nothing.
#pragma once

#include <cstdint>

#include "perdure/region/layout.h"

namespace perdure {

class ObjectLog {
 public:
  virtual ~ObjectLog() = default;

  /// Copies [begin, begin + bytes) into the log. Durable: on return.
  /// Requires: whole lines that the transaction owns and has not kept yet.
  /// Errors: throws Exception kPoisoned; kNoSpace, or Conflict, when it is too much for the log. What was kept goes back.
  virtual void keep(Offset begin, std::uint64_t bytes) = 0;
  /// Stores what was kept back to its place, and empties the log. A storage that fails poisons the pool: then the next open does it.
  virtual void put_back() noexcept = 0;
};

}  // namespace perdure
