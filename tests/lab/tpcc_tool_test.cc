// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench tpcc` on tiny databases: what programs may rely on, extensions, and what is
// refused.
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

using nlohmann::json;

class TpccToolTest : public LabTest {
 protected:
  ToolRun tpcc(std::vector<std::string> arguments) const {
    std::vector<std::string> all{"bench",   "tpcc",   "--scale", "100",
                                 "--tmpfs", path(""), "--disk",  path("")};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(all);
  }
  /// An extension that registers the VFS of files under another name.
  std::string extension(const std::string& vfs) const {
    write(path("vfs.c"),
          "#include <sqlite3ext.h>\n"
          "SQLITE_EXTENSION_INIT1\n"
          "static sqlite3_vfs vfs;\n"
          "int sqlite3_vfs_init(sqlite3* db, char** error, const sqlite3_api_routines* api) {\n"
          "  SQLITE_EXTENSION_INIT2(api);\n"
          "  (void)db, (void)error;\n"
          "  vfs = *sqlite3_vfs_find(\"unix\");\n"
          "  vfs.zName = \"" +
              vfs +
              "\";\n"
              "  return sqlite3_vfs_register(&vfs, 0);\n"
              "}\n");
    const std::string command =
        "cc -shared -fPIC -o " + quoted(path("vfs.so")) + " " + quoted(path("vfs.c"));
    EXPECT_EQ(std::system(command.c_str()), 0);
    return path("vfs.so");
  }
};

void expect_spread(const json& spread) {
  const double median = spread.at("median").get<double>();
  EXPECT_GT(spread.at("min").get<double>(), 0);
  EXPECT_LE(spread.at("min").get<double>(), median);
  EXPECT_GE(spread.at("max").get<double>(), median);
}

TEST_F(TpccToolTest, EveryModeIsMeasuredAndJudgedInEveryPlace) {
  const ToolRun done = tpcc({"--transactions", "40", "--rounds", "2", "--connections", "2",
                             "--warehouses", "2", "--seed", "7", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("disk: unix/wal/full, round 2"), std::string::npos) << "how far it is";
  const json report = json::parse(done.out);
  EXPECT_EQ(report.at("scale"), 100);
  EXPECT_EQ(report.at("warehouses"), 2);
  EXPECT_EQ(report.at("seed"), 7);
  EXPECT_EQ(report.at("conditions").size(), 12u);
  EXPECT_TRUE(report.at("violations").empty());
  ASSERT_EQ(report.at("places").size(), 2u);
  for (const json& place : report.at("places")) {
    SCOPED_TRACE(place.at("place").get<std::string>());
    ASSERT_GE(place.at("modes").size(), 4u);
    EXPECT_EQ(place.at("modes")[0].at("name"), "unix/delete/full");
    EXPECT_EQ(place.at("modes")[1].at("ratio").at("median"), 1);
    for (const json& mode : place.at("modes")) {
      SCOPED_TRACE(mode.at("name").get<std::string>());
      expect_spread(mode.at("transactions_per_s"));
      expect_spread(mode.at("new_orders_per_s"));
      expect_spread(mode.at("ratio"));
      for (const char* kind : {"all", "new_order", "payment"}) {
        const json& latency = mode.at("latency_ns").at(kind);
        EXPECT_GT(latency.at("p50").get<double>(), 0) << kind;
        EXPECT_LE(latency.at("p50"), latency.at("p99")) << kind;
        EXPECT_LE(latency.at("p99"), latency.at("max")) << kind;
      }
      EXPECT_EQ(mode.at("transactions"), 80);
      EXPECT_EQ(mode.at("rounds").size(), 2u);
      EXPECT_EQ(mode.at("rows").at("stock"), 2'000);
      EXPECT_GT(mode.at("rows").at("history"), 600);
      EXPECT_TRUE(mode.at("consistent").get<bool>());
    }
  }
}

TEST_F(TpccToolTest, TheTableSaysThatItIsScaledAndWhatHeld) {
  const ToolRun done = tpcc(
      {"--transactions", "50", "--places", "disk", "--modes", "unix/wal/full,unix/persist/off"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("scaled 1/100"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("unix/persist/off"), std::string::npos);
  EXPECT_EQ(done.out.find("unix/delete/full"), std::string::npos);
  EXPECT_NE(done.out.find("all 12 consistency conditions held"), std::string::npos);
  EXPECT_EQ(done.out.find("\ntmpfs:"), std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    EXPECT_EQ(entry.path().filename().string().find("perdure-bench"), std::string::npos)
        << entry.path();
}

TEST_F(TpccToolTest, AnExtensionBringsVfses) {
  const ToolRun done =
      tpcc({"--transactions", "50", "--places", "disk", "--extension", extension("perdure"),
            "--modes", "unix/wal/full", "--vfs", "perdure", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  const json report = json::parse(done.out);
  const json& modes = report.at("places").at(0).at("modes");
  ASSERT_EQ(modes.size(), 2u);
  EXPECT_EQ(modes[1].at("name"), "perdure/delete/full");
  EXPECT_TRUE(modes[1].at("consistent").get<bool>());
}

TEST_F(TpccToolTest, TheVfsOfOursIsADefaultWhereItIsThere) {
  const ToolRun done = tpcc(
      {"--transactions", "20", "--places", "disk", "--extension", extension("perdure"), "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(json::parse(done.out).at("places").at(0).at("modes").back().at("name"),
            "perdure/delete/full");
}

TEST_F(TpccToolTest, RefusesWhatItCannotDo) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& why) {
    const ToolRun done = tpcc(arguments);
    EXPECT_EQ(done.code, 2) << why;
    EXPECT_NE(done.err.find(why), std::string::npos) << done.err;
    EXPECT_TRUE(done.out.empty());
  };
  write(path("text.so"), "no library");
  refused({"--modes", "unix/wal/most"}, "most");
  refused({"--vfs", "moon"}, "moon");
  refused({"--extension", path("no-such")}, "no-such");
  refused({"--extension", path("text.so")}, "text.so");
  refused({"--modes", "unix-none/wal/full", "--transactions", "1"}, "unix-none/wal/full");
  refused({"--seconds", "1", "--transactions", "1"}, "--seconds");
  refused({"--places", "moon"}, "moon");
  refused({"--warehouses", "0"}, "0");
  refused({"--scale", "101"}, "101");
}

}  // namespace
}  // namespace perdure
