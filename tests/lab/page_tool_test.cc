// SPDX-License-Identifier: BSD-3-Clause
// The page of `perdure-lab reproduce all`, a small part of each paper, as a browser shows it on a
// telephone: Chromium without a window (Debian's package chromium).
#include <cstdlib>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/tool_runner.h"

namespace perdure {
namespace {

class PageToolTest : public LabTest {
 protected:
  static constexpr int kPhoneWidth = 390;

  bool there_is_a_browser() const { return run_with("which", {"chromium"}, "").code == 0; }

  /// What `script` finds in `page` where that is `width` wide: it is run with `page` and `window`
  /// being those of a frame in another page, as a window of the browser may have a least width.
  nlohmann::json found_in(const std::string& page, int width, const std::string& script) const {
    write(path("frame.html"),
          "<!DOCTYPE html><title>nothing</title><body><iframe src='" + page + "' width='" +
              std::to_string(width) + "' height='800' style='border: 0'></iframe><script>\n" +
              "onload = () => {\n  const page = frames[0].document, window = frames[0];\n" +
              "  document.title = 'found ' + JSON.stringify((() => {" + script +
              "})());\n};\n</script>");
    const ToolRun done =
        run_with("chromium",
                 {"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                  "--allow-file-access-from-files", "--user-data-dir=" + path("browser"),
                  "--dump-dom", "file://" + path("frame.html")},
                 "");
    EXPECT_EQ(done.code, 0) << done.err;
    const std::size_t begin = done.out.find("<title>found ");
    const std::size_t end = done.out.find("</title>");
    if (begin == std::string::npos || end == std::string::npos) {
      ADD_FAILURE() << done.out.substr(0, 500) << done.err;
      return {};
    }
    const std::size_t from = begin + std::string("<title>found ").size();
    return nlohmann::json::parse(done.out.substr(from, end - from));
  }
};

/// Of each drawing: its box, how high its smallest text is, the words of its axes, and how much of
/// its text is cut off.
constexpr const char* kLook = R"(
  const drawings = [];
  for (const svg of page.querySelectorAll('svg')) {
    const box = svg.getBoundingClientRect();
    let cut = 0, least = 1000;
    for (const text of svg.querySelectorAll('text')) {
      const at = text.getBoundingClientRect();
      least = Math.min(least, Math.min(at.width, at.height));
      if (at.left < box.left - 2 || at.right > box.right + 2 || at.top < box.top - 2 ||
          at.bottom > box.bottom + 2) ++cut;
    }
    const words = (axis) => {
      const label = svg.querySelector('.' + axis + '-label');
      return label && label.getBoundingClientRect().width > 0 ? label.textContent.trim() : '';
    };
    drawings.push({title: svg.querySelector("title").textContent,
                   width: box.width, height: box.height, right: box.right, cut: cut, least: least,
                   x: words('x').length, y: words('y').length});
  }
  return {wide: page.documentElement.scrollWidth, inner: window.innerWidth,
          tables: page.querySelectorAll('table').length, drawings: drawings};
)";

TEST_F(PageToolTest, FitsATelephoneWithEveryChartAndBothItsAxes) {
  if (!there_is_a_browser())
    GTEST_SKIP() << "there is no chromium to look at the page (Debian's package chromium)";
  const std::string parts =
      "mnemosyne/table6,blurred/figure12,softwrap/figure10,nvheaps/table1,thynvm/figure12";
  const ToolRun done = run({"reproduce", "all", "--quick", "--only", parts, "--keep", path("kept"),
                            "--json", path("report.json"), "--html", path("report.html")});
  ASSERT_EQ(done.code, 0) << done.err;
  const nlohmann::json report = nlohmann::json::parse(read(path("report.json")));
  ASSERT_EQ(report.at("summary").size(), 5u);
  const std::string page = read(path("report.html"));
  for (const auto& [paper, tally] : report.at("summary").items()) {
    const std::string line = std::to_string(tally.at("agree").get<int>()) + " agree, " +
                             std::to_string(tally.at("differ").get<int>()) + " differ, ";
    EXPECT_NE(page.find(line), std::string::npos) << paper;
    EXPECT_NE(page.find("perdure-lab reproduce " + paper + " --only "), std::string::npos) << paper;
  }

  for (const int width : {kPhoneWidth, 1200}) {
    SCOPED_TRACE(width);
    const nlohmann::json found = found_in("report.html", width, kLook);
    ASSERT_TRUE(found.is_object());
    EXPECT_EQ(found.at("inner"), width);
    EXPECT_LE(found.at("wide").get<double>(), width) << "the page is moved sideways";
    EXPECT_GE(found.at("tables").get<int>(), 7);
    ASSERT_GE(found.at("drawings").size(), 5u);
    for (const nlohmann::json& drawing : found.at("drawings")) {
      SCOPED_TRACE(drawing.dump());
      EXPECT_GT(drawing.at("width").get<double>(), 300);
      EXPECT_GT(drawing.at("height").get<double>(), 100);
      EXPECT_LE(drawing.at("right").get<double>(), width);
      EXPECT_GT(drawing.at("x").get<int>(), 0) << "no words at the axis of x";
      EXPECT_GT(drawing.at("y").get<int>(), 0) << "no words at the axis of y";
      EXPECT_EQ(drawing.at("cut"), 0) << "text is cut off";
    }
  }
}

TEST_F(PageToolTest, WhatDoesNotFitIsSeen) {
  if (!there_is_a_browser())
    GTEST_SKIP() << "there is no chromium to look at the page (Debian's package chromium)";
  write(
      path("page.html"),
      "<!DOCTYPE html><svg viewBox='0 0 9 9' width='500'><title>t</title><text x='8' y='8'>far too "
      "long</text><g class='x-label'></g></svg>");
  const nlohmann::json found = found_in("page.html", kPhoneWidth, kLook);
  EXPECT_GT(found.at("wide").get<double>(), kPhoneWidth);
  EXPECT_EQ(found.at("drawings").at(0).at("cut"), 1);
  EXPECT_EQ(found.at("drawings").at(0).at("x"), 0);
  EXPECT_EQ(found.at("drawings").at(0).at("y"), 0);
}

}  // namespace
}  // namespace perdure
