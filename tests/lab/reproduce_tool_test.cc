// SPDX-License-Identifier: BSD-3-Clause
// `perdure-lab reproduce PAPER --quick`: the reports have the form that programs and browsers may
// rely on, and what is not known is refused.
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include <boost/property_tree/xml_parser.hpp>
#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

using nlohmann::json;

class ReproduceToolTest : public LabTest {};

void expect_series(const json& series) {
  SCOPED_TRACE(series.at("name").get<std::string>());
  const std::set<std::string> origins{"perdure", "peer", "derived", "paper"};
  const auto origin = series.at("origin").get<std::string>();
  EXPECT_TRUE(origins.contains(origin));
  EXPECT_EQ(series.at("name").get<std::string>().starts_with("paper: "), origin == "paper");
  EXPECT_FALSE(series.at("unit").get<std::string>().empty());
  for (const json& point : series.at("points")) {
    EXPECT_GE(point.at("x").get<double>(), 0);
    const double median = point.at("median").get<double>();
    EXPECT_LE(point.at("min").get<double>(), median);
    EXPECT_GE(point.at("max").get<double>(), median);
    if (origin == "perdure" || origin == "peer") {
      EXPECT_GE(median, 0);
    }
  }
}

/// Every clause has a verdict that follows from its number and its band; where it does not agree, a reason.
void expect_judged(const json& judgement, const std::string& whose) {
  SCOPED_TRACE(judgement.dump());
  EXPECT_FALSE(judgement.at(whose).get<std::string>().empty());
  EXPECT_FALSE(judgement.at("clause").get<std::string>().empty());
  const auto verdict = judgement.at("verdict").get<std::string>();
  EXPECT_EQ(judgement.at("why").get<std::string>().empty(), verdict == "agrees");
  if (verdict == "not tested") {
    EXPECT_EQ(judgement.at("kind"), "not tested");
    return;
  }
  const double here = judgement.at("here").at("median");
  EXPECT_TRUE(judgement.contains("low") || judgement.contains("high"));
  const bool inside = here >= judgement.value("low", here) && here <= judgement.value("high", here);
  if (verdict != "no verdict") {
    EXPECT_EQ(verdict, inside ? "agrees" : "differs");
  }
  EXPECT_EQ(judgement.at("kind") == "factor", !judgement.at("stated").get<std::string>().empty());
}

/// What is measured whether a peer was built in or not.
void expect_measured(const json& section) {
  const std::set<std::string> optional{"boot", "figure7", "openldap"};
  std::size_t points = 0;
  for (const json& series : section.at("series")) {
    expect_series(series);
    if (series.at("origin") == "perdure") points += series.at("points").size();
  }
  if (points > 0) return;
  EXPECT_TRUE(optional.contains(section.at("id").get<std::string>()));
  EXPECT_NE(section.at("missing").get<std::string>().find("Not measured"), std::string::npos);
}

struct Paper {
  std::string name;
  std::string progress;  // a part of what is told meanwhile
  std::set<std::string> sections;
  double latency_ns = 150;  // of the emulated memory
  double gb_per_s = 4;
};
void PrintTo(const Paper& paper, std::ostream* out) { *out << paper.name; }
const std::vector<Paper> kPapers = {
    {"mnemosyne",
     "table 5",
     {"table4", "figure4", "figure5", "table5", "table6", "figure6", "boot", "remap",
      "reincarnation", "figure7", "openldap", "costs", "table4-threads", "slow-truncation"}},
    {"blurred",
     "figure 10: RBTree",
     {"figure9", "figure10", "figure11", "figure12", "figure13", "figure14", "figure15", "figure16",
      "figure17", "table2", "mixes"}},
    {"softwrap",
     "Figure 6 ",
     {"table2", "figure4", "figure6", "figure7", "figure9", "figure10", "figure11", "figure12",
      "figure14", "figure8", "figure16"},
     1000,
     0},
    {"nvheaps",
     "figures 5 and 6: RBTree",
     {"table1", "figure4", "figure5", "figure6", "engines", "reads", "figure7", "figure8"},
     215,
     0},
    {"thynvm",
     "streaming",
     {"figure7", "figure8", "schemes", "epochs", "compiled", "figure9", "figure10", "figure11",
      "programs", "figure12", "epoch-length", "nvm-latency", "banks", "end-of-epoch"},
     0,
     0}};

std::size_t elements_in(const boost::property_tree::ptree& tree, const std::string& wanted) {
  std::size_t found = 0;
  for (const auto& [name, child] : tree) found += (name == wanted) + elements_in(child, wanted);
  return found;
}

