// When a pool's log is emptied: what Figure 6 compares.
#pragma once

#include <cstdint>

namespace perdure::bench::reproduce {

enum class TruncationMode : std::uint8_t {
  kSynchronous,   // home words are forced and the log is emptied by each commit
  kAsynchronous,  // a thread of its own does it, off the critical path
};

/// Sets the mode where the pool's options have one; false where they do not: not built.
template <class Options>
bool set_truncation(Options& options, TruncationMode mode) {
  if constexpr (requires { options.truncation; }) {
    using Truncation = decltype(options.truncation);
    options.truncation =
        mode == TruncationMode::kSynchronous ? Truncation::kEachCommit : Truncation::kBackground;
    return true;
  } else {
    return false;
  }
}

}  // namespace perdure::bench::reproduce
