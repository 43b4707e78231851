// SPDX-License-Identifier: BSD-3-Clause
// What a reboot costs a frame pool: Mnemosyne's "reconstruct a persistent region for each SCM frame"
// (§6.3.2), and the first touch of a page that is in its frame already.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace perdure::bench {

struct FrameReconstruction {
  std::uint64_t frames;  // of 4 KiB each, every one of which holds a page
  std::uint64_t bytes;   // of the frames
  // Of each repetition:
  std::vector<double> reconstruction_ns;  // to open the pool: every entry read, checked and indexed
  std::vector<double> soft_fault_ns;      // of one page: a touch until the access is done
};

/// Fills a pool of `bytes` bytes of frames in `dir`, then opens it `repetitions` times and touches
/// pages in an order in which no two share a mapping. Wall time: that is what a reboot waits for.
/// Requires: room for `bytes` in `dir`, which should be tmpfs or DAX.
/// Errors: throws Exception.
FrameReconstruction measure_frame_reconstruction(const std::string& dir, std::uint64_t bytes,
                                                 unsigned repetitions = 7);

}  // namespace perdure::bench
