// SPDX-License-Identifier: BSD-3-Clause
#include "measure/charts.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include <boost/property_tree/xml_parser.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measure/page.h"

namespace perdure::bench::reproduce {
namespace {

using boost::property_tree::ptree;

ptree page_with(const std::string& body) {
  std::istringstream stream(page_of("charts", body));
  ptree tree;
  boost::property_tree::read_xml(stream, tree);
  return tree;
}

/// The drawings of a page, in its order.
std::vector<ptree> drawings_in(const ptree& page) {
  std::vector<ptree> found;
  for (const auto& [name, child] : page.get_child("html.body")) {
    if (name == "figure") found.push_back(child.get_child("svg"));
  }
  return found;
}

void visit(const ptree& tree, const std::function<void(const std::string&, const ptree&)>& see) {
  for (const auto& [name, child] : tree) {
    see(name, child);
    visit(child, see);
  }
}

std::vector<std::string> texts_in(const ptree& tree) {
  std::vector<std::string> texts;
  visit(tree, [&](const std::string& name, const ptree& child) {
    if (name == "text") texts.push_back(child.data());
  });
  return texts;
}

Chart two_lines() {
  Chart chart;
  chart.title = "a < b & \"c\"";
  chart.x_label = "<bytes>";
  chart.y_label = "it's in us";
  chart.log_x = true;
  chart.log_y = true;
  chart.series = {{"ours & $theirs$", {{8, 1, 0.5, 2}, {4096, 100, 100, 100}}, false},
                  {"paper: theirs", {{8, 3, 3, 3}, {4096, 0, 0, 0}}, true}};
  return chart;
}

TEST(Charts, AreWellFormedWhateverTheNames) {
  const std::vector<ptree> drawn = drawings_in(page_with(place_of(two_lines())));
  ASSERT_EQ(drawn.size(), 1u);
  EXPECT_EQ(drawn[0].get<std::string>("title"), "a < b & \"c\"");
  EXPECT_THAT(texts_in(drawn[0]), ::testing::IsSupersetOf({"<bytes>", "it's in us", "8", "4K",
                                                           "ours & $theirs$", "paper: theirs"}));
  EXPECT_FALSE(drawn[0].get_child_optional("<xmlattr>.width")) << "the page says how wide it is";
  EXPECT_TRUE(drawn[0].get_child_optional("<xmlattr>.viewBox"));
}

TEST(Charts, ASingleXAndCategoriesAreBarsWithTheirValues) {
  Chart single;
  single.x_label = "value (bytes)";
  single.y_label = "updates/s";
  single.series = {{"ours", {{64, 1500, 1400, 1600}}, false},
                   {"paper: ours", {{64, 2500, 2500, 2500}}, true}};
  Chart workloads = single;
  workloads.log_x = true;  // is of no use there
  workloads.categories = {"streaming", "random"};
  workloads.series[0].points = {{0, 10, 10, 10}, {1, 20, 20, 20}};
  workloads.series[1].points = {{1, 40, 40, 40}};
  const std::vector<ptree> drawn =
      drawings_in(page_with(place_of(single) + "<hr/>" + place_of(workloads)));
  ASSERT_EQ(drawn.size(), 2u);
  EXPECT_THAT(texts_in(drawn[0]), ::testing::IsSupersetOf({"64", "1.5K", "2.5K", "value (bytes)"}));
  EXPECT_THAT(texts_in(drawn[1]),
              ::testing::IsSupersetOf({"streaming", "random", "10", "20", "40", "updates/s"}));
}

TEST(Charts, LeaveOutWhatIsNoNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Chart chart;
  chart.series = {{"", {{2, kInfinity, 20, kInfinity}}, false}};
  EXPECT_EQ(place_of(chart), "");
  EXPECT_EQ(place_of({}), "");
  chart.log_y = true;  // has no place for it
  chart.series = {{"zero", {{1, 0, 0, 0}}, false}, {"zeros", {{1, 0, 0, 0}, {2, 0, 0, 0}}, false}};
  EXPECT_EQ(drawings_in(page_with(place_of(chart))).size(), 1u);
}

TEST(Charts, NamesOfOneAreNotThoseOfAnother) {
  std::vector<std::string> ids;
  visit(page_with(place_of(two_lines()) + place_of(two_lines())),
        [&](const std::string&, const ptree& child) {
          if (const auto id = child.get_optional<std::string>("<xmlattr>.id")) ids.push_back(*id);
        });
  EXPECT_GT(ids.size(), 10u);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
}

TEST(Charts, APageWithoutTheirLibrarySaysWhatIsMissing) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("perdure-charts-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "matplotlib.py")
      << "raise ImportError(\"No module named 'matplotlib'\")\n";
  ::setenv("PYTHONPATH", folder.c_str(), 1);
  const std::string page = page_of("charts", place_of(two_lines()) + paragraph("a table"));
  ::unsetenv("PYTHONPATH");
  std::filesystem::remove_all(folder);
  EXPECT_NE(page.find("The charts of this page are missing: No module named &apos;matplotlib"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("package python3-matplotlib"), std::string::npos);
  EXPECT_NE(page.find("a table"), std::string::npos);
  EXPECT_EQ(page.find("<svg"), std::string::npos);
  EXPECT_EQ(page.find("<figure"), std::string::npos);
}

TEST(Page, WritesNumbersShort) {
  EXPECT_EQ(short_number(262144, 1024), "256K");
  EXPECT_EQ(short_number(8, 1024), "8");
  EXPECT_EQ(short_number(0.25, 1000), "0.25");
  EXPECT_EQ(short_number(-1500, 1000), "-1.5K");
  EXPECT_EQ(short_number(1023, 1024), "1023");
}

TEST(Page, EscapedTextComesBack) {
  const std::string text = "<a href='x'>&lt; \"b\" &amp;amp; ü</a>&";
  EXPECT_EQ(xml_unescaped(xml_escaped(text)), text);
  EXPECT_EQ(xml_escaped(text).find_first_of("<>'\""), std::string::npos);
}

}  // namespace
}  // namespace perdure::bench::reproduce
