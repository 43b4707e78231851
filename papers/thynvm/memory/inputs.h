// SPDX-License-Identifier: BSD-3-Clause
// What the measured programs work on (papers/thynvm/memory/programs.h), made from fixed seeds.
#pragma once

#include <cstddef>
#include <string>

namespace perdure::memory {

/// Lines of words, of which few are frequent and most are rare.
std::string text_input(std::size_t bytes);
/// A C++ file that includes most of the standard library and instantiates some of it.
std::string cplusplus_input();
/// A linear program in the format of CPLEX: four numbers a column.
/// Requires: rows >= 4.
std::string linear_program_input(unsigned rows, unsigned columns);
/// SQL that fills a table with an index, then replaces and joins its rows in random order.
std::string sql_input(unsigned rows);
/// Counts the pairs of words of a text, whose file name is the argument, in a hash, and sorts them.
std::string perl_input();
/// A catalogue of so many entries, and a stylesheet that sorts and tabulates it.
std::string xml_input(unsigned entries);
std::string stylesheet_input();
/// A scene of POV-Ray: so many reflecting spheres over a plane.
std::string scene_input(unsigned spheres);
/// Builds a dictionary of objects, sorts it and walks it.
std::string python_input(unsigned entries);

}  // namespace perdure::memory
