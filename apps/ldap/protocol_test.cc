// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/protocol.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/ldap/ldif.h"
#include "apps/ldap/store.h"
#include "perdure/expert.h"

namespace perdure::ldap {
namespace {

using ::testing::HasSubstr;

class ProtocolTest : public ::testing::Test {
 protected:
  ProtocolTest() {
    const std::string path = ::testing::TempDir() + "protocol-test-" +
                             ::testing::UnitTest::GetInstance()->current_test_info()->name() +
                             ".pool";
    ::unlink(path.c_str());
    ExpertOptions options;
    options.domain = DomainKind::kDram;
    options.capacity_bytes = 64 << 20;
    pool_.emplace(Pool::create(path, options).value());
    ::unlink(path.c_str());
    directory_.emplace(*pool_);
    service_.directory = &*directory_;
    EXPECT_EQ(code("ADD\nmsgid: 1\nsuffix: dc=example,dc=com\ndn: dc=example,dc=com\n"
                   "objectClass: domain\ndc: example\n\n"),
              0);
  }

  std::string ask(const std::string& request) {
    std::string out;
    answer(service_, request, [&](std::string_view text) {
      out += text;
      return true;
    });
    return out;
  }
  int code(const std::string& request) {
    const std::string out = ask(request);
    const std::size_t at = out.rfind("RESULT\ncode: ");
    return at == std::string::npos ? -1 : std::stoi(out.substr(at + 13));
  }
  int add(const std::string& uid, const std::string& more = "") {
    return code("ADD\nmsgid: 7\nsuffix: dc=example,dc=com\ndn: uid=" + uid +
                ",dc=example,dc=com\nobjectClass: person\nuid: " + uid + "\n" + more + "\n");
  }
  std::string search(const std::string& filter, int scope = 2, int limit = -1) {
    return ask("SEARCH\nmsgid: 2\nsuffix: dc=example,dc=com\nbase: dc=example,dc=com\nscope: " +
               std::to_string(scope) + "\nderef: 0\nsizelimit: " + std::to_string(limit) +
               "\ntimelimit: 3600\nfilter: " + filter + "\nattrsonly: 0\nattrs: all\n\n");
  }

