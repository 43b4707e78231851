// SPDX-License-Identifier: BSD-3-Clause
// A small chart writer: lines through points, on linear or logarithmic axes, as SVG.
#pragma once

#include <string>
#include <vector>

namespace perdure::bench::reproduce {

struct ChartPoint {
  double x;
  double y;
  double low;  // ends of a bar through the point; equal: no bar
  double high;
};

struct ChartLine {
  std::string name;
  std::vector<ChartPoint> points;
  bool dashed = false;
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;  // base 2; every x must be above 0
  bool log_y = false;  // base 10; every y must be above 0
  std::vector<ChartLine> lines;
};

/// One `<svg>` element, well-formed by itself. Points that a logarithmic axis has no place for are
/// left out.
std::string svg_of(const Chart& chart);

/// `text` as it must stand in XML.
std::string xml_escaped(const std::string& text);

/// "8", "4K", "256K", "1.5M": numbers on an axis. `step` 1024 or 1000.
std::string short_number(double value, double step);

}  // namespace perdure::bench::reproduce
