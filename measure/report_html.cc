// SPDX-License-Identifier: BSD-3-Clause
// The evaluation as one page, with its charts inside.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "measure/charts.h"
#include "measure/claim.h"
#include "measure/page.h"
#include "measure/report_all.h"
#include "measure/section.h"

namespace perdure::bench::reproduce {
namespace {

std::string cell(const std::optional<Spread>& value) {
  if (!value) return "<td></td>";
  const std::string median = short_number(value->median, 1000);
  if (value->min == value->max) return "<td>" + median + "</td>";
  return fmt::format("<td>{} <small>{}–{}</small></td>", median, short_number(value->min, 1000),
                     short_number(value->max, 1000));
}

constexpr const char* kCategory = "workload";

/// The names of x where it is no quantity: of a list, "1 gcc, 2 mcf", too. Empty where it is one.
std::vector<std::string> names_of(const Section& section) {
  if (!section.places.empty()) return section.places;
  std::vector<std::string> names;
  std::string rest = section.x_name;
  for (std::size_t i = 1; i <= section.x.size(); ++i) {
    const std::string begin = fmt::format("{} ", i);
    if (!rest.starts_with(begin)) return {};
    const std::size_t end = rest.find(fmt::format(", {} ", i + 1));
    names.push_back(rest.substr(begin.size(), end - begin.size()));
    rest = end == std::string::npos ? "" : rest.substr(end + 2);
  }
  return names;
}

std::string table_of(const Section& section) {
  const std::vector<std::string> names = names_of(section);
  std::string out =
      "<tr><th>" + xml_escaped(names.empty() ? section.x_name : kCategory) + "</th><th></th>";
  for (std::size_t i = 0; i < section.x.size(); ++i)
    out += "<th>" +
           (i < names.size() ? xml_escaped(names[i]) : fmt::format("{:.0f}", section.x[i])) +
           "</th>";
  out += "</tr>\n";
  for (const Series& series : section.series) {
    out += series.origin == Origin::kPaper ? "<tr class=\"paper\">" : "<tr>";
    out += "<td>" + xml_escaped(series.name) + "</td><td>" + xml_escaped(series.unit) + "</td>";
    for (const std::optional<Spread>& value : series.values) out += cell(value);
    out += "</tr>\n";
  }
  return table(out);
}

bool is_of_paper(const Series& series) { return series.origin == Origin::kPaper; }

std::string name_of(const Series& series) {
  constexpr std::string_view kPrefix = "paper: ";
  return series.name.starts_with(kPrefix) ? series.name.substr(kPrefix.size()) : series.name;
}

/// "Hash" of "Hash: BPPM"; empty where there is no such part.
std::string group_of(const Series& series) {
  const std::string name = name_of(series);
  const std::size_t end = name.find(": ");
  return end == std::string::npos ? std::string() : name.substr(0, end);
}

/// Of "hash, strict: journal", these three.
std::set<std::string> words_of(const Series& series) {
  std::set<std::string> words;
  std::string rest = name_of(series);
  while (!rest.empty()) {
    const std::size_t end = rest.find_first_of(":,");
    words.insert(rest.substr(0, end));
    rest.erase(0, end == std::string::npos ? end : rest.find_first_not_of(' ', end + 1));
  }
  return words;
}

/// The paper's "hash, journal" stands beside ours of each kind: "hash, strict: journal".
bool stands_beside(const Series& paper, const std::vector<const Series*>& panel) {
  const std::set<std::string> words = words_of(paper);
  return std::any_of(panel.begin(), panel.end(), [&](const Series* ours) {
    const std::set<std::string> more = words_of(*ours);
    return !is_of_paper(*ours) &&
           std::includes(more.begin(), more.end(), words.begin(), words.end());
  });
}

using Panel = std::vector<const Series*>;

/// What one chart shows; more than a dozen series only if their names have no groups.
std::vector<Panel> panels_of(const Panel& all) {
  constexpr std::size_t kReadable = 12;
  if (all.size() <= kReadable) return {all};
  std::vector<std::string> groups;
  std::vector<Panel> panels;
  for (const Series* series : all) {
    if (is_of_paper(*series)) continue;
    const std::string group = group_of(*series);
    const auto at =
        static_cast<std::size_t>(std::find(groups.begin(), groups.end(), group) - groups.begin());
    if (at == groups.size()) {
      groups.push_back(group);
      panels.emplace_back();
    }
    panels[at].push_back(series);
  }
  if (panels.size() * 2 > all.size()) return {all};
  Panel alone;
  for (const Series* series : all) {
    if (!is_of_paper(*series)) continue;
    bool placed = false;
    for (Panel& panel : panels) {
      if (!stands_beside(*series, panel)) continue;
      panel.push_back(series);
      placed = true;
    }
    if (!placed) alone.push_back(series);
  }
  if (!alone.empty()) panels.push_back(alone);
  return panels;
}

Chart chart_of(const Section& section, const std::string& unit,
               const std::vector<const Series*>& panel, bool of_group) {
  Chart chart;
  chart.title = section.title + (unit == "x" ? ", ratio" : ", " + unit);
  if (const std::string group = group_of(*panel.front()); of_group && !group.empty())
    chart.title += ": " + group;
  chart.categories = names_of(section);
  chart.x_label = chart.categories.empty() ? section.x_name : kCategory;
  chart.y_label = unit == "x" ? "ratio" : unit;
  chart.log_x = section.x.front() > 0;
  chart.log_y = section.log_y;
  for (const Series* series : panel) {
    ChartSeries& made =
        chart.series.emplace_back(ChartSeries{series->name, {}, series->origin == Origin::kPaper});
    for (std::size_t i = 0; i < section.x.size(); ++i) {
      if (const std::optional<Spread>& value = series->values[i])
        made.points.push_back({chart.categories.empty() ? section.x[i] : static_cast<double>(i),
                               value->median, value->min, value->max});
    }
  }
  return chart;
}

/// Charts for each unit, the paper's values in those of ours.
std::string charts_of(const Section& section) {
  std::vector<std::string> units;
  for (const Series& series : section.series) {
    if (series.charted && std::find(units.begin(), units.end(), series.unit) == units.end())
      units.push_back(series.unit);
  }
  std::string out;
  for (const std::string& unit : units) {
    Panel of_unit;
    for (const Series& series : section.series) {
      if (series.charted && series.unit == unit) of_unit.push_back(&series);
    }
    const std::vector<Panel> panels = panels_of(of_unit);
    for (const Panel& panel : panels)
      out += place_of(chart_of(section, unit, panel, panels.size() > 1));
  }
  return out.empty() ? out : "<div class=\"charts\">\n" + out + "</div>\n";
}

/// As a person types it.
std::string command_of(const Evaluation& evaluation, const Section& section) {
  std::string command = "perdure-lab reproduce " + evaluation.id;
  // The memory of a process is nothing that is emulated: `perdure run` was measured.
  if (evaluation.environment.domain == "process") command += " --runtime";
  command += " --only " + section.id;
  if (evaluation.setting != "default") command += " --" + evaluation.setting;
  return command + fmt::format(" --seed {}", evaluation.environment.seed);
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

std::string html_of(const Evaluation& evaluation, const Section& section,
                    const std::string& prefix) {
  std::string out = fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n",
                                xml_escaped(prefix + section.id), xml_escaped(section.title));
  out += paragraph(section.method);
  out += "<p>To repeat it: <code>" + xml_escaped(command_of(evaluation, section)) + "</code></p>\n";
  if (!section.missing.empty()) out += paragraph(section.missing);
  out += html_of(section.judgements);
  if (!section.series.empty()) out += charts_of(section) + table_of(section);
  return out + "</section>\n";
}

}  // namespace

std::string body_of(const Evaluation& evaluation, const std::string& prefix) {
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
      "Full lines, marks and bars were measured in this run: medians, with thin bars from the "
      "least to the most. Dashed lines, empty marks, hatched bars and shaded rows are what the "
      "paper prints. Each sentence of the paper is judged clause by clause: one number, and the "
      "band beside it in which it has to lie. "
      "No verdict: the machine was too busy, or the runs too different, to tell.");
  if (const std::string warning = load_warning(e); !warning.empty()) out += paragraph(warning);
  Tally tally;
  for (const Section& section : evaluation.sections) {
    for (const Judgement& judgement : section.judgements) tally.count(judgement);
  }
  out += paragraph("Of the clauses: " + text_of(tally) + ".");
  for (const Section& section : evaluation.sections) out += html_of(evaluation, section, prefix);
  return out;
}

std::string body_of(const Evaluation& evaluation) { return body_of(evaluation, ""); }

std::string html_of(const Evaluation& evaluation) {
  return page_of("Perdure beside “" + evaluation.paper + "”", body_of(evaluation));
}

}  // namespace perdure::bench::reproduce
