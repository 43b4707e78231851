// SPDX-License-Identifier: BSD-3-Clause
#include "bench/ldap/load.h"

#include <ldap.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>

#include <fmt/core.h>

#include "perdure/error.h"

namespace perdure::bench {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const LdapLoad& load, const std::string& what, int code) {
  throw Exception(Code::kIo, fmt::format("{}: {}: {}", load.uri, what, ldap_err2string(code)));
}

struct Unbind {
  void operator()(LDAP* ld) const { ldap_unbind_ext_s(ld, nullptr, nullptr); }
};
using Connection = std::unique_ptr<LDAP, Unbind>;

Connection connect(const LdapLoad& load) {
  LDAP* ld = nullptr;
  int code = ldap_initialize(&ld, load.uri.c_str());
  if (code != LDAP_SUCCESS) fail(load, "cannot be reached", code);
  Connection connection(ld);
  const int version = LDAP_VERSION3;
  ldap_set_option(ld, LDAP_OPT_PROTOCOL_VERSION, &version);
  berval password{load.password.size(), const_cast<char*>(load.password.data())};
  code = ldap_sasl_bind_s(ld, load.admin.c_str(), LDAP_SASL_SIMPLE, &password, nullptr, nullptr,
                          nullptr);
  if (code != LDAP_SUCCESS) fail(load, "refuses " + load.admin, code);
  return connection;
}

/// An entry in the form that libldap sends.
class Entry {
 public:
  void put(std::string attribute, std::vector<std::string> values) {
    Attribute& made = *attributes_.emplace_back(std::make_unique<Attribute>());
    made.name = std::move(attribute);
    made.values = std::move(values);
    for (std::string& value : made.values) made.pointers.push_back(value.data());
    made.pointers.push_back(nullptr);
    made.mod.mod_op = LDAP_MOD_ADD;
    made.mod.mod_type = made.name.data();
    made.mod.mod_values = made.pointers.data();
  }
  std::vector<LDAPMod*> mods() {
    std::vector<LDAPMod*> all;
    for (const auto& attribute : attributes_) all.push_back(&attribute->mod);
    all.push_back(nullptr);
    return all;
  }

 private:
  struct Attribute {
    std::string name;
    std::vector<std::string> values;
    std::vector<char*> pointers;
    LDAPMod mod{};
  };
  std::vector<std::unique_ptr<Attribute>> attributes_;
};

constexpr std::array<const char*, 16> kGiven = {
    "Ada",  "Alan", "Barbara", "Claude", "Donald",  "Edsger", "Frances", "Grace",
    "John", "Jean", "Ken",     "Leslie", "Niklaus", "Peter",  "Robin",   "Tony"};
constexpr std::array<const char*, 16> kFamily = {
    "Allen",  "Backus",   "Dijkstra", "Gray", "Hoare",  "Hopper",  "Knuth",    "Lamport",
    "Liskov", "Lovelace", "Milner",   "Naur", "Sammet", "Shannon", "Thompson", "Turing"};

std::string uid_of(std::uint64_t number) { return fmt::format("user{:08}", number); }
std::string mail_of(std::uint64_t number) { return uid_of(number) + "@example.com"; }

Entry person(std::uint64_t number) {
  Entry entry;
  for (auto& [attribute, values] : ldap_person("", number).attributes)
    entry.put(attribute, std::move(values));
  return entry;
}

std::string dn_of(const std::string& suffix, std::uint64_t number) {
  return "uid=" + uid_of(number) + ",ou=people," + suffix;
}

/// One load, from start to end.
class Run {
 public:
  explicit Run(const LdapLoad& load) : load_(&load), next_(load.first) {
    for (unsigned i = 0; i < load.connections; ++i) {
      lanes_.push_back({connect(load), {}});
      pollfd watched{-1, POLLIN, 0};
      ldap_get_option(lanes_.back().connection.get(), LDAP_OPT_DESC, &watched.fd);
      watched_.push_back(watched);
    }
  }

