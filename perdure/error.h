// SPDX-License-Identifier: BSD-3-Clause
// Errors a caller can act on, as values (`Result<T>`) where opening and managing pools may fail for
// reasons outside the program, and as one exception type (`Exception`) inside transactions, where
// throwing is what rolls back. Every message names the file, the field, what was found, what was
// expected and the remedy.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "perdure/base/words.h"  // first: it says when the language is an older C++

namespace perdure {

// One code per possible reaction of the caller.
#define PERDURE_ERROR_CODES(X)                                                     \
  X(kIo, "io", "the operating system refused a read, write or sync")               \
  X(kNotFound, "not-found", "no such file, root or key")                           \
  X(kExists, "exists", "the file is already there; it is never overwritten")       \
  X(kBusy, "busy", "another process or pool object holds the pool")                \
  X(kForeign, "foreign", "the file is not a Perdure pool")                         \
  X(kVersion, "version", "the pool was written by a newer, incompatible release")  \
  X(kTruncated, "truncated", "the file is shorter than its own header says")       \
  X(kCorrupt, "corrupt", "a checksum or invariant of the media does not hold")     \
  X(kNoSpace, "no-space", "the pool or the device is full")                        \
  X(kInvalid, "invalid", "an argument is out of its documented range")             \
  X(kMisuse, "misuse", "the program broke a rule of the interface")                \
  X(kAborted, "aborted", "the program took a wrap back itself")                    \
  X(kPoisoned, "poisoned", "an earlier sync failed; the pool refuses more writes") \
  X(kTypeMismatch, "type-mismatch", "a root was opened as another type")

enum class Code : std::uint8_t {
#define PERDURE_CODE(name, text, meaning) name,
  PERDURE_ERROR_CODES(PERDURE_CODE)
#undef PERDURE_CODE
};

/// Short stable name of a code, as tools and `--json` print it.
constexpr std::string_view code_name(Code code) noexcept {
  switch (code) {
#define PERDURE_CODE(name, text, meaning) \
  case Code::name: return text;
    PERDURE_ERROR_CODES(PERDURE_CODE)
#undef PERDURE_CODE
  }
  return "unknown";
}

struct Error {
  Code code;
  std::string message;
};

/// Thrown inside transactions and by `Result::value()`. A transaction that it leaves is rolled
/// back.
class Exception : public std::exception {
 public:
  explicit Exception(Error error) : error_(std::move(error)) {}
  Exception(Code code, std::string message) : error_{code, std::move(message)} {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  Code code() const noexcept { return error_.code; }
  const Error& error() const noexcept { return error_; }

 private:
  Error error_;
};

/// A value or an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}      // NOLINT: implicit by design
  Result(Error error) : error_(std::move(error)) {}  // NOLINT
  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  /// The value; throws Exception when there is none.
  T& value() & {
    if (!ok()) throw Exception(error());
    return *value_;
  }
  T value() && {
    if (!ok()) throw Exception(error());
    return std::move(*value_);
  }
  T* operator->() { return &value(); }
  /// Requires: !ok().
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_{};
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT: implicit by design
  bool ok() const noexcept { return ok_; }
  explicit operator bool() const noexcept { return ok_; }
  void value() const {
    if (!ok_) throw Exception(error_);
  }
  const Error& error() const { return error_; }

 private:
  Error error_{};
  bool ok_ = true;
};

}  // namespace perdure
