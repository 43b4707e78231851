// SPDX-License-Identifier: BSD-3-Clause
// The protocol, command by case: what is said, and what is answered, byte for byte.
#include "apps/memcached/session.h"

#include <gmock/gmock.h>

#include "apps/memcached/session_test_world.h"

namespace perdure::memcached {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Case {
  const char* name;
  std::string said;
  std::string answered;
};
std::ostream& operator<<(std::ostream& out, const Case& it) { return out << it.name; }

const std::string kLong(251, 'k');
const std::string kBad = "CLIENT_ERROR bad command line format\r\n";

class Protocol : public ::testing::TestWithParam<Case> {};

// Each on a new cache.
const Case kClassic[] = {
    {"SetAndGet", "set a 7 0 3\r\nabc\r\nget a\r\n", "STORED\r\nVALUE a 7 3\r\nabc\r\nEND\r\n"},
    {"SetEmpty", "set a 0 0 0\r\n\r\nget a\r\n", "STORED\r\nVALUE a 0 0\r\n\r\nEND\r\n"},
    {"BareNewlines", "set a 0 0 1\nx\r\nget a\n", "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n"},
    {"ValueWithNewlinesAndZeros", std::string("set a 0 0 6\r\n\r\n\0\nab\r\nget a\r\n", 28),
     std::string("STORED\r\nVALUE a 0 6\r\n\r\n\0\nab\r\nEND\r\n", 34)},
    {"Replacing", "set a 1 0 1\r\nx\r\nset a 2 0 2\r\nyy\r\nget a\r\n",
     "STORED\r\nSTORED\r\nVALUE a 2 2\r\nyy\r\nEND\r\n"},
    {"LargestFlags", "set a 4294967295 0 1\r\nx\r\nget a\r\n",
     "STORED\r\nVALUE a 4294967295 1\r\nx\r\nEND\r\n"},
    {"SetQuietly", "set a 0 0 1 noreply\r\nx\r\nget a\r\n", "VALUE a 0 1\r\nx\r\nEND\r\n"},
    {"SetWithTooFewWords", "set a 0 0\r\n", "ERROR\r\n"},
    {"SetWithTooManyWords", "set a 0 0 1 noreply x\r\n", "ERROR\r\n"},
    {"SetWithBadFlags", "set a x 0 1\r\n", kBad},
    {"SetWithBadTime", "set a 0 x 1\r\n", kBad},
    {"SetWithNegativeSize", "set a 0 0 -1\r\n", kBad},
    {"SetWithBadSize", "set a 0 0 1x\r\n", kBad},
    {"SetWithHugeSize", "set a 0 0 99999999999\r\n", kBad},
    {"SetWithLongKey", "set " + kLong + " 0 0 1\r\n", kBad},
    {"SetWithLongestKey",
     "set " + kLong.substr(1) + " 0 0 1\r\nx\r\nget " + kLong.substr(1) + "\r\n",
     "STORED\r\nVALUE " + kLong.substr(1) + " 0 1\r\nx\r\nEND\r\n"},
    {"BadChunk", "set a 0 0 3\r\nabcd\r\nmn\r\n", "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"},
    {"AddReplace",
     "replace a 0 0 1\r\nx\r\nadd a 0 0 1\r\ny\r\nadd a 0 0 1\r\nz\r\nreplace a 0 0 1\r\nw\r\nget "
     "a\r\n",
     "NOT_STORED\r\nSTORED\r\nNOT_STORED\r\nSTORED\r\nVALUE a 0 1\r\nw\r\nEND\r\n"},
    {"AppendPrepend",
     "append a 0 0 1\r\nx\r\nset a 5 0 1\r\nb\r\nappend a 9 9 2\r\ncd\r\nprepend a 9 9 1\r\na\r\n"
     "get a\r\n",
     "NOT_STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\nVALUE a 5 4\r\nabcd\r\nEND\r\n"},
    {"Cas",
     "cas a 0 0 1 1\r\nx\r\nset a 0 0 1\r\nx\r\ngets a\r\ncas a 0 0 1 1\r\ny\r\ncas a 0 0 1 "
     "1\r\nz\r\ngets a\r\n",
     "NOT_FOUND\r\nSTORED\r\nVALUE a 0 1 1\r\nx\r\nEND\r\nSTORED\r\nEXISTS\r\nVALUE a 0 1 "
     "2\r\ny\r\nEND\r\n"},
    {"CasWithoutUnique", "cas a 0 0 1\r\n", "ERROR\r\n"},
    {"CasWithBadUnique", "cas a 0 0 1 x\r\n", kBad},
    {"GetSeveral", "set a 0 0 1\r\n1\r\nset c 0 0 1\r\n3\r\nget a b c a\r\n",
     "STORED\r\nSTORED\r\nVALUE a 0 1\r\n1\r\nVALUE c 0 1\r\n3\r\nVALUE a 0 1\r\n1\r\nEND\r\n"},
    {"GetNothing", "get\r\nget \r\nget x\r\n", "ERROR\r\nERROR\r\nEND\r\n"},
    {"GetWithLongKey", "set a 0 0 1\r\n1\r\nget a " + kLong + " a\r\nmn\r\n",
     "STORED\r\n" + kBad + "MN\r\n"},
    {"LeadingBlanks", "  get  a  \r\n", "END\r\n"},
    {"VerbsAreLowerCase", "GET a\r\n", "ERROR\r\n"},
    {"Delete",
     "delete a\r\nset a 0 0 1\r\nx\r\ndelete a\r\nget a\r\ndelete a 0\r\ndelete a noreply\r\n",
     "NOT_FOUND\r\nSTORED\r\nDELETED\r\nEND\r\nNOT_FOUND\r\n"},
    {"DeleteWrongly", "delete\r\ndelete a 5\r\n",
     "ERROR\r\nCLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"},
    {"Incr",
     "incr n 1\r\nset n 3 0 2\r\n10\r\nincr n 5\r\ndecr n 8\r\nget n\r\ndecr n 100\r\nincr n "
     "18446744073709551615\r\nincr n 1\r\n",
     "NOT_FOUND\r\nSTORED\r\n15\r\n7\r\nVALUE n 3 2\r\n7 "
     "\r\nEND\r\n0\r\n18446744073709551615\r\n0\r\n"},
    {"IncrQuietly", "set n 0 0 1\r\n1\r\nincr n 1 noreply\r\nget n\r\n",
     "STORED\r\nVALUE n 0 1\r\n2\r\nEND\r\n"},
    {"IncrWrongly",
     "incr n\r\nincr n x\r\nincr n -1\r\nset n 0 0 1\r\nx\r\nincr n 1\r\nset n 0 0 "
     "21\r\n123456789012345678901\r\nincr n 1\r\n",
     "ERROR\r\nCLIENT_ERROR invalid numeric delta argument\r\nCLIENT_ERROR invalid numeric delta "
     "argument\r\nSTORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric "
     "value\r\nSTORED\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\n"},
    {"Touch", "touch a 0\r\nset a 0 0 1\r\nx\r\ntouch a 10\r\ntouch a x\r\ntouch a -1\r\nget a\r\n",
     "NOT_FOUND\r\nSTORED\r\nTOUCHED\r\nCLIENT_ERROR invalid exptime "
     "argument\r\nTOUCHED\r\nEND\r\n"},
    {"Gat",
     "set a 0 0 1\r\nx\r\ngat 100 a b\r\nmg a t\r\ngats 0 a\r\nmg a t\r\ngat x a\r\ngat 10\r\n",
     "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nHD t100\r\nVALUE a 0 1 1\r\nx\r\nEND\r\nHD "
     "t-1\r\nCLIENT_ERROR invalid exptime argument\r\nEND\r\n"},
    {"FlushAll", "set a 0 0 1\r\nx\r\nflush_all\r\nget a\r\nadd a 0 0 1\r\ny\r\nget a\r\n",
     "STORED\r\nOK\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\ny\r\nEND\r\n"},
    {"FlushAllWrongly", "flush_all x\r\nflush_all 0 noreply x\r\nflush_all noreply\r\n",
     "CLIENT_ERROR invalid exptime argument\r\nERROR\r\n"},
    {"Verbosity", "verbosity\r\nverbosity 1\r\nverbosity x\r\nverbosity 1 noreply\r\n",
     "ERROR\r\nOK\r\n" + kBad},
    {"Version", "version\r\n", "VERSION " + std::string(kVersionText) + "\r\n"},
    {"Quit", "quit\r\nmn\r\n", ""},
    {"ShutdownIsNotAllowed", "shutdown\r\n", "ERROR: shutdown not enabled\r\n"},
    {"CacheMemlimit", "cache_memlimit 64\r\ncache_memlimit 1\r\ncache_memlimit x\r\n",
     "OK\r\nMEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\nERROR\r\n"},
    {"Unknown", "what\r\n\r\n", "ERROR\r\nERROR\r\n"},
    {"StatsReset", "stats reset\r\nstats what\r\nstats sizes\r\n",
     "RESET\r\nERROR\r\nSTAT sizes_status disabled\r\nEND\r\n"},
    {"BinaryProtocol", std::string("\x80\x01\x00\x03 get\r\n", 10),
     "CLIENT_ERROR the binary protocol is not spoken here, only the text protocol\r\n"},
    {"EndlessLine", std::string(3000, 'x'), "CLIENT_ERROR line too long\r\n"},
};

const Case kMeta[] = {
    {"Noop", "mn\r\n", "MN\r\n"},
    {"WithoutKey", "mg\r\nms\r\nmd\r\nma\r\nme\r\nmx k\r\n",
     "ERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n"},
    {"GetMiss", "mg a\r\nmg a v q\r\nmg a k O7\r\n", "EN\r\nEN ka O7\r\n"},
    {"GetHit", "set a 7 0 3\r\nabc\r\nmg a\r\nmg a v\r\nmg a s v f c t k O12\r\n",
     "STORED\r\nHD\r\nVA 3\r\nabc\r\nVA 3 s3 f7 c1 t-1 ka O12\r\nabc\r\n"},
    {"GetWhetherHit", "set a 0 0 1\r\nx\r\nmg a h u l\r\nmg a h\r\nmg a h\r\n",
     "STORED\r\nHD h0 l0\r\nHD h0\r\nHD h1\r\n"},
    {"GetTouches", "set a 0 0 1\r\nx\r\nmg a T30 t\r\nmg a t\r\n",
     "STORED\r\nHD t30\r\nHD t30\r\n"},
    {"WrongFlags", "mg a v v\r\nmg a ?\r\nmg a Tx\r\nmg a O" + std::string(33, '1') + "\r\n",
     "CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR invalid flag\r\nCLIENT_ERROR bad token in "
     "command "
     "line format\r\nCLIENT_ERROR opaque token too long\r\n"},
    {"LongKeys", "mg " + kLong + "\r\nms " + kLong + " 1\r\nx\r\nmn\r\n", kBad + kBad + "MN\r\n"},
    {"Vivify", "mg a N30 t v\r\nmg a t v\r\nmg a N30\r\nms a 1 T0\r\nx\r\nmg a v\r\n",
     "VA 0 t30 W\r\n\r\nVA 0 t30 Z\r\n\r\nHD Z\r\nHD\r\nVA 1\r\nx\r\n"},
    {"Recache", "set a 0 20 1\r\nx\r\nmg a R10\r\nmg a R30\r\nmg a R30\r\n",
     "STORED\r\nHD\r\nHD W\r\nHD Z\r\n"},
    {"SetModes",
     "ms a 1 MR\r\nx\r\nms a 1 MA\r\nx\r\nms a 1 ME\r\nb\r\nms a 1 ME\r\nc\r\nms a 1 MA\r\nc\r\nms "
     "a 1 MP\r\na\r\nmg a v\r\nms a 1 MS F5\r\nz\r\nmg a v f\r\nms a 1 MQ\r\nx\r\n",
     "NS\r\nNS\r\nHD\r\nNS\r\nHD\r\nHD\r\nVA 3\r\nabc\r\nHD\r\nVA 1 f5\r\nz\r\nCLIENT_ERROR "
     "invalid "
     "mode for ms M token\r\n"},
    {"AppendVivifies", "ms a 2 MA N60\r\nab\r\nmg a v t\r\n", "HD\r\nVA 2 t60\r\nab\r\n"},
    {"SetQuietly", "ms a 1 q\r\nx\r\nms b 1 MR q\r\nx\r\nmn\r\n", "NS\r\nMN\r\n"},
    {"SetEchoes", "ms a 1 k O9 c s F3 f\r\nx\r\n", "HD ka O9 c1 s1 f3\r\n"},
    {"SetWrongly", "ms a\r\nms a x\r\nms a -1\r\nms a 2\r\nabc\r\nmn\r\n",
     kBad + kBad + kBad + "CLIENT_ERROR bad data chunk\r\nERROR\r\nMN\r\n"},
    {"SetWithWrongFlagsSwallowsItsBlock", "ms a 3 ?\r\nmn\n\r\nmn\r\n",
     "CLIENT_ERROR invalid flag\r\nMN\r\n"},
    {"CompareAndSet",
     "ms a 1 C5\r\nx\r\nms a 1\r\nx\r\nms a 1 C5 k\r\ny\r\nms a 1 C1 c\r\nz\r\nmg a c v\r\n",
     "NF\r\nHD\r\nEX ka\r\nHD c2\r\nVA 1 c2\r\nz\r\n"},
    {"ExplicitCas", "ms a 1 E77 c\r\nx\r\nmg a c\r\nma n N0 E5\r\nmg n c\r\n",
     "HD c77\r\nHD c77\r\nHD\r\nHD c5\r\n"},
    {"InvalidatingSet", "ms a 1 E9\r\nx\r\nms a 1 C5 I\r\ny\r\nmg a v\r\nmg a v\r\n",
     "HD\r\nHD\r\nVA 1 X W\r\ny\r\nVA 1 Z X\r\ny\r\n"},
    {"Delete", "md a\r\nms a 1\r\nx\r\nmd a k O1\r\nmg a\r\n", "NF\r\nHD\r\nHD ka O1\r\nEN\r\n"},
    {"DeleteCompares", "ms a 1 E3\r\nx\r\nmd a C4\r\nmd a C3 q\r\nmg a\r\n", "HD\r\nEX\r\nEN\r\n"},
    {"Invalidate", "ms a 1\r\nx\r\nmd a I T30\r\nmg a v t\r\nmg a v\r\nms a 1\r\ny\r\nmg a v\r\n",
     "HD\r\nHD\r\nVA 1 t30 X W\r\nx\r\nVA 1 Z X\r\nx\r\nHD\r\nVA 1\r\ny\r\n"},
    {"DeleteValueOnly", "ms a 3 F5\r\nabc\r\nmd a x\r\nmg a v f\r\n",
     "HD\r\nHD\r\nVA 0 f0\r\n\r\n"},
    {"Arithmetic",
     "ma n\r\nma n N0 J13 v t\r\nma n v\r\nma n D30 v\r\nma n MD D4 v k O5\r\nma n M- D100 v\r\nma "
     "n "
     "q\r\nma n M+ v c\r\n",
     "NF\r\nVA 2 t-1\r\n13\r\nVA 2\r\n14\r\nVA 2\r\n44\r\nVA 2 kn O5\r\n40\r\nVA 1\r\n0\r\nVA 1 "
     "c7\r\n2\r\n"},
    {"ArithmeticWrongly", "ms n 1\r\nx\r\nma n\r\nma n Mx\r\nma n Dx\r\nma n C99\r\n",
     "HD\r\nCLIENT_ERROR cannot increment or decrement non-numeric value\r\nCLIENT_ERROR invalid "
     "mode for ma M token\r\nCLIENT_ERROR invalid or duplicate flag\r\nEX\r\n"},
    {"ArithmeticTouches", "set n 0 0 1\r\n1\r\nma n T60 t v\r\nmg n t\r\n",
     "STORED\r\nVA 1 t60\r\n2\r\nHD t60\r\n"},
    {"BinaryKeys",
     "ms AAECAw== 3 b k\r\nabc\r\nmg AAECAw== k b v\r\nmd AAECAw== b\r\nmg AAECAw== b\r\n",
     "HD kAAECAw== b\r\nVA 3 kAAECAw== b\r\nabc\r\nHD\r\nEN\r\n"},
    {"BinaryKeyReadAsText", "ms Zm9v 3 b\r\nabc\r\nmg foo k v\r\nget foo\r\n",
     "HD\r\nVA 3 kZm9v b\r\nabc\r\nVALUE foo 0 3\r\nabc\r\nEND\r\n"},
    {"BadBase64", "mg Zm9 b\r\nms ? 1 b\r\nx\r\nmn\r\n",
     "CLIENT_ERROR error decoding key\r\nCLIENT_ERROR error decoding key\r\nMN\r\n"},
    {"Debug", "me a\r\nset a 0 0 1\r\nx\r\nme a\r\n",
     "EN\r\nSTORED\r\nME a exp=-1 la=0 cas=1 fetch=no cls=1 size=57\r\n"},
};

TEST_P(Protocol, AnswersByteForByte) {
  World world;
  EXPECT_EQ(world.say(GetParam().said), GetParam().answered);
}

TEST_P(Protocol, AnswersTheSameWhenItComesByteByByte) {
  // What comes before a key that is too long is then answered already.
  if (std::string_view(GetParam().name) == "GetWithLongKey") return;
  World world;
  std::string replies;
  std::string kept;
  for (const char c : GetParam().said) {
    kept += c;
    Buffer out;
    kept.erase(0, world.session->feed(kept, out));
    replies += out.view();
  }
  EXPECT_EQ(replies, GetParam().answered);
}

const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Classic, Protocol, ::testing::ValuesIn(kClassic), kName);
INSTANTIATE_TEST_SUITE_P(Meta, Protocol, ::testing::ValuesIn(kMeta), kName);

