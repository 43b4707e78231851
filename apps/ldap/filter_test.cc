// SPDX-License-Identifier: BSD-3-Clause
#include "apps/ldap/filter.h"

#include <random>

#include <gtest/gtest.h>

namespace perdure::ldap {
namespace {

const Values kAda = {{"objectClass", "top"},
                     {"objectClass", "inetOrgPerson"},
                     {"cn", "Ada  Lovelace"},
                     {"cn;lang-it", "Ada di Lovelace"},
                     {"uidNumber", "1000"},
                     {"telephoneNumber", "+49 30 12-34"},
                     {"userPassword", "Secret"},
                     {"description", "a*b(c)d\\e"},
                     {"createTimestamp", "20260102030405Z"}};

Truth ask(const std::string& filter) { return evaluate(parse_filter(filter).value(), kAda); }

TEST(Filter, FindsWhatTheStandardSays) {
  for (const char* yes : {
           "(cn=ada lovelace)",
           "(CN=ADA   LOVELACE)",
           "(cn=*)",
           "(cn=ada*)",
           "(cn=*lace)",
           "(cn=a*da*lace)",
           "(cn=*o*e*)",
           "(cn=*A L*)",
           "(cn;lang-it=ada di lovelace)",
           "(cn=ada di lovelace)",
           "(cn~=Ada Lovelace)",
           "(cn:=ada lovelace)",
           "(uidNumber>=999)",
           "(uidNumber<=1000)",
           "(uidNumber>=0001000)",
           "(createTimestamp>=20260101000000Z)",
           "(telephoneNumber=+49301234)",
           "(telephoneNumber=+4930*)",
           "(userPassword=Secret)",
           "(description=a\\2ab\\28c\\29d\\5ce)",
           "(description=*\\2A*)",
           "(&(objectClass=top)(objectClass=inetorgperson))",
           "(|(cn=bob)(cn=ada*))",
           "(!(cn=bob))",
           "(&)",
           "(!(|))",
           "(?=true)",
           "(|(?=undefined)(cn=*))",
           "(!(sn=*))",
       }) {
    EXPECT_EQ(ask(yes), Truth::kTrue) << yes;
  }
  for (const char* no : {
           "(cn=ada)",
           "(cn=ada*ada*)",
           "(cn=lovelace*ada)",
           "(sn=*)",
           "(c=*)",
           "(cn;lang=*)",
           "(uidNumber>=1001)",
           "(uidNumber<=-5)",
           "(userPassword=secret)",
           "(|)",
           "(!(&))",
           "(?=false)",
           "(&(cn=*)(sn=*))",
           "(cn=)",
       }) {
    EXPECT_EQ(ask(no), Truth::kFalse) << no;
  }
  for (const char* unknown : {
           "(?=undefined)",
           "(?frob=x)",
           "(!(?frob=x))",
           "(&(cn=*)(?frob=x))",
           "(|(cn=bob)(?frob=x))",
           "(cn:caseExactMatch:=x)",
           "(:dn:2.5.13.5:=x)",
       }) {
    EXPECT_EQ(ask(unknown), Truth::kUndefined) << unknown;
  }
  EXPECT_EQ(ask("(&(sn=*)(?frob=x))"), Truth::kFalse) << "one that is false decides";
}

TEST(Filter, RefusesWhatIsNone) {
  for (const char* bad : {
           "",
           "cn=ada",
           "(cn=ada",
           "(cn=ada))",
           "()",
           "(=x)",
           "(cn)",
           "(cn>x)",
           "(cn=a(b)",
           "(&(cn=a)",
           "(!)",
           "(!(cn=a)(cn=b))",
           "(cn=\\4)",
           "(cn=\\zz)",
           "(cn=a) ",
           "(&cn=a)",
           "(cn:x)",
           "(>=3)",
       }) {
    const Result<Filter> filter = parse_filter(bad);
    ASSERT_FALSE(filter.ok()) << bad;
    EXPECT_EQ(filter.error().code, perdure::Code::kInvalid);
    EXPECT_NE(filter.error().message.find("byte"), std::string::npos) << filter.error().message;
  }
}

TEST(Filter, DeepNestingIsRefusedNotFollowed) {
  const auto nested = [](int levels) {
    std::string text = "(cn=*)";
    for (int i = 0; i < levels; ++i) text = "(!" + text + ")";
    return text;
  };
  EXPECT_EQ(ask(nested(98)), Truth::kTrue);
  EXPECT_FALSE(parse_filter(nested(200)).ok());
  EXPECT_FALSE(parse_filter(std::string(1 << 20, '(')).ok());
  std::string unclosed;
  for (int i = 0; i < 100000; ++i) unclosed += "(&";
  EXPECT_FALSE(parse_filter(unclosed).ok());
}

TEST(Filter, RandomTextEndsInAFilterOrAnError) {
  std::mt19937_64 random(5);
  std::uint64_t good = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 == 0 ? "" : "(&(cn=a*b)(!(sn>=\\41)))";
    for (std::uint64_t edits = random() % 6; edits > 0; --edits)
      text.insert(random() % (text.size() + 1), 1, "()&|!=*\\<>~:?ac0"[random() % 16]);
    const Result<Filter> filter = parse_filter(text);
    if (!filter) continue;
    ++good;
    Result<Filter> again = parse_filter(text);
    evaluate(again.value(), kAda);
  }
  EXPECT_GT(good, 1000u);
}

}  // namespace
}  // namespace perdure::ldap
