// SPDX-License-Identifier: BSD-3-Clause
// The engines by name, as the laboratory's command line and reports know them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace perdure::papers {

enum class EngineKind : std::uint8_t {
  kMnemosyne,  // the library's: word STM, torn-bit redo log, home words forced one commit later (files: in bulk)
  kBlurred,   // the same with execution in log: uncommitted values stand in the log, too
  kAdaptive,  // either, for each thread whichever it finds to be the quicker one (BPPM-A)
  kSoftwrap,  // the library's with private pages: home words stand in DRAM, and go home in the background
  kSoftwrapTables,  // the same as in the paper: they stand in alias tables
  kUndoObjects,     // objects copied to the log, whole, and then changed where they are (NV-heaps)
  kBase,  // baseline: what the papers improve on. Log through the cache, wait, commit word, wait; home words forced at each commit
  kBaseStream,  // baseline: the same with a log that is written past the cache
  kUndo,        // baseline: each word's old value logged and waited for before it is overwritten
  kNonatomic,   // baseline: isolated, durable at the end, but a crash may leave half of it
  kVolatile,    // baseline: isolated only
};

inline constexpr std::array kEngineKinds = {
    EngineKind::kMnemosyne, EngineKind::kBlurred,        EngineKind::kAdaptive,
    EngineKind::kSoftwrap,  EngineKind::kSoftwrapTables, EngineKind::kUndoObjects,
    EngineKind::kBase,      EngineKind::kBaseStream,     EngineKind::kUndo,
    EngineKind::kNonatomic, EngineKind::kVolatile};

constexpr std::string_view engine_name(EngineKind kind) {
  switch (kind) {
    case EngineKind::kMnemosyne: return "mnemosyne";
    case EngineKind::kBlurred: return "blurred";
    case EngineKind::kAdaptive: return "adaptive";
    case EngineKind::kSoftwrap: return "softwrap";
    case EngineKind::kSoftwrapTables: return "softwrap-tables";
    case EngineKind::kUndoObjects: return "undo-objects";
    case EngineKind::kBase: return "base";
    case EngineKind::kBaseStream: return "base-stream";
    case EngineKind::kUndo: return "undo";
    case EngineKind::kNonatomic: return "nonatomic";
    case EngineKind::kVolatile: return "volatile";
  }
  return "unknown";
}

/// Whether an engine keeps its promises after a crash.
constexpr bool is_durable(EngineKind kind) {
  return kind != EngineKind::kNonatomic && kind != EngineKind::kVolatile;
}

/// Whether it empties its log at each commit, and knows no other truncation.
constexpr bool is_undo(EngineKind kind) {
  return kind == EngineKind::kUndo || kind == EngineKind::kUndoObjects;
}

/// Whether committed words wait in DRAM until they go home, in the background or when there is no more room.
constexpr bool is_softwrap(EngineKind kind) {
  return kind == EngineKind::kSoftwrap || kind == EngineKind::kSoftwrapTables;
}

}  // namespace perdure::papers