TEST(SessionTest, AHeapOfObjectsAnswersTheSame) {
  const auto ask = [](const Case& it) {
    if (std::string_view(it.name) == "Debug") return;  // tells the item's size
    SCOPED_TRACE(it.name);
    World world({}, 1 << 20, DomainKind::kDram, World::Kept::kInObjects);
    EXPECT_EQ(world.say(it.said), it.answered);
  };
  for (const Case& it : kClassic) ask(it);
  for (const Case& it : kMeta) ask(it);
}

TEST(SessionTest, ItemsExpire) {
  World world;
  EXPECT_EQ(
      world.say("set a 0 10 1\r\nx\r\nset b 0 2592000 1\r\nx\r\nset c 0 " +
                std::to_string(World::kStart + 5) +
                " 1\r\nx\r\nset d 0 2592001 1\r\nx\r\nset e 0 -1 1\r\nx\r\nget a b c d e\r\n"),
      "STORED\r\nSTORED\r\nSTORED\r\nSTORED\r\nSTORED\r\nVALUE a 0 1\r\nx\r\nVALUE b 0 "
      "1\r\nx\r\nVALUE c 0 1\r\nx\r\nEND\r\n");
  world.clock.set(World::kStart + 5);
  EXPECT_EQ(world.say("mg a t\r\nmg c\r\nadd c 0 0 1\r\ny\r\n"), "HD t5\r\nEN\r\nSTORED\r\n");
  world.clock.set(World::kStart + 10);
  EXPECT_EQ(world.say("get a\r\nincr a 1\r\ntouch a 5\r\ndelete a\r\nappend a 0 0 1\r\nx\r\n"),
            "END\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\nNOT_STORED\r\n");
  EXPECT_EQ(world.items(), 5u);
  world.store->tidy();
  EXPECT_EQ(world.items(), 2u) << "what has expired is given back";
}