  LdapLoaded run() {
    const auto start = Clock::now();
    result_.latencies_ns.reserve(load_->count);
    for (Lane& lane : lanes_) {
      for (unsigned i = 0; i < load_->in_flight; ++i) begin_next(lane);
    }
    while (under_way_ > 0 && result_.failure.empty()) {
      if (::poll(watched_.data(), watched_.size(), 30000) <= 0) {
        result_.failure = "no answer in 30 s";
        break;
      }
      for (std::size_t i = 0; i < lanes_.size() && result_.failure.empty(); ++i) {
        if (watched_[i].revents != 0) take_answers(lanes_[i]);
      }
    }
    result_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    for (const Lane& lane : lanes_) {
      for (const auto& [id, asked] : lane.asked) result_.in_doubt.push_back(asked.number);
    }
    return std::move(result_);
  }

 private:
  struct Asked {
    std::uint64_t number;
    Clock::time_point start;
    unsigned found = 0;
  };
  struct Lane {
    Connection connection;
    std::unordered_map<int, Asked> asked;  // by message id
  };

  void begin_next(Lane& lane) {
    if (stopped_ || next_ == load_->first + load_->count) return;
    const std::uint64_t number = next_++;
    int id = -1;
    int code;
    if (load_->kind == LdapLoad::Kind::kAdd) {
      Entry entry = person(number);
      code = ldap_add_ext(lane.connection.get(), dn_of(load_->suffix, number).c_str(),
                          entry.mods().data(), nullptr, nullptr, &id);
    } else {
      const std::string filter = "(&(objectClass=inetOrgPerson)(uid=" + uid_of(number) + "))";
      code = ldap_search_ext(lane.connection.get(), load_->suffix.c_str(), LDAP_SCOPE_SUBTREE,
                             filter.c_str(), nullptr, 0, nullptr, nullptr, nullptr, 0, &id);
    }
    if (code != LDAP_SUCCESS) {
      result_.failure = ldap_err2string(code);
      result_.in_doubt.push_back(number);
      return;
    }
    lane.asked.emplace(id, Asked{number, Clock::now()});
    ++under_way_;
  }

  void take_answers(Lane& lane) {
    for (;;) {
      timeval none{0, 0};
      LDAPMessage* message = nullptr;
      const int type =
          ldap_result(lane.connection.get(), LDAP_RES_ANY, LDAP_MSG_ONE, &none, &message);
      if (type == 0) return;
      if (type < 0) {
        result_.failure = "the server has gone";
        return;
      }
      const std::unique_ptr<LDAPMessage, int (*)(LDAPMessage*)> owned(message, ldap_msgfree);
      const auto asked = lane.asked.find(ldap_msgid(message));
      if (asked == lane.asked.end()) continue;
      if (type == LDAP_RES_SEARCH_ENTRY) {
        ++asked->second.found;
        continue;
      }
      int code = LDAP_OTHER;
      ldap_parse_result(lane.connection.get(), message, &code, nullptr, nullptr, nullptr, nullptr,
                        0);
      finish(lane, asked->second, code);
      if (!result_.failure.empty()) return;
      lane.asked.erase(asked);
      --under_way_;
      begin_next(lane);
    }
  }

  void finish(const Lane&, const Asked& asked, int code) {
    if (code != LDAP_SUCCESS) {
      result_.failure = fmt::format("person {}: {}", asked.number, ldap_err2string(code));
    } else if (load_->kind == LdapLoad::Kind::kSearch && asked.found != 1) {
      result_.failure = fmt::format("person {}: {} entries found", asked.number, asked.found);
    } else {
      result_.latencies_ns.push_back(
          std::chrono::duration<double, std::nano>(Clock::now() - asked.start).count());
      ++result_.operations;
      if (load_->acknowledged && !load_->acknowledged(asked.number)) stopped_ = true;
    }
  }

  const LdapLoad* load_;
  std::uint64_t next_;
  std::vector<Lane> lanes_;
  std::vector<pollfd> watched_;
  std::uint64_t under_way_ = 0;
  bool stopped_ = false;
  LdapLoaded result_;
};

