// SPDX-License-Identifier: BSD-3-Clause
#include "measure/svg.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace perdure::bench::reproduce {
namespace {

constexpr double kWidth = 760;
constexpr double kPlotLeft = 70;
constexpr double kPlotRight = 500;  // the legend stands right of it
constexpr double kPlotTop = 34;
constexpr double kPlotBottom = 290;
constexpr double kHeight = 340;

// Told apart by people who do not see colours alike (after Okabe and Ito, then Tol), and by their
// marks.
constexpr const char* kColors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9",
                                   "#a67c00", "#000000", "#7f7f7f", "#332288", "#882255",
                                   "#999933", "#117733", "#661100", "#44aa99"};

/// Maps values to places between two ends, and knows where its ticks belong.
class Axis {
 public:
  Axis(double low, double high, bool logarithmic, double log_base, double from, double to)
      : logarithmic_(logarithmic), log_base_(log_base), from_(from), to_(to) {
    if (logarithmic) {
      low_ = std::floor(scaled(low) + 1e-9);
      high_ = std::ceil(scaled(high) - 1e-9);
    } else {
      step_ = round_step((high - low) / 5);
      low_ = std::floor(low / step_) * step_;
      high_ = std::ceil(high / step_ - 1e-9) * step_;
    }
    if (high_ <= low_) high_ = low_ + 1;
  }
  bool takes(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }
  double place(double value) const {
    return from_ + (scaled(value) - low_) / (high_ - low_) * (to_ - from_);
  }
  std::vector<double> ticks() const {
    std::vector<double> ticks;
    if (logarithmic_) {
      const double every = std::ceil((high_ - low_) / 9);
      for (double power = low_; power <= high_ + 1e-9; power += every)
        ticks.push_back(std::pow(log_base_, power));
    } else {
      for (double at = low_; at <= high_ + step_ / 2; at += step_) ticks.push_back(at);
    }
    return ticks;
  }

 private:
  static double round_step(double rough) {
    if (!(rough > 0)) return 1;
    const double power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= rough) return factor * power;
    }
    return 10 * power;
  }
  double scaled(double value) const {
    return logarithmic_ ? std::log(value) / std::log(log_base_) : value;
  }
  bool logarithmic_;
  double log_base_;
  double from_;
  double to_;
  double low_ = 0;
  double high_ = 1;
  double step_ = 1;
};

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", x, y, anchor,
                     xml_escaped(text)) +
         "\n";
}

constexpr const char* kDashes = R"( stroke-dasharray="5 4")";

std::string segment(double x1, double y1, double x2, double y2, const std::string& color,
                    double width, bool dashed = false) {
  return fmt::format(
      R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="{}"{}/>)"
      "\n",
      x1, y1, x2, y2, color, width, dashed ? kDashes : "");
}

/// Squares for what the paper printed, circles for what was measured.
std::string mark(double x, double y, const std::string& color, bool square) {
  if (square)
    return fmt::format(
        R"(<rect x="{:.1f}" y="{:.1f}" width="6" height="6" fill="white" stroke="{}"/>)"
        "\n",
        x - 3, y - 3, color);
  return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)"
                     "\n",
                     x, y, color);
}

std::string line_of(const ChartLine& line, const Axis& x, const Axis& y, const std::string& color) {
  std::string way;
  std::string marks;
  for (const ChartPoint& point : line.points) {
    if (!x.takes(point.x) || !y.takes(point.y)) continue;
    const double at_x = x.place(point.x);
    const double at_y = y.place(point.y);
    way += fmt::format("{:.1f},{:.1f} ", at_x, at_y);
    if (point.high > point.low && y.takes(point.low) && y.takes(point.high))
      marks += segment(at_x, y.place(point.low), at_x, y.place(point.high), color, 1);
    marks += mark(at_x, at_y, color, line.dashed);
  }
  if (way.empty()) return {};
  way.pop_back();
  return fmt::format(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="1.5"{}/>)"
                     "\n",
                     way, color, line.dashed ? kDashes : "") +
         marks;
}

}  // namespace

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string short_number(double value, double step) {
  const char* units[] = {"", "K", "M", "G"};
  std::size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < std::size(units)) {
    value /= step;
    ++unit;
  }
  return fmt::format("{:.{}g}{}", value, std::abs(value) < 1000 ? 3 : 4, units[unit]);
}

std::string svg_of(const Chart& chart) {
  double x_low = std::numeric_limits<double>::infinity();
  double x_high = -x_low;
  double y_low = x_low;
  double y_high = -x_low;
  for (const ChartLine& line : chart.lines) {
    for (const ChartPoint& point : line.points) {
      if (!std::isfinite(point.low + point.y + point.high)) continue;
      if ((chart.log_x && point.x <= 0) || (chart.log_y && point.y <= 0)) continue;
      x_low = std::min(x_low, point.x);
      x_high = std::max(x_high, point.x);
      y_low = std::min(y_low, chart.log_y && point.low <= 0 ? point.y : point.low);
      y_high = std::max(y_high, point.high);
    }
  }
  if (x_low > x_high) x_low = x_high = y_low = y_high = 1;
  if (!chart.log_y) y_low = std::min(y_low, 0.0);
  const Axis x(x_low, x_high, chart.log_x, 2, kPlotLeft, kPlotRight);
  const Axis y(y_low, y_high, chart.log_y, 10, kPlotBottom, kPlotTop);

  const double height =
      std::max(kHeight, kPlotTop + 20.0 + 18.0 * static_cast<double>(chart.lines.size()));
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" height="{}" )"
      R"(role="img" font-family="sans-serif" font-size="12" fill="#222">)"
      "\n<title>{}</title>\n",
      kWidth, height, kWidth, height, xml_escaped(chart.title));
  for (const double tick : y.ticks()) {
    out += segment(kPlotLeft, y.place(tick), kPlotRight, y.place(tick), "#ddd", 1);
    out += text_at(kPlotLeft - 6, y.place(tick) + 4, "end", short_number(tick, 1000));
  }
  for (const double tick : x.ticks()) {
    out += segment(x.place(tick), kPlotBottom, x.place(tick), kPlotBottom + 4, "#222", 1);
    out += text_at(x.place(tick), kPlotBottom + 18, "middle", short_number(tick, 1024));
  }
  out += segment(kPlotLeft, kPlotBottom, kPlotRight, kPlotBottom, "#222", 1);
  out += segment(kPlotLeft, kPlotTop, kPlotLeft, kPlotBottom, "#222", 1);
  out += text_at((kPlotLeft + kPlotRight) / 2, kPlotBottom + 38, "middle", chart.x_label);
  out += text_at(kPlotLeft - 50, kPlotTop - 14, "start", chart.y_label);
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const std::string color = kColors[i % std::size(kColors)];
    out += line_of(chart.lines[i], x, y, color);
    const double at = kPlotTop + 10 + 18 * static_cast<double>(i);
    out += segment(kPlotRight + 16, at, kPlotRight + 40, at, color, 1.5, chart.lines[i].dashed);
    out += mark(kPlotRight + 28, at, color, chart.lines[i].dashed);
    out += text_at(kPlotRight + 46, at + 4, "start", chart.lines[i].name);
  }
  return out + "</svg>\n";
}

}  // namespace perdure::bench::reproduce