TEST(SessionTest, FlushAllWithADelayTakesWhatIsThereThen) {
  World world;
  EXPECT_EQ(world.say("set a 0 0 1\r\nx\r\nflush_all 10\r\nget a\r\n"),
            "STORED\r\nOK\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
  world.clock.set(World::kStart + 9);
  EXPECT_EQ(world.say("set b 0 0 1\r\nx\r\nget a b\r\n"),
            "STORED\r\nVALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nEND\r\n");
  world.clock.set(World::kStart + 10);
  EXPECT_EQ(world.say("get a b\r\nset c 0 0 1\r\nx\r\nget c\r\n"),
            "END\r\nSTORED\r\nVALUE c 0 1\r\nx\r\nEND\r\n");
}

TEST(SessionTest, AFlushThatWasDueWhileNobodyServedHappens) {
  World world;
  world.say("set a 0 0 1\r\nx\r\nflush_all 10\r\n");
  world.clock.set(World::kStart + 20);
  world.reopen();
  EXPECT_EQ(world.say("get a\r\n"), "END\r\n");
}

TEST(SessionTest, AValueOfAnyLengthSurvivesARestart) {
  World world({std::uint64_t{1} << 30, true}, 64 << 20);
  std::string said;
  std::string stored;
  const auto value = [](std::size_t bytes) {
    std::string text(bytes, ' ');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i * 7 + bytes) % 26);
    return text;
  };
  const std::size_t sizes[] = {0,   1,   7,    8,    9,     63,    64,      65,
                               200, 512, 1000, 4000, 10000, 70000, 1 << 20, (5 << 20) + 3};
  for (const bool again : {false, true}) {
    for (const std::size_t bytes : sizes) {
      const std::string key = "k" + std::to_string(bytes);
      const std::string head = "0 " + std::to_string(bytes) + "\r\n";
      EXPECT_EQ(world.say("set " + key + " 0 " + head + value(bytes) + "\r\n"), "STORED\r\n");
      EXPECT_EQ(world.say("get " + key + "\r\n"),
                "VALUE " + key + " " + head + value(bytes) + "\r\nEND\r\n");
    }
    if (!again) world.reopen();
  }
  for (const std::size_t bytes : sizes) {
    const std::string key = "k" + std::to_string(bytes);
    world.say("append " + key + " 0 0 3\r\n+++\r\nprepend " + key + " 0 0 2\r\n--\r\n");
    EXPECT_EQ(world.say("get " + key + "\r\n"), "VALUE " + key + " 0 " + std::to_string(bytes + 5) +
                                                    "\r\n--" + value(bytes) + "+++\r\nEND\r\n");
  }
}

