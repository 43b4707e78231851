// SPDX-License-Identifier: BSD-3-Clause
// The `perdure` command from the outside: what it prints, how it ends, and that it never harms what
// it cannot open.
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "perdure/container/hash_map.h"
#include "perdure/pool.h"
#include "perdure/region/layout.h"
#include "tests/cli_fixture.h"

namespace perdure {
namespace {

// ---- the command itself -------------------------------------------------------------------------

TEST_F(CliTest, HelpTeachesWithExamples) {
  const ToolRun help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("perdure kv put words.pool"), std::string::npos);
  EXPECT_NE(help.out.find("Exit codes"), std::string::npos);
  for (const char* command : {"create", "info", "check", "dump", "recover", "kv", "run"}) {
    EXPECT_EQ(run({command, "--help"}).code, 0) << command;
  }
}

TEST_F(CliTest, WrongUsageEndsWith2AndSaysWhatIsWrong) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{},
                                                {"frobnicate"},
                                                {"create"},
                                                {"create", pool_, "--capacity", "many"},
                                                {"create", pool_, "--domain", "moon"},
                                                {"kv"},
                                                {"kv", "put", pool_, "key"},
                                                {"kv", "scan", pool_, "--format", "xml"},
                                                {"create", pool_, "--segment", "100K"},
                                                {"kv", "put", pool_, "-", "-"}}) {
    const ToolRun ran = run(wrong);
    EXPECT_EQ(ran.code, 2) << ran.err;
    EXPECT_EQ(ran.err.rfind("perdure: ", 0), 0u) << ran.err;
    EXPECT_FALSE(std::filesystem::exists(pool_));
  }
}

// ---- pools --------------------------------------------------------------------------------------

TEST_F(CliTest, CreateMakesAPoolAndNeverOverwrites) {
  create();
  const std::string before = read(pool_);
  const ToolRun again = run({"create", pool_});
  EXPECT_EQ(again.code, 3);
  EXPECT_NE(again.err.find(pool_), std::string::npos);
  EXPECT_EQ(read(pool_), before);
}

TEST_F(CliTest, InfoTellsGeometryRootsAndGuarantee) {
  create();
  fill(10);
  const Json info = json_of({"info", pool_, "--json"});
  EXPECT_EQ(info["capacity_bytes"], 16 << 20);
  EXPECT_EQ(info["log_slots"], 2);
  EXPECT_EQ(info["roots"].size(), 1u);
  EXPECT_EQ(info["roots"][0]["root"], "kv");
  EXPECT_EQ(info["damage_found"], false);
  EXPECT_FALSE(info["acknowledged_survives"].get<std::string>().empty());
  EXPECT_NE(run({"info", pool_}).out.find("16 MiB"), std::string::npos);
}

TEST_F(CliTest, DumpShowsSectionsStateAndHeap) {
  create();
  fill(10);
  const Json dump = json_of({"dump", pool_, "--json"});
  EXPECT_EQ(dump["superblock"]["version"], kFormatVersion);
  EXPECT_EQ(dump["sections"].size(), 9u);
  EXPECT_EQ(dump["state"][0]["word"], "grown_bytes");
  EXPECT_EQ(dump["records_waiting"], 0);
  EXPECT_GT(dump["heap_after_recovery"]["objects"], 10);
  EXPECT_EQ(run({"dump", pool_}).code, 0);
}

TEST_F(CliTest, RecoverReplaysWhatAKilledProcessLeft) {
  create();
  const std::string copy = path("killed.pool");
  {
    PoolOptions options;
    options.domain =
        DomainKind::kDram;  // a shared mapping, so that the file can be copied while it is open
    Pool pool = Pool::open(pool_, options).value();
    auto* map = pool.root<hash_map<bytes, bytes>>("kv");
    pool.atomically([&](Tx& tx) { map->put(tx, "a", "1"); });
    write(copy, read(pool_));  // as a kill at this moment leaves it
  }
  EXPECT_GT(json_of({"dump", copy, "--json"})["records_waiting"], 0);
  EXPECT_GT(json_of({"info", copy, "--json"})["records_to_recover"], 0);
  EXPECT_EQ(run({"check", copy}).code, 0);
  EXPECT_EQ(run({"kv", "get", copy, "a"}).out, "1\n");
  EXPECT_GT(json_of({"recover", copy, "--json"})["records_replayed"], 0);
  EXPECT_EQ(json_of({"recover", copy, "--json"})["records_replayed"], 0);
  EXPECT_EQ(run({"kv", "get", copy, "a"}).out, "1\n");
}

