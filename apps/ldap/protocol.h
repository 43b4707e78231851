// SPDX-License-Identifier: BSD-3-Clause
// What slapd's socket back end says and wants to hear (slapd-sock(5)): one request of text lines
// per connection, and an answer of LDIF entries and a RESULT.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ldap/directory.h"
#include "apps/ldap/ldif.h"

namespace perdure::ldap {

enum class Operation : std::uint8_t {
  kAdd,
  kBind,
  kCompare,
  kDelete,
  kExtended,
  kModify,
  kModifyRdn,
  kSearch,
  kUnbind,
};

/// A parsed request. Its views point into itself, so it stays where it was parsed.
class Request {
 public:
  /// Parses one whole request. Errors: throws Exception kInvalid, saying what is wrong; a request
  /// is never half understood.
  explicit Request(std::string text);
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  Operation operation = Operation::kUnbind;
  std::vector<std::string_view> suffixes;
  std::string_view dn;
  Values values;                                 // ADD; COMPARE: the one to compare with
  std::vector<Change> changes;                   // MODIFY
  std::string_view new_rdn;                      // MODRDN
  bool delete_old_rdn = false;                   // MODRDN
  std::optional<std::string_view> new_superior;  // MODRDN
  unsigned bind_method = 0;                      // BIND: 128 is simple
  std::string_view credentials;                  // BIND
  unsigned scope = 0;                            // SEARCH, as the three below
  std::uint64_t size_limit = 0;                  // 0: none
  std::uint64_t time_limit = 0;                  // seconds, 0: none
  std::string_view filter;

 private:
  void parse_head(std::string_view& rest);
  void parse_fields(std::string_view rest);
  void parse_entry(std::string_view rest);
  void parse_changes(std::string_view rest);
  void parse_bind(std::string_view rest);
  void parse_search(std::string_view rest);

  std::string text_;
  Arena arena_;
};

/// Whether `text` is all of a request: what slapd sends ends with an empty line, but a password or
/// a filter may contain one.
bool is_whole_request(std::string_view text);

/// Appends an entry as slapd reads it. Its reader takes lines in pieces of 8 KiB, so longer ones
/// are folded.
void append_entry(std::string& out, std::string_view dn, const Values& values);
/// Appends the RESULT, the end of every answer.
void append_result(std::string& out, const Outcome& outcome);

/// Whom a server answers for.
struct Service {
  Directory* directory = nullptr;
  /// Somebody who may bind without an entry, as slapd's rootdn; empty: nobody. slapd leaves this
  /// bind to the back end, and takes from there what the name may do.
  std::string admin;           // normalised
  std::string admin_password;  // as an entry would keep it
};

/// Does what the request asks of the directory and gives what is to be sent back to `send`, in
/// pieces; stops when that says false. Never throws: what goes wrong becomes the result code.
using Send = std::function<bool(std::string_view)>;
void answer(const Service& service, std::string request, const Send& send);

}  // namespace perdure::ldap
