// Aside: what a thread's transactions read before they look home: words that are committed and stand in alias tables
// (SoftWrAP). The Tx opens a wrap for as long as it runs, so that no table that it may look into is used again.
#pragma once

#include "perdure/alias/aliases.h"

namespace perdure {

/// Threads: one; enter() and leave() pair up, load() between them.
class Aside {
 public:
  explicit Aside(alias::Aliases<>& aliases) : aliases_(&aliases) { aliases.states().add(wrap_); }
  ~Aside() { aliases_->states().remove(wrap_); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  void enter() { aliases_->states().open(wrap_); }
  void leave() { aliases_->states().close(wrap_); }

  /// The word at `at`, whose home is `home`.
  Word load(Offset at, const Word* home) const {
    return aliases_->load(at, [home](Offset) { return load_word(home); });
  }

 private:
  alias::Aliases<>::Wrap wrap_;
  alias::Aliases<>* aliases_;
};

}  // namespace perdure
