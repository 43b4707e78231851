// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/protocol.h"

#include <algorithm>
#include <charconv>

#include "apps/ldap/matching.h"
#include "apps/ldap/password.h"

namespace perdure::ldap {
namespace {

constexpr std::size_t kSentWidth = 4000;      // of a line, see append_entry()
constexpr std::size_t kSendBytes = 64 << 10;  // of a piece of an answer
constexpr std::size_t kMaxInfoBytes = 400;
constexpr std::string_view kFilterEnd = "\nattrsonly: ";
constexpr std::string_view kCredentials = "\ncred: ";

constexpr std::pair<std::string_view, Operation> kOperations[] = {
    {"ADD", Operation::kAdd},           {"BIND", Operation::kBind},
    {"COMPARE", Operation::kCompare},   {"DELETE", Operation::kDelete},
    {"EXTENDED", Operation::kExtended}, {"MODIFY", Operation::kModify},
    {"MODRDN", Operation::kModifyRdn},  {"SEARCH", Operation::kSearch},
    {"UNBIND", Operation::kUnbind},
};

[[noreturn]] void malformed(const std::string& what) {
  throw Exception(Code::kInvalid, "the request " + what);
}

/// Takes "name: " off the front of `line`.
bool take_name(std::string_view& line, std::string_view name) {
  if (line.size() < name.size() + 1 || line[name.size()] != ':' ||
      !equal_ignoring_case(line.substr(0, name.size()), name))
    return false;
  line.remove_prefix(name.size() + 1);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return true;
}

std::int64_t number(std::string_view name, std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    malformed("has '" + std::string(text.substr(0, 40)) + "' as " + std::string(name) +
              ", not a number");
  return value;
}

/// slapd says -1 for "no limit".
std::uint64_t limit(std::string_view name, std::string_view text) {
  const std::int64_t value = number(name, text);
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

std::optional<std::size_t> credentials_length(std::string_view text) {
  constexpr std::string_view kName = "\ncredlen: ";
  const std::size_t at = text.find(kName);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t value = 0;
  const char* begin = text.data() + at + kName.size();
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() + text.size() || *end != '\n') return std::nullopt;
  return value;
}

}  // namespace

bool is_whole_request(std::string_view text) {
  if (!text.ends_with("\n\n")) return false;
  if (text.starts_with("SEARCH\n")) {
    const std::size_t end = text.rfind(kFilterEnd);
    return end != std::string_view::npos && text.find("\nattrs:", end) != std::string_view::npos;
  }
  if (text.starts_with("BIND\n")) {
    const std::size_t at = text.find(kCredentials);
    if (at == std::string_view::npos) return true;  // malformed, whatever comes
    const auto length = credentials_length(text.substr(0, at + 1));
    const std::size_t have = text.size() - (at + kCredentials.size());
    return !length || (have >= 2 && have - 2 >= *length);
  }
  return true;
}

// ---- requests -----------------------------------------------------------------------------------

Request::Request(std::string text) : text_(std::move(text)) {
  // What slapd was killed in the middle of must not be done in part.
  if (!is_whole_request(text_)) malformed("is cut off before its end");
  // Of lines that end here only, and not within a filter or password.
  if (!text_.starts_with("SEARCH\n") && !text_.starts_with("BIND\n")) unfold(text_);
  std::string_view rest = text_;
  const std::string_view name = take_line(rest);
  const auto* known = std::find_if(std::begin(kOperations), std::end(kOperations),
                                   [&](const auto& each) { return each.first == name; });
  if (known == std::end(kOperations))
    malformed("begins with '" + std::string(name.substr(0, 40)) +
              "', which is no operation of slapd-sock(5)");
  operation = known->second;
  parse_head(rest);
  switch (operation) {
    case Operation::kAdd: parse_entry(rest); break;
    case Operation::kModify: parse_changes(rest); break;
    case Operation::kBind: parse_bind(rest); break;
    case Operation::kSearch: parse_search(rest); break;
    default: parse_fields(rest); break;
  }
}

/// The lines before those of the operation. Sent on wish ("extensions"): binddn, peername, ssf,
/// connid; nothing here depends on them.
void Request::parse_head(std::string_view& rest) {
  for (;;) {
    std::string_view after = rest;
    std::string_view line = take_line(after);
    if (take_name(line, "suffix")) {
      suffixes.push_back(line);
    } else if (!take_name(line, "msgid") && !take_name(line, "binddn") &&
               !take_name(line, "peername") && !take_name(line, "ssf") &&
               !take_name(line, "connid")) {
      return;
    }
    rest = after;
  }
}

void Request::parse_entry(std::string_view rest) {
  bool named = false;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (line.empty()) break;
    if (line.starts_with('#')) continue;
    const Value value = parse_line(line, arena_);
    if (!named) {
      if (!equal_ignoring_case(value.attribute, "dn")) malformed("does not begin with a dn");
      dn = value.value;
      named = true;
    } else {
      values.push_back(value);
    }
  }
  if (!named) malformed("has no dn");
  if (values.empty()) malformed("has an entry without attributes");
  gather(values);
}

