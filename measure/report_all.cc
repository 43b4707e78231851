// SPDX-License-Identifier: BSD-3-Clause
#include "measure/report_all.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "measure/claim.h"
#include "measure/page.h"

namespace perdure::bench::reproduce {
namespace {

using Json = nlohmann::ordered_json;

struct Line {
  const Evaluation* evaluation;
  const Section* section;
  const Judgement* judgement;
};

/// What differs comes first, then what has no verdict, what was not tested, and what agrees; each in the papers' order.
std::vector<Line> lines_of(const std::vector<Evaluation>& evaluations) {
  std::vector<Line> lines;
  for (const Verdict verdict :
       {Verdict::kDiffers, Verdict::kUnclear, Verdict::kNotTested, Verdict::kAgrees}) {
    for (const Evaluation& evaluation : evaluations) {
      for (const Section& section : evaluation.sections) {
        for (const Judgement& judgement : section.judgements) {
          if (judgement.verdict == verdict) lines.push_back({&evaluation, &section, &judgement});
        }
      }
    }
  }
  return lines;
}

Tally tally_of(const Evaluation& evaluation) {
  Tally tally;
  for (const Section& section : evaluation.sections) {
    for (const Judgement& judgement : section.judgements) tally.count(judgement);
  }
  return tally;
}

}  // namespace

std::string text_of(const std::vector<Evaluation>& evaluations) {
  std::string out;
  for (const Line& line : lines_of(evaluations)) {
    const std::string found = found_text(*line.judgement);
    out += fmt::format("{:<10}  {:<9}  {:<13}  {}{}{}\n", verdict_name(line.judgement->verdict),
                       line.evaluation->id, line.section->id, line.judgement->clause,
                       found.empty() ? "" : ": ", found);
  }
  for (const Evaluation& evaluation : evaluations)
    out += fmt::format("{:<9}  {}\n", evaluation.id, text_of(tally_of(evaluation)));
  return out;
}

std::string json_of(const std::vector<Evaluation>& evaluations) {
  Json out{{"version", PERDURE_VERSION}};
  for (const Evaluation& evaluation : evaluations) {
    const Tally tally = tally_of(evaluation);
    out["summary"][evaluation.id] = {{"agree", tally.agree},
                                     {"differ", tally.differ},
                                     {"no verdict", tally.unclear},
                                     {"not tested", tally.not_tested}};
    out["papers"][evaluation.id] = Json::parse(json_of(evaluation));
  }
  return out.dump(2) + "\n";
}

std::string html_of(const std::vector<Evaluation>& evaluations) {
  std::string tallies;
  for (const Evaluation& evaluation : evaluations)
    tallies += fmt::format("<tr><td><a href=\"#{}\">{}</a></td><td>{}</td></tr>\n", evaluation.id,
                           xml_escaped(evaluation.paper), text_of(tally_of(evaluation)));
  std::string clauses =
      "<tr><th>verdict</th><th>paper</th><th>figure</th><th>clause</th><th>here</th></tr>\n";
  for (const Line& line : lines_of(evaluations))
    clauses += fmt::format(
        "<tr><td>{}</td><td>{}</td><td><a href=\"#{}-{}\">{}</a></td><td>{}</td><td>{}</td></tr>\n",
        verdict_name(line.judgement->verdict), line.evaluation->id, line.evaluation->id,
        line.section->id, line.section->id, xml_escaped(line.judgement->clause),
        xml_escaped(found_text(*line.judgement)));
  std::string out;
  if (!evaluations.empty()) {
    const Environment& e = evaluations.front().environment;
    out += paragraph(fmt::format(
        "{}, {} CPUs, {}, compiler {}; load {:.1f} when it began; setting {}, seed {}.", e.cpu,
        e.cpus, e.kernel, e.compiler, e.load_average, evaluations.front().setting, e.seed));
    if (const std::string warning = load_warning(e); !warning.empty()) out += paragraph(warning);
  }
  out += table(tallies, "text") + table(clauses, "text");
  for (const Evaluation& evaluation : evaluations)
    out += fmt::format("<div id=\"{}\">\n<h1>{}</h1>\n{}</div>\n", evaluation.id,
                       xml_escaped(evaluation.paper), body_of(evaluation, evaluation.id + "-"));
  return page_of("Perdure beside five papers", out);
}

}  // namespace perdure::bench::reproduce
