// HomeStores: a Tx's door to where objects are. The Tx knows no domain, so the engine stores for it.
#pragma once

#include "perdure/base/words.h"
#include "perdure/domain/site.h"

namespace perdure {

/// As the primitives of a domain (domain/domain.h), for words of the pool.
/// Errors: none. Durable: once flushed (not what is written through) and fenced. Threads: any, each word one at a time.
class HomeStores {
 public:
  virtual ~HomeStores() = default;
  virtual void store(Word* home, Word value) = 0;
  virtual void merge(Word* home, Word value, Word mask) = 0;
  virtual void write_through(Word* home, const Word* words, std::size_t count, Site site) = 0;
};

}  // namespace perdure
