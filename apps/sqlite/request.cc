// SPDX-License-Identifier: BSD-3-Clause
#include "apps/sqlite/request.h"

#include <cstdlib>
#include <string_view>

#include "apps/sqlite/errors.h"

namespace perdure::sqlite {
namespace {

[[noreturn]] void refuse(const char* name, const char* parameter, std::string_view value,
                         const std::string& expected) {
  throw Refusal{SQLITE_CANTOPEN, std::string(name) + ": " + parameter + "=" + std::string(value) +
                                     " in its URI; " + expected};
}

/// The Kind that `name_of` calls as the parameter says; they are numbered from 0 without a gap. False when the URI does not
/// have the parameter.
template <class Kind>
bool choose(const char* name, const char* parameter, std::string_view (*name_of)(Kind),
            Kind& chosen) {
  const char* const value = sqlite3_uri_parameter(name, parameter);
  if (value == nullptr) return false;
  std::string names;
  for (int number = 0;; ++number) {
    const auto kind = static_cast<Kind>(number);
    if (name_of(kind) == "unknown") break;
    if (name_of(kind) == value) {
      chosen = kind;
      return true;
    }
    names += (names.empty() ? "" : ", ") + std::string(name_of(kind));
  }
  refuse(name, parameter, value, "it may be one of " + names);
}

/// A number with K, M, G or T behind it, or without.
void read_bytes(const char* name, const char* parameter, std::uint64_t& bytes) {
  const char* const value = sqlite3_uri_parameter(name, parameter);
  if (value == nullptr) return;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(value, &end, 10);
  const std::string_view unit = end;
  const std::string_view units = "KMGT";
  const std::size_t power = unit.empty() ? 0 : units.find(unit[0]) + 1;
  if (end == value || value[0] == '-' || unit.size() > 1 || (!unit.empty() && power == 0) ||
      (number << (10 * power)) >> (10 * power) != number)
    refuse(name, parameter, value, "it must be a number of bytes, as 4096, 64M or 2G");
  bytes = number << (10 * power);
}

}  // namespace

Request request_of(const char* name, int flags) {
  for (const char* const unsafe : {"nolock", "immutable"}) {
    if (sqlite3_uri_boolean(name, unsafe, 0) != 0)
      refuse(name, unsafe, sqlite3_uri_parameter(name, unsafe),
             "connections to a pool share memory and must lock; leave it out");
  }
  Request request;
  request.path = name;
  request.create = (flags & SQLITE_OPEN_CREATE) != 0;
  request.only_reads = (flags & SQLITE_OPEN_READONLY) != 0;
  ExpertOptions& options = request.options;
  options.mode = 0644;  // as SQLite's own VFS; the umask may take more
  if (const char* engine = sqlite3_uri_parameter(name, "engine")) request.engine = engine;
  request.names_domain =
      choose(name, "domain", domain_name, options.domain) && options.domain != DomainKind::kAuto;
  choose(name, "truncation", truncation_name, options.truncation);
  read_bytes(name, "capacity", options.capacity_bytes);
  auto recovery_target = static_cast<std::uint64_t>(options.recovery_target.count);
  read_bytes(name, "recovery_target", recovery_target);
  options.recovery_target = Milliseconds(static_cast<std::int64_t>(recovery_target));
  std::uint64_t threads = options.log_slots;
  read_bytes(name, "threads", threads);
  if (threads == 0 || threads > 4096)
    refuse(name, "threads", sqlite3_uri_parameter(name, "threads"), "it may be from 1 to 4096");
  options.log_slots = static_cast<std::uint32_t>(threads);
  read_bytes(name, "alias_words", request.alias_words);
  read_bytes(name, "private_bytes", options.private_bytes);
  read_bytes(name, "line_ns", request.line_ns);
  return request;
}

ConnectionOptions connection_options_of(const char* name, int flags) {
  const char* const cache = sqlite3_uri_parameter(name, "cache");
  return {.read_only = (flags & SQLITE_OPEN_READONLY) != 0,
          .early_reads = sqlite3_uri_boolean(name, "early_reads", 0) != 0,
          .shares_cache = cache != nullptr && sqlite3_stricmp(cache, "shared") == 0};
}

}  // namespace perdure::sqlite
