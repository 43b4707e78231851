// SPDX-License-Identifier: BSD-3-Clause
// InPrivatePages: a domain for a program that works in a private mapping, in copies of pages, whose
// home is elsewhere.
// Paper:      SoftWrAP (MSST 2015): its alias table, done by the MMU. A load needs no look-up.
//
// Memory: home is a second, shared mapping of the same file. store() changes only the private page;
//         what a record says is brought home later (bring_home), in the order of commit timestamps.
//         So a page may hold what is not committed, because the page itself never goes home. Code
//         with a protocol of its own stores through direct(), to both mappings.
// Files:  the domain below writes private pages itself (domain/sync.h). Here they are only marked,
//         so that they may be given back. Every engine on files does so.
// In front of the first private page (logs, tables) both mappings are the same memory, and
// everything goes to the domain below, which knows only home addresses.
#pragma once

#include <utility>

#include "perdure/base/words.h"
#include "perdure/domain/domain.h"
#include "perdure/domain/private_pages.h"

namespace perdure {

template <Domain D>
class InPrivatePages {
 public:
  /// Whether the domain below writes the private pages itself.
  static constexpr bool kWritesPages = PostingDomain<D>;

  /// `to_home`: the distance from a byte of the private mapping to its home; 0 on files.
  InPrivatePages(PrivatePages& pages, std::ptrdiff_t to_home, D inner)
      : pages_(&pages), to_home_(to_home), inner_(std::move(inner)) {}

  void store(Word* word, Word value) {
    const bool in_page = pages_->contains(word);
    if (in_page) pages_->mark(word);
    if (in_page && !kWritesPages) return CachedStores::store(word, value);
    inner_.store(home(word), value);
  }
  void merge(Word* word, Word value, Word mask) {
    const bool in_page = pages_->contains(word);
    if (in_page) pages_->mark(word);
    if (in_page && !kWritesPages) return CachedStores::merge(word, value, mask);
    inner_.merge(home(word), value, mask);
  }
  void write_through(Word* words, const Word* values, std::size_t count, Site site) {
    const auto change = [&](Word* to) { inner_.write_through(to, values, count, site); };
    const auto copy = [&] {
      for (std::size_t i = 0; i < count; ++i) CachedStores::store(words + i, values[i]);
    };
    in_both(words, count, change, copy);
  }
  void flush(const void* address, std::size_t bytes, Site site) {
    inner_.flush(home(static_cast<const std::byte*>(address)), bytes, site);
  }
  bool fence(Site site) { return inner_.fence(site); }
  bool post(Site site, std::uint64_t mark)
    requires PostingDomain<D>
  {
    return inner_.post(site, mark);
  }
  bool wait_for(std::uint64_t mark, Site site)
    requires PostingDomain<D>
  {
    return inner_.wait_for(mark, site);
  }
  const Shared<std::uint64_t>& durable_mark() const
    requires PostingDomain<D>
  {
    return inner_.durable_mark();
  }

  PrivatePages& pages() { return *pages_; }
  /// Says that what one write_through() of this thread stored is durable. On files its pages have
  /// to stay until then; if nobody says so, they stay for good.
  void settle(const Word* words, std::size_t count) {
    if (kWritesPages && pages_->contains(words)) pages_->unpin(words, count * kWordBytes);
  }
  /// Stores what a record says of a word at home. In front of the first private page it is there
  /// already.
  void bring_home(Word* word, Word value, Word mask)
    requires(!kWritesPages)
  {
    if (!pages_->contains(word)) return;
    if (mask == kWholeWord) {
      inner_.store(home(word), value);
    } else {
      inner_.merge(home(word), value, mask);
    }
  }

  /// A domain whose stores go to both mappings: for recovery, and for structures whose words no
  /// record names.
  class Direct {
   public:
    explicit Direct(InPrivatePages& domain) : domain_(&domain) {}
    void store(Word* word, Word value) {
      domain_->in_both(
          word, 1, [&](Word* to) { domain_->inner_.store(to, value); },
          [&] { CachedStores::store(word, value); });
    }
    void merge(Word* word, Word value, Word mask) {
      domain_->in_both(
          word, 1, [&](Word* to) { domain_->inner_.merge(to, value, mask); },
          [&] { CachedStores::merge(word, value, mask); });
    }
    void write_through(Word* words, const Word* values, std::size_t count, Site site) {
      domain_->write_through(words, values, count, site);
    }
    void flush(const void* address, std::size_t bytes, Site site) {
      domain_->flush(address, bytes, site);
    }
    bool fence(Site site) { return domain_->fence(site); }

   private:
    InPrivatePages* domain_;
  };
  Direct direct() { return Direct(*this); }

 private:
  template <class T>
  T* home(T* at) const {
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(at) +
                                static_cast<std::uintptr_t>(to_home_));
  }
  /// `change` stores at home, `copy` in the private mapping.
  template <class Change, class Copy>
  void in_both(Word* words, std::size_t count, Change change, Copy copy) {
    if (!pages_->contains(words)) return change(home(words));
    const std::size_t bytes = count * kWordBytes;
    if constexpr (kWritesPages) {
      pages_->pin(words,
                  bytes);  // until settle(): we do not learn which fence brings them to the device
      change(words);
    } else {
      pages_->pin(words, bytes);
      copy();
      change(home(words));
      pages_->unpin(words, bytes);
    }
  }

  PrivatePages* pages_;
  std::ptrdiff_t to_home_;
  [[no_unique_address]] D inner_;
};

template <class D>
concept PrivatePagesDomain = requires { D::kWritesPages; };

/// Whether stores through D stay in private pages, over memory, and are not home yet.
template <class D>
inline constexpr bool kPrivatePagesOverMemory = false;
template <PrivatePagesDomain D>
inline constexpr bool kPrivatePagesOverMemory<D> = !D::kWritesPages;

}  // namespace perdure
