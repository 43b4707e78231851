// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench peers --quick`: a row for every store and every workload, in the forms that
// programs and browsers may rely on; and what is not known is refused.
#include <map>
#include <set>
#include <sstream>

#include <boost/property_tree/xml_parser.hpp>
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

using nlohmann::json;

class PeersToolTest : public LabTest {
 protected:
  void SetUp() override {
    ToolTest::SetUp();
    if (std::filesystem::exists("/dev/shm"))
      memory_ = std::filesystem::path("/dev/shm") / directory_.filename();
    else
      memory_ = directory_ / "memory";
    std::filesystem::create_directories(memory_);
  }
  void TearDown() override {
    std::filesystem::remove_all(memory_);
    ToolTest::TearDown();
  }
  ToolRun peers(std::vector<std::string> arguments) const {
    std::vector<std::string> all{"bench",          "peers",  "--quick",          "--tmpfs",
                                 memory_.string(), "--disk", directory_.string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(all);
  }
  void expect_nothing_left() const {
    EXPECT_TRUE(std::filesystem::is_empty(memory_));
    for (const auto& entry : std::filesystem::directory_iterator(directory_))
      EXPECT_EQ(entry.path().filename().string().find("perdure-bench"), std::string::npos)
          << entry.path();
  }

  std::filesystem::path memory_;
};

void expect_spread(const json& spread) {
  const double median = spread.at("median").get<double>();
  EXPECT_GT(spread.at("min").get<double>(), 0);
  EXPECT_LE(spread.at("min").get<double>(), median);
  EXPECT_GE(spread.at("max").get<double>(), median);
}

/// `place` has every row of every store, verified; peers with their ratios to ours.
void expect_place(const json& place) {
  SCOPED_TRACE(place.at("place").get<std::string>());
  EXPECT_FALSE(place.at("file_system").get<std::string>().empty());
  EXPECT_EQ(place.at("live"), 200);
  std::map<std::string, json> stores;
  for (const json& store : place.at("stores")) {
    EXPECT_FALSE(store.at("title").get<std::string>().empty());
    EXPECT_FALSE(store.at("setting").get<std::string>().empty());
    EXPECT_FALSE(store.at("survives").get<std::string>().empty());
    EXPECT_TRUE(stores.emplace(store.at("name").get<std::string>(), store).second);
  }
  std::set<std::pair<std::string, int>> rows;
  for (const json& row : place.at("rows")) {
    const auto name = row.at("name").get<std::string>();
    SCOPED_TRACE(name);
    EXPECT_TRUE(rows.emplace(name, row.at("threads").get<int>()).second);
    std::set<std::string> seen;
    for (const json& result : row.at("results")) {
      const auto who = result.at("store").get<std::string>();
      SCOPED_TRACE(who);
      EXPECT_TRUE(seen.insert(who).second);
      const json& store = stores.at(who);
      const bool scans_without_order = name == "scan-64" && !store.at("ordered").get<bool>();
      EXPECT_EQ(result.contains("missing"), scans_without_order);
      if (scans_without_order) continue;
      expect_spread(result.at("ops_per_s"));
      EXPECT_GT(result.at("operations").get<std::uint64_t>(), 0u);
      EXPECT_GE(result.at("verified").get<std::uint64_t>(), 400u)
          << "200 live keys and as many that are not: all looked up in the reopened store";
      std::size_t counterparts = 0;
      for (const auto& [other, terms] : stores)
        counterparts += terms.at("ours").get<bool>() && terms.at("ordered") == store.at("ordered");
      EXPECT_EQ(result.at("ratios").size(), store.at("ours").get<bool>() ? 0 : counterparts);
      for (const json& ratio : result.at("ratios")) expect_spread(ratio);
    }
    EXPECT_EQ(seen.size(), stores.size());
  }
  for (const char* name : {"update-8", "update-64", "update-1024", "update-4096", "look-up-64",
                           "scan-64", "batch-64"}) {
    for (const int threads : {1, 2}) EXPECT_TRUE(rows.contains({name, threads})) << name;
  }
  EXPECT_EQ(rows.contains({"update-64", 16}), place.at("place") == "disk");
}

TEST_F(PeersToolTest, EveryStoreHasEveryRowInEveryForm) {
  const ToolRun done = peers({"--seed", "7", "--json", "--html", path("report.html")});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("disk: scan of 100"), std::string::npos) << "tells how far it is";
  const json report = json::parse(done.out);
  const json& environment = report.at("environment");
  for (const char* field : {"cpu", "kernel", "compiler", "write_back"})
    EXPECT_FALSE(environment.at(field).get<std::string>().empty()) << field;
  EXPECT_EQ(environment.at("seed"), 7);
  EXPECT_GE(environment.at("repetitions").get<int>(), 2);

