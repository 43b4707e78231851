// SPDX-License-Identifier: BSD-3-Clause
#include "measure/page.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "measure/charts.h"

namespace perdure::bench::reproduce {
namespace {

constexpr const char* kStyle = R"(
body { font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222;
  overflow-wrap: break-word; }
table { border-collapse: collapse; font-size: 90%; }
th, td { border: 1px solid #ccc; padding: 0.2em 0.6em; text-align: right; }
th:first-child, td:first-child { text-align: left; }
table.text th, table.text td { text-align: left; }
tr.paper td { background: #f4f0e6; font-style: italic; }
small { color: #666; }
code { overflow-wrap: anywhere; }
.agrees { border-left: 4px solid #009e73; padding-left: 0.6em; margin: 0.5em 0; }
.differs { border-left: 4px solid #d55e00; padding-left: 0.6em; margin: 0.5em 0; }
.open { border-left: 4px solid #999; padding-left: 0.6em; margin: 0.5em 0; }
.wide { overflow-x: auto; margin: 1em 0; }
.charts { display: flex; flex-wrap: wrap; gap: 0 1.5em; align-items: flex-start; }
figure { margin: 1em 0; width: 28em; max-width: 100%; break-inside: avoid; }
figcaption { font-weight: bold; font-size: 90%; margin-bottom: 0.3em; }
svg { display: block; width: 100%; height: auto; }
@media (max-width: 40em) { body { margin: 1em auto; } th, td { padding: 0.1em 0.3em; } }
@media print { body { max-width: none; margin: 0; } .wide { overflow: visible; }
  .charts { display: block; } svg { max-height: 21cm; }
  h2, h3, figcaption { break-after: avoid; } tr { break-inside: avoid; } }
)";

constexpr std::pair<char, const char*> kEscapes[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&apos;"}};

}  // namespace

std::string page_of(const std::string& title, const std::string& body) {
  const std::string escaped = xml_escaped(title);
  return "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
         "<meta charset=\"utf-8\"/>\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
         escaped + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + escaped +
         "</h1>\n" + with_drawings(body) + "</body>\n</html>\n";
}

std::string paragraph(const std::string& text) { return "<p>" + xml_escaped(text) + "</p>\n"; }

std::string table(const std::string& rows, const std::string& kind) {
  return fmt::format("<div class=\"wide\">\n<table class=\"{}\">\n{}</table>\n</div>\n", kind,
                     rows);
}

std::string xml_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto* const found = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                           [&](const auto& escape) { return escape.first == c; });
    if (found == std::end(kEscapes)) {
      out += c;
    } else {
      out += found->second;
    }
  }
  return out;
}

std::string xml_unescaped(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto* const found =
        std::find_if(std::begin(kEscapes), std::end(kEscapes), [&](const auto& escape) {
          return text.compare(at, std::strlen(escape.second), escape.second) == 0;
        });
    if (found == std::end(kEscapes)) {
      out += text[at++];
    } else {
      out += found->first;
      at += std::strlen(found->second);
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

}  // namespace perdure::bench::reproduce