void Request::parse_fields(std::string_view rest) {
  bool named = false;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (line.empty()) break;
    if (operation == Operation::kExtended) continue;  // refused whatever it says
    std::string_view value = line;
    const Value parsed = parse_line(line, arena_);
    if (!named && equal_ignoring_case(parsed.attribute, "dn")) {
      dn = parsed.value;
      named = true;
    } else if (operation == Operation::kModifyRdn && take_name(value, "newrdn")) {
      new_rdn = value;
    } else if (operation == Operation::kModifyRdn && take_name(value, "deleteoldrdn")) {
      delete_old_rdn = number("deleteoldrdn", value) != 0;
    } else if (operation == Operation::kModifyRdn && take_name(value, "newSuperior")) {
      new_superior = value;
    } else if (operation == Operation::kCompare && values.empty()) {
      values.push_back(parsed);
    } else {
      malformed("has a line '" + std::string(line.substr(0, 80)) + "' that does not belong there");
    }
  }
  if (operation == Operation::kUnbind || operation == Operation::kExtended) return;
  if (!named) malformed("has no dn");
  if (operation == Operation::kModifyRdn && new_rdn.empty()) malformed("has no newrdn");
  if (operation == Operation::kCompare && values.empty()) malformed("has nothing to compare with");
}

void Request::parse_changes(std::string_view rest) {
  constexpr std::pair<std::string_view, Change::Kind> kKinds[] = {
      {"add", Change::Kind::kAdd},
      {"delete", Change::Kind::kDelete},
      {"replace", Change::Kind::kReplace},
      {"increment", Change::Kind::kIncrement},
  };
  const Value name = parse_line(take_line(rest), arena_);
  if (!equal_ignoring_case(name.attribute, "dn")) malformed("has no dn");
  dn = name.value;
  bool open = false;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    if (line.empty()) break;
    if (line == "-") {
      if (!open) malformed("has a '-' that ends nothing");
      open = false;
      continue;
    }
    const Value value = parse_line(line, arena_);
    if (open) {
      if (!equal_ignoring_case(value.attribute, changes.back().attribute))
        malformed("changes '" + std::string(changes.back().attribute) + "' and gives a value of '" +
                  std::string(value.attribute.substr(0, 80)) + "'");
      changes.back().values.push_back(value.value);
      continue;
    }
    const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& each) {
      return equal_ignoring_case(each.first, value.attribute);
    });
    if (kind == std::end(kKinds) || value.value.empty())
      malformed("has '" + std::string(line.substr(0, 80)) +
                "' where add, delete, replace or increment of an attribute belongs");
    changes.push_back({kind->second, value.value, {}});
    open = true;
  }
  if (open) malformed("has a change that no '-' ends");
}

void Request::parse_bind(std::string_view rest) {
  std::string_view line = take_line(rest);
  if (!take_name(line, "dn")) malformed("has no dn");
  dn = line;
  line = take_line(rest);
  if (!take_name(line, "method")) malformed("has no method");
  bind_method = static_cast<unsigned>(number("method", line));
  line = take_line(rest);
  if (!take_name(line, "credlen")) malformed("has no credlen");
  const std::int64_t length = number("credlen", line);
  if (!take_name(rest, "cred")) malformed("has no cred");
  // What is told as shorter or longer than it is had a zero in it, or is no work of slapd's.
  if (length < 0 || !rest.ends_with("\n\n") ||
      rest.size() - 2 != static_cast<std::uint64_t>(length))
    malformed("has credentials of another length than it says");
  credentials = rest.substr(0, static_cast<std::size_t>(length));
}

void Request::parse_search(std::string_view rest) {
  const auto field = [&](std::string_view name) {
    std::string_view line = take_line(rest);
    if (!take_name(line, name)) malformed("has no " + std::string(name) + " where it belongs");
    return line;
  };
  dn = field("base");
  const std::int64_t asked = number("scope", field("scope"));
  if (asked < 0 || asked > 3) malformed("has a scope that is none of 0 to 3");
  scope = static_cast<unsigned>(asked);
  number("deref", field("deref"));  // there are no aliases to follow
  size_limit = limit("sizelimit", field("sizelimit"));
  time_limit = limit("timelimit", field("timelimit"));
  // slapd does not escape line ends in a filter, so it ends where the next field begins.
  const std::size_t end = rest.rfind(kFilterEnd);
  if (end == std::string_view::npos) malformed("has no attrsonly");
  filter = rest.substr(0, end);
  if (!take_name(filter, "filter")) malformed("has no filter where it belongs");
}

// ---- answers ------------------------------------------------------------------------------------

void append_entry(std::string& out, std::string_view dn, const Values& values) {
  append_line(out, "dn", dn, kSentWidth);
  for (const Value& value : values) append_line(out, value.attribute, value.value, kSentWidth);
  out += '\n';
}

