// SPDX-License-Identifier: BSD-3-Clause
// string: a byte string in persistent memory, for fields of persistent structs and values of other
// containers. As a key, or where the whole value is replaced, `bytes` (perdure/container/bytes.h)
// costs one heap object less.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "perdure/container/support.h"
#include "perdure/persistable.h"
#include "perdure/pptr.h"
#include "perdure/tx.h"

namespace perdure {

/// Lives in persistent memory; all-zero bytes are the empty string. Copying the struct copies the
/// reference, not the bytes; so a container of strings does not free them: clear() each before its
/// element goes.
/// Durable:  with the transaction.
/// Threads:  as the transaction.
class string {
 public:
  /// Replaces the bytes; in place when the size stays the same.
  /// Requires: `text` does not lie in persistent memory. Errors: those of the transaction; then
  /// nothing has changed.
  template <Transaction Tx>
  void assign(Tx& tx, std::string_view text) {
    if (text.empty()) return clear(tx);
    pptr<char> to = tx.load(bytes_);
    if (tx.load(size_) != text.size()) {
      auto* fresh = static_cast<char*>(tx.allocate(text.size()));
      if (to) tx.free(tx.at(to));
      to = tx.link_to(fresh);
      tx.store(bytes_, to);
      tx.store(size_, text.size());
    }
    tx.write(tx.at(to), text.data(), text.size());
  }

  template <Transaction Tx>
  std::string str(Tx& tx) const {
    const std::uint64_t size = tx.load(size_);
    if (size == 0) return {};
    const char* const from = tx.at(tx.load(bytes_));
    // Before memory is taken for it: a damaged size may be anything.
    detail::check_object(tx, from, size);
    std::string text(size, '\0');
    tx.read(text.data(), from, size);
    return text;
  }

  template <Transaction Tx>
  std::uint64_t size(Tx& tx) const {
    return tx.load(size_);
  }
  template <Transaction Tx>
  bool empty(Tx& tx) const {
    return size(tx) == 0;
  }

  template <Transaction Tx>
  void clear(Tx& tx) {
    const pptr<char> at = tx.load(bytes_);
    if (!at) return;
    tx.free(tx.at(at));
    tx.store(bytes_, {});
    tx.store(size_, 0);
  }

  /// Calls `visit(offset)` for the heap object that the string owns, if any. Returns what is wrong,
  /// if anything.
  template <Transaction Tx, class F>
  std::optional<std::string> audit(Tx& tx, F&& visit) const {
    const pptr<char> at = tx.load(bytes_);
    const std::uint64_t size = tx.load(size_);
    if (static_cast<bool>(at) != (size != 0))
      return "string: " + std::to_string(size) + " bytes at offset " + std::to_string(at.offset);
    if (at && !detail::room_at(visit, at).fits(size))
      return "string: " + std::to_string(size) + " bytes, and an object of another size";
    return std::nullopt;
  }

 private:
  friend detail::Salvage<string>;
  pptr<char> bytes_;
  std::uint64_t size_ = 0;
};
static_assert(sizeof(string) == 16);

template <>
inline constexpr bool is_persistable_by_promise<string> = true;

}  // namespace perdure
