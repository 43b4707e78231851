// SPDX-License-Identifier: BSD-3-Clause
// Primitives: the persistence primitives of a domain behind an interface, for code that runs seldom
// and is compiled once: recovery, truncation, an application's logs. The code on a transaction's
// path is a template over the domain instead.
#pragma once

#include "perdure/domain/domain.h"

namespace perdure {

/// As the primitives of a domain (domain/domain.h).
class Primitives {
 public:
  virtual ~Primitives() = default;
  virtual void store(Word* home, Word value) = 0;
  virtual void merge(Word* home, Word value, Word mask) = 0;
  virtual void write_through(Word* home, const Word* words, std::size_t count, Site site) = 0;
  virtual void flush(const void* address, std::size_t bytes, Site site) = 0;
  virtual bool fence(Site site) = 0;
};

/// Where a program works in private pages over memory (domain/in_private_pages.h): brings what a
/// record says of a word to its home.
class HomeWriter {
 public:
  virtual ~HomeWriter() = default;
  virtual void bring_home(Word* word, Word value, Word mask) = 0;
};

/// A domain's primitives.
template <Domain D>
class PrimitivesOf final : public Primitives {
 public:
  explicit PrimitivesOf(D& domain) : domain_(&domain) {}
  void store(Word* home, Word value) override { domain_->store(home, value); }
  void merge(Word* home, Word value, Word mask) override { domain_->merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) override {
    domain_->write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) override {
    domain_->flush(address, bytes, site);
  }
  bool fence(Site site) override { return domain_->fence(site); }

 private:
  D* domain_;
};

/// The other way round: primitives as a domain, for templates over domains.
class AnyDomain {
 public:
  explicit AnyDomain(Primitives& primitives) : primitives_(&primitives) {}
  void store(Word* home, Word value) { primitives_->store(home, value); }
  void merge(Word* home, Word value, Word mask) { primitives_->merge(home, value, mask); }
  void write_through(Word* home, const Word* words, std::size_t count, Site site) {
    primitives_->write_through(home, words, count, site);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    primitives_->flush(address, bytes, site);
  }
  bool fence(Site site) { return primitives_->fence(site); }

 private:
  Primitives* primitives_;
};

}  // namespace perdure