TEST_F(CliTest, CheckFindsNothingInASoundPoolAndChangesNothing) {
  create();
  fill(500);
  const std::string before = read(pool_);
  const Json check = json_of({"check", pool_, "--json"});
  EXPECT_EQ(check["sound"], true);
  EXPECT_EQ(check["findings"].size(), 0u);
  EXPECT_EQ(check["objects"], check["objects_reached"]);
  EXPECT_EQ(check["leaked_objects"], 0);
  EXPECT_EQ(read(pool_), before);
}

TEST_F(CliTest, CheckFindsADanglingLink) {
  create();
  fill(3);
  const Json info = json_of({"info", pool_, "--json"});
  // The map's only field is the link to its table; let it point into the middle of nowhere.
  overwrite(pool_, info["roots"][0]["at_byte"], std::string("\x08\x07\x06\x05\x00\x00\x00\x00", 8));
  const Json check = json_of({"check", pool_, "--json"}, 1);
  EXPECT_NE(check["findings"][0]["what"].get<std::string>().find("no live object"),
            std::string::npos)
      << check;
  EXPECT_EQ(check["findings"][0]["at_byte"], 0x05060708);
}

TEST_F(CliTest, CheckFindsDamagedHeapMetadata) {
  create();
  fill(3);
  const Json dump = json_of({"dump", pool_, "--json"});
  const std::uint64_t heap = dump["sections"].back()["from_byte"];
  overwrite(pool_, heap, std::string(16, '\xff'));  // class words of the first segment
  const std::string before = read(pool_);
  const Json check = json_of({"check", pool_, "--json"}, 1);
  EXPECT_EQ(check["findings"][0]["part"], "heap");
  EXPECT_EQ(check["findings"][0]["at_byte"], heap);
  EXPECT_FALSE(check["findings"][0]["remedy"].get<std::string>().empty());
  EXPECT_EQ(run({"info", pool_}).code, 0);  // tells what it can, and that there is damage
  const ToolRun opened = run({"kv", "put", pool_, "a", "b"});
  EXPECT_EQ(opened.code, 3) << opened.err;
  EXPECT_EQ(read(pool_), before);
}

TEST_F(CliTest, CheckFindsADamagedRootEntry) {
  create();
  fill(3);
  overwrite(pool_, 8192 + 40, "x");  // the first entry's object
  const ToolRun check = run({"check", pool_});
  EXPECT_EQ(check.code, 1);
  EXPECT_NE(check.out.find("root table entry 0"), std::string::npos) << check.out;
}

// ---- files that cannot be opened ----------------------------------------------------------------

TEST_F(CliTest, OutputThatCannotBeWrittenIsAnError) {
  create();
  fill(10);
  for (const std::string command : {"kv dump ", "kv get ", "info ", "check "}) {
    const std::string key = command == "kv get " ? " 'key 0'" : "";
    const std::string line = quoted(tool_) + " " + command + quoted(pool_) + key +
                             " >/dev/full 2>" + quoted(path(".err"));
    EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 3) << line;
  }
}

TEST_F(CliTest, NamesAndCountsThatAreNoneAreRefused) {
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"create", pool_, "--engine", "9"},
        {"create", pool_, "--domain", "3"},
        {"create", pool_, "--slots", "-1"},
        {"kv", "scan", pool_, "--format", "1"},
        {"kv", "scan", pool_, "--limit", "-1"},
        {"kv", "demo", pool_, "--kills", "-1"}}) {
    const ToolRun ran = run(wrong);
    EXPECT_EQ(ran.code, 2) << wrong.back() << ": " << ran.err;
    EXPECT_FALSE(std::filesystem::exists(pool_));
  }
}

TEST_F(CliTest, ADirectoryIsNoInput) {
  create();
  EXPECT_EQ(run({"kv", "load", pool_, directory_.string()}).code, 3);
}

TEST_F(CliTest, AMissingFileIsNamed) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"info", pool_},
        {"check", pool_},
        {"dump", pool_},
        {"recover", pool_},
        {"kv", "get", pool_, "a"},
        {"kv", "del", pool_, "a"},
        {"kv", "count", pool_},
        {"kv", "put", pool_, "a", "b", "--must-exist"}}) {
    const ToolRun refused = run(arguments);
    EXPECT_EQ(refused.code, 3);
    EXPECT_NE(refused.err.find(pool_), std::string::npos) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(pool_));
  }
}