/// The one value of an attribute, if it has exactly one.
std::optional<std::string> value_of(LDAP* ld, LDAPMessage* entry, const char* attribute) {
  berval** values = ldap_get_values_len(ld, entry, attribute);
  std::optional<std::string> value;
  if (ldap_count_values_len(values) == 1) value = std::string(values[0]->bv_val, values[0]->bv_len);
  ldap_value_free_len(values);
  return value;
}

}  // namespace

LdapPerson ldap_person(const std::string& suffix, std::uint64_t number) {
  const char* given = kGiven[number % kGiven.size()];
  const char* family = kFamily[number / kGiven.size() % kFamily.size()];
  return {dn_of(suffix, number),
          {{"objectClass", {"top", "person", "organizationalPerson", "inetOrgPerson"}},
           {"uid", {uid_of(number)}},
           {"cn", {fmt::format("{} {} {}", given, family, number)}},
           {"sn", {family}},
           {"givenName", {given}},
           {"mail", {mail_of(number)}},
           {"telephoneNumber", {fmt::format("+49 30 {:08}", number)}},
           {"employeeNumber", {std::to_string(number)}},
           {"description", {fmt::format("Member {} of the staff of {}", number, family)}}}};
}

LdapLoaded run_ldap_load(const LdapLoad& load) { return Run(load).run(); }

void add_ldap_frame(const LdapLoad& load) {
  const Connection connection = connect(load);
  const auto add = [&](const std::string& dn, Entry entry) {
    const int code =
        ldap_add_ext_s(connection.get(), dn.c_str(), entry.mods().data(), nullptr, nullptr);
    if (code != LDAP_SUCCESS && code != LDAP_ALREADY_EXISTS) fail(load, "refuses " + dn, code);
  };
  Entry top;
  top.put("objectClass", {"top", "organization", "dcObject"});
  top.put("dc", {"example"});
  top.put("o", {"Example"});
  add(load.suffix, std::move(top));
  Entry people;
  people.put("objectClass", {"top", "organizationalUnit"});
  people.put("ou", {"people"});
  add("ou=people," + load.suffix, std::move(people));
}

std::vector<std::uint64_t> ldap_persons(const LdapLoad& load) {
  const Connection connection = connect(load);
  LDAP* ld = connection.get();
  int id = -1;
  int code =
      ldap_search_ext(ld, load.suffix.c_str(), LDAP_SCOPE_SUBTREE, "(objectClass=inetOrgPerson)",
                      nullptr, 0, nullptr, nullptr, nullptr, 0, &id);
  if (code != LDAP_SUCCESS) fail(load, "cannot be searched", code);
  std::vector<std::uint64_t> numbers;
  for (;;) {
    LDAPMessage* message = nullptr;
    const int type = ldap_result(ld, id, LDAP_MSG_ONE, nullptr, &message);
    const std::unique_ptr<LDAPMessage, int (*)(LDAPMessage*)> owned(message, ldap_msgfree);
    if (type <= 0) fail(load, "was lost during a search", LDAP_SERVER_DOWN);
    if (type == LDAP_RES_SEARCH_RESULT) {
      ldap_parse_result(ld, message, &code, nullptr, nullptr, nullptr, nullptr, 0);
      if (code != LDAP_SUCCESS) fail(load, "ended a search", code);
      std::sort(numbers.begin(), numbers.end());
      return numbers;
    }
    const std::string employee = value_of(ld, message, "employeeNumber").value_or("");
    std::uint64_t number = 0;
    std::from_chars(employee.data(), employee.data() + employee.size(), number);
    if (value_of(ld, message, "uid") != uid_of(number) ||
        value_of(ld, message, "mail") != mail_of(number) ||
        value_of(ld, message, "telephoneNumber") != fmt::format("+49 30 {:08}", number))
      throw Exception(Code::kCorrupt,
                      fmt::format("{}: person '{}' is not whole", load.uri, employee));
    numbers.push_back(number);
  }
}

}  // namespace perdure::bench