  std::optional<Pool> pool_;
  std::optional<Directory> directory_;
  Service service_;
};

TEST_F(ProtocolTest, AddsFindsComparesChangesRenamesAndDeletes) {
  EXPECT_EQ(add("ada", "sn: Love\n lace\ndescription:: w6RoCg==\n"), 0);
  const std::string found = search("(sn=lovelace)");
  EXPECT_THAT(found, HasSubstr("dn: uid=ada,dc=example,dc=com\n"));
  EXPECT_THAT(found, HasSubstr("sn: Lovelace\n")) << "the folded line is one";
  EXPECT_THAT(found, HasSubstr("description:: w6RoCg==\n"));
  EXPECT_THAT(found, HasSubstr("\n\nRESULT\ncode: 0\n\n"));
  const std::string name = "dn: uid=ada,dc=example,dc=com\n";
  EXPECT_EQ(code("COMPARE\nmsgid: 3\n" + name + "sn: LOVELACE\n\n"), 6);
  EXPECT_EQ(code("COMPARE\nmsgid: 3\n" + name + "sn: byron\n\n"), 5);
  EXPECT_EQ(code("MODIFY\nmsgid: 4\n" + name +
                 "add: mail\nmail: a@x\nmail: b@x\n-\ndelete: sn\n-\nreplace: cn\ncn: Ada\n-\n\n"),
            0);
  EXPECT_THAT(search("(mail=B@x)"), HasSubstr("mail: a@x\nmail: b@x\ncn: Ada\n\n"));
  EXPECT_EQ(code("MODRDN\nmsgid: 5\n" + name + "newrdn: uid=augusta\ndeleteoldrdn: 1\n\n"), 0);
  EXPECT_EQ(code("DELETE\nmsgid: 6\n" + name + "\n"), 32);
  EXPECT_THAT(ask("DELETE\nmsgid: 6\n" + name + "\n"), HasSubstr("matched: dc=example,dc=com\n"));
  EXPECT_EQ(code("DELETE\nmsgid: 6\ndn: uid=augusta,dc=example,dc=com\n\n"), 0);
  EXPECT_EQ(search("(uid=*)"), "RESULT\ncode: 0\n\n");
}

TEST_F(ProtocolTest, SizeLimitIsKeptAndTold) {
  for (const char* uid : {"a", "b", "c", "d"}) EXPECT_EQ(add(uid), 0);
  const std::string some = search("(uid=*)", 2, 3);
  EXPECT_THAT(some, HasSubstr("code: 4\n"));
  std::size_t entries = 0;
  for (std::size_t at = 0; (at = some.find("dn: ", at)) != std::string::npos; ++at) ++entries;
  EXPECT_EQ(entries, 3u);
  EXPECT_THAT(search("(uid=*)", 2, 4), HasSubstr("code: 0\n"));
}

TEST_F(ProtocolTest, BindsComparePasswordsWholeAndWithAnyBytes) {
  const std::string password("p w\n\n\xff:x", 8);
  EXPECT_EQ(add("ada", "userPassword:: " + std::string("cCB3Cgr/Ong=") + "\n"), 0);
  const auto bind = [&](const std::string& dn, const std::string& with, int method = 128) {
    return "BIND\nmsgid: 1\nsuffix: dc=example,dc=com\ndn: " + dn +
           "\nmethod: " + std::to_string(method) + "\ncredlen: " + std::to_string(with.size()) +
           "\ncred: " + with + "\n\n";
  };
  const std::string ada = "uid=Ada,dc=example,dc=com";
  EXPECT_EQ(code(bind(ada, password)), 0);
  EXPECT_EQ(code(bind(ada, "P w")), 49);
  EXPECT_EQ(code(bind(ada, "")), 49) << "an empty password proves nothing";
  EXPECT_EQ(code(bind("uid=nobody,dc=example,dc=com", password)), 49);
  EXPECT_EQ(code(bind(ada, password, 163)), 7);
  service_.admin = "cn=admin,dc=example,dc=com";
  service_.admin_password = "{CRYPT}$5$salt$i0.NRI8K86yQuHhpj8FvlAGGjFDR86Q4f8Pvzm4T.rC";
  EXPECT_EQ(code(bind("CN=Admin, dc=example,dc=com", "wrong")), 49);
  EXPECT_EQ(code(bind("cn=admin,dc=example,dc=com", "hidden")), 0);
  service_.admin_password = "secret";
  EXPECT_EQ(code(bind("CN=Admin, dc=example,dc=com", "secret")), 0);
  // What a password with a zero in it looks like: announced longer than it comes.
  EXPECT_EQ(code("BIND\nmsgid: 1\ndn: " + ada + "\nmethod: 128\ncredlen: 9\ncred: p\n\n"), 2);
}

TEST_F(ProtocolTest, ARequestIsWholeOnlyAtItsOwnEnd) {
  EXPECT_FALSE(is_whole_request(""));
  EXPECT_FALSE(is_whole_request("ADD\nmsgid: 1\n"));
  EXPECT_TRUE(is_whole_request("UNBIND\nmsgid: 1\n\n"));
  EXPECT_FALSE(is_whole_request("BIND\ncredlen: 5\ncred: a\n\n"));
  EXPECT_TRUE(is_whole_request("BIND\ncredlen: 5\ncred: a\n\nbc\n\n"));
  EXPECT_FALSE(is_whole_request("SEARCH\nfilter: (cn=a\n\n"));
  EXPECT_TRUE(is_whole_request("SEARCH\nfilter: (cn=a\n\nb)\nattrsonly: 0\nattrs: all\n\n"));
}

TEST_F(ProtocolTest, AFilterMayContainLineEnds) {
  EXPECT_EQ(add("ada", "cn:: YQoKYg==\n"), 0);
  EXPECT_THAT(search("(cn=a\n\nb)"), HasSubstr("dn: uid=ada"));
  // slapd escapes parentheses, so a filter cannot close itself and go on with fields of its own.
  EXPECT_THAT(search("(cn=a\nattrsonly: 0\nattrs: all\n\nSEARCH"), HasSubstr("code: 2\n"));
}

TEST_F(ProtocolTest, MalformedRequestsAreProtocolErrors) {
  const std::string dn = "dn: uid=ada,dc=example,dc=com\n";
  for (const std::string& bad : {
           std::string("\n\n"),
           std::string("FROB\n\n"),
           std::string("ADD\n\n"),
           std::string("ADD\nmsgid: 1\nuid: ada\n\n"),
           "ADD\n" + dn + "\n",
           "ADD\n" + dn + "no colon\n\n",
           "ADD\n" + dn + ": empty\n\n",
           "ADD\n" + dn + "cn:: ***\n\n",
           "ADD\n" + dn + "jpegPhoto:< file:///etc/passwd\n\n",
           "ADD\n" + dn + "cn: cut off\n",
           std::string("DELETE\n\n"),
           "DELETE\n" + dn + "cn: more\n\n",
           "MODIFY\n" + dn + "cn: x\n\n",
           "MODIFY\n" + dn + "add: cn\ncn: x\n\n",
           "MODIFY\n" + dn + "add: cn\nsn: x\n-\n\n",
           "MODIFY\n" + dn + "-\n\n",
           "MODIFY\n" + dn + "add: \n-\n\n",
           "MODRDN\n" + dn + "deleteoldrdn: 1\n\n",
           "MODRDN\n" + dn + "newrdn: uid=x\ndeleteoldrdn: y\n\n",
           "COMPARE\n" + dn + "\n",
           "COMPARE\n" + dn + "a: b\nc: d\n\n",
           std::string("BIND\ndn: x\n\n"),
           std::string("BIND\ndn: \nmethod: 128\ncredlen: -1\ncred: \n\n"),
           std::string("SEARCH\nbase: \nscope: 9\nderef: 0\nsizelimit: 0\ntimelimit: 0\nfilter: "
                       "(a=b)\nattrsonly: 0\nattrs: all\n\n"),
           std::string("SEARCH\nbase: \nscope: 2\nderef: 0\nsizelimit: x\ntimelimit: 0\nfilter: "
                       "(a=b)\nattrsonly: 0\nattrs: all\n\n"),
       }) {
    EXPECT_EQ(code(bad), 2) << bad << ask(bad);
  }
  EXPECT_EQ(code("DELETE\ndn: not a name\n\n"), 34);
  EXPECT_EQ(code("ADD\ndn: =x\ncn: y\n\n"), 34);
  EXPECT_EQ(code("EXTENDED\nmsgid: 1\noid: 1.2.3\nvalue: xx\n\n"), 53);
  EXPECT_EQ(ask("UNBIND\nmsgid: 9\n\n"), "");
  EXPECT_EQ(directory_->size(), 1u) << "nothing of it was done";
  EXPECT_THAT(directory_->verify(), ::testing::IsEmpty());
}

TEST_F(ProtocolTest, DamageIsAnErrorOfTheRequestThatMeetsIt) {
  EXPECT_EQ(add("ada", "sn: Lovelace\n"), 0);
  EXPECT_EQ(add("bob"), 0);
  // The object of an entry: a link, the lengths of the number and of the text, both.
  const auto lengths_of_ada = [&](Tx& tx) {
    std::uint64_t* found = nullptr;
    const auto look = [&](Offset at) {
      auto* const object = pool_->at(pptr<std::uint64_t>{at});
      const std::string_view text(reinterpret_cast<const char*>(object + 3), object[1] >> 32);
      if (static_cast<std::uint32_t>(object[1]) == 8 && text.find("Lovelace") != text.npos)
        found = object + 1;
    };
    EXPECT_EQ(pool_->root<Store>(kRoot)->entries.audit(tx, look), std::nullopt);
    return found;
  };
  pool_->atomically([&](Tx& tx) {
    std::uint64_t* const lengths = lengths_of_ada(tx);
    ASSERT_NE(lengths, nullptr);
    tx.store(*lengths, *lengths + (std::uint64_t{300} << 32));
  });
  const std::string damaged = search("(uid=ada)");
  EXPECT_THAT(damaged, HasSubstr("code: 80\n"));
  EXPECT_THAT(damaged, HasSubstr("was not allocated"));
  EXPECT_THAT(damaged, HasSubstr("the object at byte "));
  EXPECT_EQ(code("DELETE\nmsgid: 6\ndn: uid=ada,dc=example,dc=com\n\n"), 80);
  EXPECT_THAT(search("(uid=bob)"), HasSubstr("code: 0\n"));
  EXPECT_EQ(add("eve"), 0);
}

// Whole requests, each with some bytes changed: every one is answered, none is believed in part.
TEST_F(ProtocolTest, DamagedRequestsAreAnsweredAndLeaveAWholeDirectory) {
  const std::string requests[] = {
      "ADD\nmsgid: 7\nsuffix: dc=example,dc=com\ndn: uid=ada,dc=example,dc=com\nuid: ada\ncn:: "
      "YQoKYg==\nsn: x\n y\n\n",
      "MODIFY\nmsgid: 4\ndn: uid=ada,dc=example,dc=com\nadd: mail\nmail: a@x\n-\nincrement: n\nn: "
      "1\n-\ndelete: sn\n-\n\n",
      "MODRDN\nmsgid: 5\ndn: uid=ada,dc=example,dc=com\nnewrdn: uid=b+cn=c\ndeleteoldrdn: "
      "1\nnewSuperior: dc=example,dc=com\n\n",
      "SEARCH\nmsgid: 2\nbase: dc=example,dc=com\nscope: 2\nderef: 0\nsizelimit: -1\ntimelimit: "
      "1\nfilter: (&(|(cn=a*b)(sn>=3))(!(uid=\\41da)))\nattrsonly: 0\nattrs: all\n\n",
      "BIND\nmsgid: 1\ndn: uid=ada,dc=example,dc=com\nmethod: 128\ncredlen: 3\ncred: abc\n\n",
      "COMPARE\nmsgid: 3\ndn: uid=ada,dc=example,dc=com\ncn:: YQ==\n\n",
      "DELETE\nmsgid: 3\ndn: uid=ada,dc=example,dc=com\n\n",
  };
  std::mt19937_64 random(20);
  for (int round = 0; round < 6000; ++round) {
    std::string request = requests[random() % std::size(requests)];
    for (std::uint64_t edits = random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % request.size();
      switch (random() % 4) {
        case 0: request[at] = static_cast<char>(random()); break;
        case 1: request.erase(at, random() % 9); break;
        case 2: request.insert(at, request.substr(random() % request.size(), random() % 20)); break;
        default: request[at] = "\n:=,()*\\ "[random() % 9]; break;
      }
      if (request.empty()) request = "\n";
    }
    const std::string reply = ask(request);
    if (request.starts_with("UNBIND\n")) continue;
    ASSERT_TRUE(reply.ends_with("\n\n") && reply.find("RESULT\ncode: ") != reply.npos) << request;
  }
  EXPECT_THAT(directory_->verify(), ::testing::IsEmpty());
}

TEST(Ldif, AnyValueComesBack) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string value(random() % 300, '\0');
    for (char& c : value)
      c = static_cast<char>(random() % 3 == 0 ? random() : 0x20 + random() % 95);
    std::string text;
    append_line(text, "cn;lang-en", value, 20 + random() % 60);
    unfold(text);
    Arena arena;
    std::string_view rest = text;
    const Value parsed = parse_line(take_line(rest), arena);
    ASSERT_EQ(parsed.attribute, "cn;lang-en");
    ASSERT_EQ(parsed.value, value);
    ASSERT_TRUE(rest.empty());
  }
}

TEST(Ldif, NoLineIsLongerThanSlapdReads) {
  std::string out;
  append_entry(out, "cn=x", {{"jpegPhoto", std::string(100000, '\xff')}});
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = out.find('\n', at);
    EXPECT_LT(end - at, 8000u);
    at = end + 1;
  }
}

}  // namespace
}  // namespace perdure::ldap