TEST_F(CliTest, ABusyPoolNamesTheProcessThatHoldsIt) {
  create();
  const Pool held = Pool::open(pool_).value();
  const std::string before = read(pool_);
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"recover", pool_},
                                                    {"reclaim", pool_},
                                                    {"grow", pool_, "--slots", "8"},
                                                    {"kv", "put", pool_, "a", "b"},
                                                    {"kv", "del", pool_, "a"},
                                                    {"kv", "load", pool_},
                                                    {"kv", "demo", pool_}}) {
    const ToolRun refused = run(arguments);
    EXPECT_EQ(refused.code, 3) << arguments[0] << ": " << refused.err;
    EXPECT_EQ(refused.out, "") << arguments[0];
    EXPECT_NE(refused.err.find("process " + std::to_string(::getpid())), std::string::npos)
        << refused.err;
  }
  EXPECT_EQ(read(pool_), before);
}

TEST_F(CliTest, AForeignFileIsRefusedUnchanged) {
  write(pool_, "This is a letter, not a pool.\n" + std::string(8192, 'x'));
  expect_refused("not a Perdure pool");
  write(pool_, "");
  expect_refused("not a Perdure pool");
}

TEST_F(CliTest, ATruncatedFileIsRefusedUnchanged) {
  create();
  fill(3);
  std::filesystem::resize_file(pool_, std::filesystem::file_size(pool_) - 4096);
  expect_refused("restore it from a backup", 1);
  std::filesystem::resize_file(pool_, 100);
  expect_refused("only 100 bytes", 1);
}

TEST_F(CliTest, ANewerFileIsRefusedUnchanged) {
  create();
  for (const Offset copy : {Offset{0}, kSecondSuperblockOffset})
    overwrite(pool_, copy + 8, std::string("\x63\x00\x00\x00", 4));
  expect_refused("format version 99");
}

TEST_F(CliTest, ACorruptSuperblockIsRefusedUnchanged) {
  create();
  for (const Offset copy : {Offset{0}, kSecondSuperblockOffset})
    overwrite(pool_, copy + 64, "\x5a");
  expect_refused("superblock", 1);
}

TEST_F(CliTest, OneDamagedSuperblockIsToldAndReplaced) {
  create();
  overwrite(pool_, 64, "\x5a");
  const ToolRun check = run({"check", pool_});
  EXPECT_EQ(check.code, 1);
  EXPECT_NE(check.out.find("perdure recover"), std::string::npos) << check.out;
  EXPECT_EQ(json_of({"recover", pool_, "--json"})["superblock_damaged"], true);
  EXPECT_EQ(run({"check", pool_}).code, 0);
}

TEST_F(CliTest, GrowRaisesLimitsAndLowersNone) {
  create();
  fill(10);
  const auto before = json_of({"info", pool_, "--json"})["log_slots"].get<std::uint64_t>();
  const Json grown = json_of({"grow", pool_, "--slots", "300", "--capacity", "1G", "--json"});
  EXPECT_EQ(grown["log_slots"], 300);
  EXPECT_EQ(grown["log_slots_before"], before);
  EXPECT_EQ(json_of({"info", pool_, "--json"})["log_slots"], 300);
  EXPECT_EQ(run({"kv", "count", pool_}).out, "10\n");
  EXPECT_EQ(run({"check", pool_}).code, 0);
  EXPECT_EQ(run({"grow", pool_, "--slots", "3"}).code, 2);
  const std::string copy = path("compacted.pool");
  EXPECT_EQ(run({"compact", pool_, copy}).code, 0);
  EXPECT_EQ(run({"check", copy}).code, 0);
  EXPECT_EQ(run({"kv", "count", copy}).out, "10\n");
}

TEST_F(CliTest, ACorruptStateWordIsRefusedUnchanged) {
  create();
  overwrite(pool_, 4096, "\x5a");
  expect_refused("byte 4096", 1);
}

// ---- the store ----------------------------------------------------------------------------------

TEST_F(CliTest, PutGetDelCount) {
  EXPECT_EQ(run({"kv", "put", pool_, "moon", "a satellite"}).code, 0);
  EXPECT_EQ(run({"kv", "get", pool_, "moon"}).out, "a satellite\n");
  EXPECT_EQ(run({"kv", "get", pool_, "moon", "--raw"}).out, "a satellite");
  EXPECT_EQ(json_of({"kv", "put", pool_, "moon", "of the earth", "--json"})["inserted"], false);
  EXPECT_EQ(json_of({"kv", "put", pool_, "sun", "a star", "--json"})["inserted"], true);
  EXPECT_EQ(run({"kv", "count", pool_}).out, "2\n");
  EXPECT_EQ(run({"kv", "del", pool_, "moon"}).code, 0);
  EXPECT_EQ(run({"kv", "del", pool_, "moon"}).code, 1);
  const ToolRun gone = run({"kv", "get", pool_, "moon"});
  EXPECT_EQ(gone.code, 1);
  EXPECT_EQ(gone.out, "");
  EXPECT_NE(gone.err.find("no such key"), std::string::npos);
  EXPECT_EQ(json_of({"kv", "count", pool_, "--json"})["records"], 1);
}

