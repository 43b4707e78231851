// SPDX-License-Identifier: BSD-3-Clause
// SQLite databases on the engines of the papers, counted memory and emulated memory: how SoftWrAP's evaluation runs TPC-C.
#pragma once

namespace perdure::papers {

/// Databases that this program opens from now on may name any engine (engine=...), table sizes (alias_words=...) and emulated
/// memory (line_ns=...) in their URIs. Threads: before any database is opened.
void open_databases_in_the_laboratory();

}  // namespace perdure::papers
