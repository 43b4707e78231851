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

TEST(Report, DrawsThePapersValuesBesideOursInEachOfManyCharts) {
  Evaluation evaluation;
  evaluation.sections.resize(1);
  Section& section = evaluation.sections[0];
  section.title = "Figure";
  section.x_name = "1 random, 2 streaming";
  section.x = {1, 2};
  for (const std::string kind : {"code", "strict"}) {
    for (const std::string system : {"a", "b", "c", "d", "e"})
      section.add(kind + ": " + system, "us", Origin::kPerdure).values = {Spread{1, 1, 1},
                                                                          Spread{2, 2, 2}};
  }
  for (const std::string system : {"a", "b", "other"})
    section.add_values("paper: " + system, "us", Origin::kPaper, {3, 4});
  const std::string page = html_of(evaluation);
  EXPECT_EQ(count(parsed(page), "svg"), 3u) << "code, strict, and what is the paper's alone";
  const auto times = [&](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = page.find("<svg"); (at = page.find(text, at)) != std::string::npos; ++at)
      ++found;
    return found;
  };
  EXPECT_EQ(times(">paper: a</text>"), 2u);
  EXPECT_EQ(times(">paper: other</text>"), 1u);
  EXPECT_EQ(times(">code: a</text>"), 1u);
  EXPECT_EQ(times(">streaming</text>"), 3u) << "the names in the list";
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
