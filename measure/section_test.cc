// SPDX-License-Identifier: BSD-3-Clause
#include "measure/section.h"

#include <cmath>
#include <limits>
#include <sstream>

#include <boost/property_tree/xml_parser.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "measure/claim.h"
#include "measure/report_all.h"
#include "measure/section_json.h"
#include "measure/svg.h"

namespace perdure::bench::reproduce {
namespace {

using boost::property_tree::ptree;

ptree parsed(const std::string& xml) {
  std::istringstream stream(xml);
  ptree tree;
  boost::property_tree::read_xml(stream, tree);
  return tree;
}

std::size_t count(const ptree& tree, const std::string& name) {
  std::size_t found = 0;
  for (const auto& [child_name, child] : tree)
    found += (child_name == name ? 1 : 0) + count(child, name);
  return found;
}

TEST(Spread, IsTheMedianWithBothEnds) {
  const Spread spread = spread_of({5, 1, 3, 100, 2});
  EXPECT_EQ(spread.median, 3);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 100);
}

TEST(Section, ARatioSpansTheExtremesAndLeavesOutWhatWasNotMeasured) {
  Section section;
  section.x = {8, 64};
  section.add("slow", "us", Origin::kPeer).values = {Spread{10, 8, 12}, Spread{20, 20, 20}};
  section.add("fast", "us", Origin::kPerdure).values = {Spread{2, 1, 4}, std::nullopt};
  section.add_ratio("gain", "slow", "fast");
  section.add_ratio("of nothing", "slow", "not there");
  const Series* gain = section.find("gain");
  ASSERT_NE(gain, nullptr);
  EXPECT_EQ(gain->at(0), 5);
  EXPECT_EQ(gain->values[0]->min, 2);
  EXPECT_EQ(gain->values[0]->max, 12);
  EXPECT_FALSE(gain->values[1]);
  EXPECT_EQ(section.find("of nothing"), nullptr);
}

TEST(Svg, IsWellFormedWhateverTheNames) {
  Chart chart;
  chart.title = "a < b & \"c\"";
  chart.x_label = "<bytes>";
  chart.log_x = true;
  chart.log_y = true;
  chart.lines = {{"ours & theirs", {{8, 1, 0.5, 2}, {4096, 100, 100, 100}}, false},
                 {"paper", {{8, 3, 3, 3}, {4096, 0, 0, 0}}, true}};
  const ptree tree = parsed(svg_of(chart));
  EXPECT_EQ(tree.get<std::string>("svg.title"), chart.title);
  EXPECT_EQ(count(tree, "polyline"), 2u);
  // Two marks and one of the legend; a value that the logarithmic axis has no place for is left out.
  EXPECT_EQ(count(tree, "circle"), 3u);
  EXPECT_EQ(count(tree, "rect"), 2u);
}

TEST(Svg, LeavesOutWhatIsNoNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Chart chart;
  chart.lines = {{"", {{1, 10, 10, 10}, {2, kInfinity, 20, kInfinity}, {3, 5, 5, 5}}, false}};
  EXPECT_EQ(count(parsed(svg_of(chart)), "circle"), 3u) << "two, and that of the legend";
}

TEST(Svg, DrawsGreaterValuesFartherUpAndToTheRight) {
  for (const bool logarithmic : {false, true}) {
    Chart chart;
    chart.log_x = chart.log_y = logarithmic;
    chart.lines = {{"", {{1, 10, 10, 10}, {2, 20, 20, 20}, {64, 500, 500, 500}}, false}};
    std::istringstream points(
        parsed(svg_of(chart)).get<std::string>("svg.polyline.<xmlattr>.points"));
    double last_x = -1;
    double last_y = 1e9;
    double x = 0;
    double y = 0;
    char comma = 0;
    int seen_points = 0;
    for (; points >> x >> comma >> y; ++seen_points) {
      EXPECT_GT(x, last_x);
      EXPECT_LT(y, last_y);
      last_x = x;
      last_y = y;
    }
    EXPECT_EQ(seen_points, 3);
  }
}

TEST(Svg, SurvivesAChartWithoutPoints) {
  Chart chart;
  chart.log_y = true;
  chart.lines = {{"nothing", {}, false}, {"zero", {{1, 0, 0, 0}}, false}};
  EXPECT_EQ(count(parsed(svg_of(chart)), "polyline"), 0u);
}

TEST(Svg, WritesNumbersShort) {
  EXPECT_EQ(short_number(262144, 1024), "256K");
  EXPECT_EQ(short_number(8, 1024), "8");
  EXPECT_EQ(short_number(0.25, 1000), "0.25");
  EXPECT_EQ(short_number(-1500, 1000), "-1.5K");
  EXPECT_EQ(short_number(1023, 1024), "1023");
}

TEST(Report, ShowsThePapersValuesAsSuchInAllForms) {
  Evaluation evaluation;
  evaluation.paper = "A paper & more";
  Section section;
  section.id = "table9";
  section.title = "Table 9: <nothing>";
  section.x_name = "nodes";
  section.x = {0, 1024};
  section.add("ours", "us", Origin::kPerdure).values = {Spread{1, 0.5, 2}, Spread{2, 2, 2}};
  section.add("paper: theirs", "us", Origin::kPaper).values = {std::nullopt, Spread{7, 7, 7}};
  Sentence says(section, "ours is faster & smaller");
  says.holds("ours < theirs", ratio_at(section, "ours", "paper: theirs", 1024), above(1));
  says.because([] { return "Because of 7 & 2."; });
  says.not_tested("smaller", "Nobody looked.");
  evaluation.sections = {section};

  const std::string text = text_of(evaluation);
  EXPECT_NE(text.find("paper: theirs"), std::string::npos);
  EXPECT_NE(text.find("DIFFERS"), std::string::npos);
  EXPECT_NE(text.find("Because of 7 & 2."), std::string::npos);
  EXPECT_NE(text.find("not tested  smaller"), std::string::npos);
  EXPECT_NE(text.find("accepted: 1 or more"), std::string::npos) << "the band stands beside it";

  const ptree page = parsed(html_of(evaluation));
  EXPECT_EQ(page.get<std::string>("html.body.section.<xmlattr>.id"), "table9");
  EXPECT_EQ(count(page, "svg"), 1u);
  EXPECT_NE(html_of(evaluation).find("0 agree, 1 differ, 0 without a verdict, 1 not tested here"),
            std::string::npos);
}

Section whole_section() {
  Section section;
  section.id = "figure10";
  section.title = "Figure 10: slower memory";
  section.method = "method";
  section.missing = "missing";
  section.x_name = "T_w (ns)";
  section.x = {0, 600};
  section.places = {"fast", "slow"};
  section.log_y = true;
  section.add("ours", "us", Origin::kPerdure).values = {std::nullopt, Spread{2, 1.9, 2.1}};
  section.add_values("paper: theirs", "us", Origin::kPaper, {1, 4}).charted = false;
  Sentence says(section, "a sentence");
  says.holds("both ends", ratio_at(section, "ours", "paper: theirs", 600),
             half_to_double(1, 1, ""));
  says.holds("one end", value_at(section, "ours", 600), above(3));
  says.not_tested("another", "Nobody looked.");
  Sentence(section, "a goal", true).holds("reached", value_at(section, "ours", 600), below(3));
  return section;
}

TEST(SectionJson, ComesBackAsItWas) {
  // As text: an infinity has no form in JSON and comes back as no number.
  Section section = whole_section();
  section.series[0].values[0] = Spread{1, 1, std::numeric_limits<double>::infinity()};
  const auto json = nlohmann::ordered_json::parse(json_of(section).dump());
  EXPECT_EQ(json_of(section_from(json)).dump(), json.dump());
  EXPECT_EQ(section_from(json).judgements.at(1).verdict, Verdict::kDiffers);
  EXPECT_TRUE(section_from(json).judgements.at(3).goal);
}

TEST(ReportOfAll, TellsWhatDiffersFirst) {
  std::vector<Evaluation> evaluations(2);
  evaluations[0].id = "blurred";
  evaluations[0].sections.resize(1);
  Sentence(evaluations[0].sections[0], "s").holds("it holds", number(2, "x", "", ""), above(1));
  evaluations[1].id = "softwrap";
  evaluations[1].sections = {whole_section()};
  const std::string text = text_of(evaluations);
  EXPECT_EQ(text.find("differs"), 0u);
  EXPECT_LT(text.find("not tested"), text.find("it holds"));
  EXPECT_NE(text.find("softwrap   2 agree, 1 differ, 0 without"), std::string::npos) << text;
  const auto json = nlohmann::ordered_json::parse(json_of(evaluations));
  EXPECT_EQ(json.at("summary").at("softwrap").at("differ"), 1);
  EXPECT_EQ(json.at("papers").at("blurred").at("sections").size(), 1u);
  const ptree page = parsed(html_of(evaluations));
  EXPECT_EQ(count(page, "section"), 2u);
}

}  // namespace
}  // namespace perdure::bench::reproduce