  ASSERT_EQ(report.at("places").size(), 2u);
  EXPECT_EQ(report.at("places")[0].at("place"), "tmpfs");
  EXPECT_EQ(report.at("places")[1].at("place"), "disk");
  // Ours, and all peers but those that are told to be missing.
  const std::size_t built = 10 - report.at("not_built").size();
  EXPECT_EQ(report.at("places")[0].at("stores").size(), 4 + built);
  EXPECT_EQ(report.at("places")[1].at("stores").size(), 2 + built);
  for (const json& place : report.at("places")) expect_place(place);

  std::istringstream page(read(path("report.html")));
  boost::property_tree::ptree html;
  ASSERT_NO_THROW(boost::property_tree::read_xml(page, html));
  std::set<std::string> shown;
  for (const auto& [name, child] : html.get_child("html.body")) {
    if (name != "section") continue;
    shown.insert(child.get<std::string>("<xmlattr>.id"));
    EXPECT_FALSE(child.get_child("figure.svg").empty());
    EXPECT_FALSE(child.get_child("div.table").empty());
  }
  EXPECT_EQ(shown, (std::set<std::string>{"tmpfs", "disk"}));
  expect_nothing_left();
}

TEST_F(PeersToolTest, MeasuresOnlyWhatIsAskedFor) {
  const json built = json::parse(
      peers({"--places", "tmpfs", "--rows", "look-up-64", "--threads", "1", "--json"}).out);
  std::string peer;
  for (const json& store : built.at("places").at(0).at("stores")) {
    if (!store.at("ours").get<bool>()) peer = store.at("name");
  }
  if (peer.empty()) GTEST_SKIP() << "no peer was built in";
  const ToolRun done = peers(
      {"--places", "disk", "--rows", "update-1024,batch-64", "--threads", "3", "--only", peer});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("disk, 3 threads"), std::string::npos) << done.out;
  EXPECT_NE(done.out.find("ours / peer"), std::string::npos);
  EXPECT_EQ(done.out.find("scan of 100"), std::string::npos);
  EXPECT_EQ(done.out.find("\ntmpfs"), std::string::npos);
  expect_nothing_left();
}

TEST_F(PeersToolTest, RefusesWhatItDoesNotKnow) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& name) {
    const ToolRun done = peers(arguments);
    EXPECT_EQ(done.code, 2);
    EXPECT_NE(done.err.find(name), std::string::npos) << done.err;
    EXPECT_TRUE(done.out.empty());
  };
  refused({"--only", "another-store"}, "another-store");
  refused({"--only", "hash_map-adr"}, "hash_map-adr");  // ours are always measured
  refused({"--rows", "update-9"}, "update-9");
  refused({"--places", "moon"}, "moon");
  refused({"--threads", "0"}, "0");
  refused({"--disk", path("no-such")}, "no-such");
}

TEST_F(PeersToolTest, APageThatCannotBeWrittenIsToldBeforeMeasuring) {
  const ToolRun done = peers({"--html", path("no-such") + "/report.html"});
  EXPECT_EQ(done.code, 3);
  EXPECT_NE(done.err.find("no-such"), std::string::npos);
  EXPECT_EQ(done.err.find("insert/delete"), std::string::npos) << done.err;
}

TEST_F(PeersToolTest, IsNotTheBenchmarkOfTransactions) {
  const ToolRun done = peers({"--places", "tmpfs", "--rows", "look-up-64", "--threads", "1"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out.find("hardware floor"), std::string::npos) << "that is `perdure-lab bench`";
}

}  // namespace
}  // namespace perdure
