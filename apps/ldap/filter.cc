// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/filter.h"

#include <algorithm>

#include "apps/ldap/matching.h"

namespace perdure::ldap {
namespace {

constexpr unsigned kMaxDepth = 100;

using Kind = Filter::Kind;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Filter whole() {
    Filter filter = parenthesised(0);
    if (at_ != text_.size()) fail("goes on behind its end");
    return filter;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Exception(Code::kInvalid, "the filter '" + std::string(text_.substr(0, 200)) + "' " +
                                        what + " at byte " + std::to_string(at_) +
                                        "; write it as (&(objectClass=person)(uid=ada))");
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void expect(char c) {
    if (at_ == text_.size() || text_[at_] != c) fail(std::string("has no '") + c + "'");
    ++at_;
  }

  Filter parenthesised(unsigned depth) {
    if (depth == kMaxDepth) fail("is nested too deep");
    expect('(');
    Filter filter = inner(depth);
    expect(')');
    return filter;
  }

  Filter inner(unsigned depth) {
    switch (peek()) {
      case '&': return list(Kind::kAnd, depth);
      case '|': return list(Kind::kOr, depth);
      case '!': {
        ++at_;
        Filter filter{Kind::kNot, {}, {}, {}};
        filter.children.push_back(parenthesised(depth + 1));
        return filter;
      }
      case '?': return undefined();
      default: return item();
    }
  }

  /// "(&)" is true and "(|)" is false (RFC 4526), which is what an empty list means anyway.
  Filter list(Kind kind, unsigned depth) {
    ++at_;
    Filter filter{kind, {}, {}, {}};
    while (peek() == '(') filter.children.push_back(parenthesised(depth + 1));
    return filter;
  }

  /// What slapd writes for what it cannot say: "?=true", "?=false", "?=undefined", "?=error", and
  /// "?attribute=value" for an attribute that no schema has.
  Filter undefined() {
    ++at_;
    const std::size_t start = at_;
    while (at_ < text_.size() && text_[at_] != ')' && text_[at_] != '(') ++at_;
    const std::string_view what = text_.substr(start, at_ - start);
    const Kind kind = what == "=true"    ? Kind::kTrue
                      : what == "=false" ? Kind::kFalse
                                         : Kind::kUndefined;
    return {kind, {}, {}, {}};
  }

  Filter item() {
    const std::size_t start = at_;
    while (at_ < text_.size() && std::string_view("=<>~:()").find(text_[at_]) == text_.npos) ++at_;
    Filter filter{Kind::kEqual, lower_case(text_.substr(start, at_ - start)), {}, {}};
    if (peek() == ':') return extensible(std::move(filter));
    if (filter.attribute.empty()) fail("has no attribute");
    switch (peek()) {
      case '>':
        filter.kind = Kind::kGreaterOrEqual;
        ++at_;
        break;
      case '<':
        filter.kind = Kind::kLessOrEqual;
        ++at_;
        break;
      case '~': ++at_; break;
      default: break;
    }
    expect('=');
    if (filter.kind != Kind::kEqual) {
      filter.values.push_back(normalised(filter.attribute, value(false)));
      return filter;
    }
    std::vector<std::string> pieces{value(true)};
    while (peek() == '*') {
      ++at_;
      pieces.push_back(value(true));
    }
    if (pieces.size() == 1) {
      filter.values.push_back(normalised(filter.attribute, pieces[0]));
    } else if (pieces.size() == 2 && pieces[0].empty() && pieces[1].empty()) {
      filter.kind = Kind::kPresent;
    } else {
      filter.kind = Kind::kSubstrings;
      for (const std::string& piece : pieces)
        filter.values.push_back(normalised_piece(filter.attribute, piece));
    }
    return filter;
  }

  /// "attribute:=value" compares as usual; a named matching rule, or names as attributes, is more
  /// than is known here.
  Filter extensible(Filter filter) {
    ++at_;
    if (peek() == '=' && !filter.attribute.empty()) {
      ++at_;
      filter.values.push_back(normalised(filter.attribute, value(false)));
      return filter;
    }
    while (at_ < text_.size() && text_[at_] != '=') {
      if (text_[at_] == '(' || text_[at_] == ')') fail("has no '='");
      ++at_;
    }
    expect('=');
    value(false);
    return {Kind::kUndefined, {}, {}, {}};
  }

  /// Up to the next parenthesis or, for a piece, asterisk; escapes resolved.
  std::string value(bool piece) {
    std::string out;
    while (at_ < text_.size() && text_[at_] != ')' && !(piece && text_[at_] == '*')) {
      if (text_[at_] == '(') fail("has an unescaped '('");
      if (text_[at_] != '\\') {
        out += text_[at_++];
        continue;
      }
      const auto digit = [&](std::size_t at) {
        return at < text_.size() ? kDigits.find(lower_case(text_.substr(at, 1))) : kDigits.npos;
      };
      const std::size_t high = digit(at_ + 1);
      const std::size_t low = digit(at_ + 2);
      if (high == kDigits.npos || low == kDigits.npos)
        fail("has a '\\' without two hexadecimal digits");
      out += static_cast<char>(high * 16 + low);
      at_ += 3;
    }
    return out;
  }

  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string_view text_;
  std::size_t at_ = 0;
};

bool has_substrings(std::string_view value, const std::vector<std::string>& pieces) {
  if (!value.starts_with(pieces.front())) return false;
  value.remove_prefix(pieces.front().size());
  for (std::size_t i = 1; i + 1 < pieces.size(); ++i) {
    const std::size_t found = value.find(pieces[i]);
    if (found == std::string_view::npos) return false;
    value.remove_prefix(found + pieces[i].size());
  }
  return value.ends_with(pieces.back());
}

bool holds(const Filter& filter, std::string_view value) {
  switch (filter.kind) {
    case Kind::kEqual: return value == filter.values[0];
    case Kind::kSubstrings: return has_substrings(value, filter.values);
    case Kind::kGreaterOrEqual: return compare_normalised(value, filter.values[0]) >= 0;
    case Kind::kLessOrEqual: return compare_normalised(value, filter.values[0]) <= 0;
    default: return true;  // present
  }
}

Truth opposite(Truth truth) {
  return truth == Truth::kTrue    ? Truth::kFalse
         : truth == Truth::kFalse ? Truth::kTrue
                                  : Truth::kUndefined;
}

}  // namespace

Result<Filter> parse_filter(std::string_view text) {
  try {
    return Reader(text).whole();
  } catch (const Exception& wrong) {
    return wrong.error();
  }
}

Truth evaluate(const Filter& filter, const Values& values) {
  switch (filter.kind) {
    case Kind::kTrue: return Truth::kTrue;
    case Kind::kFalse: return Truth::kFalse;
    case Kind::kUndefined: return Truth::kUndefined;
    case Kind::kNot: return opposite(evaluate(filter.children[0], values));
    case Kind::kAnd:
    case Kind::kOr: {
      const Truth decisive = filter.kind == Kind::kAnd ? Truth::kFalse : Truth::kTrue;
      Truth all = opposite(decisive);
      for (const Filter& child : filter.children) {
        const Truth one = evaluate(child, values);
        if (one == decisive) return decisive;
        if (one == Truth::kUndefined) all = Truth::kUndefined;
      }
      return all;
    }
    default: break;
  }
  std::string text;
  for (const Value& value : values) {
    if (!is_of_type(value.attribute, filter.attribute)) continue;
    if (filter.kind == Kind::kPresent) return Truth::kTrue;
    text.clear();
    append_normalised(value.attribute, value.value, text);
    if (holds(filter, text)) return Truth::kTrue;
  }
  return Truth::kFalse;
}

}  // namespace perdure::ldap
