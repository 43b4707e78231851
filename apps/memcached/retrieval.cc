// SPDX-License-Identifier: BSD-3-Clause
// get, gets, gat, gats: keys are taken one after the other, however many there are, and answered some at a time.
#include <algorithm>

#include "apps/memcached/layout.h"
#include "apps/memcached/session.h"

namespace perdure::memcached {
namespace {

constexpr std::string_view kBadFormat = "CLIENT_ERROR bad command line format\r\n";
constexpr std::string_view kBadExpiry = "CLIENT_ERROR invalid exptime argument\r\n";
constexpr std::size_t kKeysAtOnce = 64;

bool is_blank(char c) { return c == ' '; }

}  // namespace

/// Whether `input` starts with a retrieval, whose keys are then to be taken one after the other, however many there are.
/// `used` is then what was taken, 0 when more has to come first.
bool Session::begin_gets(std::string_view input, std::size_t line_end, Buffer& out,
                         std::size_t& used) {
  if (input.size() < 4 || input[0] != 'g') return false;
  const auto starts = [&](std::string_view verb) { return input.starts_with(verb); };
  const Gets gets = starts("get ")    ? Gets::kGet
                    : starts("gets ") ? Gets::kGets
                    : starts("gat ")  ? Gets::kGat
                    : starts("gats ") ? Gets::kGats
                                      : Gets::kNone;
  if (gets == Gets::kNone) return false;
  std::size_t at = gets == Gets::kGet || gets == Gets::kGat ? 4 : 5;
  if (gets == Gets::kGat || gets == Gets::kGats) {
    while (at < input.size() && is_blank(input[at])) ++at;
    const std::size_t end = input.find_first_of(" \n", at);
    if (end == input.npos) {
      if (line_end == input.npos && input.size() <= kMaxLineBytes) return true;  // more has to come
      out.append(kBadFormat);
      closing_ = true;
      used = input.size();
      return true;
    }
    std::string_view word = input.substr(at, end - at);
    if (word.ends_with('\r')) word.remove_suffix(1);
    if (input[end] == '\n') {  // no key
      out.append("END\r\n");
      used = end + 1;
      return true;
    }
    const auto exptime = parse_signed(word);
    if (!exptime) {
      out.append(kBadExpiry);
      skip_line_ = true;
      used = end;
      return true;
    }
    gat_expires_ = expiry(*exptime, now());
    at = end;
  }
  gets_ = gets;
  gets_any_ = false;
  used = at + go_on_getting(input.substr(at), out);
  return true;
}

std::size_t Session::go_on_getting(std::string_view input, Buffer& out) {
  const std::size_t before = out.size();
  std::array<std::string_view, kKeysAtOnce> keys;
  std::size_t count = 0;
  std::size_t at = 0;
  const auto answer = [&] {
    if (count > 0) get({keys.data(), count}, out);
    count = 0;
  };
  while (out.size() < kFull) {
    while (at < input.size() && is_blank(input[at])) ++at;
    std::size_t end = at;
    while (end < input.size() && input[end] != ' ' && input[end] != '\n') ++end;
    std::string_view key = input.substr(at, end - at);
    if (end == input.size()) {
      if (key.size() > kMaxKeyBytes + 1) {
        out.cut(before);
        refuse_gets(kBadFormat, out);
        return at;
      }
      break;  // the end of the key is still to come
    }
    const bool last = input[end] == '\n';
    if (last && key.ends_with('\r')) key.remove_suffix(1);
    if (key.size() > kMaxKeyBytes) {
      out.cut(before);
      refuse_gets(kBadFormat, out);
      return at;
    }
    if (!key.empty()) {
      gets_any_ = true;
      keys[count++] = key;
    }
    at = last ? end + 1 : end;
    if (last || count == kKeysAtOnce) answer();
    if (!last) continue;
    out.append(gets_any_ ? "END\r\n" : "ERROR\r\n");
    gets_ = Gets::kNone;
    return at;
  }
  answer();
  return at;
}

void Session::refuse_gets(std::string_view why, Buffer& out) {
  out.append(why);
  gets_ = Gets::kNone;
  skip_line_ = true;
}

void Session::get(std::span<const std::string_view> keys, Buffer& out) {
  if (gets_ == Gets::kGat || gets_ == Gets::kGats) {
    for (const std::string_view key : keys) get_and_touch(key, out);
    return;
  }
  const bool with_cas = gets_ == Gets::kGets;
  const std::size_t before = out.size();
  std::uint64_t hits = 0;
  service_->store->look(keys, ItemStore::Use::kUse, [&](std::size_t i, const ItemView* item) {
    if (i == 0) {
      out.cut(before);
      hits = 0;
    }
    if (item == nullptr) return;
    ++hits;
    append_item(keys[i], *item, with_cas, out);
  });
  counters_->add(Counter::cmd_get, keys.size());
  counters_->add(Counter::get_hits, hits);
  counters_->add(Counter::get_misses, keys.size() - hits);
}

void Session::get_and_touch(std::string_view key, Buffer& out) {
  const std::size_t before = out.size();
  bool hit = false;
  alter(
      key, 0, ItemStore::Use::kUse,
      [&](const ItemView* item) -> Plan {
        out.cut(before);
        hit = item != nullptr;
        if (!hit) return {};
        append_item(key, *item, gets_ == Gets::kGats, out);
        Plan plan{Plan::Kind::kHead, Plan::Old::kDropped, item->head, {}};
        plan.head.expires = gat_expires_;
        return plan;
      },
      out);
  count(Counter::cmd_get);
  count(Counter::cmd_touch);
  count(hit ? Counter::get_hits : Counter::get_misses);
  count(hit ? Counter::touch_hits : Counter::touch_misses);
}

void Session::append_item(std::string_view key, const ItemView& item, bool with_cas, Buffer& out) {
  out.append("VALUE ");
  out.append(key);
  out.append(' ');
  out.append_number(item.head.flags);
  out.append(' ');
  out.append_number(item.value_bytes);
  if (with_cas) {
    out.append(' ');
    out.append_number(item.head.cas);
  }
  out.append("\r\n");
  char* const to = out.grow(std::size_t{item.value_bytes} + 2);
  item.read(to, 0, item.value_bytes);
  to[item.value_bytes] = '\r';
  to[item.value_bytes + 1] = '\n';
}

}  // namespace perdure::memcached