TEST_F(CliTest, StandardInputCarriesAnyBytes) {
  create();
  const std::string bytes("\0\n\t\\\xff binary", 12);
  EXPECT_EQ(run({"kv", "put", pool_, "key", "-"}, bytes).code, 0);
  EXPECT_EQ(run({"kv", "get", pool_, "key", "--raw"}).out, bytes);
  EXPECT_EQ(run({"kv", "put", pool_, "-", "value"}, bytes).code, 0);
  EXPECT_EQ(run({"kv", "get", pool_, "-"}, bytes).out, "value\n");
  EXPECT_EQ(run({"kv", "del", pool_, "-"}, bytes).code, 0);
}

TEST_F(CliTest, DumpAndLoadRoundTripAnyBytesInEveryFormat) {
  create();
  std::map<std::string, std::string> records = {
      {"", "empty key"}, {"empty value", ""}, {"plain", "text"}};
  std::string every_byte;
  for (int c = 0; c < 256; ++c) every_byte += static_cast<char>(c);
  records["every byte"] = every_byte;
  records[every_byte] = "value";
  records["escapes"] = "\\t \\n \\0 \\\\ \t\n\r";
  records["large"] = std::string(100000, '\xfe');
  records["utf-8"] = "mür \xe2\x98\xbe";
  std::string lengths;
  for (const auto& [key, value] : records) {
    lengths +=
        std::to_string(key.size()) + " " + std::to_string(value.size()) + "\n" + key + value + "\n";
  }
  ASSERT_EQ(run({"kv", "load", pool_, "--format", "lengths"}, lengths).code, 0);
  EXPECT_EQ(run({"kv", "count", pool_}).out, std::to_string(records.size()) + "\n");
  for (const std::string format : {"tsv", "jsonl", "lengths"}) {
    const ToolRun dump = run({"kv", "dump", pool_, "--format", format});
    ASSERT_EQ(dump.code, 0) << dump.err;
    const std::string copy = path(format + ".pool");
    const ToolRun load = run({"kv", "load", copy, "--format", format}, dump.out);
    ASSERT_EQ(load.code, 0) << format << load.err;
    for (const auto& [key, value] : records) {
      EXPECT_EQ(run({"kv", "get", copy, "-", "--raw"}, key).out, value) << format;
    }
    EXPECT_EQ(run({"kv", "count", copy}).out, std::to_string(records.size()) + "\n");
  }
}

TEST_F(CliTest, ScanFiltersByPrefixAndLimit) {
  create();
  fill(300);
  const ToolRun all = run({"kv", "scan", pool_});
  EXPECT_EQ(std::count(all.out.begin(), all.out.end(), '\n'), 300);
  const ToolRun some = run({"kv", "scan", pool_, "--prefix", "key 29"});
  EXPECT_EQ(std::count(some.out.begin(), some.out.end(), '\n'), 11);
  EXPECT_NE(some.out.find("key 299\tvalue 299\n"), std::string::npos);
  const ToolRun few = run({"kv", "scan", pool_, "--limit", "7", "--json"});
  EXPECT_EQ(std::count(few.out.begin(), few.out.end(), '\n'), 7);
  EXPECT_EQ(run({"kv", "scan", pool_, "--limit", "0"}).out, "");
}

TEST_F(CliTest, LoadNamesAMalformedLineAndKeepsWhatCameBefore) {
  const ToolRun load =
      run({"kv", "load", pool_, "--batch", "2"}, "a\t1\nb\t2\nc\t3\nno tab here\nd\t4\n");
  EXPECT_EQ(load.code, 2);
  EXPECT_NE(load.err.find("line 4"), std::string::npos) << load.err;
  EXPECT_EQ(run({"kv", "count", pool_}).out, "3\n");
  for (const std::string bad :
       {"{\"key\":1}", "{\"key\":\"a\"}", "[]", "{\"key64\":\"A===\",\"value\":\"\"}", "{"}) {
    const ToolRun json = run({"kv", "load", pool_, "--format", "jsonl"}, bad + "\n");
    EXPECT_EQ(json.code, 2) << bad;
    EXPECT_NE(json.err.find("line 1"), std::string::npos) << json.err;
  }
  for (const std::string bad : {"5", "1 x\na\n", "1 99999999999\nab\n", "1 1\nabc"}) {
    const ToolRun lengths = run({"kv", "load", pool_, "--format", "lengths"}, bad);
    EXPECT_EQ(lengths.code, 2) << bad;
    EXPECT_NE(lengths.err.find("record 1"), std::string::npos) << lengths.err;
  }
  EXPECT_EQ(run({"kv", "load", pool_}, "a\\x\tb\n").code, 2);
  EXPECT_EQ(run({"kv", "count", pool_}).out, "3\n");
}