TEST(SessionTest, WhatIsTooLargeIsRefusedAndPassedOver) {
  World world({}, 1000);
  EXPECT_EQ(
      world.say("set a 0 0 3\r\nold\r\nset a 0 0 1001\r\n" + std::string(1001, 'x') +
                "\r\nget a\r\nset a 0 0 1000\r\n" + std::string(1000, 'x') +
                "\r\nappend a 0 0 1\r\ny\r\nms a 1001\r\n" + std::string(1001, 'x') + "\r\nmn\r\n"),
      "STORED\r\nSERVER_ERROR object too large for cache\r\nEND\r\nSTORED\r\nSERVER_ERROR "
      "object too large for cache\r\nSERVER_ERROR object too large for cache\r\nMN\r\n");
}

TEST(SessionTest, AVeryLongRetrievalIsAnsweredInParts) {
  World world;
  std::string said = "get";
  for (int i = 0; i < 5000; ++i) {
    const std::string key = "key" + std::to_string(i);
    if (i % 2 == 0) world.say("set " + key + " 0 0 100\r\n" + std::string(100, 'v') + "\r\n");
    said += " " + key;
  }
  said += "\r\nmn\r\n";
  Buffer out;
  const std::size_t used = world.session->feed(said, out);
  EXPECT_LT(used, said.size()) << "the client has to take what is there first";
  EXPECT_GT(out.size(), Session::kFull);
  EXPECT_LT(out.size(), 2 * Session::kFull);
  std::string all(out.view());
  all += world.say(std::string_view(said).substr(used));
  std::size_t values = 0;
  for (std::size_t at = 0; (at = all.find("VALUE ", at)) != all.npos; ++at) ++values;
  EXPECT_EQ(values, 2500u);
  EXPECT_TRUE(all.ends_with("END\r\nMN\r\n"));
}

