// SPDX-License-Identifier: BSD-3-Clause
// The meta commands: mg, ms, md, ma, me, mn.
#include <algorithm>

#include "apps/base64.h"
#include "apps/memcached/layout.h"
#include "apps/memcached/meta_request.h"

namespace perdure::memcached {
namespace {

constexpr std::string_view kBadFormat = "CLIENT_ERROR bad command line format\r\n";

// What each command takes.
constexpr MetaFlags kGetFlags{"bcfhklqstuv", "ENORT"};
constexpr MetaFlags kSetFlags{"bcfkqsI", "CEFMNOST"};
constexpr MetaFlags kDeleteFlags{"bkqIx", "CEOT"};
constexpr MetaFlags kArithmeticFlags{"bckqtv", "CDEJMNOT"};

void append_time_left(Buffer& out, std::uint32_t expires, std::uint32_t now) {
  if (expires == 0) return append_flag(out, 't', "-1");
  append_flag(out, 't', expires > now ? expires - now : 0);
}

}  // namespace

std::optional<std::size_t> Session::meta(char command, const Words& words, std::string_view data,
                                         Buffer& out) {
  if (command == 'n') {
    out.append("MN\r\n");
    return 0;
  }
  if (command == 's') return meta_set(words, data, out);
  if (command != 'g' && command != 'd' && command != 'a' && command != 'e') {
    out.append("ERROR\r\n");
    return 0;
  }
  count(Counter::cmd_meta);
  if (words.count < 2) {
    out.append("ERROR\r\n");
    return 0;
  }
  if (command == 'e') {
    meta_debug(words, out);
    return 0;
  }
  Meta asked(words, 2,
             command == 'g'   ? kGetFlags
             : command == 'd' ? kDeleteFlags
                              : kArithmeticFlags,
             now());
  if (!asked.error.empty()) {
    out.append(asked.error);
  } else if (command == 'g') {
    meta_get(asked, out);
  } else if (command == 'd') {
    meta_delete(asked, out);
  } else {
    meta_arithmetic(asked, out);
  }
  return 0;
}

void Session::meta_debug(const Words& words, Buffer& out) {
  const Meta asked(words, 2, {"b", ""}, now());
  if (!asked.error.empty()) return out.append(asked.error);
  const std::size_t before = out.size();
  service_->store->look(
      {&asked.key, 1}, ItemStore::Use::kPeek, [&](std::size_t, const ItemView* item) {
        out.cut(before);
        if (item == nullptr) return out.append("EN\r\n");
        out.append("ME ");
        out.append(asked.spelt);
        const auto pair = [&](std::string_view name, std::uint64_t value) {
          out.append(' ');
          out.append(name);
          out.append('=');
          out.append_number(value);
        };
        if (item->head.expires == 0) {
          out.append(" exp=-1");
        } else {
          pair("exp", item->head.expires > now() ? item->head.expires - now() : 0);
        }
        pair("la", now() - std::min(now(), item->accessed));
        pair("cas", item->head.cas);
        out.append(item->fetched ? " fetch=yes" : " fetch=no");
        pair("cls", 1);
        pair("size", item->object_bytes);
        out.append("\r\n");
      });
}

// ---- mg -----------------------------------------------------------------------------------------

void Session::meta_get(Meta& asked, Buffer& out) {
  const std::size_t before = out.size();
  bool hit = false;
  // What the client wins or is told: W, X, Z.
  struct Recache {
    bool won = false;
    bool stale = false;
    bool other_won = false;
  };
  const auto answer = [&](const ItemView& item, const Recache& recache) {
    if (asked.is('v')) {
      out.append("VA ");
      out.append_number(item.value_bytes);
    } else {
      out.append("HD");
    }
    for (std::size_t i = 0; i < asked.count; ++i) {
      const char flag = asked.flags[i][0];
      switch (flag) {
        case 'c': append_flag(out, 'c', item.head.cas); break;
        case 'f': append_flag(out, 'f', std::uint64_t{item.head.flags}); break;
        case 'h': append_flag(out, 'h', item.fetched ? "1" : "0"); break;
        case 'l': append_flag(out, 'l', now() - std::min(now(), item.accessed)); break;
        case 's': append_flag(out, 's', std::uint64_t{item.value_bytes}); break;
        case 't': append_time_left(out, item.head.expires, now()); break;
        case 'k':
          // As it was stored, whoever asks.
          if ((item.head.state & kBinaryKey) != 0 && !asked.is('b')) {
            append_flag(out, 'k', to_base64(asked.key));
            append_flag(out, 'b');
            break;
          }
          [[fallthrough]];
        default: asked.append_echo(out, asked.flags[i]);
      }
    }
    if (recache.other_won) append_flag(out, 'Z');
    if (recache.stale) append_flag(out, 'X');
    if (recache.won) append_flag(out, 'W');
    out.append("\r\n");
    if (!asked.is('v')) return;
    char* const to = out.grow(std::size_t{item.value_bytes} + 2);
    item.read(to, 0, item.value_bytes);
    to[item.value_bytes] = '\r';
    to[item.value_bytes + 1] = '\n';
  };
  const auto miss = [&] {
    if (asked.quiet()) return;
    out.append("EN");
    asked.append_echoes(out);
    out.append("\r\n");
  };
  const auto told = [&](const ItemView& item) {
    Recache recache;
    recache.stale = (item.head.state & kStale) != 0;
    recache.other_won = (item.head.state & kWon) != 0;
    const bool expires_soon = asked.is('R') && item.head.expires != 0 &&
                              std::int64_t{item.head.expires} - std::int64_t{now()} < asked.recache;
    recache.won = !recache.other_won && (recache.stale || expires_soon);
    return recache;
  };
  const ItemStore::Use use = asked.is('u') ? ItemStore::Use::kPeek : ItemStore::Use::kUse;
  bool changes = asked.is('T') || asked.is('N') || asked.is('R');
  if (!changes) {
    service_->store->look({&asked.key, 1}, use, [&](std::size_t, const ItemView* item) {
      out.cut(before);
      hit = item != nullptr;
      if (!hit) return miss();
      const Recache recache = told(*item);
      changes = recache.won;
      if (!changes) answer(*item, recache);
    });
  }
  if (changes) {
    const auto decide = [&](const ItemView* item) -> Plan {
      out.cut(before);
      hit = item != nullptr;
      if (!hit) {
        if (!asked.is('N')) {
          miss();
          return {};
        }
        Plan plan{Plan::Kind::kStore, Plan::Old::kDropped, {}, {}};
        plan.head.expires = asked.vivify_expires;
        plan.head.state = static_cast<std::uint8_t>(kWon | (asked.is('b') ? kBinaryKey : 0));
        plan.head.cas = asked.explicit_cas;
        return plan;  // what it is answered is known when its cas is
      }
      const Recache recache = told(*item);
      Plan plan{Plan::Kind::kHead, Plan::Old::kDropped, item->head, {}};
      if (recache.won) plan.head.state |= kWon;
      if (asked.is('T')) plan.head.expires = asked.expires;
      ItemView after = *item;
      after.head.expires = plan.head.expires;
      answer(after, recache);
      return plan;
    };
    const auto cas = alter(asked.key, asked.is('N') ? 1 : 0, use, decide, out);
    if (!cas) return;
    if (!hit && asked.is('N')) {
      const auto nothing = [](void*, std::size_t, std::size_t) {};
      ItemView fresh({0, asked.vivify_expires, *cas, 0}, 0, nothing);
      fresh.accessed = now();
      answer(fresh, {true, false, false});
    }
  }
  count(Counter::cmd_get);
  count(hit ? Counter::get_hits : Counter::get_misses);
  if (asked.is('T')) count(hit ? Counter::touch_hits : Counter::touch_misses);
}

// ---- ms -----------------------------------------------------------------------------------------

std::optional<std::size_t> Session::meta_set(const Words& words, std::string_view data,
                                             Buffer& out) {
  const auto bytes = parse_unsigned(words[2], (1u << 31) - 3);
  if (words.count < 3 || !bytes) {
    count(Counter::cmd_meta);
    out.append(words.count < 2 ? "ERROR\r\n" : kBadFormat);
    return 0;
  }
  Meta asked(words, 3, kSetFlags, now());
  const auto refuse = [&](std::string_view why) {
    count(Counter::cmd_meta);
    out.append(why);
    return swallow(*bytes + 2, data);
  };
  if (!asked.error.empty()) return refuse(asked.error);
  const char mode = asked.is('M') ? static_cast<char>(asked.mode & ~0x20) : 'S';
  if (std::string_view("EAPRS").find(mode) == std::string_view::npos)
    return refuse("CLIENT_ERROR invalid mode for ms M token\r\n");
  if (*bytes > service_->item_size_max) {
    count(Counter::store_too_large);
    if (mode == 'S') drop(asked.key, out);
    return refuse("SERVER_ERROR object too large for cache\r\n");
  }
  const Block found = block(*bytes, data);
  if (found == Block::kPartial) return std::nullopt;
  count(Counter::cmd_meta);
  const std::size_t taken = *bytes + 2;
  if (found == Block::kBad) {
    out.append("CLIENT_ERROR bad data chunk\r\n");
    return taken;
  }

  std::string_view reply;
  const auto decide = [&](const ItemView* item) -> Plan {
    Plan plan{Plan::Kind::kStore, Plan::Old::kDropped, {}, data.substr(0, *bytes)};
    plan.head.flags = asked.client_flags;
    plan.head.expires = asked.expires;
    plan.head.cas = asked.explicit_cas;
    plan.head.state = asked.is('b') ? kBinaryKey : 0;
    reply = "HD";
    const auto refused = [&](std::string_view why) {
      reply = why;
      return Plan{};
    };
    if (asked.is('C')) {
      if (item == nullptr) return refused("NF");
      if (item->head.cas != asked.compare) {
        // Somebody was quicker; what is stored is older, and told so.
        if (!asked.is('I') || asked.compare >= item->head.cas) return refused("EX");
        plan.head.state |= kStale;
      }
    }
    switch (mode) {
      case 'E':
        if (item != nullptr) return refused("NS");
        break;
      case 'R':
        if (item == nullptr) return refused("NS");
        break;
      case 'A':
      case 'P':
        if (item == nullptr) {
          if (!asked.is('N')) return refused("NS");
          plan.head.expires = asked.vivify_expires;
          break;
        }
        if (item->value_bytes + *bytes > service_->item_size_max)
          return refused("SERVER_ERROR object too large for cache");
        plan.head = item->head;
        plan.head.cas = asked.explicit_cas;
        plan.head.state &= kBinaryKey;
        plan.old = mode == 'A' ? Plan::Old::kBefore : Plan::Old::kBehind;
        break;
      default: break;
    }
    return plan;
  };
  count(Counter::cmd_set);
  const auto cas = alter(asked.key, *bytes + 1, ItemStore::Use::kUse, decide, out);
  if (!cas) return taken;
  const bool stored = reply == "HD";
  if (stored) count(Counter::total_items);
  if (asked.is('C'))
    count(stored ? Counter::cas_hits : reply == "EX" ? Counter::cas_badval : Counter::cas_misses);
  if (stored && asked.quiet()) return taken;
  out.append(reply);
  for (std::size_t i = 0; i < asked.count; ++i) {
    switch (asked.flags[i][0]) {
      case 'c': append_flag(out, 'c', stored ? *cas : 0); break;
      case 'f': append_flag(out, 'f', std::uint64_t{asked.client_flags}); break;
      case 's': append_flag(out, 's', *bytes); break;
      default: asked.append_echo(out, asked.flags[i]);
    }
  }
  out.append("\r\n");
  return taken;
}

// ---- md, ma -------------------------------------------------------------------------------------

void Session::meta_delete(Meta& asked, Buffer& out) {
  std::string_view reply;
  const auto decide = [&](const ItemView* item) -> Plan {
    reply = "NF";
    if (item == nullptr) return {};
    reply = "EX";
    if (asked.is('C') && item->head.cas != asked.compare) return {};
    reply = "HD";
    Plan plan{Plan::Kind::kRemove, Plan::Old::kDropped, item->head, {}};
    if (!asked.is('I') && !asked.is('x')) return plan;
    plan.head.cas = asked.explicit_cas;
    if (asked.is('I')) {
      plan.kind = Plan::Kind::kHead;
      plan.head.state = static_cast<std::uint8_t>((plan.head.state & kBinaryKey) | kStale);
      if (asked.is('T')) plan.head.expires = asked.expires;
    }
    if (asked.is('x')) {
      plan.kind = Plan::Kind::kStore;
      plan.head.flags = 0;
    }
    return plan;
  };
  if (!alter(asked.key, 0, ItemStore::Use::kPeek, decide, out)) return;
  if (reply != "EX") count(reply == "HD" ? Counter::delete_hits : Counter::delete_misses);
  if (asked.quiet() && reply == "HD") return;
  out.append(reply);
  asked.append_echoes(out);
  out.append("\r\n");
}

void Session::meta_arithmetic(Meta& asked, Buffer& out) {
  const char mode = asked.is('M') ? asked.mode : 'I';
  const bool up = mode == 'I' || mode == 'i' || mode == '+';
  if (!up && mode != 'D' && mode != 'd' && mode != '-')
    return out.append("CLIENT_ERROR invalid mode for ma M token\r\n");
  std::string_view reply;
  std::array<char, 24> text;
  std::size_t digits = 0;
  std::uint32_t expires = 0;
  bool found = false;
  const auto decide = [&](const ItemView* item) -> Plan {
    found = item != nullptr;
    Plan plan{Plan::Kind::kStore, Plan::Old::kDropped, {}, {}};
    std::uint64_t value = asked.initial;
    std::size_t least = 0;
    if (!found) {
      reply = "NF";
      if (!asked.is('N')) return {};
      if (asked.is('b')) plan.head.state = kBinaryKey;
      plan.head.expires = asked.vivify_expires;
    } else {
      reply = "EX";
      if (asked.is('C') && item->head.cas != asked.compare) return {};
      std::array<char, 24> old;
      std::optional<std::uint64_t> number;
      if (item->value_bytes <= 20) {
        item->read(old.data(), 0, item->value_bytes);
        number = parse_counter({old.data(), item->value_bytes});
      }
      reply = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n";
      if (!number) return {};
      value = up ? *number + asked.delta : *number - std::min(*number, asked.delta);
      least = item->value_bytes;
      plan.head = item->head;
      if (asked.is('T')) plan.head.expires = asked.expires;
    }
    reply = "HD";
    plan.head.cas = asked.explicit_cas;
    expires = plan.head.expires;
    text.fill(' ');
    digits = std::to_chars(text.data(), text.data() + text.size(), value).ptr - text.data();
    plan.value = {text.data(), std::max(digits, least)};
    return plan;
  };
  const auto cas =
      alter(asked.key, asked.is('N') ? text.size() : 0, ItemStore::Use::kUse, decide, out);
  if (!cas) return;
  const bool done = reply == "HD";
  if (up) {
    count(found ? Counter::incr_hits : Counter::incr_misses);
  } else {
    count(found ? Counter::decr_hits : Counter::decr_misses);
  }
  if (reply[0] == 'C') return out.append(reply);
  if (asked.quiet() && done) return;
  const bool shows = done && asked.is('v');
  if (shows) {
    out.append("VA ");
    out.append_number(digits);
  } else {
    out.append(reply);
  }
  for (std::size_t i = 0; i < asked.count; ++i) {
    const char flag = asked.flags[i][0];
    if (flag == 'c' && done) append_flag(out, 'c', *cas);
    if (flag == 't' && done) append_time_left(out, expires, now());
    asked.append_echo(out, asked.flags[i]);
  }
  out.append("\r\n");
  if (!shows) return;
  out.append({text.data(), digits});
  out.append("\r\n");
}

}  // namespace perdure::memcached
