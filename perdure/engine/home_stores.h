// HomeStores: a Tx's door to where objects are. The Tx knows no domain, so the engine stores for it.
#pragma once

#include "perdure/base/words.h"
#include "perdure/domain/site.h"

namespace perdure {

/// As the primitives of a domain (domain/domain.h), for words of the pool.
/// Durable: after a fence; what store() and merge() wrote must have been flushed before it.
/// Errors: none.
/// Threads: any, each word by one at a time.
class HomeStores {
 public:
  virtual ~HomeStores() = default;
  virtual void store(Word* home, Word value) = 0;
  virtual void merge(Word* home, Word value, Word mask) = 0;
  virtual void write_through(Word* home, const Word* words, std::size_t count, Site site) = 0;
};

}  // namespace perdure
