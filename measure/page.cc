// SPDX-License-Identifier: BSD-3-Clause
#include "measure/page.h"

#include "measure/svg.h"

namespace perdure::bench::reproduce {
namespace {

constexpr const char* kStyle = R"(
body { font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; font-size: 90%; }
th, td { border: 1px solid #ccc; padding: 0.2em 0.6em; text-align: right; }
th:first-child, td:first-child { text-align: left; }
table.text td { text-align: left; }
tr.paper td { background: #f4f0e6; font-style: italic; }
small { color: #666; }
.agrees { border-left: 4px solid #009e73; padding-left: 0.6em; margin: 0.5em 0; }
.differs { border-left: 4px solid #d55e00; padding-left: 0.6em; margin: 0.5em 0; }
.open { border-left: 4px solid #999; padding-left: 0.6em; margin: 0.5em 0; }
svg { max-width: 100%; height: auto; }
)";

}  // namespace

std::string page_of(const std::string& title, const std::string& body) {
  const std::string escaped = xml_escaped(title);
  return "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
         "<meta charset=\"utf-8\"/>\n<title>" +
         escaped + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<h1>" + escaped +
         "</h1>\n" + body + "</body>\n</html>\n";
}

std::string paragraph(const std::string& text) { return "<p>" + xml_escaped(text) + "</p>\n"; }

}  // namespace perdure::bench::reproduce
