// SPDX-License-Identifier: BSD-3-Clause
// The evaluation as one page, with its charts inside.
#include <algorithm>

#include <fmt/format.h>

#include "measure/claim.h"
#include "measure/page.h"
#include "measure/section.h"
#include "measure/svg.h"

namespace perdure::bench::reproduce {
namespace {

std::string cell(const std::optional<Spread>& value) {
  if (!value) return "<td></td>";
  const std::string median = short_number(value->median, 1000);
  if (value->min == value->max) return "<td>" + median + "</td>";
  return fmt::format("<td>{} <small>{}–{}</small></td>", median, short_number(value->min, 1000),
                     short_number(value->max, 1000));
}

std::string table_of(const Section& section) {
  std::string out = "<table>\n<tr><th>" + xml_escaped(section.x_name) + "</th><th></th>";
  for (const double x : section.x) out += fmt::format("<th>{:.0f}</th>", x);
  out += "</tr>\n";
  for (const Series& series : section.series) {
    out += series.origin == Origin::kPaper ? "<tr class=\"paper\">" : "<tr>";
    out += "<td>" + xml_escaped(series.name) + "</td><td>" + xml_escaped(series.unit) + "</td>";
    for (const std::optional<Spread>& value : series.values) out += cell(value);
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

/// A chart for each unit, the paper's values dashed in the same one.
std::string charts_of(const Section& section) {
  std::vector<std::string> units;
  for (const Series& series : section.series) {
    if (series.charted && std::find(units.begin(), units.end(), series.unit) == units.end())
      units.push_back(series.unit);
  }
  std::string out;
  for (const std::string& unit : units) {
    Chart chart;
    chart.title = section.title + ", " + unit;
    chart.x_label = section.x_name;
    chart.y_label = unit == "x" ? "ratio" : unit;
    chart.log_x = section.x.front() > 0;
    chart.log_y = section.log_y;
    for (const Series& series : section.series) {
      if (!series.charted || series.unit != unit) continue;
      ChartLine line{series.name, {}, series.origin == Origin::kPaper};
      for (std::size_t i = 0; i < section.x.size(); ++i) {
        if (const std::optional<Spread>& value = series.values[i])
          line.points.push_back({section.x[i], value->median, value->min, value->max});
      }
      chart.lines.push_back(std::move(line));
    }
    out += svg_of(chart);
  }
  return out;
}

std::string_view class_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kAgrees: return "agrees";
    case Verdict::kDiffers: return "differs";
    default: return "open";
  }
}

/// Each sentence once, a box for each of its clauses.
std::string html_of(const std::vector<Judgement>& judgements) {
  std::string out;
  const std::string* sentence = nullptr;
  const std::string* told = nullptr;  // the last reason: a busy machine is one for many clauses
  for (const Judgement& judgement : judgements) {
    if (sentence == nullptr || *sentence != judgement.sentence)
      out += paragraph((judgement.goal ? "Goal: " : "Paper: ") + judgement.sentence);
    sentence = &judgement.sentence;
    const std::string found = found_text(judgement);
    const bool again = told != nullptr && *told == judgement.why;
    told = &judgement.why;
    out += fmt::format("<div class=\"{}\"><b>{}:</b> {}{}{}{}</div>\n", class_of(judgement.verdict),
                       verdict_name(judgement.verdict), xml_escaped(judgement.clause),
                       found.empty() ? "" : ": ", xml_escaped(found),
                       judgement.why.empty() || again ? "" : "<br/>" + xml_escaped(judgement.why));
  }
  return out;
}

std::string html_of(const Section& section) {
  std::string out = fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n", xml_escaped(section.id),
                                xml_escaped(section.title));
  out += paragraph(section.method);
  if (!section.missing.empty()) out += paragraph(section.missing);
  out += html_of(section.judgements);
  if (!section.series.empty()) out += charts_of(section) + table_of(section);
  return out + "</section>\n";
}

}  // namespace

std::string body_of(const Evaluation& evaluation) {
  const Environment& e = evaluation.environment;
  std::string out;
  std::string peers;
  for (const std::string& peer : e.peers) peers += (peers.empty() ? "" : ", ") + peer;
  out += paragraph(fmt::format(
      "{}, {} CPUs, {}, compiler {}; load {:.1f} when it began. Emulated memory: {}, "
      "on {} in {} ({}); a delay "
      "overshoots by {:.0f} ns. Setting {}: {} runs of {:g} s by turns, seed {}; {:.0f} s in all. "
      "Peers: {}.",
      e.cpu, e.cpus, e.kernel, e.compiler, e.load_average, evaluation.memory, e.domain, e.dir,
      e.write_back, evaluation.spin_error_ns, evaluation.setting, e.rules.repetitions,
      e.rules.seconds, e.seed, evaluation.seconds, peers.empty() ? "none was built in" : peers));
  out += paragraph(
      "Circles and full lines were measured in this run: medians, with bars from the least to the "
      "most. Squares, dashed lines and shaded rows are what the paper prints. Each sentence of the "
      "paper is judged clause by clause: one number, and the band beside it in which it has to "
      "lie. "
      "No verdict: the machine was too busy, or the runs too different, to tell.");
  if (const std::string warning = load_warning(e); !warning.empty()) out += paragraph(warning);
  Tally tally;
  for (const Section& section : evaluation.sections) {
    for (const Judgement& judgement : section.judgements) tally.count(judgement);
  }
  out += paragraph("Of the clauses: " + text_of(tally) + ".");
  for (const Section& section : evaluation.sections) out += html_of(section);
  return out;
}

std::string html_of(const Evaluation& evaluation) {
  return page_of("Perdure beside “" + evaluation.paper + "”", body_of(evaluation));
}

}  // namespace perdure::bench::reproduce
