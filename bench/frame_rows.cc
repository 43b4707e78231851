// SPDX-License-Identifier: BSD-3-Clause
#include "bench/frame_rows.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "bench/system.h"
#include "perdure/region/frame_pool.h"

namespace perdure::bench {
namespace {

constexpr std::uint64_t kFrameBytes = 4096;
// Fewer than vm.max_map_count allows at two mappings a page, so that no touch waits for an unmapping.
constexpr std::uint64_t kTouches = 16'384;

double ns_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

FrameReconstruction measure_frame_reconstruction(const std::string& dir, std::uint64_t bytes,
                                                 unsigned repetitions) {
  const ScratchFile pool_file(dir, "frames");
  const ScratchFile backing(dir, "frames-backing");
  const std::uint64_t frames = bytes / kFrameBytes;
  // The file's own tables come on top.
  const std::uint64_t tables =
      kPageBytes + 64 * sizeof(FileEntry) + round_up(frames * kWordBytes, kPageBytes);
  const FramePool::Options options{.bytes = tables + frames * kFrameBytes};
  const auto attach = [&](FramePool& pool) {
    return pool.attach(nullptr, frames * kFrameBytes, backing.path(), PROT_READ | PROT_WRITE)
        .value();
  };
  {
    auto pool = FramePool::open_or_create(pool_file.path(), options).value();
    const auto view = attach(*pool);
    for (std::uint64_t page = 0; page < frames; ++page)
      view.address[page * kFrameBytes] = std::byte{1};
    if (pool->statistics().frames_free != 0 || pool->statistics().evictions != 0)
      throw Exception(Code::kMisuse, pool_file.path() + ": not every frame holds a page");
  }
  std::vector<double> opened;
  std::vector<double> touched;
  for (unsigned i = 0; i < repetitions; ++i) {
    std::unique_ptr<FramePool> pool;
    opened.push_back(ns_of([&] { pool = FramePool::open(pool_file.path(), options).value(); }));
    const auto view = attach(*pool);
    const std::uint64_t touches = std::min(kTouches, frames / 2);
    const double spent = ns_of([&] {
      for (std::uint64_t page = 0; page < touches; ++page)
        *reinterpret_cast<volatile char*>(view.address + 2 * page * kFrameBytes) = 2;
    });
    touched.push_back(spent / static_cast<double>(touches));
    if (pool->statistics().soft_faults != touches || pool->statistics().hard_faults != 0)
      throw Exception(Code::kMisuse, pool_file.path() + ": a touch was no soft fault");
  }
  return {frames, frames * kFrameBytes, std::move(opened), std::move(touched)};
}

}  // namespace perdure::bench
