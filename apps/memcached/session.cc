// SPDX-License-Identifier: BSD-3-Clause
#include "apps/memcached/session.h"

#include <algorithm>

#include "apps/memcached/layout.h"
#include "perdure/error.h"

namespace perdure::memcached {
namespace {

constexpr std::string_view kBadFormat = "CLIENT_ERROR bad command line format\r\n";
constexpr std::string_view kBadChunk = "CLIENT_ERROR bad data chunk\r\n";
constexpr std::string_view kTooLarge = "SERVER_ERROR object too large for cache\r\n";
constexpr std::string_view kBadExpiry = "CLIENT_ERROR invalid exptime argument\r\n";
constexpr char kBinaryMagic = '\x80';

}  // namespace

std::size_t Session::feed(std::string_view input, Buffer& out) {
  std::size_t done = 0;
  wanted_ = 0;
  while (!closing_ && done < input.size() && out.size() < kFull) {
    const std::size_t before = out.size();
    std::size_t used = 0;
    try {
      used = converse(input.substr(done), out);
    } catch (const Exception& error) {
      // The store failed, and where in the input the next command begins is not known.
      out.cut(before);
      out.append("SERVER_ERROR ");
      out.append(error.what());
      out.append("\r\n");
      closing_ = true;
    }
    if (used == 0) break;
    line_from_ = 0;
    done += used;
  }
  return closing_ ? input.size() : done;
}

std::string_view Session::first_key(std::string_view input) {
  const std::string_view line = input.substr(0, kMaxKeyBytes + 16);
  const std::size_t begin = line.find(' ') + 1;  // 0: there is none
  const std::size_t end = line.find_first_of(" \r\n", begin);
  return begin == 0 || end == line.npos ? std::string_view() : line.substr(begin, end - begin);
}

/// One step: a command, or a part of one that may be answered in parts. Returns how much of the input it took.
std::size_t Session::converse(std::string_view input, Buffer& out) {
  if (swallow_ > 0) {
    const std::size_t here = std::min<std::uint64_t>(swallow_, input.size());
    swallow_ -= here;
    return here;
  }
  if (skip_line_) {
    const std::size_t end = input.find('\n');
    skip_line_ = end == input.npos;
    return skip_line_ ? input.size() : end + 1;
  }
  if (gets_ != Gets::kNone) return go_on_getting(input, out);
  if (input[0] == ' ') return std::min(input.find_first_not_of(' '), input.size());
  if (input[0] == kBinaryMagic) {
    out.append("CLIENT_ERROR the binary protocol is not spoken here, only the text protocol\r\n");
    closing_ = true;
    return input.size();
  }
  const char* const found = static_cast<const char*>(
      std::memchr(input.data() + line_from_, '\n', input.size() - line_from_));
  const std::size_t end = found == nullptr ? input.npos : found - input.data();
  std::size_t used = 0;
  if (begin_gets(input, end, out, used)) return used;
  if (end == input.npos) {
    line_from_ = input.size();
    if (input.size() <= kMaxLineBytes) return 0;
    out.append("CLIENT_ERROR line too long\r\n");
    closing_ = true;
    return input.size();
  }
  std::string_view line = input.substr(0, end);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::string_view data = input.substr(end + 1);
  const auto taken = run(split(line), data, out);
  return taken ? end + 1 + *taken : 0;
}

// ---- commands -----------------------------------------------------------------------------------

std::optional<std::size_t> Session::run(const Words& words, std::string_view data, Buffer& out) {
  const std::string_view verb = words[0];
  if (verb.size() == 2 && verb[0] == 'm') return meta(verb[1], words, data, out);
  if (verb == "set") return store(Verb::kSet, words, data, out);
  if (verb == "add") return store(Verb::kAdd, words, data, out);
  if (verb == "replace") return store(Verb::kReplace, words, data, out);
  if (verb == "append") return store(Verb::kAppend, words, data, out);
  if (verb == "prepend") return store(Verb::kPrepend, words, data, out);
  if (verb == "cas") return store(Verb::kCas, words, data, out);
  if (verb == "delete") {
    remove(words, out);
  } else if (verb == "incr" || verb == "decr") {
    arithmetic(verb == "incr", words, out);
  } else if (verb == "touch") {
    touch(words, out);
  } else if (verb == "flush_all") {
    flush_all(words, out);
  } else if (verb == "stats") {
    stats(words, out);
  } else if (verb == "version") {
    out.append("VERSION ");
    out.append(kVersionText);
    out.append("\r\n");
  } else if (verb == "verbosity") {
    // There is nothing to be more or less talkative about.
    const bool quiet = words.count > 1 && words[words.count - 1] == "noreply";
    if (words.count < 2 || words.count > 3) {
      out.append("ERROR\r\n");
    } else if (!quiet) {
      out.append(parse_unsigned(words[1]) ? std::string_view("OK\r\n") : kBadFormat);
    }
  } else if (verb == "cache_memlimit") {
    limit_memory(words, out);
  } else if (verb == "quit") {
    closing_ = true;
  } else if (verb == "shutdown") {
    shut_down(words, out);
  } else {
    out.append("ERROR\r\n");
  }
  return 0;
}

std::optional<std::uint64_t> Session::alter(std::string_view key, std::uint64_t room,
                                            ItemStore::Use use, ItemStore::Decide decide,
                                            Buffer& out) {
  const std::size_t before = out.size();
  try {
    return service_->store->alter(key, room, use, decide);
  } catch (const Exception& error) {
    if (error.code() != Code::kNoSpace) throw;
    out.cut(before);
    count(Counter::store_no_memory);
    out.append("SERVER_ERROR out of memory storing object\r\n");
    return std::nullopt;
  }
}

void Session::drop(std::string_view key, Buffer& out) {
  const auto decide = [](const ItemView* item) {
    Plan plan;
    if (item != nullptr) plan.kind = Plan::Kind::kRemove;
    return plan;
  };
  alter(key, 0, ItemStore::Use::kPeek, decide, out);
}

std::size_t Session::swallow(std::uint64_t bytes, std::string_view data) {
  const std::size_t here = std::min<std::uint64_t>(bytes, data.size());
  swallow_ = bytes - here;
  return here;
}

Session::Block Session::block(std::uint64_t bytes, std::string_view data) {
  if (data.size() < bytes + 2) {
    wanted_ = bytes + 2;
    return Block::kPartial;
  }
  return data[bytes] == '\r' && data[bytes + 1] == '\n' ? Block::kGood : Block::kBad;
}

std::optional<std::size_t> Session::store(Verb verb, const Words& words, std::string_view data,
                                          Buffer& out) {
  const std::size_t least = verb == Verb::kCas ? 6 : 5;
  if (words.count < least || words.count > least + 1) {
    out.append("ERROR\r\n");
    return 0;
  }
  const std::string_view key = words[1];
  const auto flags = parse_unsigned(words[2], ~std::uint32_t{0});
  const auto exptime = parse_signed(words[3]);
  const auto bytes = parse_unsigned(words[4], (1u << 31) - 3);
  const auto unique = verb == Verb::kCas ? parse_unsigned(words[5]) : 0;
  if (key.size() > kMaxKeyBytes || !flags || !exptime || !bytes || !unique) {
    out.append(kBadFormat);
    return 0;
  }
  const bool quiet = words.count == least + 1 && words[least] == "noreply";
  if (*bytes > service_->item_size_max) {
    say(out, kTooLarge, quiet);
    count(Counter::store_too_large);
    if (verb == Verb::kSet) drop(key, out);  // better no value than an old one
    return swallow(*bytes + 2, data);
  }
  const Block found = block(*bytes, data);
  if (found == Block::kPartial) return std::nullopt;
  const std::size_t taken = *bytes + 2;
  if (found == Block::kBad) {
    out.append(kBadChunk);
    return taken;
  }

  std::string_view reply;
  const std::uint32_t expires = expiry(*exptime, now());
  const std::uint64_t most = service_->item_size_max;
  const auto decide = [&](const ItemView* item) -> Plan {
    Plan plan{Plan::Kind::kStore, Plan::Old::kDropped, {}, data.substr(0, *bytes)};
    plan.head.flags = static_cast<std::uint32_t>(*flags);
    plan.head.expires = expires;
    reply = "STORED\r\n";
    const auto refuse = [&](std::string_view why) {
      reply = why;
      return Plan{};
    };
    switch (verb) {
      case Verb::kSet: break;
      case Verb::kAdd:
        if (item != nullptr) return refuse("NOT_STORED\r\n");
        break;
      case Verb::kReplace:
        if (item == nullptr) return refuse("NOT_STORED\r\n");
        break;
      case Verb::kAppend:
      case Verb::kPrepend:
        if (item == nullptr) return refuse("NOT_STORED\r\n");
        if (item->value_bytes + *bytes > most) return refuse(kTooLarge);
        plan.head = item->head;
        plan.head.cas = 0;
        plan.head.state &= kBinaryKey;
        plan.old = verb == Verb::kAppend ? Plan::Old::kBefore : Plan::Old::kBehind;
        break;
      case Verb::kCas:
        if (item == nullptr) return refuse("NOT_FOUND\r\n");
        if (item->head.cas != *unique) return refuse("EXISTS\r\n");
        break;
    }
    return plan;
  };
  count(Counter::cmd_set);
  // An empty value needs room for its key.
  if (!alter(key, *bytes + 1, ItemStore::Use::kUse, decide, out)) return taken;
  if (reply[0] == 'S' && reply[1] == 'T') count(Counter::total_items);
  if (verb == Verb::kCas) {
    count(reply[0] == 'S'   ? Counter::cas_hits
          : reply[0] == 'E' ? Counter::cas_badval
                            : Counter::cas_misses);
  }
  say(out, reply, quiet);
  return taken;
}

void Session::arithmetic(bool up, const Words& words, Buffer& out) {
  if (words.count < 3 || words.count > 4) return out.append("ERROR\r\n");
  const std::string_view key = words[1];
  if (key.size() > kMaxKeyBytes) return out.append(kBadFormat);
  const bool quiet = words[3] == "noreply";
  const auto delta = parse_unsigned(words[2]);
  if (!delta) return out.append("CLIENT_ERROR invalid numeric delta argument\r\n");
  std::array<char, 24> text;
  std::string_view reply;
  std::uint64_t value = 0;
  const auto decide = [&](const ItemView* item) -> Plan {
    reply = "NOT_FOUND\r\n";
    if (item == nullptr) return {};
    std::array<char, 24> old;
    std::optional<std::uint64_t> number;
    if (item->value_bytes <= 20) {
      item->read(old.data(), 0, item->value_bytes);
      std::string_view digits(old.data(), item->value_bytes);
      number = parse_counter(digits);
    }
    if (!number) {
      reply = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
      return {};
    }
    reply = {};
    value = up ? *number + *delta : *number - std::min(*number, *delta);
    // A number that got shorter is padded, as memcached does.
    text.fill(' ');
    const char* const end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    const std::size_t size = std::max<std::size_t>(end - text.data(), item->value_bytes);
    Plan plan{Plan::Kind::kStore, Plan::Old::kDropped, item->head, {text.data(), size}};
    plan.head.cas = 0;
    return plan;
  };
  if (!alter(key, 0, ItemStore::Use::kUse, decide, out)) return;
  const bool done = reply.empty();
  if (up) {
    count(done ? Counter::incr_hits : Counter::incr_misses);
  } else {
    count(done ? Counter::decr_hits : Counter::decr_misses);
  }
  if (!done) return say(out, reply, quiet && reply[0] == 'N');
  if (quiet) return;
  out.append_number(value);
  out.append("\r\n");
}

void Session::touch(const Words& words, Buffer& out) {
  if (words.count < 3 || words.count > 4) return out.append("ERROR\r\n");
  if (words[1].size() > kMaxKeyBytes) return out.append(kBadFormat);
  const auto exptime = parse_signed(words[2]);
  if (!exptime) return out.append(kBadExpiry);
  bool hit = false;
  const auto done = alter(
      words[1], 0, ItemStore::Use::kUse,
      [&](const ItemView* item) -> Plan {
        hit = item != nullptr;
        if (!hit) return {};
        Plan plan{Plan::Kind::kHead, Plan::Old::kDropped, item->head, {}};
        plan.head.expires = expiry(*exptime, now());
        return plan;
      },
      out);
  if (!done) return;
  count(Counter::cmd_touch);
  count(hit ? Counter::touch_hits : Counter::touch_misses);
  say(out, hit ? "TOUCHED\r\n" : "NOT_FOUND\r\n", words[3] == "noreply");
}

void Session::remove(const Words& words, Buffer& out) {
  if (words.count < 2 || words.count > 4) return out.append("ERROR\r\n");
  const bool quiet = words.count > 2 && words[words.count - 1] == "noreply";
  const bool well_formed = words.count == 2 || (words.count == 3 && (quiet || words[2] == "0")) ||
                           (words.count == 4 && quiet && words[2] == "0");
  if (!well_formed)
    return out.append("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n");
  if (words[1].size() > kMaxKeyBytes) return out.append(kBadFormat);
  bool hit = false;
  const auto done = alter(
      words[1], 0, ItemStore::Use::kPeek,
      [&](const ItemView* item) -> Plan {
        hit = item != nullptr;
        Plan plan;
        if (hit) plan.kind = Plan::Kind::kRemove;
        return plan;
      },
      out);
  if (!done) return;
  count(hit ? Counter::delete_hits : Counter::delete_misses);
  say(out, hit ? "DELETED\r\n" : "NOT_FOUND\r\n", quiet);
}

void Session::flush_all(const Words& words, Buffer& out) {
  if (words.count > 3) return out.append("ERROR\r\n");
  const bool quiet = words.count > 1 && words[words.count - 1] == "noreply";
  std::int64_t delay = 0;
  if (words.count > (quiet ? 2u : 1u)) {
    const auto parsed = parse_signed(words[1]);
    if (!parsed) return out.append(kBadExpiry);
    delay = *parsed;
  }
  service_->store->flush_all(delay <= 0 ? 0 : expiry(delay, now()));
  count(Counter::cmd_flush);
  say(out, "OK\r\n", quiet);
}

void Session::limit_memory(const Words& words, Buffer& out) {
  if (words.count < 2 || words.count > 3) return out.append("ERROR\r\n");
  const bool quiet = words[2] == "noreply";
  const auto megabytes = parse_unsigned(words[1], std::uint64_t{1} << 40);
  if (!megabytes) return out.append("ERROR\r\n");
  if (*megabytes < 8)
    return say(out, "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n", quiet);
  if (!service_->store->set_limit(*megabytes << 20))
    return say(out, "MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n", quiet);
  say(out, "OK\r\n", quiet);
}

void Session::shut_down(const Words& words, Buffer& out) {
  if (!service_->allow_shutdown) return out.append("ERROR: shutdown not enabled\r\n");
  if (words.count > 2 || (words.count == 2 && words[1] != "graceful"))
    return out.append("CLIENT_ERROR invalid shutdown mode\r\n");
  closing_ = true;
  service_->shutdown();
}

}  // namespace perdure::memcached