class WholeReport : public LabTest, public ::testing::WithParamInterface<Paper> {};
INSTANTIATE_TEST_SUITE_P(Papers, WholeReport, ::testing::ValuesIn(kPapers),
                         [](const auto& of) { return of.param.name; });

TEST_P(WholeReport, HasEverySectionInEveryFormAndLeavesNothingBehind) {
  std::filesystem::create_directory(path("pools"));
  const ToolRun done =
      run({"reproduce", GetParam().name, "--quick", "--seed", "7", "--dir", path("pools"), "--json",
           path("report.json"), "--html", path("report.html")});
  ASSERT_EQ(done.code, 0) << done.err;
  for (const auto& entry : std::filesystem::directory_iterator(path("pools")))
    EXPECT_TRUE(entry.path().filename().string().starts_with(".")) << entry.path();
  EXPECT_NE(done.err.find(GetParam().progress), std::string::npos) << "tells how far it is";

  const json report = json::parse(read(path("report.json")));
  const json& environment = report.at("environment");
  for (const char* field : {"cpu", "kernel", "compiler", "domain", "dir", "setting", "write_back"})
    EXPECT_FALSE(environment.at(field).get<std::string>().empty()) << field;
  EXPECT_EQ(environment.at("seed"), 7);
  EXPECT_EQ(environment.at("setting"), "quick");
  EXPECT_EQ(environment.at("latency_ns"), GetParam().latency_ns);
  EXPECT_EQ(environment.at("gb_per_s"), GetParam().gb_per_s);
  EXPECT_GE(environment.at("repetitions").get<int>(), 2);
  std::set<std::string> ids;
  for (const json& section : report.at("sections")) {
    const auto id = section.at("id").get<std::string>();
    SCOPED_TRACE(id);
    EXPECT_TRUE(ids.insert(id).second);
    expect_measured(section);
    // Some sections have goals of ours beside the paper's sentences.
    for (const json& judgement : section.at("judgements"))
      expect_judged(judgement, judgement.contains("goal") ? "goal" : "paper");
    EXPECT_NE(done.out.find(section.at("title").get<std::string>()), std::string::npos);
  }
  EXPECT_EQ(ids, GetParam().sections);

  std::istringstream page(read(path("report.html")));
  boost::property_tree::ptree html;
  ASSERT_NO_THROW(boost::property_tree::read_xml(page, html));
  std::set<std::string> shown;
  for (const auto& [name, child] : html.get_child("html.body")) {
    if (name != "section") continue;
    const auto id = child.get<std::string>("<xmlattr>.id");
    shown.insert(id);
    EXPECT_NE(read(path("report.html")).find("--only " + id + " --quick --seed 7"),
              std::string::npos)
        << "says how to repeat it";
    if (elements_in(child, "table") > 0) {
      EXPECT_GT(elements_in(child, "svg"), 0u) << id;
    }
  }
  EXPECT_EQ(shown, ids);
}

const json& series_of(const json& section, const std::string& name) {
  for (const json& series : section.at("series"))
    if (series.at("name") == name) return series;
  throw std::out_of_range(section.at("id").get<std::string>() + " has no series " + name);
}