TEST(SessionTest, CasUniquesAreNotDrawnAgainAfterARestart) {
  World world;
  world.say("set a 0 0 1\r\nx\r\n");
  EXPECT_EQ(world.say("gets a\r\n"), "VALUE a 0 1 1\r\nx\r\nEND\r\n");
  world.reopen();
  EXPECT_EQ(world.say("cas a 0 0 1 1\r\ny\r\ncas a 0 0 1 1\r\nz\r\n"), "STORED\r\nEXISTS\r\n");
  world.reopen();
  EXPECT_EQ(world.say("cas a 0 0 1 1\r\ny\r\ncas a 0 0 1 2\r\nz\r\n"), "EXISTS\r\nEXISTS\r\n");
}

TEST(SessionTest, StatsTellWhatHappened) {
  World world;
  std::vector<std::pair<std::string, std::string>> said;
  world.service.stats = [&](std::string_view group, Service::Say say) {
    if (!group.empty()) return false;
    CounterValues sums{};
    world.counters.add_to(sums);
    for (std::size_t i = 0; i < kCounters; ++i) say(kCounterNames[i], NumberText(sums[i]).view());
    return true;
  };
  world.say(
      "set a 0 0 1\r\n1\r\nget a b\r\nincr a 1\r\ndecr x 1\r\ntouch a 0\r\ndelete a\r\ndelete "
      "a\r\nflush_all\r\ncas a 0 0 1 1\r\nx\r\n");
  const std::string stats = world.say("stats\r\n");
  EXPECT_TRUE(stats.ends_with("END\r\n"));
  for (const char* line :
       {"cmd_get 2", "get_hits 1", "get_misses 1", "cmd_set 2", "incr_hits 1", "decr_misses 1",
        "touch_hits 1", "delete_hits 1", "delete_misses 1", "cmd_flush 1", "cas_misses 1"})
    EXPECT_THAT(stats, HasSubstr("STAT " + std::string(line) + "\r\n"));
  EXPECT_THAT(world.say("set a 0 0 1\r\nx\r\nstats items\r\n"),
              HasSubstr("STAT items:1:number 1\r\n"));
}

TEST(SessionTest, ShutdownEndsTheServerWhereItMay) {
  World world;
  int ends = 0;
  world.service.allow_shutdown = true;
  world.service.shutdown = [&] { ++ends; };
  EXPECT_EQ(world.say("shutdown now\r\n"), "CLIENT_ERROR invalid shutdown mode\r\n");
  EXPECT_EQ(world.say("shutdown graceful\r\n"), "");
  EXPECT_EQ(ends, 1);
  EXPECT_TRUE(world.session->closing());
}

}  // namespace
}  // namespace perdure::memcached
