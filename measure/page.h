// SPDX-License-Identifier: BSD-3-Clause
// The frame of the reports that are pages: one file that needs nothing else, well-formed as XML.
#pragma once

#include <string>

namespace perdure::bench::reproduce {

/// A page of this title, which heads it, with its charts drawn. Requires: a body of well-formed
/// elements and of places of charts (measure/charts.h).
std::string page_of(const std::string& title, const std::string& body);

/// `text` as a paragraph; escaped here.
std::string paragraph(const std::string& text);

/// `rows` of a table, in a box of its own that can be moved sideways where a screen is narrow.
/// `kind` is its class.
std::string table(const std::string& rows, const std::string& kind = "");

/// `text` as it must stand in XML, and back.
std::string xml_escaped(const std::string& text);
std::string xml_unescaped(const std::string& text);

/// "8", "4K", "256K", "1.5M". `step` 1024 or 1000.
std::string short_number(double value, double step);

}  // namespace perdure::bench::reproduce