TEST_F(ReproduceToolTest, ProgramsUnderEpochsAreMeasured) {
  const ToolRun done =
      run({"reproduce", "thynvm", "--runtime", "--quick", "--disk", directory_.string(), "--json",
           path("report.json"), "--html", path("report.html")});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("perl, hash"), std::string::npos) << "tells how far it is";
  const json report = json::parse(read(path("report.json")));
  std::map<std::string, json> sections;
  for (const json& section : report.at("sections")) {
    SCOPED_TRACE(section.at("id"));
    sections[section.at("id")] = section;
    for (const json& series : section.at("series")) expect_series(series);
    for (const json& judgement : section.at("judgements")) expect_judged(judgement, "goal");
    EXPECT_NE(done.out.find(section.at("title").get<std::string>()), std::string::npos);
  }
  ASSERT_EQ(sections.size(), 6u);

  // Whole pages are never fewer bytes than their blocks.
  constexpr std::size_t kPrograms = 10;
  const json& slowdown = sections.at("slowdown");
  const json& log = sections.at("log");
  for (const char* mode : {"track only, 10 ms", "page, 10 ms", "block, 10 ms", "page, 100 ms",
                           "block, 100 ms", "block, 1 s", "block, auto"}) {
    SCOPED_TRACE(mode);
    const json& points = series_of(slowdown, mode).at("points");
    EXPECT_GE(points.size(), kPrograms) << slowdown.at("missing");
    for (const json& point : points) EXPECT_GT(point.at("median"), 0);
  }
  // Dictionaries of two interpreters. What a short run writes is mostly its first epoch, of which both modes log the pages
  // that are not all zeros; blocks, with their marks, must not be more.
  for (const std::size_t place : {4, 5}) {
    const auto bytes = [&](const char* mode) {
      return series_of(log, mode).at("points").at(place).at("median").get<double>();
    };
    EXPECT_LE(bytes("for a page written: block, 10 ms"),
              1.3 * bytes("for a page written: page, 10 ms") + 300)
        << log.at("x");
  }
  // One way to write down what changed costs at most so much.
  for (const json& point : series_of(log, "of what changed: block, 10 ms").at("points"))
    EXPECT_LE(point.at("median"), 1.365) << point;
  EXPECT_EQ(series_of(sections.at("steady"), "block: pause p99").at("points").size(), 1u)
      << sections.at("steady").at("missing");
  const json& resumed = sections.at("resume");
  ASSERT_EQ(resumed.at("missing"), "");
  EXPECT_GT(series_of(resumed, "resume").at("points").at(0).at("median"), 0);
  const json& criu = sections.at("criu");
  EXPECT_NE(criu.at("series").empty(), criu.at("missing").get<std::string>().empty());

  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    EXPECT_FALSE(entry.is_directory()) << entry.path() << " is left behind";
}

TEST_F(ReproduceToolTest, OnlyMeasuresWhatIsAskedFor) {
  const ToolRun done = run({"reproduce", "mnemosyne", "--quick", "--only", "figure5,table6",
                            "--json", path("report.json")});
  ASSERT_EQ(done.code, 0) << done.err;
  const json report = json::parse(read(path("report.json")));
  ASSERT_EQ(report.at("sections").size(), 2u);
  EXPECT_EQ(report.at("sections")[0].at("id"), "figure5");
  EXPECT_EQ(report.at("sections")[1].at("id"), "table6");
}

TEST_F(ReproduceToolTest, TablesHoldThePapersOwnValues) {
  const ToolRun done = run({"reproduce", "mnemosyne", "--quick", "--only", "table4,table6",
                            "--json", path("report.json")});
  ASSERT_EQ(done.code, 0) << done.err;
  const json report = json::parse(read(path("report.json")));
  const auto paper_value = [&](std::size_t section, const std::string& name, std::size_t point) {
    for (const json& series : report.at("sections").at(section).at("series")) {
      if (series.at("name") == name)
        return series.at("points").at(point).at("median").get<double>();
    }
    return -1.0;
  };
  EXPECT_EQ(paper_value(0, "paper: Mnemosyne", 0), 42057);
  EXPECT_EQ(paper_value(0, "paper: Tokyo Cabinet, msync", 1), 2044);
  EXPECT_EQ(paper_value(1, "paper: base", 0), 17);
  EXPECT_EQ(paper_value(1, "paper: tornbit", 1), 1093);
}

TEST_F(ReproduceToolTest, ThePapersLatenciesStandBesideOurs) {
  const ToolRun done =
      run({"reproduce", "nvheaps", "--quick", "--only", "table1", "--json", path("report.json")});
  ASSERT_EQ(done.code, 0) << done.err;
  const json report = json::parse(read(path("report.json")));
  const json& series = report.at("sections").at(0).at("series");
  const auto of = [&](const std::string& name) {
    for (const json& one : series) {
      if (one.at("name") == name) return one.at("points");
    }
    return json::array();
  };
  ASSERT_EQ(of("paper: C-TX PCM").size(), 7u);
  EXPECT_EQ(of("paper: C-TX PCM").at(6).at("median"), 12.67);
  EXPECT_EQ(of("paper: BASE").size(), 3u);
  EXPECT_EQ(of("BASE").size(), 3u) << "no weak references, no transactions";
  EXPECT_EQ(of("C-TX PCM").size(), 7u);
  // A checkpoint behind each costs something.
  for (const auto& [layer, operations] : {std::pair("BASE", 3u), std::pair("SAFE", 4u)}) {
    const json saved = of(std::string(layer) + ", check-pointed each time");
    ASSERT_EQ(saved.size(), operations) << layer;
    EXPECT_GT(saved.at(0).at("median"), of(layer).at(0).at("median")) << layer;
  }
}

