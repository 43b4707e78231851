// SPDX-License-Identifier: BSD-3-Clause
// MappedFile: the addresses at which a pool's file is mapped, and whether a page of it was lost
//             (perdure/lost_pages.h).
//
//   1. An access to a page that the file does not have raises SIGBUS.
//   2. The handler looks which MappedFile has the address; if none, it is not our matter.
//   3. It notes the first such page, and raises the flag that the engine looks at, and the process's,
//      which is read where a transaction ends.
//   4. It puts a private page of zeros there.
//   5. The access is repeated, and finds zeros.
//
// 3 comes before 4, so whoever has seen zeros ends in the refusal.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "perdure/base/words.h"
#include "perdure/error.h"

namespace perdure {

class MappedFile {
 public:
  /// `file_bytes`: where the addresses of the file end; beyond are other files of an address space.
  /// Requires: whole pages, which are the pool's while this lives. Of more than 256 at once the rest
  ///           is not looked after.
  MappedFile(std::byte* base, std::uint64_t bytes, std::uint64_t file_bytes,
             const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// When a page is lost, or has been, `flag` becomes true; null: no flag. Threads: one at a time.
  void raise(std::atomic<bool>* flag);
  /// Called before zeros stand for a page that this process could not read by itself.
  void lose(Offset offset, const Error& error);
  /// What is known of the first page that was lost.
  std::optional<Error> loss() const;

  /// Of any file of the process that has lost a page, the first; also when it is closed.
  static std::optional<Error> first_loss();

 private:
  friend struct LossHandler;
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  /// Async-signal-safe. False: the address is not in this range, or no page could be put there.
  bool replace(std::byte* address);
  /// Returns when no handler knows of what has just been changed.
  void await_handlers() const;

  std::byte* const base_;
  const std::uint64_t bytes_;
  const std::uint64_t file_bytes_;
  const int owner_pid_;
  // Read by the handler, which takes no lock and allocates nothing.
  std::array<char, 1024> path_{};
  std::atomic<std::uint64_t> first_{kNone};
  std::atomic<std::atomic<bool>*> flag_{nullptr};
  mutable std::mutex mutex_;
  std::optional<Error> told_;  // by lose(); under mutex_
};

}  // namespace perdure