TEST_F(CliTest, LoadReadsFilesAndReports) {
  write(path("in.tsv"), "a\t1\nb\t2\na\t3\n");
  const Json report = json_of({"kv", "load", pool_, path("in.tsv"), "--json", "--batch", "1"});
  EXPECT_EQ(report["records"], 3);
  EXPECT_EQ(report["inserted"], 2);
  EXPECT_EQ(report["replaced"], 1);
  EXPECT_EQ(run({"kv", "get", pool_, "a"}).out, "3\n");
  EXPECT_EQ(run({"kv", "load", pool_, path("missing.tsv")}).code, 3);
}

TEST_F(CliTest, StatsTellSizesAndGuarantee) {
  create();
  fill(100);
  const Json stats = json_of({"kv", "stats", pool_, "--json"});
  EXPECT_EQ(stats["records"], 100);
  EXPECT_EQ(stats["keys_bytes"], 10 * 5 + 90 * 6);
  EXPECT_EQ(stats["values_bytes"], 10 * 7 + 90 * 8);
  EXPECT_FALSE(stats["domain"].get<std::string>().empty());
  EXPECT_NE(run({"kv", "stats", pool_}).out.find("acknowledged survives"), std::string::npos);
}

TEST_F(CliTest, AFullPoolSaysSoAndKeepsWhatItHas) {
  create();
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += std::to_string(i) + "\t" + std::string(100000, 'x') + "\n";
  const ToolRun full = run({"kv", "load", pool_, "--batch", "1"}, lines);
  EXPECT_EQ(full.code, 3);
  EXPECT_NE(full.err.find("capacity"), std::string::npos) << full.err;
  EXPECT_GT(std::stoi(run({"kv", "count", pool_}).out), 50);
  EXPECT_EQ(run({"check", pool_}).code, 0);
}

TEST_F(CliTest, ReadersDoNotDisturbEachOther) {
  create();
  fill(3);
  const Pool reader = Pool::inspect(pool_).value();
  EXPECT_EQ(run({"kv", "get", pool_, "key 1"}).out, "value 1\n");
  EXPECT_EQ(run({"check", pool_}).code, 0);
}

TEST_F(CliTest, ADamagedStoreEndsInAnErrorThatNamesTheFile) {
  create();
  fill(3);
  const Json info = json_of({"info", pool_, "--json"});
  overwrite(pool_, info["roots"][0]["at_byte"], std::string("\x08\x07\x06\x05\x04\x00\x00\x00", 8));
  for (const char* command : {"count", "scan", "stats"}) {
    const ToolRun ran = run({"kv", command, pool_});
    EXPECT_EQ(ran.code, 3) << command;
    EXPECT_NE(ran.err.find(pool_), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("perdure check"), std::string::npos) << ran.err;
  }
}

// ---- the demo -----------------------------------------------------------------------------------

TEST_F(CliTest, DemoSurvivesItsKills) {
  const ToolRun ran = run({"kv", "demo", pool_, "--records", "2000", "--kills", "3", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json report = Json::parse(ran.out);
  EXPECT_EQ(report["records"], 2000);
  EXPECT_EQ(report["kills_survived"], 3);
  EXPECT_EQ(report["violations"], 0);
  EXPECT_EQ(report["after_each_kill"].size(), 3u);
  EXPECT_GT(report["one_record_per_transaction"]["transactions_per_second"], 0);
  EXPECT_EQ(run({"kv", "demo", pool_, "--records", "500", "--kills", "1"}).code, 0)
      << "its own pool is made anew";
  EXPECT_EQ(run({"check", pool_}).code, 0);
}

TEST_F(CliTest, DemoRefusesAPoolThatItDidNotMake) {
  ASSERT_EQ(run({"kv", "put", pool_, "precious", "data"}).code, 0);
  const ToolRun refused = run({"kv", "demo", pool_});
  EXPECT_EQ(refused.code, 3);
  EXPECT_NE(refused.err.find("no demo made"), std::string::npos) << refused.err;
  EXPECT_EQ(run({"kv", "get", pool_, "precious"}).out, "data\n");
}

}  // namespace
}  // namespace perdure
