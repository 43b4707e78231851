// SPDX-License-Identifier: BSD-3-Clause
// The charts of all reports that are pages. They are drawn by one library, Matplotlib, in one call
// for a page: measure/draw_charts.py, which is installed beside perdure-lab.
#pragma once

#include <string>
#include <vector>

namespace perdure::bench::reproduce {

struct ChartPoint {
  double x;  // with categories, the index of one
  double y;
  double low;  // ends of a bar through the point; equal: no bar
  double high;
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
  bool marked = false;  // dashed or hatched. "paper: a" has the color of "a"
};

/// Bars where there are categories or a single x, else lines through points.
struct Chart {
  std::string title;
  std::string x_label;  // both with their units
  std::string y_label;
  bool log_x = false;                   // base 2; every x must be above 0
  bool log_y = false;                   // base 10; values of 0 and less are left out
  std::vector<std::string> categories;  // a group of bars for each
  std::vector<ChartSeries> series;
};

/// Where the chart goes in the body of a page. Points that are no numbers are left out; empty when
/// no series has any.
std::string place_of(const Chart& chart);

/// The body with drawings in the places of charts: well-formed figures. Where they cannot be drawn,
/// the body begins with a paragraph that says what is missing, and the places are empty.
std::string with_drawings(std::string body);

}  // namespace perdure::bench::reproduce