TEST_F(ReproduceToolTest, ThePapersWarmUpsStandBesideOurs) {
  const ToolRun done =
      run({"reproduce", "blurred", "--quick", "--only", "table2", "--json", path("report.json")});
  ASSERT_EQ(done.code, 0) << done.err;
  const json report = json::parse(read(path("report.json")));
  ASSERT_EQ(report.at("sections").size(), 1u);
  for (const json& series : report.at("sections")[0].at("series")) {
    if (series.at("name") == "paper: KVStore") {
      EXPECT_EQ(series.at("points").at(1).at("x"), 2000);
      EXPECT_EQ(series.at("points").at(1).at("median"), 245);
    } else if (series.at("name") == "KVStore") {
      EXPECT_GT(series.at("points").at(0).at("median"), 0);
    }
  }
}

TEST_F(ReproduceToolTest, AllPapersMakeOneReportAndAStoppedRunGoesOn) {
  const std::vector<std::string> all = {"reproduce",         "all",    "--quick",          "--disk",
                                        directory_.string(), "--keep", path("kept"),       "--json",
                                        path("report.json"), "--html", path("report.html")};
  ToolRun done = run(all);
  ASSERT_EQ(done.code, 0) << done.err;
  const json report = json::parse(read(path("report.json")));
  for (const Paper& paper : kPapers) {
    const json& summary = report.at("summary").at(paper.name);
    EXPECT_GT(summary.at("agree").get<int>() + summary.at("differ").get<int>() +
                  summary.at("no verdict").get<int>(),
              5)
        << paper.name;
    EXPECT_EQ(report.at("papers").at(paper.name).at("sections").size(), paper.sections.size());
  }
  EXPECT_NE(done.out.find("softwrap "), std::string::npos);
  EXPECT_NE(done.err.find("are left"), std::string::npos) << "tells how long it will take";
  std::istringstream page(read(path("report.html")));
  boost::property_tree::ptree html;
  ASSERT_NO_THROW(boost::property_tree::read_xml(page, html));
  // The summary: a line for each paper.
  const std::string whole = read(path("report.html"));
  for (const Paper& paper : kPapers) {
    const json& summary = report.at("summary").at(paper.name);
    const std::string line = std::to_string(summary.at("agree").get<int>()) + " agree, " +
                             std::to_string(summary.at("differ").get<int>()) + " differ, ";
    EXPECT_NE(whole.find(line), std::string::npos) << paper.name << ": " << line;
  }

  // As if it had been stopped before one of them: the others are not measured again.
  std::filesystem::remove(path("kept") + "/mnemosyne-table6.json");
  done = run(all);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("table 6 "), std::string::npos);
  EXPECT_EQ(done.err.find("table 5: "), std::string::npos) << done.err;
  EXPECT_EQ(json::parse(read(path("report.json"))).at("papers").at("blurred").at("sections"),
            report.at("papers").at("blurred").at("sections"));
}

TEST_F(ReproduceToolTest, RefusesWhatItDoesNotKnow) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& name) {
    const ToolRun done = run(arguments);
    EXPECT_EQ(done.code, 2);
    EXPECT_NE(done.err.find(name), std::string::npos) << done.err;
  };
  refused({"reproduce", "another-paper", "--quick"}, "another-paper");
  refused({"reproduce", "mnemosyne", "--quick", "--only", "figure99"}, "figure99");
  refused({"reproduce", "blurred", "--quick", "--only", "table5"}, "blurred has no 'table5'");
  refused({"reproduce", "mnemosyne", "--quick", "--full"}, "--full");
  refused({"reproduce", "mnemosyne", "--quick", "--runtime"}, "--runtime");
  refused({"reproduce", "all", "--quick", "--only", "figure7"}, "PAPER/SECTION");
  refused({"reproduce", "all", "--quick", "--only", "blurred/table5"}, "blurred has no 'table5'");
  refused({"reproduce", "all", "--quick", "--runtime"}, "--runtime");
  refused({"reproduce", "thynvm", "--quick", "--runtime", "--only", "figure7"}, "figure7");
  refused({"reproduce", "mnemosyne", "--quick", "--dir", path("no-such")}, "no-such");
}

TEST_F(ReproduceToolTest, AReportThatCannotBeWrittenIsToldBeforeMeasuring) {
  const ToolRun done =
      run({"reproduce", "mnemosyne", "--quick", "--json", path("no-such") + "/report.json"});
  EXPECT_EQ(done.code, 3);
  EXPECT_NE(done.err.find("no-such"), std::string::npos);
  EXPECT_EQ(done.err.find("table"), std::string::npos) << done.err;
}

}  // namespace
}  // namespace perdure
