// SPDX-License-Identifier: BSD-3-Clause
// The comparison as one page, with its charts inside.
#include <algorithm>

#include <fmt/format.h>

#include "bench/comparison/report.h"
#include "measure/charts.h"
#include "measure/page.h"

namespace perdure::bench::comparison {
namespace {

using reproduce::Chart;
using reproduce::ChartSeries;
using reproduce::paragraph;
using reproduce::xml_escaped;

std::string table_of(const std::vector<std::vector<std::string>>& lines, const char* kind = "") {
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* const tag = i == 0 ? "th" : "td";
    out += "<tr>";
    for (const std::string& cell : lines[i])
      out += fmt::format("<{0}>{1}</{0}>", tag, xml_escaped(cell));
    out += "</tr>\n";
  }
  return reproduce::table(out, kind);
}

std::string terms_of(const PlaceResult& place) {
  std::vector<std::vector<std::string>> lines{{"store", "set to", "survives"}};
  for (const StoreKind* kind : place.plan.kinds) {
    const Terms& terms = *kind->terms(place.plan.place);
    lines.push_back({std::string(kind->title) + (terms.weaker ? " *" : ""),
                     std::string(terms.setting), std::string(terms.survives)});
  }
  return table_of(lines, "text");
}

/// The rates of the rows that `chosen` has an x for, a line or bar for each store; empty when there
/// is none.
template <class Chosen>
std::string chart_of(const PlaceResult& place, std::string title, std::string x_label,
                     const Chosen& chosen) {
  Chart chart;
  chart.title = std::move(title);
  chart.x_label = std::move(x_label);
  chart.y_label = "operations/s";
  chart.log_x = chart.log_y = true;
  for (std::size_t kind = 0; kind < place.plan.kinds.size(); ++kind) {
    ChartSeries series{
        std::string(place.plan.kinds[kind]->title), {}, place.plan.kinds[kind]->ours()};
    for (std::size_t row = 0; row < place.plan.rows.size(); ++row) {
      const std::optional<Cell>& cell = place.cells[row][kind];
      const std::optional<double> x = chosen(place.plan.rows[row]);
      if (cell && x)
        series.points.push_back(
            {*x, cell->ops_per_s.median, cell->ops_per_s.min, cell->ops_per_s.max});
    }
    chart.series.push_back(std::move(series));
  }
  return reproduce::place_of(chart);
}

std::string html_of(const PlaceResult& place) {
  const std::string name(place_name(place.plan.place));
  std::string out =
      fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n", name,
                  xml_escaped(fmt::format("On {}: {} ({}), {} records in each store", name,
                                          place.plan.dir, place.file_system, place.plan.live)));
  out += terms_of(place);
  for (const unsigned threads : threads_of(place)) {
    const std::string with = fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
    out += "<h3>" + with + "</h3>\n";
    out += chart_of(place, "Durable inserts and deletes, " + with, "value (bytes)",
                    [&](const RowPlan& row) {
                      return row.threads == threads && row.info->work == Work::kChurn
                                 ? std::optional(static_cast<double>(row.info->value_bytes))
                                 : std::nullopt;
                    });
    out += table_of(rates_of(place, threads));
    if (const auto ratios = ratio_table_of(place, threads); ratios.size() > 1)
      out += table_of(ratios);
  }
  out += chart_of(place, "Durable inserts and deletes of 64 B by threads", "threads",
                  [](const RowPlan& row) {
                    return row.info->work == Work::kChurn && row.info->value_bytes == 64
                               ? std::optional(static_cast<double>(row.threads))
                               : std::nullopt;
                  });
  return out + "</section>\n";
}

}  // namespace

std::string html_of(const Report& report) {
  std::string out;
  for (const std::string& text : introduction_of(report)) out += paragraph(text);
  out += paragraph("In the charts, dashed lines and hatched bars are ours.");
  for (const PlaceResult& place : report.places) out += html_of(place);
  return reproduce::page_of("Perdure beside other stores", out);
}

}  // namespace perdure::bench::comparison
