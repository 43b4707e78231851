// SPDX-License-Identifier: BSD-3-Clause
// The frame of the reports that are pages: one file that needs nothing else, well-formed as XML.
#pragma once

#include <string>

namespace perdure::bench::reproduce {

/// A page of this title, which heads it. Requires: a body of well-formed elements.
std::string page_of(const std::string& title, const std::string& body);

/// `text` as a paragraph; escaped here.
std::string paragraph(const std::string& text);

}  // namespace perdure::bench::reproduce