void append_result(std::string& out, const Outcome& outcome) {
  const auto field = [&](const char* name, std::string_view text) {
    if (text.empty()) return;
    out += name;
    for (const char c : text.substr(0, kMaxInfoBytes)) {
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    out += '\n';
  };
  out += "RESULT\ncode: " + std::to_string(static_cast<int>(outcome.code)) + "\n";
  field("matched: ", outcome.matched);
  field("info: ", outcome.info);
  out += '\n';
}

namespace {

/// A request that cannot be answered as it is asked.
struct Refusal {
  Outcome outcome;
};

Dn name_in(std::string_view text) {
  Result<Dn> dn = parse_dn(text);
  if (!dn) throw Refusal{{ResultCode::kInvalidDnSyntax, {}, dn.error().message}};
  return std::move(dn).value();
}

bool is_suffix(const Request& request, const Dn& dn) {
  return std::any_of(request.suffixes.begin(), request.suffixes.end(), [&](std::string_view text) {
    const Result<Dn> suffix = parse_dn(text);
    return suffix && parse_dn(text).value().normalised() == dn.normalised();
  });
}

Outcome add(Directory& directory, const Request& request) {
  const Dn dn = name_in(request.dn);
  return directory.add(dn, request.values, is_suffix(request, dn));
}

Outcome rename(Directory& directory, const Request& request) {
  const Dn dn = name_in(request.dn);
  Result<Rdn> rdn = parse_rdn(request.new_rdn);
  if (!rdn) return {ResultCode::kInvalidDnSyntax, {}, rdn.error().message};
  std::optional<Dn> superior;
  if (request.new_superior) superior = name_in(*request.new_superior);
  return directory.rename(dn, rdn.value(), request.delete_old_rdn, superior ? &*superior : nullptr);
}

Outcome bind(const Service& service, const Request& request) {
  constexpr unsigned kSimple = 128;
  if (request.bind_method != kSimple)
    return {ResultCode::kAuthMethodNotSupported, {}, "only simple binds are answered here"};
  const Dn dn = name_in(request.dn);
  if (!service.admin.empty() && dn.normalised() == service.admin) {
    const bool right =
        !request.credentials.empty() && is_password(service.admin_password, request.credentials);
    return {right ? ResultCode::kSuccess : ResultCode::kInvalidCredentials, {}, {}};
  }
  return service.directory->bind(dn, request.credentials);
}

Outcome search(Directory& directory, const Request& request, std::string& out, const Send& send) {
  Result<Filter> filter = parse_filter(request.filter);
  if (!filter) return {ResultCode::kProtocolError, {}, filter.error().message};
  constexpr std::uint64_t kLongest = 365 * 24 * 3600;
  const Search asked{name_in(request.dn), static_cast<Search::Scope>(request.scope),
                     std::move(filter).value(), request.size_limit,
                     std::chrono::seconds(std::min(request.time_limit, kLongest))};
  struct PeerLeft {};
  try {
    return directory.search(asked, [&](const std::string& dn, const Values& values) {
      append_entry(out, dn, values);
      if (out.size() < kSendBytes) return;
      if (!send(out)) throw PeerLeft{};
      out.clear();
    });
  } catch (const PeerLeft&) {
    out.clear();
    return {ResultCode::kOther, {}, "the peer has left"};
  }
}

Outcome perform(const Service& service, const Request& request, std::string& out,
                const Send& send) {
  Directory& directory = *service.directory;
  switch (request.operation) {
    case Operation::kAdd: return add(directory, request);
    case Operation::kDelete: return directory.remove(name_in(request.dn));
    case Operation::kModify: return directory.modify(name_in(request.dn), request.changes);
    case Operation::kModifyRdn: return rename(directory, request);
    case Operation::kCompare:
      return directory.compare(name_in(request.dn), request.values[0].attribute,
                               request.values[0].value);
    case Operation::kBind: return bind(service, request);
    case Operation::kSearch: return search(directory, request, out, send);
    case Operation::kUnbind: return {};
    case Operation::kExtended:
      return {ResultCode::kUnwillingToPerform, {}, "no extended operation is known here"};
  }
  return {ResultCode::kProtocolError, {}, "no such operation"};
}

}  // namespace

void answer(const Service& service, std::string text, const Send& send) {
  std::string out;
  Outcome outcome;
  try {
    const Request request(std::move(text));
    outcome = perform(service, request, out, send);
    if (request.operation == Operation::kUnbind) return;  // slapd does not listen
  } catch (const Refusal& refusal) {
    outcome = refusal.outcome;
  } catch (const Exception& error) {
    // What cannot be parsed is kInvalid; the others come from the pool.
    outcome = {error.code() == Code::kInvalid ? ResultCode::kProtocolError : ResultCode::kOther,
               {},
               error.what()};
  } catch (const std::bad_alloc&) {
    outcome = {ResultCode::kOther, {}, "out of memory"};
  }
  append_result(out, outcome);
  send(out);
}

}  // namespace perdure::ldap
