// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab bench --quick --json` runs, and prints what programs may rely on.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

struct Output {
  int status;
  std::string text;
};

Output run_tool(const std::string& arguments) {
  const char* folder = std::getenv("PERDURE_BIN");
  if (folder == nullptr) throw std::runtime_error("PERDURE_BIN is not set; run this test by ctest");
  FILE* pipe = ::popen(
      ("'" + std::string(folder) + "/perdure-lab' " + arguments + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  Output output{};
  char buffer[4096];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    output.text.append(buffer, n);
  output.status = ::pclose(pipe);
  return output;
}

void expect_timing(const json& timing) {
  for (const char* clock : {"cpu_ns", "wall_ns"}) {
    const json& times = timing.at(clock);
    EXPECT_GT(times.at("low").get<double>(), 0);
    EXPECT_LE(times.at("low").get<double>(), times.at("median").get<double>());
    EXPECT_LE(times.at("median").get<double>(), times.at("high").get<double>());
  }
  EXPECT_GT(timing.at("operations").get<std::uint64_t>(), 0u);
}

TEST(BenchToolTest, JsonNamesTheConditionsOfTheMeasurement) {
  const Output output = run_tool("bench --quick --json --rows empty --seed 7");
  ASSERT_EQ(output.status, 0);
  const json environment = json::parse(output.text).at("environment");
  for (const char* field : {"cpu", "kernel", "compiler", "write_back", "domain", "engine", "dir"}) {
    EXPECT_FALSE(environment.at(field).get<std::string>().empty()) << field;
  }
  EXPECT_EQ(environment.at("seed"), 7);
  EXPECT_GT(environment.at("repetitions").get<int>(), 0);
  EXPECT_TRUE(environment.at("peers").is_array());
}

TEST(BenchToolTest, JsonHoldsEveryRowWithItsTraffic) {
  const Output output = run_tool("bench --quick --json");
  ASSERT_EQ(output.status, 0);
  const json report = json::parse(output.text);
  ASSERT_FALSE(report.at("floor").empty());
  for (const json& row : report.at("floor")) expect_timing(row.at("timing"));
  ASSERT_EQ(report.at("transactions").size(), 16u);
  for (const json& row : report.at("transactions")) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    expect_timing(row.at("perdure"));
    for (const json& peer : row.at("peers")) expect_timing(peer);
    EXPECT_EQ(row.at("peers").size(), report.at("environment").at("peers").size());
    const double fences = row.at("traffic").at("fences").get<double>();
    const bool writes = row.at("floor_lines").get<int>() > 0;
    EXPECT_EQ(row.at("floor").is_null(), !writes);
    if (!writes) {
      EXPECT_EQ(fences, 0) << "nothing was written";
      continue;
    }
    expect_timing(row.at("floor"));
    EXPECT_GE(fences, 1);
    EXPECT_LT(fences, 1.2) << "one fence, and now and then those that empty the log";
  }
  ASSERT_EQ(report.at("logs").size(), 10u);
  for (const json& row : report.at("logs")) {
    expect_timing(row.at("tornbit"));
    expect_timing(row.at("line"));
    expect_timing(row.at("commit_record"));
  }
  ASSERT_EQ(report.at("contention").size(), 4u) << "one thread meets nobody";
  for (const json& row : report.at("contention")) {
    EXPECT_EQ(row.at("read_retries"), 0);
    EXPECT_EQ(row.at("write_retries"), 0);
  }
}

TEST(BenchToolTest, OtherLogsAreMeasuredByTurns) {
  const Output output = run_tool(
      "bench --quick --json --no-peers --rows swap-1 --beside mnemosyne/next-commit/tornbit");
  ASSERT_EQ(output.status, 0);
  const json report = json::parse(output.text);
  EXPECT_EQ(report.at("environment").at("peers"), json::array({"mnemosyne/next-commit/tornbit"}));
  for (const json& row : report.at("transactions"))
    expect_timing(row.at("peers").at("mnemosyne/next-commit/tornbit"));
}

TEST(BenchToolTest, TwoThreadsThatMeetMakeProgress) {
  const Output output = run_tool("bench --quick --json --no-peers --threads 2");
  ASSERT_EQ(output.status, 0);
  const json report = json::parse(output.text);
  const json& rows = report.at("contention");
  ASSERT_EQ(rows.size(), 5u);
  for (const json& row : rows) {
    SCOPED_TRACE(row.at("name").get<std::string>());
    EXPECT_EQ(row.at("readers").get<int>() + row.at("writers").get<int>(), 2);
    EXPECT_GT(row.at("writes_per_s").at("median").get<double>(), 0);
  }
  EXPECT_GT(rows.at(2).at("reads_per_s").at("median").get<double>(), 0) << "short scans end";
}

TEST(BenchToolTest, WhoLooksOnIsMeasured) {
  for (const std::string domain : {"adr", "sync"}) {
    const Output output =
        run_tool("bench looking --json --reps 2 --seconds 0.1 --hold 0.01 --domain " + domain);
    ASSERT_EQ(output.status, 0);
    const json report = json::parse(output.text);
    EXPECT_EQ(report.at("domain"), domain);
    EXPECT_GT(report.at("images_per_s").get<double>(), 0);
    for (const char* key : {"alone_per_s", "beside_per_s", "ratio", "ratio_per_cpu"})
      EXPECT_GT(report.at(key).at("median").get<double>(), 0) << key;
  }
}

TEST(BenchToolTest, TableIsPrintedWithoutPeersToo) {
  const Output output = run_tool("bench --quick --no-peers --rows store-1,swap-1");
  ASSERT_EQ(output.status, 0);
  EXPECT_NE(output.text.find("1 store"), std::string::npos);
  EXPECT_NE(output.text.find("no peer"), std::string::npos);
}

TEST(BenchToolTest, UnknownRowIsRefused) { EXPECT_NE(run_tool("bench --rows nonsense").status, 0); }

}  // namespace
