// SPDX-License-Identifier: BSD-3-Clause
#include "measure/charts.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "measure/page.h"
#include "perdure/error.h"
#include "tools/parts.h"
#include "tools/process.h"

namespace perdure::bench::reproduce {
namespace {

using ChartJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kPlaceBegins = "<figure data-chart='";
constexpr const char* kPlaceEnds = "'/>\n";

bool is_number(const ChartPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.low + point.y + point.high);
}

/// A chart of one x is bars, too.
Chart with_categories(Chart chart) {
  std::set<double> places;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) places.insert(point.x);
  }
  if (chart.categories.empty() && places.size() == 1) {
    chart.categories = {fmt::format("{:g}", *places.begin())};
    for (ChartSeries& series : chart.series) {
      for (ChartPoint& point : series.points) point.x = 0;
    }
  }
  if (!chart.categories.empty()) chart.log_x = false;  // the first is at 0
  return chart;
}

ChartJson as_json(const Chart& chart) {
  ChartJson json{{"title", chart.title},        {"x_label", chart.x_label},
                 {"y_label", chart.y_label},    {"log_x", chart.log_x},
                 {"log_y", chart.log_y},        {"categories", chart.categories},
                 {"series", ChartJson::array()}};
  for (const ChartSeries& series : chart.series) {
    ChartJson& made = json["series"].emplace_back(ChartJson{
        {"name", series.name}, {"marked", series.marked}, {"points", ChartJson::array()}});
    for (const ChartPoint& point : series.points)
      made["points"].push_back(
          {{"x", point.x}, {"y", point.y}, {"low", point.low}, {"high", point.high}});
  }
  return json;
}

/// A folder for what goes to the program and comes back.
class DrawingFolder {
 public:
  DrawingFolder() {
    std::string name = (fs::temp_directory_path() / "perdure-charts-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Exception(Code::kIo, name + ": cannot be made, so that charts cannot be drawn");
    path_ = name;
  }
  DrawingFolder(const DrawingFolder&) = delete;
  DrawingFolder& operator=(const DrawingFolder&) = delete;
  ~DrawingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// As many drawings as charts. Errors: throws Exception with what is missing.
std::vector<std::string> drawings_of(const ChartJson& charts) {
  const std::string program = tools::find_part("draw_charts.py");
  const DrawingFolder folder;
  std::ofstream(folder / "charts") << charts.dump();
  tools::Process drawing({program, folder / "charts", folder / "drawings"}, folder / "log");
  if (const int code = drawing.wait(); code != 0) {
    const std::string told = tools::end_of(folder / "log");
    throw Exception(Code::kIo,
                    told.empty() ? fmt::format("{} ended with {}", program, code) : told);
  }
  std::ifstream drawn(folder / "drawings");
  return ChartJson::parse(drawn).get<std::vector<std::string>>();
}

}  // namespace

std::string place_of(const Chart& chart) {
  Chart drawn = chart;
  for (ChartSeries& series : drawn.series)
    std::erase_if(series.points, [](const ChartPoint& point) { return !is_number(point); });
  std::erase_if(drawn.series, [](const ChartSeries& series) { return series.points.empty(); });
  if (drawn.series.empty()) return {};
  return kPlaceBegins + xml_escaped(as_json(with_categories(std::move(drawn))).dump()) + kPlaceEnds;
}

std::string with_drawings(std::string body) {
  // What lies between places, and the charts of the places.
  std::vector<std::string> between;
  ChartJson charts = ChartJson::array();
  std::size_t from = 0;
  while (true) {
    const std::size_t at = body.find(kPlaceBegins, from);
    between.push_back(body.substr(from, at - from));
    if (at == std::string::npos) break;
    const std::size_t begin = at + std::string_view(kPlaceBegins).size();
    const std::size_t end = body.find(kPlaceEnds, begin);
    charts.push_back(ChartJson::parse(xml_unescaped(body.substr(begin, end - begin))));
    from = end + std::string_view(kPlaceEnds).size();
  }
  if (charts.empty()) return body;

  std::vector<std::string> drawings;
  std::string missing;
  try {
    drawings = drawings_of(charts);
  } catch (const std::exception& error) {
    missing = fmt::format("The charts of this page are missing: {}", error.what());
    fmt::print(stderr, "{}\n", missing);
  }
  std::string out = missing.empty() ? "" : paragraph(missing);
  for (std::size_t i = 0; i < between.size(); ++i) {
    out += between[i];
    if (i < drawings.size())
      out += fmt::format("<figure>\n<figcaption>{}</figcaption>\n{}</figure>\n",
                         xml_escaped(charts[i].at("title").get<std::string>()), drawings[i]);
  }
  return out;
}

}  // namespace perdure::bench::reproduce
